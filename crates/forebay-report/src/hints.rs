//! The next thing to do, for errors that come without it.
//!
//! ```text
//!   a Complaint with a hint        its own, always
//!   an error that the caller knows what the caller says
//!   what was mistyped              what the parser suggests, or the help of that very command
//!   an error of the system         what usually helps
//!   anything else                  the help of the command
//! ```

use std::ffi::OsString;
use std::io::{self, ErrorKind};

use clap::Command;

/// An error and what lies below it on one line, hints at the end: its own, or `known`, or the
/// likeliest.
pub fn of_chain(
    error: &anyhow::Error,
    known: Option<&str>,
    command: &Command,
    words: &[OsString],
) -> String {
    let mut text = format!("{error:#}");
    if !text.contains(HINT) {
        let of_system = || {
            let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
            causes.find_map(|error| match error.raw_os_error() {
                Some(EIO) => Some("the device has failed; `dmesg` says why"),
                _ => of_kind(error.kind()),
            })
        };
        let hint = known.or_else(of_system).map(str::to_owned);
        text = format!("{text}{HINT}{}", hint.unwrap_or_else(|| help_of(command, words)));
    }
    // Typed text may contain characters that control a terminal.
    let harmless = |c: char| if c.is_control() && c != '\n' { '\u{fffd}' } else { c };
    text.chars().map(harmless).collect()
}

/// The parser's message about a mistyped command line. Its hint is `known`, or what the parser
/// suggests, or the help of the command.
pub fn of_usage(
    said: &str,
    known: Option<String>,
    command: &Command,
    words: &[OsString],
) -> String {
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
    if let Some(known) = known {
        hints = vec![known];
    }
    if hints.is_empty() {
        hints.push(help_of(command, words));
    }
    // Suggestions stood between blank lines.
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    // The usage is a separate paragraph.
    let gap = if text.contains("\nUsage: ") { "\n" } else { "" };
    format!("{}{gap}{HINT}{}\n", text.trim_end(), hints.join(HINT))
}

/// What usually helps; none where the command's own help says more.
pub fn of_kind(kind: ErrorKind) -> Option<&'static str> {
    USUAL.iter().find(|(known, _)| *known == kind).map(|(_, hint)| *hint)
}

/// Errors of the system, and what usually helps.
const USUAL: &[(ErrorKind, &str)] = &[
    (ErrorKind::NotFound, "is the path right? it is looked for from the current folder"),
    (
        ErrorKind::PermissionDenied,
        "its owner and root may, unless it is immutable or in use; `forebay doctor` says what \
         works without root",
    ),
    (ErrorKind::IsADirectory, "that is a folder, and it takes a file"),
    (
        ErrorKind::NotADirectory,
        "a part of it that should be a folder is a file; is the path right?",
    ),
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
fn help_of(mut command: &Command, words: &[OsString]) -> String {
    let mut call = command.get_name().to_owned();
    for word in words {
        let Some(next) = word.to_str().and_then(|word| command.find_subcommand(word)) else {
            break;
        };
        command = next;
        call += &format!(" {}", next.get_name());
    }
    format!("`{call} --help` says what it takes")
}

/// An error of input or output, for which the standard library has no kind.
const EIO: i32 = 5;

/// How a hint begins.
const HINT: &str = "\nhint: ";

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let ls = Command::new("ls");
        Command::new("forebay").subcommand(Command::new("image").subcommand(ls))
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_help_is_that_of_the_innermost_command() {
        let help = |line| help_of(&command(), &words(line));
        assert_eq!(help("image ls x"), "`forebay image ls --help` says what it takes");
        assert_eq!(help("--zebra image"), "`forebay --help` says what it takes");
    }

    #[test]
    fn an_error_keeps_its_own_hint_and_others_get_one() {
        let own = anyhow::anyhow!("a\nhint: b");
        assert_eq!(of_chain(&own, Some("c"), &command(), &[]), "a\nhint: b");
        let system = anyhow::Error::from(io::Error::from(ErrorKind::NotFound)).context("x");
        let said = of_chain(&system, None, &command(), &[]);
        assert!(said.contains("hint: is the path right?"), "{said}");
        let said = of_chain(&system, Some("c"), &command(), &[]);
        assert!(said.ends_with("\nhint: c"), "{said}");
    }

    #[test]
    fn a_suggestion_of_the_parser_is_the_hint() {
        let said = "error: no\n\n  tip: yes\n\nUsage: x\n\nFor more information, try '--help'.\n";
        assert_eq!(of_usage(said, None, &command(), &[]), "error: no\n\nUsage: x\n\nhint: yes\n");
        let said = of_usage(said, Some("maybe".to_owned()), &command(), &[]);
        assert!(said.ends_with("\nhint: maybe\n"), "{said}");
    }
}
