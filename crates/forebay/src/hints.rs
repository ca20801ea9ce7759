//! The next thing to do, for errors that only this program knows.
//!
//! ```text
//!   a place inside an image        how to list what is there
//!   a topic of help, a shell       which there are
//! ```

use std::ffi::OsString;

use clap::{CommandFactory, ValueEnum};
use forebay_image::Fault;
use forebay_report::hints;
use forebay_report::messages::nearest;
use forebay_sim::fio::known_options;

use crate::args::{Arguments, Shell};
use crate::cmd::help;
use crate::cmd::image::WHAT_IS_THERE;

/// An error and what lies below it on one line, hints at the end.
pub(crate) fn of_chain(error: &anyhow::Error, words: &[OsString]) -> String {
    let is_fault = error.chain().any(<dyn std::error::Error>::is::<Fault>);
    let known = is_fault.then_some(WHAT_IS_THERE);
    hints::of_chain(error, known, &Arguments::command(), words)
}

/// The parser's message about a mistyped command line, with its suggestion as the hint.
pub(crate) fn of_usage(said: &str, words: &[OsString]) -> String {
    let mut known = None;
    let asked = |command: &str| words.first().is_some_and(|word| word == command);
    if let (true, Some(topic)) = (asked("help"), words.get(1)) {
        known = Some(about_topics(&topic.to_string_lossy()));
    }
    if asked("completions") && said.contains("'<SHELL>'") {
        known = Some(about_shells());
    }
    let has_file = words.iter().skip(1).any(|word| !word.as_encoded_bytes().starts_with(b"-"));
    if (asked("simulate") || asked("run")) && !has_file && is_about_job_option(said) {
        known =
            Some("--name=JOB begins a job of the command line, and its options follow".to_owned());
    }
    hints::of_usage(said, known, &Arguments::command(), words)
}

/// Whether an option of fio jobs was found where none is expected.
fn is_about_job_option(said: &str) -> bool {
    let option =
        said.split_once("unexpected argument '--").and_then(|(_, rest)| rest.split_once('\''));
    let is_known = |option: &str| known_options().any(|known| known.names.contains(&option));
    option.is_some_and(|(option, _)| is_known(option))
}

/// The valid topics, for an unknown topic.
fn about_topics(given: &str) -> String {
    let topics = help::TOPICS.each_ref().map(|topic| topic.name);
    let command = Arguments::command();
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let known: Vec<&str> =
        topics.into_iter().chain(commands.map(clap::Command::get_name)).collect();
    let meant = nearest(given, &known).map(|name| format!("did you mean '{name}'? "));
    let (meant, names) = (meant.unwrap_or_default(), help::names());
    format!("{meant}topics are {names}, and commands are in `forebay --help`")
}

/// Shells are no misspellings of each other.
fn about_shells() -> String {
    let shells = Shell::value_variants().iter().filter_map(Shell::to_possible_value);
    let names: Vec<String> = shells.map(|shell| shell.get_name().to_owned()).collect();
    format!("there are completions for {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_a_job_without_a_job_brings_how_one_begins() {
        let words = ["simulate", "--rw=randread"].map(OsString::from);
        let said = |option: &str| {
            let error = format!("error: unexpected argument '--{option}' found\n");
            of_usage(&error, &words)
        };
        assert!(said("rw").contains("hint: --name=JOB begins a job"), "{}", said("rw"));
        assert!(!said("machines").contains("--name=JOB"), "{}", said("machines"));
    }

    #[test]
    fn an_unknown_topic_brings_the_topics() {
        let words = ["help", "unit"].map(OsString::from);
        let said = of_usage("error: no\n\nFor more information, try '--help'.\n", &words);
        assert!(said.contains("hint: did you mean 'units'? topics are policies, "), "{said}");
    }
}
