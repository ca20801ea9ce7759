//! `forebay policies`: what can fill each slot. A table of it is wider than a terminal: as text it
//! is a list.

use std::io::{self, Write};

use anyhow::{Context, Result};
use forebay_core::control::Controller;
use forebay_core::dispatch::Dispatch;
use forebay_core::elevator::Elevator;
use forebay_core::flush::Flush;
use forebay_core::packed::Fill;
use forebay_core::policy::Slot;
use forebay_core::readahead::Readahead;
use forebay_core::reclaim::Reclaim;
use forebay_core::throttle::Throttle;
use forebay_report::messages::paragraph;
use forebay_report::table::{Format, Table};

use crate::args::Policies;

/// Prints the policies, slot by slot.
pub(crate) fn run(arguments: &Policies) -> Result<u8> {
    let mut out = io::stdout().lock();
    if arguments.output.format() == Format::Text {
        out.write_all(text().as_bytes()).context("cannot write the list")?;
        return Ok(0);
    }
    let columns = [
        ("slot", "slot"),
        ("name", "name"),
        ("summary", "what it does"),
        ("parameters", "parameters"),
        ("source", "source"),
    ];
    let mut table = Table::new("", &columns);
    list::<dyn Readahead>(&mut table);
    list::<dyn Flush>(&mut table);
    list::<dyn Controller>(&mut table);
    list::<dyn Throttle>(&mut table);
    list::<dyn Reclaim>(&mut table);
    list::<dyn Elevator>(&mut table);
    list::<dyn Dispatch>(&mut table);
    list::<dyn Fill>(&mut table);
    table.notes.extend(NOTES.iter().map(|&note| note.to_owned()));
    table.print(arguments.output.format(), &mut out)?;
    Ok(0)
}

fn list<T: Slot + ?Sized>(table: &mut Table) {
    for policy in T::policies() {
        let parameters = policy.parameters.iter();
        let parameters = parameters.map(|one| format!("{}={}", one.name, one.default));
        table.rows.push(vec![
            T::NAME.into(),
            policy.name.into(),
            policy.summary.into(),
            parameters.collect::<Vec<_>>().join(",").into(),
            policy.source.into(),
        ]);
    }
}

fn text() -> String {
    let mut text = String::new();
    slot::<dyn Readahead>(&mut text);
    slot::<dyn Flush>(&mut text);
    slot::<dyn Controller>(&mut text);
    slot::<dyn Throttle>(&mut text);
    slot::<dyn Reclaim>(&mut text);
    slot::<dyn Elevator>(&mut text);
    slot::<dyn Dispatch>(&mut text);
    slot::<dyn Fill>(&mut text);
    for note in NOTES {
        text += &paragraph("- ", note);
    }
    text
}

fn slot<T: Slot + ?Sized>(text: &mut String) {
    *text += &format!("{}\n", T::NAME);
    for policy in T::policies() {
        *text += &paragraph(&format!("{:<22}", policy.name), policy.summary);
        let parameters = policy.parameters.iter();
        let parameters: Vec<String> =
            parameters.map(|one| format!("{}={}", one.name, one.default)).collect();
        let between = if parameters.is_empty() { "" } else { "; " };
        let words = format!("{}{between}from {}", parameters.join(", "), policy.source);
        *text += &paragraph(&" ".repeat(22), &words);
    }
    text.push('\n');
}

/// What holds for all of them.
pub(crate) const NOTES: &[&str] = &[
    "A policy is typed as NAME or NAME:PARAMETER=VALUE,...; limits of the device (max, io, folios) \
     are set from the device unless they are given. The limits shown are for a device of 128 KiB; \
     under simulate they follow the machine's kernel.read_ahead_kb.",
    "bdflush-2.2.19 also takes the nine integers of its file in /proc: \
     \"bdflush-2.2.19:100 1200 128 512 15 5000 500 1884 2\".",
    "Fill rules apply to packed files, the files of compressed images. The files of a job are not \
     packed, so simulate and run accept no fill rule.",
];
