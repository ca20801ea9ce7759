//! `/proc/vmstat`: levels of dirty memory, the limits in force, faults.
//!
//! Source:     Linux mm/vmstat.c
//! Behaviour:  a name and a number on each line; the only place that shows the limits in force.
//! Differs:    lines that are not used are not looked at; reading ends with the last one needed.
//! Not for:    single devices.

use super::{Malformed, Text, VmCounts};

/// Its path.
pub const FILE: &str = "/proc/vmstat";

/// What is used of the file.
pub fn parse(text: Text<'_>) -> Result<VmCounts, Malformed> {
    let mut found = VmCounts::default();
    let mut seen = 0u32;
    for (line, words) in text.lines() {
        let Some((name, value)) = words.split_once(' ') else { continue };
        // Before Linux 5.9 refaults of files had no name of their own.
        let name = if name == "workingset_refault" { "workingset_refault_file" } else { name };
        let Some(place) = FIELDS.iter().position(|field| *field == name) else { continue };
        *slot(&mut found, place) = text.number(line, FIELDS[place], Some(value.trim_end()))?;
        seen |= 1 << place;
        if seen == ALL {
            break;
        }
    }
    match FIELDS.iter().enumerate().find(|(place, _)| NEEDED & !seen & (1 << place) != 0) {
        Some((_, field)) => Err(text.missing(field)),
        None => Ok(found),
    }
}

/// Where a field's number belongs; places as in [`FIELDS`].
fn slot(found: &mut VmCounts, place: usize) -> &mut u64 {
    match place {
        0 => &mut found.dirty,
        1 => &mut found.writeback,
        2 => &mut found.dirty_threshold,
        3 => &mut found.dirty_background_threshold,
        4 => &mut found.dirtied,
        5 => &mut found.written,
        6 => &mut found.major_faults,
        7 => &mut found.refaults,
        8 => &mut found.kib_in,
        _ => &mut found.kib_out,
    }
}

const FIELDS: [&str; 10] = [
    "nr_dirty",
    "nr_writeback",
    "nr_dirty_threshold",
    "nr_dirty_background_threshold",
    "nr_dirtied",
    "nr_written",
    "pgmajfault",
    "workingset_refault_file",
    "pgpgin",
    "pgpgout",
];

/// A bit for each field.
const ALL: u32 = (1 << FIELDS.len()) - 1;

/// Every field but the last three, which take a kernel with the memory shrinker's shadow entries
/// and one that counts events.
const NEEDED: u32 = ALL >> 3;

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "nr_free_pages 6079133\nworkingset_refault_anon 0\n\
        workingset_refault_file 41622578\nnr_dirty 355\nnr_writeback 2\nnr_dirtied 73253045\n\
        nr_written 59660013\nnr_dirty_threshold 1214472\n\
        nr_dirty_background_threshold 606494\npgpgin 11\npgpgout 12\npgmajfault 919300\n\
        unevictable_pgs_culled 1\n";

    #[test]
    fn the_fields_are_found_in_any_order() {
        let wanted = VmCounts {
            dirty: 355,
            writeback: 2,
            dirty_threshold: 1_214_472,
            dirty_background_threshold: 606_494,
            dirtied: 73_253_045,
            written: 59_660_013,
            major_faults: 919_300,
            refaults: 41_622_578,
            kib_in: 11,
            kib_out: 12,
        };
        assert_eq!(parse(Text::new(FILE, RECORDED)), Ok(wanted));
        let turned: String = RECORDED.lines().rev().map(|line| format!("{line}\n")).collect();
        assert_eq!(parse(Text::new(FILE, &turned)), Ok(wanted));
    }

    #[test]
    fn an_older_kernel_has_one_count_of_refaults_or_none() {
        let older = RECORDED.replace("refault_file", "refault");
        assert_eq!(parse(Text::new(FILE, &older)).unwrap().refaults, 41_622_578);
        let oldest = RECORDED.replace("workingset_refault_file", "something_else");
        assert_eq!(parse(Text::new(FILE, &oldest)).unwrap().refaults, 0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str| parse(Text::new(FILE, text)).unwrap_err().to_string();
        assert_eq!(said(""), "/proc/vmstat has no nr_dirty");
        assert_eq!(
            said(&RECORDED.replace("nr_written ", "written ")),
            "/proc/vmstat has no nr_written"
        );
        assert_eq!(
            said(&RECORDED.replace("nr_dirty 355", "nr_dirty 35x")),
            "/proc/vmstat, line 4: nr_dirty is '35x', not a whole number"
        );
    }
}
