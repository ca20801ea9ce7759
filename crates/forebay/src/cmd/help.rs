//! `forebay help TOPIC`: what is behind the commands, made from the tables that they work by.
//!
//! `forebay help COMMAND` is the parser's own and shows what a command takes.

use std::ffi::OsString;

use anyhow::{Context, Result};

use crate::screen;

use sheet::Sheet;

mod job_files;
mod papers;
mod policies;
mod safety;
mod sheet;
mod units;

/// Something to read about.
pub(crate) struct Topic {
    /// What a user types.
    pub(crate) name: &'static str,
    /// One line.
    pub(crate) about: &'static str,
    text: fn(&mut Sheet),
}

/// Every topic.
pub(crate) static TOPICS: [Topic; 5] = [
    Topic {
        name: "policies",
        about: "What can fill each slot of the path: parameters, ranges, sources",
        text: policies::text,
    },
    Topic {
        name: "papers",
        about: "What is reproduced, on which machine, and what is not claimed",
        text: papers::text,
    },
    Topic {
        name: "units",
        about: "Which units sizes, times and rates take, and where",
        text: units::text,
    },
    Topic {
        name: "job-files",
        about: "Which options of fio are understood, ignored and refused",
        text: job_files::text,
    },
    Topic {
        name: "safety",
        about: "What writes to the kernel, what is put on record, how it goes back",
        text: safety::text,
    },
];

/// The text that was asked for, if it was one: `help TOPIC` or `help policies SLOT`.
pub(crate) fn asked(words: &[OsString]) -> Option<Sheet> {
    let mut words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    words.retain(|word| *word != "--wide");
    match words[..] {
        ["help", name] => TOPICS.iter().find(|topic| name == topic.name).map(Topic::sheet),
        ["help", "policies", slot] => policies::of_slot(slot),
        _ => None,
    }
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
    /// Its text.
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
        // `policies` is both, and the topic says all that the command's help would.
        let command = Arguments::command();
        let both: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let both: Vec<_> = both.into_iter().filter(|name| names.contains(name)).collect();
        assert_eq!(both, ["policies"]);
    }
}
