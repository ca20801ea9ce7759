//! The next thing to do, for errors that come without it.
//!
//! ```text
//!   a Complaint with a hint        its own, always
//!   what was mistyped              what the parser suggests, or the help of that very command
//!   a place inside an image        how to list what is there
//!   an error of the system         what usually helps
//!   anything else                  the help of the command
//! ```

use std::ffi::OsString;
use std::io::{self, ErrorKind};

use clap::{CommandFactory, ValueEnum};
use forebay_image::Fault;
use forebay_report::messages::nearest;

use crate::args::{Arguments, Shell};
use crate::cmd::help;
use crate::cmd::image::WHAT_IS_THERE;

/// An error and what lies below it on one line, hints at the end.
pub(crate) fn of_chain(error: &anyhow::Error, words: &[OsString]) -> String {
    let text = with_hint(format!("{error:#}"), error, words);
    // Typed text may contain characters that control a terminal.
    let harmless = |c: char| if c.is_control() && c != '\n' { '\u{fffd}' } else { c };
    text.chars().map(harmless).collect()
}

/// The error with its hint at the end: its own, or the likeliest.
fn with_hint(text: String, error: &anyhow::Error, words: &[OsString]) -> String {
    if text.contains(HINT) {
        return text;
    }
    if error.chain().any(<dyn std::error::Error>::is::<Fault>) {
        return format!("{text}{HINT}{WHAT_IS_THERE}");
    }
    let mut of_system = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    let hint = of_system.find_map(|error| of_kind(error.kind()));
    let hint = hint.map_or_else(|| help_of(words), str::to_owned);
    format!("{text}{HINT}{hint}")
}

/// The parser's message about a mistyped command line, with its suggestion as the hint.
pub(crate) fn of_usage(said: &str, words: &[OsString]) -> String {
    let mut hints = Vec::new();
    let mut text = String::new();
    for line in said.lines() {
        if let Some(tip) = line.trim_start().strip_prefix("tip: ") {
            // That a flag may be meant as a value says little where there is none.
            if !tip.starts_with("to pass ") {
                hints.push(tip.to_owned());
            }
        } else if !line.starts_with("For more information") {
            text += line;
            text.push('\n');
        }
    }
    let asked = |command: &str| words.first().is_some_and(|word| word == command);
    if let (true, Some(topic)) = (asked("help"), words.get(1)) {
        hints = vec![about_topics(&topic.to_string_lossy())];
    }
    if asked("completions") && said.contains("'<SHELL>'") {
        hints = vec![about_shells()];
    }
    if hints.is_empty() {
        hints.push(help_of(words));
    }
    // Suggestions stood between blank lines.
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    // The usage is a separate paragraph.
    let gap = if text.contains("\nUsage: ") { "\n" } else { "" };
    format!("{}{gap}{HINT}{}\n", text.trim_end(), hints.join(HINT))
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

/// What usually helps; none where the command's own help says more.
pub(crate) fn of_kind(kind: ErrorKind) -> Option<&'static str> {
    USUAL.iter().find(|(known, _)| *known == kind).map(|(_, hint)| *hint)
}

/// Errors of the system, and what usually helps.
const USUAL: &[(ErrorKind, &str)] = &[
    (ErrorKind::NotFound, "is the path right? it is looked for from the current folder"),
    (
        ErrorKind::PermissionDenied,
        "its owner and root may; `forebay doctor` says what works without root",
    ),
    (ErrorKind::IsADirectory, "that is a folder, and it takes a file"),
    (ErrorKind::NotADirectory, "one of its folders is a file; is the path right?"),
    (ErrorKind::AlreadyExists, "it is there already: name another one"),
    (ErrorKind::StorageFull, "make room, or name another place"),
    (ErrorKind::QuotaExceeded, "make room, or name another place"),
    (ErrorKind::ReadOnlyFilesystem, "name a place that can be written"),
    (ErrorKind::AddrInUse, "the port is in use: name another one"),
    (ErrorKind::AddrNotAvailable, "name an address of this machine, such as 127.0.0.1"),
    (ErrorKind::InvalidFilename, "a name has at most 255 bytes, and none of them is 0"),
    (ErrorKind::OutOfMemory, "ask for less, or end something else"),
];

/// Where the help of the typed command is.
fn help_of(words: &[OsString]) -> String {
    let mut command = &Arguments::command();
    let mut call = "forebay".to_owned();
    for word in words {
        let Some(next) = word.to_str().and_then(|word| command.find_subcommand(word)) else {
            break;
        };
        command = next;
        call += &format!(" {}", next.get_name());
    }
    format!("`{call} --help` says what it takes")
}

/// How a hint begins.
const HINT: &str = "\nhint: ";

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_help_is_that_of_the_innermost_command() {
        assert_eq!(help_of(&words("image ls x")), "`forebay image ls --help` says what it takes");
        assert_eq!(help_of(&words("--zebra image")), "`forebay --help` says what it takes");
    }

    #[test]
    fn an_error_keeps_its_own_hint_and_others_get_one() {
        let own = anyhow::anyhow!("a\nhint: b");
        assert_eq!(with_hint(format!("{own:#}"), &own, &[]), "a\nhint: b");
        let system = anyhow::Error::from(io::Error::from(ErrorKind::NotFound)).context("x");
        let said = with_hint(format!("{system:#}"), &system, &[]);
        assert!(said.contains("hint: is the path right?"), "{said}");
    }

    #[test]
    fn a_suggestion_of_the_parser_is_the_hint() {
        let said = "error: no\n\n  tip: yes\n\nUsage: x\n\nFor more information, try '--help'.\n";
        assert_eq!(of_usage(said, &[]), "error: no\n\nUsage: x\n\nhint: yes\n");
        let said =
            of_usage("error: no\n\nFor more information, try '--help'.\n", &words("help unit"));
        assert!(said.contains("hint: did you mean 'units'? topics are policies, "), "{said}");
    }
}
