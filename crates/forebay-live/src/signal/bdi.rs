//! `bdi/MAJ:MIN/stats` of debugfs: writeback of one backing device.
//!
//! Source:     Linux mm/backing-dev.c
//! Behaviour:  `Name:  N kB` on each line; rates are kB a second; counts of inodes follow.
//! Differs:    inode lists and the global limits are not read.
//! Not for:    users without privilege: debugfs is root's.

use super::{BdiCounts, Malformed, Text, meminfo};
use crate::number::DevNumber;

/// The folder that has a folder for each backing device.
pub const FOLDER: &str = "/sys/kernel/debug/bdi";

/// The values of a file; its device stands in its path, not in it.
pub fn parse(number: DevNumber, text: Text<'_>) -> Result<BdiCounts, Malformed> {
    let mut found = BdiCounts { number, ..BdiCounts::default() };
    let mut seen = 0u32;
    for (line, words) in text.lines() {
        let Some((name, value)) = words.split_once(':') else { continue };
        let name = name.trim_ascii();
        let Some(place) = FIELDS.iter().position(|field| *field == name) else { continue };
        let slot = match place {
            0 => &mut found.writeback,
            1 => &mut found.reclaimable,
            2 => &mut found.threshold,
            3 => &mut found.dirtied,
            4 => &mut found.written,
            _ => &mut found.bandwidth,
        };
        *slot = meminfo::kib(text, line, FIELDS[place], value)?;
        seen |= 1 << place;
    }
    match FIELDS.iter().enumerate().find(|(place, _)| seen & (1 << place) == 0) {
        Some((_, field)) => Err(text.missing(field)),
        None => Ok(found),
    }
}

const FIELDS: [&str; 6] = [
    "BdiWriteback",
    "BdiReclaimable",
    "BdiDirtyThresh",
    "BdiDirtied",
    "BdiWritten",
    "BdiWriteBandwidth",
];

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "\
BdiWriteback:               32 kB
BdiReclaimable:           1420 kB
BdiDirtyThresh:        4855600 kB
DirtyThresh:           4855600 kB
BackgroundThresh:      2424852 kB
BdiDirtied:          293012180 kB
BdiWritten:          238640052 kB
BdiWriteBandwidth:      102396 kBps
b_dirty:                     4
b_io:                        0
b_more_io:                   0
b_dirty_time:                2
bdi_list:                    1
state:                       1
";

    #[test]
    fn levels_and_rates_are_bytes() {
        let number = DevNumber { major: 254, minor: 0 };
        let wanted = BdiCounts {
            number,
            reclaimable: 1420 << 10,
            writeback: 32 << 10,
            threshold: 4_855_600 << 10,
            dirtied: 293_012_180 << 10,
            written: 238_640_052 << 10,
            bandwidth: 102_396 << 10,
        };
        assert_eq!(parse(number, Text::new("stats", RECORDED)), Ok(wanted));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str| {
            parse(DevNumber::default(), Text::new("stats", text)).unwrap_err().to_string()
        };
        assert_eq!(said("b_dirty: 4\n"), "stats has no BdiWriteback");
        let said = said(&RECORDED.replace("1420", "1e9"));
        assert_eq!(said, "stats, line 2: BdiReclaimable is '1e9', not a whole number");
    }
}
