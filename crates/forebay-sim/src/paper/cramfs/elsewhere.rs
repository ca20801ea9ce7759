//! The same systems where the paper did not measure them: other windows, larger blocks, decoding
//! for nothing, and machines of today.

use forebay_core::time::Duration;

use super::load::{DRIVER, FAULTS, Load, OPERATIONS, PAGES, System, TOTAL, USELESS, WALL, Which};
use super::{BULK, COMPUTES, CRAMFS, FCRAMFS, Named, OURS, RAOFF};
use crate::machine::{Machine, MachineError};
use crate::paper::claim::{Claim, OPEN, Tolerance, percent};
use crate::paper::{Draws, Experiment, Results};
use crate::report::{Role, Row};

/// Windows of figures 1 and 2, in pages.
const WINDOWS: [u64; 5] = [0, 4, 8, 16, 32];

const SWEPT: [(&str, System); 3] = [
    ("EXT3", System::Ext3),
    ("CramFS", System::Packed("eager")),
    ("FCramFS", System::Packed("selective")),
];

/// Pages of a block.
const BLOCKS: [u64; 4] = [1, 4, 8, 32];

const PACKED: [Named; 5] = [RAOFF, CRAMFS, BULK, FCRAMFS, OURS];

/// A machine of today, or the paper's with one number changed.
#[derive(Clone, Copy, Debug)]
struct Place {
    name: &'static str,
    machine: Option<&'static str>,
    set: &'static [(&'static str, &'static str)],
    computes: Duration,
}

/// 20 us of work between touches is what a program does at its start.
const TODAY: Duration = Duration::from_micros(20);

const fn today(name: &'static str, set: &'static [(&'static str, &'static str)]) -> Place {
    Place { name, machine: Some("nvme-2026"), set, computes: TODAY }
}

const FREE: Place = Place {
    name: "start, decoding for nothing",
    machine: None,
    set: &[("cpu.decode_page", "0"), ("cpu.decode_cold", "0")],
    computes: COMPUTES,
};

const PLACES: [Place; 7] = [
    FREE,
    today("NVMe, zlib 17 us", &[("cpu.decode_page", "17us")]),
    today("NVMe, libdeflate 8 us", &[("cpu.decode_page", "8us")]),
    today("NVMe, LZ4 1 us", &[("cpu.decode_page", "1us")]),
    today("NVMe, LZ4 1 us, 1 core", &[("cpu.decode_page", "1us"), ("cpu.cores", "1")]),
    today("NVMe, zlib 17 us, 1 core", &[("cpu.decode_page", "17us"), ("cpu.cores", "1")]),
    today(
        "10 ms away, libdeflate 8 us",
        &[("cpu.decode_page", "8us"), ("device.delay", "10ms"), ("device.medium", "remote")],
    ),
];

pub(super) fn experiments() -> Vec<Experiment> {
    let mut all = Vec::new();
    let boot = |system, window| Load {
        system,
        window,
        which: Which::Boot,
        block_pages: 1,
        computes: COMPUTES,
    };
    for (name, system) in SWEPT {
        for window in WINDOWS {
            let load = boot(system, window);
            let run = move |machine: &Machine, seed| load.measure(machine, seed);
            all.push(Experiment::new(swept(window), name, run).nominal());
        }
    }
    for block_pages in BLOCKS {
        for Named { name, system, window } in PACKED {
            let load = Load { block_pages, ..boot(system, window) };
            let run = move |machine: &Machine, seed| load.measure(machine, seed);
            all.push(Experiment::new(in_blocks(block_pages), name, run).nominal());
        }
    }
    for place in PLACES {
        for Named { name, system, window } in PACKED {
            let load = Load { computes: place.computes, ..boot(system, window) };
            let run = move |machine: &Machine, seed| {
                let machine = place.machine(machine)?;
                load.measure(&machine, seed)
            };
            let draws = if place.machine.is_none() { Draws::Each } else { Draws::Nominal };
            let experiment = Experiment::new(place.name.to_owned(), name, run);
            all.push(Experiment { draws, ..experiment });
        }
    }
    all
}

impl Place {
    fn machine(&self, paper: &Machine) -> Result<Machine, MachineError> {
        let mut machine = match self.machine {
            Some(name) => Machine::builtin(name)?,
            None => paper.clone(),
        };
        for (key, value) in self.set {
            machine.set(key, value)?;
        }
        Ok(machine)
    }
}

fn swept(window: u64) -> String {
    if window == 0 { "start, RA off".to_owned() } else { format!("start, RA {window}") }
}

fn in_blocks(pages: u64) -> String {
    format!("start, blocks of {} KiB", 4 * pages)
}

pub(super) fn rows(results: &Results<'_>) -> Vec<Row> {
    let context = |row: &str, policy: &'static str, figure: (&'static str, &'static str)| {
        let figures = results.figures(policy, row, |one| one.figure(figure.0));
        Claim::context(row, figure, policy, "").row(results, figures)
    };
    let mut rows = Vec::new();
    for (name, _) in SWEPT {
        for window in WINDOWS {
            rows.push(context(&swept(window), name, TOTAL));
        }
        rows.extend(steps(results, name));
    }
    for row in BLOCKS.map(in_blocks) {
        for system in PACKED {
            for figure in [FAULTS, PAGES, USELESS, OPERATIONS, TOTAL] {
                rows.push(context(&row, system.name, figure));
            }
        }
    }
    for place in PLACES {
        for system in PACKED {
            for figure in [FAULTS, USELESS, TOTAL, DRIVER, WALL] {
                rows.push(context(place.name, system.name, figure));
            }
        }
    }
    rows.extend(flips(results));
    rows
}

/// Whether each wider window is better, as figure 1 has it, or worse, as figure 2 has it.
fn steps(results: &Results<'_>, name: &'static str) -> Vec<Row> {
    let time = |window| results.only(name, &swept(window), |one| one.figure(TOTAL.0));
    let (tolerance, role): (Tolerance, Role) = match name {
        "EXT3" => ((None, Some(0.0)), Role::Predicted),
        "CramFS" => ((Some(0.0), None), Role::Predicted),
        _ => (OPEN, Role::Context),
    };
    let step = |pair: &[u64]| {
        let metric = ("time against the next narrower window", "%");
        let context = Claim::context(swept(pair[1]), metric, name, "");
        let change = percent(time(pair[1]), time(pair[0]));
        Claim { role, tolerance, ..context }.row_at(results, change, Vec::new())
    };
    WINDOWS.windows(2).map(step).collect()
}

/// Readahead that decodes all it brings loses as long as decoding has a price, and wins when it has
/// none, if it reads in bulk; cramfs, which does not, has more operations with readahead than
/// without.
fn flips(results: &Results<'_>) -> Vec<Row> {
    let change = |row: &str, one: Named, other: Named, tolerance, role, note| {
        let figures = results.compared((one.name, other.name), row, |one, other| {
            percent(one.figure(TOTAL.0), other.figure(TOTAL.0))
        });
        let policy = format!("{} against {}", one.name, other.name);
        let context = Claim::context(row, (TOTAL.0, "%"), &policy, note);
        Claim { role, tolerance, ..context }.row(results, figures)
    };
    let (more, less) = ((Some(0.0), None), (None, Some(0.0)));
    let note = "without bulk reads a wider window costs operations, with or without decoding";
    let free = FREE.name;
    vec![
        change(super::BOOT, BULK, RAOFF, more, Role::Derived, "decoding has its price"),
        change(free, BULK, RAOFF, less, Role::Derived, "the order flips"),
        change(free, CRAMFS, RAOFF, OPEN, Role::Context, note),
        change(free, FCRAMFS, BULK, OPEN, Role::Context, ""),
    ]
}
