//! `forebay advise --fix`: the changes of remedies shown, asked about, and made.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use forebay_core::time::Instant;
use forebay_live::advise::fix::changes;
use forebay_live::advise::{Finding, Subject, quoted};
use forebay_live::journal::{FIXES_FOLDER, STATE_FOLDER};
use forebay_live::knob::{Change, Identity, Knob, Of, Steering, Terms};
use forebay_live::machine::Machine;
use forebay_live::tree::Tree;
use forebay_report::messages::{Complaint, complain, note, paragraph, printable};
use forebay_report::program::ERROR;

use crate::NO;
use crate::args::tune::{Place, Undo};
use crate::cmd::tune::{self, Tuned};

/// How changes are made.
pub(super) struct Answer<'a> {
    /// Whether they are made without being asked about.
    pub(super) yes: bool,
    /// The folder of their journal.
    pub(super) state: &'a Path,
}

/// Shows, asks, writes. `name` is a finding's rule or a device; empty for all.
pub(super) fn run(
    name: &str,
    answer: &Answer<'_>,
    machine: &Machine,
    findings: &[Finding],
) -> Result<u8> {
    let asked = select(name, findings)?;
    let tree = Tree::machine();
    let mut out = io::stdout().lock();
    let mut all: Vec<(String, Vec<Change>)> = Vec::new();
    let (tuned, mut is_refused) = (tuned(&tree)?, false);
    for finding in asked {
        let subject = printable(&finding.subject.to_string());
        let changes = changes(finding, machine);
        writeln!(out, "{}  {subject}", finding.id)?;
        if changes.is_empty() {
            let what = "not changed by --fix: its remedy sets more than knobs of a device";
            write!(out, "{}", paragraph("", what))?;
            continue;
        }
        for change in &changes {
            writeln!(out, "  {}", shown(change, &tree))?;
        }
        if is_tuned(&changes, &tree, &tuned) {
            is_refused = true;
            continue;
        }
        let is_window = |change: &Change| matches!(change.knob, Knob::ReadAheadKb(_));
        if changes.iter().any(is_window) {
            let what = "it takes effect when files are opened again: those that are open keep \
                        their window";
            write!(out, "{}", paragraph("", what))?;
        }
        all.push((subject, changes));
    }
    let unchanged = if is_refused { ERROR } else { NO };
    let count: usize = all.iter().map(|(_, changes)| changes.len()).sum();
    if count == 0 {
        writeln!(out, "nothing to change")?;
        return Ok(unchanged);
    }
    if !answer.yes && !is_confirmed(&mut out, count)? {
        writeln!(out, "nothing was changed")?;
        return Ok(unchanged);
    }
    let mut steering = start(&tree, answer.state)?;
    let mut is_changed = false;
    // A daemon may have changed them before the answer.
    let tuned = self::tuned(&tree)?;
    for (subject, changes) in &all {
        if is_tuned(changes, &tree, &tuned) {
            is_refused = true;
        } else {
            is_changed |= make(&mut steering, subject, changes, &mut out)?;
        }
    }
    if is_changed {
        let undo = undo_command(answer.state);
        writeln!(out, "`{undo}` puts it back, and so does a restart")?;
    }
    Ok(match (is_refused, is_changed) {
        (true, _) => ERROR,
        (false, true) => 0,
        (false, false) => NO,
    })
}

/// The command that restores the values of the journal in this folder.
fn undo_command(state: &Path) -> String {
    let undo = "forebay advise --undo";
    if state == Path::new(FIXES_FOLDER) {
        undo.to_owned()
    } else {
        format!("{undo} --state {}", printable(&quoted(state)))
    }
}

/// Restores the changed values.
pub(super) fn undo(state: &Path) -> Result<u8> {
    let place = Place { state: state.to_owned(), root: None };
    let patience = Duration::from_secs(30);
    let undo = Undo { json: false, patience, forget: false, if_ended: false, place };
    tune::undo(&undo, &tuned(&Tree::machine())?)
}

/// What `forebay tune` has changed, by the journal in its default folder.
fn tuned(tree: &Tree) -> Result<Tuned> {
    Tuned::read(Path::new(STATE_FOLDER), tree)
}

/// Whether a knob of these changes is tuned, which is an error: the value that would be recorded is
/// not the one from before.
fn is_tuned(changes: &[Change], tree: &Tree, tuned: &Tuned) -> bool {
    let knobs = changes.iter().filter_map(|Change { knob, .. }| {
        let identity = Identity::of(*knob, tree).ok()?;
        tuned.has(*knob, &identity).then_some(Of { knob: *knob, identity })
    });
    let of_tuned: Vec<Of> = knobs.collect();
    for of in &of_tuned {
        complain(&tune::tuned_complaint(of, "then fix again"));
    }
    !of_tuned.is_empty()
}

/// The findings of a rule or a device.
fn select<'a>(name: &str, findings: &'a [Finding]) -> Result<Vec<&'a Finding>> {
    let is_asked = |finding: &&Finding| {
        let is_number = matches!(&finding.subject,
            Subject::Device { number, .. } if number.to_string() == name);
        name.is_empty() || finding.id == name || device(finding) == Some(name) || is_number
    };
    let asked: Vec<&Finding> = findings.iter().filter(is_asked).collect();
    if !asked.is_empty() || name.is_empty() {
        return Ok(asked);
    }
    let what = format!("no advice is called '{name}', and none is about a device of that name");
    let complaint = Complaint::new(what).at("--fix");
    if findings.is_empty() {
        return Err(complaint.hint("`forebay advise` has nothing to advise here").into());
    }
    let known = findings.iter().flat_map(|finding| [Some(finding.id), device(finding)]);
    let known: BTreeSet<&str> = known.flatten().collect();
    Err(complaint.nearest(name, known.into_iter()).into())
}

fn device(finding: &Finding) -> Option<&str> {
    match &finding.subject {
        Subject::Device { name, .. } => Some(name),
        Subject::Process { .. } | Subject::File { .. } | Subject::Machine => None,
    }
}

/// A change as it will be: the knob, its present value, the new one, and the file.
fn shown(change: &Change, tree: &Tree) -> String {
    let Change { knob, to, .. } = change;
    let from = knob.read(tree).map_or_else(|error| error.to_string(), |from| knob.show(from));
    format!("{}: {from} -> {} ({})", knob.rule().meaning, knob.show(*to), knob.path(*to))
}

fn is_confirmed(out: &mut impl Write, count: usize) -> io::Result<bool> {
    let what = if count == 1 { "this change" } else { "these changes" };
    write!(out, "make {what}? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    if io::stdin().lock().read_line(&mut answer)? == 0 {
        writeln!(out)?;
    }
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn start(tree: &Tree, state: &Path) -> Result<Steering> {
    let held = "another `forebay advise --fix` runs; try again";
    let (steering, began) = Steering::lasting(tree, state, Terms::default())
        .map_err(|error| tune::start_complaint(&error, state, held))?;
    began.notes.iter().for_each(|found| note(&found.to_string()));
    Ok(steering)
}

/// Makes the changes of one finding, all of them or none; whether they were made.
fn make(
    steering: &mut Steering,
    subject: &str,
    changes: &[Change],
    out: &mut impl Write,
) -> Result<bool> {
    let mut made: Vec<Knob> = Vec::new();
    for change in changes {
        match steering.set(change, Instant::ZERO) {
            Ok(applied) => {
                let knob = change.knob;
                let (from, to) = (knob.show(applied.before), knob.show(applied.read_back));
                writeln!(out, "{subject}: {}: {from} -> {to}", knob.rule().meaning)
                    .context("cannot write what was changed")?;
                made.push(knob);
            }
            Err(refused) => {
                note(&format!("{subject} is left as it was: {refused}"));
                for knob in made.drain(..) {
                    steering.restore(knob, "the rest of the remedy could not be written");
                }
                return Ok(false);
            }
        }
    }
    Ok(true)
}
