//! `forebay advise`: what should be otherwise on this machine, on one page.

use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use forebay_core::time;
use forebay_live::advise::{Finding, Gatherer, Seen, Severity, Subject, Traced, Value, advise};
use forebay_live::machine::record;
use forebay_live::tree::Tree;
use forebay_report::messages::{Complaint, paragraph, printable};
use serde_json::json;

use crate::NO;
use crate::args::live::Advise;

mod fix;

/// Examines the machine and prints the findings.
pub(crate) fn run(arguments: &Advise) -> Result<u8> {
    if let Some(into) = &arguments.record {
        record::record(&Tree::machine(), into).map_err(|error| {
            Complaint::new(format!("cannot record into '{}': {}", into.display(), error.source))
                .hint("it takes a folder that is not there yet")
        })?;
        return Ok(0);
    }
    if arguments.undo {
        return fix::undo(&arguments.state);
    }
    let tree = tree(arguments)?;
    let seen = match arguments.watch {
        None => Gatherer::new(&tree).finish(time::Instant::ZERO),
        Some(length) => watch(&tree, length)?,
    };
    let findings = advise(&seen);
    if let Some(name) = &arguments.fix {
        let answer = fix::Answer { yes: arguments.yes, state: &arguments.state };
        return fix::run(name, &answer, &seen.machine, &findings);
    }
    let text = if arguments.json {
        format!("{:#}\n", as_json(&seen, &findings))
    } else {
        page(&seen, &findings)
    };
    io::stdout().lock().write_all(text.as_bytes()).context("cannot write the findings")?;
    Ok(if findings.is_empty() { 0 } else { NO })
}

/// This machine, or the one that was typed.
fn tree(arguments: &Advise) -> Result<Tree> {
    let Some(root) = &arguments.root else { return Ok(Tree::machine()) };
    if arguments.watch.is_some() {
        let complaint =
            Complaint::new("--watch needs the machine itself: a recorded one stands still");
        return Err(complaint.hint("leave out --root or --watch").into());
    }
    recorded(root)
}

/// A recorded machine.
pub(crate) fn recorded(root: &Path) -> Result<Tree> {
    let unread = |error: forebay_live::tree::Unread| {
        let complaint =
            Complaint::new(format!("'{}' is no recorded machine: {error}", root.display()));
        complaint.hint("`forebay advise --record DIR` records one")
    };
    Ok(Tree::recorded(root).map_err(unread)?)
}

/// A look each second, and one at the end.
fn watch(tree: &Tree, length: Duration) -> Result<Seen> {
    let mut gatherer = Gatherer::new(tree);
    let begin = Instant::now();
    let since = || {
        let nanos = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // The origin means a machine that was not watched.
        time::Instant(nanos.max(1))
    };
    let mut traced = Traced::new();
    gatherer.tick(since())?;
    let mut next = Duration::ZERO;
    while next < length {
        next = (next + Duration::from_secs(1)).min(length);
        thread::sleep(next.saturating_sub(begin.elapsed()));
        gatherer.tick(since())?;
        if let Ok(trace) = &mut traced
            && let Err(error) = trace.tick(tree)
        {
            traced = Err(error);
        }
    }
    let guessed = match traced {
        Ok(trace) => {
            gatherer.traced(trace.finish());
            None
        }
        Err(error) => {
            let hint = if error.is_denied() { "; root may" } else { "" };
            Some(format!(
                "no events of files: {error}{hint}; which file a process reads is guessed by its \
                 mappings"
            ))
        }
    };
    let mut seen = gatherer.finish(since());
    seen.gaps.extend(guessed);
    Ok(seen)
}

/// All of it for people.
fn page(seen: &Seen, findings: &[Finding]) -> String {
    let machine = &seen.machine;
    let mut text = format!(
        "Linux {}, {} MiB of memory, {}",
        printable(&machine.kernel),
        machine.memory >> 20,
        plural(machine.devices.len(), "backing device")
    );
    if seen.watched > 0 {
        text += &format!(", watched {} s", seen.watched);
    }
    text += "\n";
    text += &match findings.len() {
        0 => "nothing to advise\n".to_owned(),
        _ => format!("{}\n", counted(findings)),
    };
    for finding in findings {
        text += &block(finding);
    }
    if !seen.gaps.is_empty() {
        text += "\nnot seen\n";
        for gap in &seen.gaps {
            text += &paragraph("- ", gap);
        }
    }
    text
}

fn counted(findings: &[Finding]) -> String {
    let all = [Severity::Problem, Severity::Risk, Severity::Note];
    let counts = all.map(|it| (findings.iter().filter(|one| one.severity == it).count(), it));
    let shown = counts.into_iter().filter(|(count, _)| *count > 0);
    shown.map(|(count, it)| plural(count, it.name())).collect::<Vec<_>>().join(", ")
}

fn plural(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

fn block(finding: &Finding) -> String {
    let subject = printable(&finding.subject.to_string());
    let mut text = format!("\n{}  {}  {subject}\n", finding.severity.name(), finding.id);
    text += &paragraph("", &finding.summary);
    let evidence: Vec<String> = finding.evidence.iter().map(ToString::to_string).collect();
    text += &paragraph("seen    ", &evidence.join("; "));
    let gain = finding.gain.as_ref().map_or("not measured".to_owned(), ToString::to_string);
    text += &paragraph("gain    ", &gain);
    text += &paragraph("cost    ", &finding.cost.to_string());
    for (at, line) in finding.remedy.iter().enumerate() {
        // A command that is broken into lines cannot be copied.
        let label = if at == 0 { "remedy  " } else { "        " };
        text += &format!("  {label}{}\n", printable(line));
    }
    text
}

/// All of it for programs.
fn as_json(seen: &Seen, findings: &[Finding]) -> serde_json::Value {
    json!({
        "kernel": seen.machine.kernel,
        "memory_bytes": seen.machine.memory,
        "watched_seconds": seen.watched,
        "findings": findings.iter().map(finding_json).collect::<Vec<_>>(),
        "gaps": seen.gaps,
    })
}

fn finding_json(finding: &Finding) -> serde_json::Value {
    let evidence = finding.evidence.iter().map(|it| {
        let value = match &it.value {
            Value::Count(count) => json!(count),
            Value::Word(word) => json!(word),
        };
        json!({ "name": it.name, "value": value, "unit": it.unit })
    });
    let gain = finding.gain.as_ref().map(|gain| {
        let ratio = gain.ratio_tenths as f64 / 10.0;
        json!({ "ratio": ratio, "basis": gain.basis, "known": gain.known.words() })
    });
    let cost = json!({ "what": finding.cost.what, "known": finding.cost.known.words() });
    json!({
        "id": finding.id,
        "severity": finding.severity.name(),
        "subject": subject_json(&finding.subject),
        "summary": finding.summary,
        "evidence": evidence.collect::<Vec<_>>(),
        "gain": gain,
        "cost": cost,
        "remedy": finding.remedy,
    })
}

fn subject_json(subject: &Subject) -> serde_json::Value {
    match subject {
        Subject::Device { name, number } => {
            json!({ "kind": "device", "name": name, "number": number.to_string() })
        }
        Subject::Process { pid, name, file } => {
            json!({ "kind": "process", "pid": pid, "name": name, "file": file })
        }
        Subject::File { path } => json!({ "kind": "file", "path": path }),
        Subject::Machine => json!({ "kind": "machine" }),
    }
}
