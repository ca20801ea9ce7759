//! Compares an image with a directory or another image.

use std::fmt::Write;
use std::mem;

use anyhow::{Context, Result};
use forebay_image::compare::{
    Difference, Folder, Kept, Precision, Report, Side, compare, unreadable,
};
use forebay_image::walk::{Limits, Tree};
use forebay_image::{Options, shown};
use forebay_report::messages::{self, note, progress};
use forebay_report::page::{Destination, beside};
use forebay_report::program::answered;
use forebay_report::units;
use serde_json::{Map, Value, json};

use super::{Place, open, open_at, print, show};
use crate::NO;
use crate::args::image::Compare;

mod page;

/// Compares and prints each difference.
pub(super) fn run(arguments: &Compare) -> Result<u8> {
    let destination = Destination::named(arguments.page.html.as_deref())?;
    let image = open(&arguments.opened)?;
    let offset = units::bytes("--other-offset", &arguments.other_offset)?;
    let limits = Limits::default();
    let mut tree = Tree::whole(&*image, limits);
    let mut faults = mem::take(&mut tree.faults);
    let first = Side::Image(&*image, &tree);
    let (kept, mut report);
    if arguments.other.is_dir() {
        let name = arguments.other.display();
        let folder = Folder::open(&arguments.other, limits);
        let mut folder = folder.with_context(|| format!("cannot read '{name}'"))?;
        faults.append(&mut folder.tree_mut().faults);
        (kept, report) = compared(arguments, first, Side::Folder(&folder));
    } else {
        let options = Options { lenient: arguments.opened.lenient };
        let (path, cache) = (arguments.other.as_path(), crate::objects::CACHE);
        let place = Place { path, flag: "--other-offset", offset, cache };
        let other = open_at(&place, options)?;
        let mut other_tree = Tree::whole(&*other, limits);
        faults.append(&mut other_tree.faults);
        (kept, report) = compared(arguments, first, Side::Image(&*other, &other_tree));
    }
    report.differences.splice(0..0, unreadable(faults));
    let outside =
        report.differences.iter().filter(|(_, difference)| is_outside(difference)).count();
    if kept.times == Precision::Seconds && outside > 0 {
        note(&format!("times before 1970 or after 2106, which squashfs cannot keep: {outside}"));
    }
    let text = if arguments.answer.json {
        format!("{:#}\n", object(&report, kept))
    } else {
        text(&report, kept)
    };
    let between = [&arguments.opened.image, &arguments.other].map(|path| messages::shown(path));
    let page = || page::of(&report, kept, between);
    let code = if report.differences.is_empty() { 0 } else { NO };
    answered(code, beside(print(&text, "report"), destination.as_ref(), page))
}

fn compared(arguments: &Compare, first: Side<'_>, second: Side<'_>) -> (Kept, Report) {
    let kept = first.kept().and(second.kept());
    let bar = progress(first.tree().items().len() as u64, "comparing");
    let report = compare(first, second, kept, arguments.threads.count(), &|names| bar.inc(names));
    bar.finish_and_clear();
    (kept, report)
}

/// Whether it is a time that squashfs cannot keep.
fn is_outside(difference: &Difference) -> bool {
    match difference {
        Difference::Time(a, b) => [a, b].iter().any(|time| u32::try_from(time.seconds).is_err()),
        Difference::OnlyFirst
        | Difference::OnlySecond
        | Difference::Kind(..)
        | Difference::Size(..)
        | Difference::Bytes(..)
        | Difference::Mode(..)
        | Difference::Owner(..)
        | Difference::Xattr(..)
        | Difference::Device(..)
        | Difference::Target(..)
        | Difference::Links(..)
        | Difference::Unreadable(..) => false,
    }
}

/// The attributes that are not compared because one of them does not store them.
fn left_out(kept: Kept) -> Vec<&'static str> {
    let mut names = Vec::new();
    match kept.times {
        Precision::None => names.push("times"),
        Precision::Seconds => names.push("fractions of seconds"),
        Precision::Nanos => {}
    }
    names.extend((!kept.links).then_some("hard links"));
    names.extend((!kept.xattrs).then_some("extended attributes"));
    names
}

fn text(report: &Report, kept: Kept) -> String {
    let mut text = String::new();
    for (path, difference) in &report.differences {
        let (kind, detail) = (difference.kind(), difference.detail());
        let between = if detail.is_empty() { "" } else { ": " };
        writeln!(text, "/{}: {kind}{between}{detail}", shown(path)).expect("a string takes it");
    }
    let mut rows = vec![
        ("names", report.names.to_string()),
        ("bytes", report.bytes.to_string()),
        ("differences", report.differences.len().to_string()),
    ];
    let left_out = left_out(kept);
    if !left_out.is_empty() {
        rows.push(("not compared", left_out.join(", ")));
    }
    text + &show::columns(&rows)
}

fn object(report: &Report, kept: Kept) -> Value {
    let difference = |(path, difference): &(Vec<u8>, Difference)| {
        let mut object = Map::new();
        show::put_name(&mut object, "path", &show::absolute(path));
        object.insert("kind".to_owned(), difference.kind().into());
        object.insert("detail".to_owned(), difference.detail().into());
        Value::Object(object)
    };
    json!({
        "names": report.names,
        "bytes": report.bytes,
        "not_compared": left_out(kept),
        "differences": report.differences.iter().map(difference).collect::<Vec<_>>(),
    })
}
