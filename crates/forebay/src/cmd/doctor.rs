//! `forebay doctor`: what this machine allows, what that gives, and what would bring the rest.
//!
//! ```text
//!   facts    what the machine shows and what the kernel answers when it is asked
//!   checks   one verdict each: yes, partly, no, and what depends on it
//! ```
//!
//! Nothing is written, and nothing is mounted where another process could see it: a tracefs or a
//! debugfs that the machine has not mounted is mounted without a place in the tree of files, as
//! `watch` and
//! `tune` do, and is gone with the process.

use std::io::{self, Write};

use anyhow::{Context, Result};
use forebay_live::tree::Tree;
use forebay_report::messages;
use forebay_report::table::{Format, Table};
use serde_json::json;

use crate::NO;
use crate::args::live::Doctor;
use crate::cmd::advise;

use checks::{Check, State};
use facts::Facts;

mod checks;
mod facts;

/// Checks the machine and prints the result. The answer is no if one of the commands of [`MAIN`]
/// cannot work.
pub(crate) fn run(arguments: &Doctor) -> Result<u8> {
    let tree = match &arguments.root {
        None => Tree::machine(),
        Some(root) => advise::recorded(root)?,
    };
    let facts = Facts::gather(&tree);
    let checks = checks::all(&facts);
    let commands = commands(&checks);
    let text = match arguments.json {
        true => format!("{:#}\n", as_json(&facts, &checks, &commands)),
        false => page(&facts, &checks, &commands)?,
    };
    io::stdout().lock().write_all(text.as_bytes()).context("cannot write the findings")?;
    let is_missing = |command: &Command| MAIN.contains(&command.name) && command.state == State::No;
    Ok(if commands.iter().any(is_missing) { NO } else { 0 })
}

/// A command, and whether it works here.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    name: &'static str,
    state: State,
}

/// Every command that something is needed for.
fn commands(checks: &[Check]) -> Vec<Command> {
    let state_of = |name: &'static str| {
        let states = checks.iter().filter_map(|check| match check.state {
            _ if check.all.contains(&name) => Some(check.state),
            State::No if check.part.contains(&name) => Some(State::Partly),
            state if check.part.contains(&name) => Some(state),
            State::Yes | State::Partly | State::No | State::Unknown => None,
        });
        states.max().unwrap_or(State::Yes)
    };
    COMMANDS.iter().map(|&name| Command { name, state: state_of(name) }).collect()
}

/// All of it for people.
fn page(facts: &Facts, checks: &[Check], commands: &[Command]) -> Result<String> {
    let mut text = format!("{}\n\n", messages::printable(&facts.heading()));
    for (state, what) in [
        (State::Yes, "works"),
        (State::Partly, "partly"),
        (State::No, "not"),
        (State::Unknown, "unknown"),
    ] {
        let of_state = commands.iter().filter(|command| command.state == state);
        let mut names: Vec<&str> = of_state.map(|command| command.name).collect();
        if state == State::Yes {
            names.extend(ALWAYS);
        }
        if !names.is_empty() {
            text += &messages::paragraph(&format!("{what:<9}"), &names.join(", "));
        }
    }
    let columns = [("state", ""), ("what", "what"), ("found", "found"), ("gives", "gives")];
    let mut table = Table::new("", &columns);
    table.dense = true;
    table.leave_first(&["gives"]);
    for check in checks {
        table.rows.push(vec![
            check.state.word().into(),
            check.what.into(),
            check.found.clone().into(),
            check.gives.into(),
        ]);
    }
    let mut printed = Vec::new();
    table.print(Format::Text, &mut printed)?;
    text += &format!("\n{}", String::from_utf8_lossy(&printed));
    let ways = checks.iter().filter_map(|check| Some((check.what, check.way.as_deref()?)));
    let ways: Vec<_> = ways.collect();
    if !ways.is_empty() {
        text += "\nWhat would bring the rest\n";
        let width = ways.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
        for (what, way) in ways {
            text += &messages::paragraph(&format!("{what:<width$}  "), way);
        }
    }
    Ok(text)
}

/// All of it for programs.
fn as_json(facts: &Facts, checks: &[Check], commands: &[Command]) -> serde_json::Value {
    let check = |check: &Check| {
        let commands = [check.all, check.part].concat();
        json!({
            "what": check.what,
            "state": check.state.word(),
            "found": check.found,
            "gives": check.gives,
            "way": check.way,
            "commands": commands,
        })
    };
    let command = |command: &Command| {
        json!({
            "command": command.name,
            "state": command.state.word(),
            "main": MAIN.contains(&command.name),
        })
    };
    let always = ALWAYS.iter().map(|&name| Command { name, state: State::Yes });
    let always: Vec<Command> = always.collect();
    json!({
        "kernel": facts.machine.kernel,
        "user": facts.rights.map(|rights| rights.user),
        "commands": commands.iter().chain(&always).map(command).collect::<Vec<_>>(),
        "checks": checks.iter().map(check).collect::<Vec<_>>(),
    })
}

/// Commands whose absence is an answer of no. `tune` is not among them: it takes root, as
/// its users know.
const MAIN: &[&str] = &["advise", "watch", "mount"];

/// Commands that something is needed for.
const COMMANDS: &[&str] = &["advise", "watch", "tune", "mount", "serve", "probe"];

/// Commands that need nothing of the machine.
const ALWAYS: &[&str] = &["reproduce", "simulate", "plan", "run", "image"];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(state: State, all: &'static [&'static str], part: &'static [&'static str]) -> Check {
        Check { all, part, ..Check::new("x", state, "") }
    }

    fn state(checks: &[Check], name: &str) -> State {
        let commands = commands(checks);
        commands.iter().find(|command| command.name == name).unwrap().state
    }

    #[test]
    fn a_command_is_as_good_as_the_worst_that_it_needs() {
        use State::{No, Partly, Unknown, Yes};
        let checks = [
            check(Yes, &["advise", "watch"], &[]),
            check(No, &["tune"], &["watch"]),
            check(Unknown, &["mount"], &["tune"]),
            check(Partly, &["mount"], &["probe"]),
        ];
        let states = ["advise", "watch", "tune", "mount", "probe"];
        let states = states.map(|name| state(&checks, name));
        assert_eq!(states, [Yes, Partly, No, Unknown, Partly]);
    }
}
