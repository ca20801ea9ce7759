//! `forebay` with nothing behind it: what to try first, by what hurts.
//!
//! It goes to standard error with the exit code of a mistyped call, as in git and zfs: a script
//! whose command was an empty variable must not continue as if the command had succeeded.

use std::io::{self, Write};

use crate::ERROR;

/// Prints the screen.
pub(crate) fn run() -> u8 {
    // Standard error may be closed; the exit code still reports the error.
    let _ = io::stderr().write_all(SCREEN.as_bytes());
    ERROR
}

const SCREEN: &str = "\
Forebay looks into the I/O path of Linux: page cache, readahead, writeback and
request queue.

  reads are slow on this machine       forebay advise
  a backup or a copy freezes it        sudo forebay tune --dry-run --for 60s
  a firmware image, what is in it?     forebay image ls -R IMAGE
  a paper or a policy, is it true?     forebay reproduce readahead
  what works on this machine?          forebay doctor

`forebay --help` lists all commands. `forebay help TOPIC` explains policies,
papers, units, job-files and safety.
";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Arguments;
    use crate::cmd::help::TOPICS;

    #[test]
    fn every_line_of_the_screen_can_be_typed() {
        let calls = SCREEN
            .lines()
            .filter_map(|line| line.split_once("  forebay ").or(line.split_once("sudo forebay ")));
        let calls: Vec<&str> = calls.map(|(_, words)| words).collect();
        assert_eq!(calls.len(), 5);
        for words in calls {
            let words = std::iter::once("forebay").chain(words.split_whitespace());
            Arguments::try_parse_from(words).unwrap();
        }
        let said = SCREEN.replace('\n', " ");
        assert!(TOPICS.iter().all(|topic| said.contains(topic.name)));
    }
}
