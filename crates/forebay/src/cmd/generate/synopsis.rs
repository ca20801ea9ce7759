//! How a command is typed, in a line: each option with its value, dots behind what may be repeated.
//!
//! ```text
//!   forebay tune [--dry-run] [--protect DEVICE|PID]... [COMMAND]
//! ```

use clap::{Arg, ArgAction, Command};
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

/// The section of a page.
pub(super) fn synopsis(command: &Command) -> Roff {
    let mut page = Roff::new();
    page.control("SH", ["SYNOPSIS"]);
    // Words are not stretched over the line, and none is broken.
    page.control("ad", ["l"]);
    page.control("nh", []);
    page.text(line(command));
    page.control("hy", []);
    page.control("ad", ["b"]);
    page
}

fn line(command: &Command) -> Vec<Inline> {
    let mut line = vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name()))];
    let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    for argument in shown().filter(|argument| !argument.is_positional()) {
        option(&mut line, argument);
    }
    for argument in shown().filter(|argument| argument.is_positional()) {
        enclosed(&mut line, Typed::of(argument), vec![italic(values(argument))]);
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        let is_required = command.is_subcommand_required_set();
        let once = Typed { is_required, is_repeated: false };
        enclosed(&mut line, once, vec![italic("COMMAND")]);
    }
    line
}

fn option(line: &mut Vec<Inline>, argument: &Arg) {
    let mut words = Vec::new();
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => {
            words.extend([bold(format!("-{short}")), roman("|"), bold(format!("--{long}"))]);
        }
        (Some(short), None) => words.push(bold(format!("-{short}"))),
        (None, Some(long)) => words.push(bold(format!("--{long}"))),
        (None, None) => return,
    }
    if argument.get_action().takes_values() {
        words.extend([roman(" "), italic(values(argument))]);
    }
    enclosed(line, Typed::of(argument), words);
}

/// Adds words: in brackets if they may be left out, with dots if they may come again.
fn enclosed(line: &mut Vec<Inline>, argument: Typed, words: Vec<Inline>) {
    line.push(roman(if argument.is_required { " " } else { " [" }));
    line.extend(words);
    let end = if argument.is_required { "" } else { "]" };
    let dots = if argument.is_repeated { "..." } else { "" };
    line.push(roman(format!("{end}{dots}")));
}

/// How often something is typed.
#[derive(Clone, Copy)]
struct Typed {
    is_required: bool,
    is_repeated: bool,
}

impl Typed {
    fn of(argument: &Arg) -> Self {
        let again = matches!(argument.get_action(), ArgAction::Append | ArgAction::Count);
        let several = argument.get_num_args().is_some_and(|range| range.max_values() > 1);
        Self { is_required: argument.is_required_set(), is_repeated: again || several }
    }
}

fn values(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(clap::builder::Str::as_str).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Arguments;

    /// The line without its fonts.
    fn plain(path: &[&str]) -> String {
        let mut command = Arguments::command();
        command.build();
        let found = path.iter().fold(&command, |command, name| {
            command.find_subcommand(name).expect("there is such a command")
        });
        let text = |inline: Inline| match inline {
            Inline::Roman(text) | Inline::Italic(text) | Inline::Bold(text) => text,
            Inline::LineBreak => "\n".to_owned(),
        };
        line(found).into_iter().map(text).collect()
    }

    #[test]
    fn every_value_has_its_name_and_what_comes_again_its_dots() {
        let tune = plain(&["tune"]);
        for part in [
            "forebay tune [--dry-run] [--for DURATION] [--only SLOT] [--protect DEVICE|PID]... ",
            " [--policy FILE] ",
            " [-h|--help] [COMMAND]",
        ] {
            assert!(tune.contains(part), "{part}: {tune}");
        }
        assert!(!tune.contains("--root"), "it is hidden: {tune}");
        let simulate = plain(&["simulate"]);
        assert!(simulate.ends_with(" [JOB|TRACE]..."), "{simulate}");
        assert!(simulate.contains(" [--compare SLOT=A,B,C]... "), "{simulate}");
        assert!(plain(&[]).ends_with(" COMMAND"), "{}", plain(&[]));
    }
}
