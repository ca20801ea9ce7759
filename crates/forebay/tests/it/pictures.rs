//! The pictures of the README: what commands print, drawn as a terminal shows it.
//!
//! ```text
//!   advise.svg     what `advise` prints of a recorded machine, drawn anew by each run of the test
//!   watch.svg      watch.txt, a screen that was captured from a run
//!   verdicts.svg   the block of the README, which a test of the README compares with a run
//! ```

use std::fmt::Write;
use std::fs;
use std::path::Path;

use snapbox::data::DataFormat;
use snapbox::{Assert, Data};

use crate::support::Scene;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A terminal with a text in it.
fn svg(title: &str, text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0).max(60);
    let width = columns as f64 * CHARACTER + 2.0 * MARGIN;
    let height = lines.len() as f64 * LINE + 2.0 * MARGIN + BAR;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#14171a\"/>\n\
         <text x=\"{MARGIN}\" y=\"22\" fill=\"#9aa4af\" {FONT}>$ {title}</text>\n",
        title = escaped(title),
    );
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let y = BAR + MARGIN + at as f64 * LINE + 12.0;
        writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y:.0}\" fill=\"#e4e7ea\" xml:space=\"preserve\" \
             {FONT}>{}</text>",
            spans(line)
        )
        .expect("a string takes everything");
    }
    svg + "</svg>\n"
}

/// The line with its words of praise and blame in their colours.
fn spans(line: &str) -> String {
    let mut text = escaped(line);
    for (color, words) in COLORS {
        for word in words {
            let of_line = ["SIZE DIFFERS", "ALONE ONLY", "HOLDS", "MOSTLY", "FAILS"].contains(word)
                && text.ends_with(word)
                || text.starts_with(&format!("{word} "));
            if of_line {
                let span = format!("<tspan font-weight=\"bold\" fill=\"{color}\">{word}</tspan>");
                text = text.replacen(word, &span, 1);
                return text;
            }
        }
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Compares a picture with its file; `SNAPSHOTS=overwrite` draws it anew.
fn matches(picture: &str, name: &str) {
    let path = Path::new(ROOT).join("docs/images").join(name);
    let expected = Data::read_from(&path, Some(DataFormat::Text)).raw();
    Assert::new().action_env("SNAPSHOTS").eq(picture.to_owned(), expected);
}

#[test]
fn the_picture_of_advise_is_what_advise_prints() {
    let scene = Scene::new();
    let machine = format!("{ROOT}/crates/forebay-live/tests/machines/vm-6.18-virtio");
    let mut command = scene.command("advise --root");
    let output = command.arg(machine).output().expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("what is printed is text");
    let cut = |line: &str| match line.chars().count() {
        0..=COLUMNS => line.to_owned(),
        _ => line.chars().take(COLUMNS - 1).chain(['…']).collect(),
    };
    let first: Vec<String> = text.lines().take(ADVISE_LINES).map(cut).collect();
    matches(&svg("forebay advise", &first.join("\n")), "advise.svg");
}

#[test]
fn the_picture_of_watch_is_a_captured_screen() {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/images/watch.txt"));
    matches(&svg("sudo forebay watch", &text.expect("the screen is there")), "watch.svg");
}

#[test]
fn the_picture_of_the_verdicts_is_the_block_of_the_readme() {
    let page = fs::read_to_string(Path::new(ROOT).join("README.md")).expect("there is a README");
    let command = "$ forebay reproduce\n";
    let (_, block) = page.split_once(command).expect("the README shows the verdicts");
    let (text, _) = block.split_once("\n\n").expect("the table ends at an empty line");
    let total = block.lines().find(|line| line.contains("figures agree")).expect("there is a sum");
    matches(&svg("forebay reproduce", &format!("{text}\n\n{total}")), "verdicts.svg");
}

/// Pixels of a character, of a line, around the text, and above it.
const CHARACTER: f64 = 7.25;
const LINE: f64 = 17.0;
const MARGIN: f64 = 16.0;
const BAR: f64 = 22.0;

const FONT: &str = "font-family=\"ui-monospace,Menlo,DejaVu Sans Mono,monospace\" font-size=\"12\"";

/// Longer lines, commands to be copied, are cut.
const COLUMNS: usize = 100;

/// What of it is shown: the first findings.
const ADVISE_LINES: usize = 24;

const COLORS: [(&str, &[&str]); 3] = [
    ("#62c48c", &["HOLDS", "MOSTLY", "note"]),
    ("#d9b13b", &["SIZE DIFFERS", "ALONE ONLY", "risk"]),
    ("#f08a6c", &["FAILS", "problem"]),
];
