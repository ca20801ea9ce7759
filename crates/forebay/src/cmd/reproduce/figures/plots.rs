//! The table of figures.

use forebay_report::page::Layout;
use forebay_report::page::Layout::{Across, Down};

/// A figure.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) paper: &'static str,
    pub(super) title: &'static str,
    pub(super) caption: &'static str,
    pub(super) layout: Layout,
    /// What the places are.
    pub(super) along: &'static str,
    /// Only rows of this unit are in the figure.
    pub(super) unit: &'static str,
    pub(super) values: Values,
    /// Only rows with a published figure.
    pub(super) printed: bool,
    pub(super) lines: &'static [Line],
}

/// How values lie on their axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    Linear,
    Log,
}

/// A series: which rows are in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) label: &'static str,
    pub(super) row: &'static str,
    pub(super) metric: &'static str,
    pub(super) policy: &'static str,
}

impl Plot {
    const fn caption(self, caption: &'static str) -> Self {
        Self { caption, ..self }
    }

    const fn log(self) -> Self {
        Self { values: Values::Log, ..self }
    }

    const fn printed(self) -> Self {
        Self { printed: true, ..self }
    }
}

const fn plot(
    paper: &'static str,
    title: &'static str,
    (layout, along, unit): (Layout, &'static str, &'static str),
    lines: &'static [Line],
) -> Plot {
    let (caption, values, printed) = ("", Values::Linear, false);
    Plot { paper, title, caption, layout, along, unit, values, printed, lines }
}

const fn line(
    label: &'static str,
    row: &'static str,
    metric: &'static str,
    policy: &'static str,
) -> Line {
    Line { label, row, metric, policy }
}

/// Lines of the same rows and metric, named by their policies.
macro_rules! by_policy {
    ($row:expr, $metric:expr, $($policy:expr),+ $(,)?) => {
        &[$(line($policy, $row, $metric, $policy)),+]
    };
}

/// Lines of the same rows and policies, named by their metrics.
macro_rules! by_metric {
    ($row:expr, $policy:expr, $($metric:expr),+ $(,)?) => {
        &[$(line($metric, $row, $metric, $policy)),+]
    };
}

const READAHEAD: &str = "readahead";
const CRAMFS: &str = "cramfs";
const THROTTLE: &str = "throttle";
const FLUSH: &str = "flush";
const SWITCH: &str = "context-switch";

const BLOCK: &str = "block, KiB";
const BLOCKS: &str = "rndrd {} KiB";
const WITHOUT_NUMBERS: &str = "The paper's figure carries no numbers.";
const FULL: &str = HEADLINE;
const SCALED: &str = COMPARED_RUN;
const BURST: &str = "8 writers of 256 MB";

/// Stands for the name of the headline's row, which says by how much the run is scaled down.
pub(super) const HEADLINE: &str = "@headline";

/// Stands for the name of rows of policies that the paper does not have.
pub(super) const COMPARED_RUN: &str = "@compared";

/// One figure after another, paper by paper.
pub(super) const PLOTS: &[Plot] = &[
    plot(
        READAHEAD,
        "Figure 3: throughput of random reads",
        (Across, BLOCK, "MB/s"),
        by_policy!(
            BLOCKS,
            "throughput",
            "linux-2.6.7",
            "request-size",
            "linux-2.6.21",
            "linux-6.18"
        ),
    )
    .caption("The text puts the unmodified kernel at 20 MB/s from 128 KiB on."),
    plot(
        READAHEAD,
        "Figure 4: total time of 1000 random reads",
        (Across, BLOCK, "s"),
        by_policy!(
            BLOCKS,
            "total time",
            "linux-2.6.7",
            "request-size",
            "linux-2.6.21",
            "linux-6.18"
        ),
    )
    .caption(WITHOUT_NUMBERS),
    plot(
        READAHEAD,
        "Figure 5: pages allocated",
        (Across, BLOCK, "pages"),
        by_policy!(
            BLOCKS,
            "pages allocated",
            "linux-2.6.7",
            "request-size",
            "linux-2.6.21",
            "linux-6.18",
        ),
    )
    .caption(WITHOUT_NUMBERS),
    plot(
        READAHEAD,
        "The text: pages saved against 2.6.7",
        (Across, BLOCK, "pages"),
        by_policy!(BLOCKS, "pages saved", "request-size", "linux-2.6.21", "linux-6.18"),
    ),
    plot(
        READAHEAD,
        "The text: throughput gained over 2.6.7",
        (Across, BLOCK, "%"),
        by_policy!(BLOCKS, "throughput gain", "request-size", "linux-2.6.21", "linux-6.18"),
    ),
    plot(
        READAHEAD,
        "The proposal with one change reverted",
        (Across, BLOCK, "%"),
        by_policy!(
            BLOCKS,
            "throughput gain",
            "request-size:request=off",
            "request-size:previous=off",
            "request-size:first=16,max=32",
            "request-size-literal",
        ),
    ),
    plot(
        READAHEAD,
        "Requests that repeat an earlier one",
        (Down, "block, KiB", "%"),
        &[line("sysbench", BLOCKS, "repeated requests", "any")],
    ),
    plot(
        READAHEAD,
        "Interleaved streams: device requests against 2.6.7",
        (Down, "policy", "%"),
        &[line("change", "interleaved 1000, 3001, 1001, ...", "device requests change", "{}")],
    ),
    plot(
        CRAMFS,
        "Tables 1 and 2: device operations",
        (Down, "system", "count"),
        &[line("operations", "start", "device operations", "{}")],
    ),
    plot(
        CRAMFS,
        "Tables 1 and 2: pages read or decompressed",
        (Down, "system", "count"),
        &[line("pages", "start", "pages", "{}")],
    ),
    plot(
        CRAMFS,
        "Tables 1 and 2: major faults",
        (Down, "system", "count"),
        &[line("faults", "start", "major faults", "{}")],
    ),
    plot(
        CRAMFS,
        "Tables 1 and 2: mean read size",
        (Down, "system", "KiB"),
        &[line("size", "start", "mean read size", "{}")],
    ),
    plot(
        CRAMFS,
        "Figures 1 and 2: time of major faults by window",
        (Across, "window, pages", "ms"),
        by_policy!("start, RA {}", "time of major faults", "EXT3", "CramFS", "FCramFS"),
    )
    .caption(WITHOUT_NUMBERS),
    plot(
        CRAMFS,
        "Figure 6: where the time of major faults goes",
        (Down, "system", "ms"),
        by_metric!("start", "{}", "of it file system", "of it driver", "of it virtual memory"),
    )
    .caption(WITHOUT_NUMBERS),
    plot(
        CRAMFS,
        "Figures 1 to 4: what readahead changes",
        (Down, "time", "%"),
        &[
            line("EXT3", "start", "{}", "EXT3, RA 32 against EXT3, RA off"),
            line("CramFS", "start", "{}", "CramFS against CramFS(RAOFF)"),
        ],
    )
    .caption("The figures carry no numbers: the sign is compared."),
    plot(
        CRAMFS,
        "The text: what FCramFS changes",
        (Down, "time", "%"),
        &[
            line("against CramFS", "start", "{}", "FCramFS against CramFS"),
            line("against CramFS(RAOFF)", "start", "{}", "FCramFS against CramFS(RAOFF)"),
        ],
    ),
    plot(
        CRAMFS,
        "Figure 7: time of major faults of a viewer",
        (Down, "system", "ms"),
        &[line("time", "viewer", "time of major faults", "{}")],
    )
    .caption(WITHOUT_NUMBERS),
    plot(
        CRAMFS,
        "Beyond the paper: time of major faults by block",
        (Across, BLOCK, "ms"),
        by_policy!(
            "start, blocks of {} KiB",
            "time of major faults",
            "CramFS(RAOFF)",
            "CramFS",
            "CramFS, bulk",
            "FCramFS",
            "selective-then-idle",
        ),
    ),
    plot(
        THROTTLE,
        "Figure 1: time to the last write",
        (Down, "throttle", "s"),
        &[line("time", FULL, "time to the last write", "{}")],
    ),
    plot(
        THROTTLE,
        "The text: what changes without the throttle",
        (Down, "what", "%"),
        &[
            line("to the last write", FULL, "{} change", "off"),
            line("until durable", FULL, "{} change until durable", "off"),
        ],
    )
    .caption("The paper's 34 % are its 25.4 % less time, said of throughput."),
    plot(
        THROTTLE,
        "Mean dirty level",
        (Down, "throttle", "GB"),
        &[line("level", SCALED, "mean dirty level", "{}")],
    )
    .caption("Scaled runs, multiplied."),
    plot(
        THROTTLE,
        "Run time against linux-3.18",
        (Down, "throttle", "%"),
        &[
            line("to the last write", SCALED, "run time against linux-3.18", "{}"),
            line("until durable", SCALED, "run time until durable against linux-3.18", "{}"),
        ],
    )
    .caption("Scaled runs."),
    plot(
        THROTTLE,
        "Latency of a write",
        (Down, "throttle", "us"),
        by_metric!(SCALED, "{}", "write latency p50", "write latency p99", "write latency p99.9",),
    )
    .caption("The paper prints none.")
    .log(),
    plot(
        THROTTLE,
        "Longest waits",
        (Down, "throttle", "ms"),
        by_metric!(SCALED, "{}", "write latency max", "longest pause"),
    )
    .log(),
    plot(
        FLUSH,
        "First table: bonnie -s 100",
        (Down, "phase", "KB/s"),
        by_policy!("bonnie -s 100", "{}", "redhat", "sol", "dyn", "dyn:cap=98"),
    )
    .log()
    .printed(),
    plot(
        FLUSH,
        "Second table: bonnie -s 1000",
        (Down, "phase", "KB/s"),
        by_policy!("bonnie -s 1000", "{}", "redhat", "sol", "dyn", "dyn:cap=98"),
    )
    .log()
    .printed(),
    plot(
        FLUSH,
        "bonnie -s 100 against redhat",
        (Down, "phase", "ratio"),
        by_policy!("bonnie -s 100", "{} against redhat", "sol", "dyn", "dyn:cap=98"),
    ),
    plot(
        FLUSH,
        "bonnie -s 1000 against redhat",
        (Down, "phase", "ratio"),
        by_policy!("bonnie -s 1000", "{} against redhat", "sol", "dyn", "dyn:cap=98"),
    ),
    plot(
        FLUSH,
        "Eight backups at once: longest time without an answer",
        (Down, "policies", "s"),
        &[
            line("to anyone", BURST, "longest time without any answer", "{}"),
            line(
                "to the light writer",
                BURST,
                "longest time without an answer to the light writer",
                "{}",
            ),
            line("to the reader", BURST, "longest time without an answer to the reader", "{}"),
        ],
    )
    .caption("The paper says only that the server freezes."),
    plot(
        FLUSH,
        "Left in memory by the block write of 1000 MB",
        (Down, "policies", "MiB"),
        &[line("left", "bonnie -s 1000", "block write, left in memory", "{}")],
    ),
    plot(
        SWITCH,
        "Table 2: what a switch costs",
        (Across, "tasks in the ring", "us"),
        &[
            line("no data", "ring of {}, no data", "switch", ""),
            line("100 KB of data", "ring of {}, 100 KB of data", "switch", ""),
        ],
    ),
    plot(
        SWITCH,
        "Tables 3 and 4: what reading inline gains",
        (Down, "case", "%"),
        &[line("fair", "{}", "gain", "inline (fair)"), line("o1", "{}", "gain", "inline (o1)")],
    )
    .caption("Under the kernel's own scheduler, o1, nothing is claimed beside busy tasks."),
    plot(
        SWITCH,
        "Tables 3 and 4: times under fair shares",
        (Down, "case", "ms"),
        &[
            line("before", "{}", "time", "deferred (fair)"),
            line("after", "{}", "time", "inline (fair)"),
        ],
    )
    .log()
    .printed(),
    plot(
        SWITCH,
        "Tables 3 and 4: times under the O(1) scheduler",
        (Down, "case", "ms"),
        &[
            line("before", "{}", "time", "deferred (o1)"),
            line("after", "{}", "time", "inline (o1)"),
        ],
    )
    .log()
    .printed(),
    plot(
        SWITCH,
        "By latency: one core, alone",
        (Across, "latency, us", "us"),
        by_policy!("1 core, alone, {} us", "time of a read", "deferred", "inline", "adaptive"),
    )
    .log(),
    plot(
        SWITCH,
        "By latency: one core, one task computes",
        (Across, "latency, us", "us"),
        by_policy!("1 core, 1 computes, {} us", "time of a read", "deferred", "inline", "adaptive"),
    )
    .log(),
    plot(
        SWITCH,
        "The same with a switch of 6.94 us",
        (Across, "latency, us", "us"),
        by_policy!(
            "1 core, 1 computes, dear, {} us",
            "time of a read",
            "deferred",
            "inline",
            "adaptive",
        ),
    )
    .log(),
    plot(
        SWITCH,
        "By latency: four cores, four tasks compute",
        (Across, "latency, us", "us"),
        by_policy!("4 cores, 4 compute, {} us", "time of a read", "deferred", "inline", "adaptive"),
    )
    .log(),
];
