//! Writers that a policy of 002 must leave alone: the kernel against itself.
//!
//! ```text
//!   case     policies whose rows must be equal, byte for byte
//!   memcg    linux, off      a memory cgroup keeps its pauses
//!   strict   linux, off      so does a device with strict limits
//!   nowait   all             a writer that must not wait is refused, and never sleeps
//! ```
//!
//! The kernel's measurements of a device outlive a load, so each row has a separate boot.

use anyhow::{Context, Result, ensure};

use super::super::boot;
use super::super::build::Lab;
use super::super::processors::side_by_side;
use super::machine::number;
use crate::process::say;

/// The experiment's name.
pub(in crate::kernel) const NAME: &str = "limits";

const POLICIES: [&str; 3] = ["linux", "off", "paced"];

/// Cases, and the policies whose rows must be that of `linux`.
const CASES: [(&str, &[&str]); 3] =
    [("memcg", &["off"]), ("strict", &["off"]), ("nowait", &["off", "paced"])];

/// The records of all rows.
pub(in crate::kernel) fn records(lab: &Lab) -> Result<String> {
    let rows = CASES.map(|(case, _)| POLICIES.map(|policy| [NAME, case, policy]));
    let records = side_by_side(rows.as_flattened(), |row| boot::boot(lab, row))?;
    Ok(records.concat())
}

/// Compares the rows; how many differ that should not.
pub(super) fn compare(lab: &Lab) -> Result<usize> {
    let differences = judge(&records(lab)?)?;
    for difference in &differences {
        say(difference)?;
    }
    say(&format!(
        "\nlimits      memcg and strict limits under off, nowait under both: {} of {} rows differ \
         from linux",
        differences.len(),
        CASES.iter().map(|(_, policies)| policies.len()).sum::<usize>()
    ))?;
    Ok(differences.len())
}

/// The rows that differ from stock and should not.
fn judge(records: &str) -> Result<Vec<String>> {
    let row = |case: &str, policy: &str| {
        let key = format!("case={case} policy={policy} ");
        let found = records.lines().find_map(|line| Some(line.split_once(key.as_str())?.1));
        found.with_context(|| format!("there is no row {key}"))
    };
    let mut differences = Vec::new();
    for (case, policies) in CASES {
        let stock = row(case, "linux")?;
        let held = number(stock, if case == "nowait" { "refused" } else { "pauses" })?;
        ensure!(held > 0.0, "no writer was held in the case {case}: {stock}");
        for policy in policies {
            let same = row(case, policy)?;
            if stock != same {
                differences.push(format!("{case}: linux {stock}\n{case}: {policy} {same}"));
            }
        }
    }
    Ok(differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(change: &str, to: &str) -> String {
        let row = |(case, policy): (&str, &str)| {
            format!("limits case={case} policy={policy} written_ms=9.0 refused=3 pauses=4\n")
        };
        let all = CASES.iter().flat_map(|(case, _)| POLICIES.map(|policy| (*case, policy)));
        all.map(row).collect::<String>().replace(change, to)
    }

    #[test]
    fn a_row_that_should_be_stock_and_is_not_is_shown() {
        assert_eq!(judge(&rows("", "")).unwrap(), [""; 0]);
        let off = "case=strict policy=off written_ms=9.0";
        let differences = judge(&rows(off, &off.replace("9.0", "8.0"))).unwrap();
        assert_eq!(differences.len(), 1);
        assert!(differences[0].starts_with("strict: linux written_ms=9.0"), "{differences:?}");
        let paced = "case=strict policy=paced written_ms=9.0";
        assert_eq!(judge(&rows(paced, "case=strict policy=paced")).unwrap(), [""; 0]);
    }

    #[test]
    fn rows_in_which_no_writer_is_held_show_nothing() {
        let error = judge(&rows("refused=3", "refused=0")).unwrap_err().to_string();
        assert!(error.starts_with("no writer was held in the case nowait"), "{error}");
        assert!(judge("").unwrap_err().to_string().starts_with("there is no row case=memcg"));
    }
}
