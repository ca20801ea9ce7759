//! `forebay help TOPIC`: background of the commands, generated from the tables that they use.
//!
//! `forebay help COMMAND` belongs to the parser and shows the arguments of a command.

use std::ffi::OsString;

use anyhow::{Context, Result};
use forebay_report::screen;

use sheet::Sheet;

mod job_files;
mod papers;
mod policies;
mod safety;
mod sheet;
mod units;

/// A topic of `forebay help`.
pub(crate) struct Topic {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Its description in one line.
    pub(crate) about: &'static str,
    text: fn(&mut Sheet),
}

/// Every topic.
pub(crate) static TOPICS: [Topic; 5] = [
    Topic {
        name: "policies",
        about: "Policies of each slot of the path: parameters, ranges, sources",
        text: policies::text,
    },
    Topic {
        name: "papers",
        about: "Reproduced papers, their machines, and what is not claimed",
        text: papers::text,
    },
    Topic {
        name: "units",
        about: "Units of sizes, times and rates, and where they are accepted",
        text: units::text,
    },
    Topic {
        name: "job-files",
        about: "Options of fio that are understood, ignored and refused",
        text: job_files::text,
    },
    Topic {
        name: "safety",
        about: "Writes to the kernel, the journal, and how values are restored",
        text: safety::text,
    },
];

/// The text of `help TOPIC` or `help policies SLOT`, if the words are one of these.
///
/// # Errors
/// There is no such slot.
pub(crate) fn asked(words: &[OsString]) -> Result<Option<Sheet>> {
    let mut words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    words.retain(|word| *word != "--wide");
    Ok(match words[..] {
        ["help", name] => TOPICS.iter().find(|topic| name == topic.name).map(Topic::sheet),
        ["help", "policies", slot] => Some(policies::of_slot(slot)?),
        _ => None,
    })
}

/// Prints a text, through a pager on a terminal.
pub(crate) fn print(sheet: &Sheet) -> Result<u8> {
    screen::print_paged(&sheet.screen()).context("cannot write the help")?;
    Ok(0)
}

/// The names of the topics, for a sentence.
pub(crate) fn names() -> String {
    TOPICS.each_ref().map(|topic| topic.name).join(", ")
}

/// A line for each topic, for the end of the program's help.
pub(crate) fn list() -> String {
    let lines = TOPICS.iter().map(|topic| format!("  {:<11} {}\n", topic.name, topic.about));
    format!("Topics of `forebay help`:\n{}", lines.collect::<String>())
}

impl Topic {
    /// The text of the topic.
    pub(crate) fn sheet(&self) -> Sheet {
        let mut sheet = Sheet::default();
        (self.text)(&mut sheet);
        sheet
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Arguments;

    #[test]
    fn a_topic_fits_a_screen_of_its_width_and_has_no_empty_end() {
        for topic in &TOPICS {
            let text = topic.sheet().screen();
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{}: {line}", topic.name);
                assert_eq!(line.trim_end(), line, "{}", topic.name);
            }
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{}", topic.name);
        }
    }

    #[test]
    fn a_command_is_not_hidden_by_a_topic_of_another_kind() {
        // `policies` is both, and the topic contains everything that the command's help would.
        let command = Arguments::command();
        let both: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let both: Vec<_> = both.into_iter().filter(|name| names.contains(name)).collect();
        assert_eq!(both, ["policies"]);
    }
}
