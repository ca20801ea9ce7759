//! The accepted units, from the tables of their parsers.

use forebay_report::units::{SIZE_UNITS, TIME_UNITS};
use forebay_sim::fio::{SIZE_LETTERS, TIME_UNITS as OF_JOBS};
use forebay_sim::machine::Dimension;

use super::sheet::Sheet;

pub(super) fn text(text: &mut Sheet) {
    sizes(text);
    times(text);
    machines(text);
    jobs(text);
    text.heading("POLICIES: --policy, --compare");
    text.paragraph(
        "",
        "Plain whole numbers. `forebay help policies` gives the unit of each parameter; many have \
         it in their name: limit_ms, floor_mib.",
    );
    text.heading("TABLES");
    text.paragraph(
        "",
        "MB are 10^6 bytes and MiB 2^20. A page has 4096 bytes. Times are in us or s; the heading \
         names the unit.",
    );
}

fn sizes(text: &mut Sheet) {
    text.heading("SIZES: --memory, --file-size, --cache, --offset");
    let words = "A whole number of bytes, with or without a unit; each unit is 1024 times the \
                 previous one. Letters may be upper or lower case.";
    text.paragraph("", words);
    for (names, shift) in SIZE_UNITS {
        let names: Vec<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
        text.lines(&format!("    {:<12} {} bytes", names.join(" "), 1_u64 << shift));
    }
    text.lines("    example      --memory 64M");
}

fn times(text: &mut Sheet) {
    text.heading("TIMES: --for, --interval, --patience, --watch, --store-delay");
    text.paragraph("", "A number, which may have decimals, and a unit; without a unit, seconds.");
    for (name, nanos) in TIME_UNITS {
        text.lines(&format!("    {name:<12} {} ms", *nanos as f64 / 1e6));
    }
    text.lines("    example      --for 10min");
}

fn machines(text: &mut Sheet) {
    text.heading("MACHINES: --set KEY=VALUE, machine files");
    let words = "A number, which may have decimals, and a unit of its kind; without a unit, the \
                 first one of the line. `forebay machines NAME` shows the unit of each key.";
    text.paragraph("", words);
    for (kind, dimension, example) in DIMENSIONS {
        let units: Vec<&str> = dimension.units().iter().map(|(name, _)| *name).collect();
        text.lines(&format!("    {kind:<12} {:<32} {example}", units.join(" ")));
    }
}

/// Kinds of numbers, with an example of each.
const DIMENSIONS: [(&str, Dimension, &str); 7] = [
    ("time", Dimension::Time, "device.delay=100us"),
    ("rate", Dimension::Rate, "device.rate_outer=60MB/s"),
    ("size", Dimension::Size, "memory.page_cache=256MiB"),
    ("KiB", Dimension::Kib, "kernel.read_ahead_kb=8MiB"),
    ("share", Dimension::Share, "layout.span=50percent"),
    ("count", Dimension::Count, "cpu.cores=4"),
    ("flag", Dimension::Flag, "kernel.large_folios=1"),
];

fn jobs(text: &mut Sheet) {
    text.heading("JOB FILES: as fio reads them");
    let letters: Vec<String> = SIZE_LETTERS.chars().map(|letter| letter.to_string()).collect();
    let words = format!(
        "Sizes: a whole number and one of {}, alone or with b: 4k, 1m. Each is 1024 times the \
         previous one. Written as kib, mib and so on it is 1000 times, as in fio; kb_base=1000 \
         swaps the two. Also 0x1000, and 20% where fio accepts a share.",
        letters.join(", ")
    );
    text.paragraph("", &words);
    let words = "Times: a whole number and a unit; without a unit, seconds for runtime and \
                 startdelay, microseconds for thinktime.";
    text.paragraph("", words);
    for (names, micros) in OF_JOBS {
        text.lines(&format!("    {:<12} {micros} us", names.join(" ")));
    }
    text.lines("    example      runtime=90s");
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_report::units;

    use crate::choice;

    #[test]
    fn every_example_of_a_machine_is_taken_by_one() {
        for (kind, dimension, example) in DIMENSIONS {
            let takes = |name: &&str| choice::machine(name, &[example.to_owned()]).is_ok();
            let names: Vec<&str> = forebay_sim::machine::Machine::names().collect();
            assert!(names.iter().any(takes), "{example}");
            let (key, _) = example.split_once('=').unwrap();
            let unit_of = |name: &&str| {
                let machine = choice::machine(name, &[]).ok()?;
                let found = machine.parameters().find(|parameter| parameter.key == key)?;
                Some(found.unit)
            };
            let unit = names.iter().find_map(unit_of).unwrap();
            assert_eq!(unit, dimension.base(), "{kind}");
        }
    }

    #[test]
    fn every_size_of_the_table_is_taken() {
        for (names, shift) in SIZE_UNITS {
            for name in *names {
                assert_eq!(units::bytes("--size", &format!("3{name}")).unwrap(), 3 << shift);
            }
        }
    }
}
