//! Jobs on the command line, as fio has them, rewritten as the text of a job file.
//!
//! ```text
//!   simulate --bs=4k --name=a --rw=read --machine vm-2026 --name=b --rw=randread
//!            |       |                  |                 +- begins the second job
//!            |       +- begins a job    +- a flag of `simulate` stays where it is
//!            +- before the first --name: an option of all jobs
//!
//!   simulate --machine vm-2026 --name='[global] bs=4k [a] rw=read [b] rw=randread'
//! ```

use std::ffi::OsString;
use std::iter::Peekable;

use anyhow::{Result, bail};
use clap::{Command, CommandFactory};
use forebay_report::messages::{self, Complaint};
use forebay_sim::fio::known_options;

use crate::args::Arguments;

/// The words of a command line, with all options of jobs in the value of one `--name`.
///
/// # Errors
/// An option has a character that would end its line in a job file.
pub(crate) fn rewritten(words: &[OsString]) -> Result<Vec<OsString>> {
    let is_name = |word: &OsString| word == NAME || key_of(word).is_some_and(|key| key == "name");
    // Flags of all commands may stand before the command.
    let is_word = |word: &OsString| word.to_str().is_none_or(|word| !word.starts_with('-'));
    let place = words.iter().position(is_word).unwrap_or(words.len());
    let (before, rest) = words.split_at(place);
    let Some((command, rest)) = rest.split_first() else { return Ok(words.to_vec()) };
    let takes_jobs = command == "simulate" || command == "run";
    if !takes_jobs || !rest.iter().any(is_name) {
        return Ok(words.to_vec());
    }
    let definition = Arguments::command();
    let own = command.to_str().and_then(|name| definition.find_subcommand(name));
    let own = flags_of(own.expect("`simulate` and `run` are commands"), &definition);
    let mut kept = [before, std::slice::from_ref(command)].concat();
    let mut text = String::from("[global]\n");
    let mut rest = rest.iter().peekable();
    while let Some(word) = rest.next() {
        let Some(key) = key_of(word).filter(|key| is_of_job(key, &own)) else {
            kept.push(word.clone());
            // The value of a flag is no option, whatever it looks like.
            let takes_value = own.iter().any(|flag| flag.takes_value && word == &*flag.word());
            if takes_value && let Some(value) = rest.next() {
                kept.push(value.clone());
            }
            continue;
        };
        let value = value_of(word, &mut rest);
        if key == "name" {
            let name = value.unwrap_or_default();
            check(&key, &name)?;
            text += &format!("[{name}]\n");
        } else {
            check(&key, value.as_deref().unwrap_or_default())?;
            text += &value.map_or_else(|| format!("{key}\n"), |value| format!("{key}={value}\n"));
        }
    }
    kept.push(format!("{NAME}={text}").into());
    Ok(kept)
}

const NAME: &str = "--name";

/// A flag of the command itself.
struct Flag {
    long: String,
    takes_value: bool,
}

impl Flag {
    fn word(&self) -> String {
        format!("--{}", self.long)
    }
}

fn flags_of(command: &Command, all: &Command) -> Vec<Flag> {
    let arguments = command.get_arguments().chain(all.get_arguments());
    let flags = arguments.filter_map(|argument| {
        let takes_value = argument.get_action().takes_values();
        Some(Flag { long: argument.get_long()?.to_owned(), takes_value })
    });
    let standard = |long: &str| Flag { long: long.to_owned(), takes_value: false };
    flags.chain([standard("help"), standard("version")]).collect()
}

/// `bs` of `--bs=4k`, or of `--bs`.
fn key_of(word: &OsString) -> Option<String> {
    let long = word.to_str()?.strip_prefix("--")?;
    let key = long.split('=').next().unwrap_or_default();
    (!key.is_empty()).then(|| key.to_owned())
}

/// Whether an option belongs to a job. One that neither knows belongs to what it resembles.
fn is_of_job(key: &str, own: &[Flag]) -> bool {
    if key == "name" {
        return true;
    }
    if own.iter().any(|flag| flag.long == key) {
        return false;
    }
    let options: Vec<&str> =
        known_options().flat_map(|option| option.names.iter().copied()).collect();
    if options.contains(&key) {
        return true;
    }
    let flags = own.iter().map(|flag| flag.long.as_str());
    let known: Vec<&str> = flags.chain(options.iter().copied()).collect();
    messages::nearest(key, &known).is_none_or(|nearest| options.contains(&nearest))
}

/// The value after `=`, or the next word unless that is an option itself.
fn value_of<'a>(
    word: &OsString,
    rest: &mut Peekable<impl Iterator<Item = &'a OsString>>,
) -> Option<String> {
    if let Some((_, value)) = word.to_str().and_then(|word| word.split_once('=')) {
        return Some(value.to_owned());
    }
    let is_value = |word: &&OsString| word.to_str().is_some_and(|word| !word.starts_with('-'));
    rest.next_if(is_value).and_then(|value| value.to_str()).map(str::to_owned)
}

/// Job files end lines with these characters.
fn check(key: &str, value: &str) -> Result<()> {
    if value.contains(['#', ';', '\n', '\r']) {
        let what = format!("--{key}: a value has no '#', ';' and no line break");
        bail!(Complaint::new(what).hint("job files end lines there, and so do options"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let rewritten = rewritten(&words).unwrap();
        rewritten.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn options_of_jobs_become_one_text_and_flags_stay() {
        let words =
            of("simulate --bs=4k --name=a --rw read --machine vm-2026 --time_based --name b \
             --size=1m --seed=7 -q");
        let text = "--name=[global]\nbs=4k\n[a]\nrw=read\ntime_based\n[b]\nsize=1m\n";
        assert_eq!(words, ["simulate", "--machine", "vm-2026", "--seed=7", "-q", text]);
    }

    #[test]
    fn lines_without_a_name_stay_as_they_are() {
        assert_eq!(of("-q simulate --name=a").len(), 3);
        for line in ["simulate job.fio --seed 3", "policies --name=a", "run job.fio --on x"] {
            assert_eq!(of(line).join(" "), line);
        }
    }

    #[test]
    fn a_mistyped_flag_is_left_to_the_parser_of_flags() {
        assert!(of("simulate --name=a --machin=x").contains(&"--machin=x".to_owned()));
        assert!(of("simulate --name=a --rww=x").join("").contains("rww=x"));
    }

    #[test]
    fn a_value_cannot_begin_a_line() {
        let words = ["simulate", "--name=a\n[b"].map(OsString::from);
        assert!(rewritten(&words).is_err());
    }

    #[test]
    fn lines_of_the_rewritten_text_are_not_named() {
        assert_eq!(
            messages::without_line("the command line:3: option 'x'"),
            "the command line: option 'x'"
        );
        assert_eq!(messages::without_line("a.fio:3: option 'x'"), "a.fio:3: option 'x'");
    }
}
