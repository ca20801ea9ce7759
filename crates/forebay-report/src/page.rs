//! A result as one page of HTML: figures, tables and words, readable without a network, without
//! scripts, in the light and in the dark, on a phone and on paper.
//!
//! ```text
//!   Table ------------------> table     every cell of the JSON, what is common said once
//!   Figure (data) -- scale -> chart     an SVG element; its colours are names of the style sheet
//!   docs/papers/*.md -------> prose     sections of a page as they are in the documentation
//!                               |
//!   Page (one string) <---------+------> Destination: there as a whole or not at all
//! ```
//!
//! This module has the common parts of all pages; each command adds its own content.

use std::env;
use std::fmt::Write;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use forebay_live::input;

use crate::messages::{self, Complaint, shown};
use crate::screen::Mood;
use crate::table::Table;
use crate::whole;

use mark::DOCTYPE;
use palette::Palette;

pub use figure::{Axis, Figure, Join, Layout, Point, Scale, Series};
pub use heat::{HeatAxis, HeatCell, HeatMap};
pub use prose::Extent;
pub use table::Digits;

mod chart;
mod figure;
mod heat;
mod ink;
mod legend;
mod mark;
mod palette;
mod prose;
mod scale;
mod table;

/// Whether an HTML page is written as well as the table.
#[derive(Debug, Args)]
pub struct PageChoice {
    /// Also write an HTML page with charts and every row; it needs no network
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// A page that grows from its top to its end.
#[derive(Debug)]
pub struct Page {
    html: String,
    /// Figures that found no room.
    left_out: usize,
    /// The colours of policies.
    palette: Palette,
}

impl Page {
    /// A page with nothing but its name, and the command that makes it again.
    pub fn new(title: &str, facts: &[(&str, String)]) -> Self {
        let mut page = Self { html: String::new(), left_out: 0, palette: Palette::default() };
        page.put(format_args!(
            "{DOCTYPE}\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n",
            title = escaped(title),
        ));
        let command = command_line(env::args_os().map(|word| word.to_string_lossy().into_owned()));
        page.put(format_args!(
            "<p class=\"repeat\"><span>Made by</span> <code>{}</code></p>\n",
            escaped(&command)
        ));
        page.facts(facts);
        page.html.push_str("</header>\n<main>\n");
        page
    }

    /// A part of the page, with a name that links can use.
    pub fn part(&mut self, id: &str, heading: &str, below: &str) {
        self.put(format_args!("<h2 id=\"{}\">{}</h2>\n", escaped(id), escaped(heading)));
        if !below.is_empty() {
            self.put(format_args!("<p class=\"below\">{}</p>\n", escaped(below)));
        }
    }

    /// A heading inside a part.
    pub fn heading(&mut self, text: &str) {
        self.put(format_args!("<h3>{}</h3>\n", escaped(text)));
    }

    /// A paragraph of plain words.
    pub fn paragraph(&mut self, text: &str) {
        if !text.is_empty() {
            self.put(format_args!("<p>{}</p>\n", escaped(text)));
        }
    }

    /// A verdict and the sentence that goes with it.
    pub fn verdict(&mut self, badge: &str, mood: Mood, sentence: &str) {
        let class = match mood {
            Mood::Good => "yes",
            Mood::Mixed => "part",
            Mood::Bad => "no",
        };
        self.put(format_args!(
            "<p class=\"verdict\"><strong class=\"badge {class}\">{}</strong> {}</p>\n",
            escaped(badge),
            escaped(sentence)
        ));
    }

    /// Lines below a table, as they are printed below it.
    pub fn notes(&mut self, notes: &[String]) {
        let notes: Vec<&String> = notes.iter().filter(|note| !note.is_empty()).collect();
        if notes.is_empty() {
            return;
        }
        self.html.push_str("<ul class=\"notes\">\n");
        for note in notes {
            self.put(format_args!("<li>{}</li>\n", escaped(note)));
        }
        self.html.push_str("</ul>\n");
    }

    /// Names with their values.
    pub fn facts(&mut self, facts: &[(&str, String)]) {
        self.html.push_str("<dl class=\"facts\">\n");
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            self.put(format_args!(
                "<div><dt>{}</dt><dd>{}</dd></div>\n",
                escaped(name),
                escaped(value)
            ));
        }
        self.html.push_str("</dl>\n");
    }

    /// Links to parts of the page.
    pub fn links<'a>(&mut self, links: impl IntoIterator<Item = &'a str>) {
        self.html.push_str("<nav>");
        for id in links {
            self.put(format_args!("<a href=\"#{0}\">{0}</a> ", escaped(id)));
        }
        self.html.push_str("</nav>\n");
    }

    /// A section of a page of the documentation, without its heading; nothing if it has none.
    pub fn section(&mut self, markdown: &str, heading: &str, extent: Extent) {
        self.html.push_str(&prose::section(markdown, heading, extent));
    }

    /// A part that a line opens. It is in the page for search and print.
    pub fn folded(&mut self, summary: &str, fill: impl FnOnce(&mut Self)) {
        self.put(format_args!("<details><summary>{}</summary>\n", escaped(summary)));
        fill(self);
        self.html.push_str("</details>\n");
    }

    /// A table. Rows for which a page has no room are counted below it.
    pub fn table(&mut self, table: &Table, caption: &str, digits: Digits) {
        table::put(&mut self.html, table, caption, digits, TABLES_END);
    }

    /// Adjacent figures, as many as there is space for.
    pub fn figures<'a>(&mut self, figures: impl IntoIterator<Item = &'a Figure>) {
        let mut drawn = String::new();
        for figure in figures.into_iter().filter(|figure| !figure.is_empty()) {
            let figure = chart::html(figure, &mut self.palette);
            if self.html.len() + drawn.len() + figure.len() > FIGURES_END {
                self.left_out += 1;
            } else {
                drawn += &figure;
            }
        }
        if !drawn.is_empty() {
            self.put(format_args!("<div class=\"figures\">\n{drawn}</div>\n"));
        }
    }

    /// A heat map. Rows for which a page has no room are counted below it.
    pub fn heat_map(&mut self, map: &HeatMap) {
        heat::put(&mut self.html, map, FIGURES_END);
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        if self.left_out > 0 {
            let left_out = self.left_out;
            self.paragraph(&format!("{left_out} more figures would make the page too long."));
        }
        self.put(format_args!(
            "</main>\n<footer><p>forebay {}. Points of a figure have their numbers under the \
             pointer; every number is in a table.</p></footer>\n",
            env!("CARGO_PKG_VERSION"),
        ));
        mark::end(&mut self.html);
        self.html
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.html.write_fmt(text).expect("a string takes everything");
    }
}

/// Where a page goes.
#[derive(Debug)]
pub struct Destination(PathBuf);

impl Destination {
    /// The file of a name, which must be one that can be written; said before anything runs.
    pub fn named(path: Option<&Path>) -> Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        let shown = shown(path);
        if path == Path::new("-") {
            let what = "--html -: standard output has the table";
            bail!(Complaint::new(what).hint("name a file, such as report.html"));
        }
        if path.file_name().is_none() || path.is_dir() {
            let what = format!("--html {shown}: a directory, or nothing that a file can be named");
            bail!(Complaint::new(what).hint("name a file, such as report.html"));
        }
        whole::has_folder("--html", path)?;
        if is_standard_output(path) {
            let what = format!("--html {shown}: standard output goes there and has the table");
            bail!(Complaint::new(what).hint("name another file, such as report.html"));
        }
        if !is_free_or_page(path) {
            let there = "it exists, and is no page, or one that was changed since it was written";
            let what = format!("--html {shown}: {there}");
            bail!(Complaint::new(what).hint("name another file; only a page of ours is replaced"));
        }
        if let Err(error) = whole::try_out(path) {
            let what = format!("--html {shown}: no file can be made there: {error}");
            let is_link = path.is_symlink() && error.kind() == ErrorKind::NotFound;
            let hint = if is_link {
                "remove the link, or name another file"
            } else {
                "name a file in a folder that you may write"
            };
            bail!(Complaint::new(what).hint(hint));
        }
        Ok(Some(Self(path.to_owned())))
    }

    /// Writes the page and says where it is.
    fn write(&self, page: Page) -> Result<()> {
        whole::write(&self.0, page.finish().as_bytes())?;
        messages::note(&format!("the page is {}", shown(&self.0)));
        Ok(())
    }
}

/// Writes the page, if there is to be one, after the table was printed or could not be: neither is
/// lost with the other.
pub fn beside(
    printed: Result<()>,
    destination: Option<&Destination>,
    page: impl FnOnce() -> Page,
) -> Result<()> {
    let written = destination.map_or(Ok(()), |destination| destination.write(page()));
    written.and(printed)
}

/// The machine of measurements in real time.
pub fn this_machine() -> Vec<(&'static str, String)> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("", |(_, model)| model);
    vec![
        ("kernel", format!("Linux {}", kernel.trim())),
        ("processors", format!("{processors} {model}").trim().to_owned()),
    ]
}

/// Text that is only text, between tags and inside of quotes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(' '),
            // No text of HTML may hold them.
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// The words of a command as a shell takes them.
fn command_line(words: impl Iterator<Item = String>) -> String {
    let mut shown = vec!["forebay".to_owned()];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    for word in words.skip(1) {
        let plain = !word.is_empty() && word.chars().all(is_plain);
        shown.push(if plain { word } else { format!("'{}'", word.replace('\'', "'\\''")) });
    }
    shown.join(" ")
}

/// Whether nothing is lost if a page takes this name.
fn is_free_or_page(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else { return true };
    let bytes = if found.is_file() { input::bytes(path, BYTES_MAX).ok() } else { None };
    bytes.is_some_and(|bytes| bytes.is_empty() || mark::is_as_written(&bytes))
}

/// Whether the path is one of the file that standard output is.
fn is_standard_output(path: &Path) -> bool {
    let output = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let output = output.and_then(|output| output.metadata());
    let same =
        |one: Metadata, other: Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
    fs::metadata(path).is_ok_and(|found| output.is_ok_and(|output| same(found, output)))
}

const STYLE: &str = include_str!("page/style.css");

/// No figure ends behind this byte, so that there is room for tables.
const FIGURES_END: usize = 1_900_000;

/// No row ends behind this byte: a page has less than 3 MB.
const TABLES_END: usize = 2_800_000;

/// No page is as long.
const BYTES_MAX: u64 = 3_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Cell;

    const NASTY: &str = "a<b>&\"c\"'d'\u{1b}";

    #[test]
    fn nothing_that_is_named_becomes_a_tag() {
        assert_eq!(escaped(NASTY), "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;\u{fffd}");
        let mut page = Page::new(NASTY, &[(NASTY, NASTY.to_owned())]);
        page.part(NASTY, NASTY, NASTY);
        page.heading(NASTY);
        page.paragraph(NASTY);
        page.notes(&[NASTY.to_owned()]);
        page.links([NASTY]);
        page.folded(NASTY, |page| page.paragraph(NASTY));
        let mut table = Table::new(NASTY, &[("a", "a")]);
        table.rows.push(vec![Cell::from(NASTY)]);
        page.table(&table, NASTY, Digits::All);
        page.figures([&figure::tests::small(NASTY)]);
        page.heat_map(&heat::tests::small(NASTY, &[Some(1.0), Some(2.0)]));
        let html = page.finish();
        assert!(!html.contains("a<b") && !html.contains("b>&\""), "{html}");
        assert!(html.contains("a&lt;b&gt;&amp;"));
    }

    #[test]
    fn a_command_can_be_typed_again() {
        let words = ["/usr/bin/forebay", "simulate", "my job's.fio", "--set", "a=1", ""];
        let shown = command_line(words.into_iter().map(str::to_owned));
        assert_eq!(shown, r"forebay simulate 'my job'\''s.fio' --set a=1 ''");
    }

    #[test]
    fn a_page_is_never_long() {
        let mut page = Page::new("long", &[]);
        let figure = figure::tests::small("figure");
        page.figures(std::iter::repeat_n(&figure, 2_000));
        let mut table = Table::new("", &[("name", "name"), ("place", "place")]);
        table.rows = (0..100_000).map(|n| vec!["x".repeat(40).into(), Cell::Count(n)]).collect();
        page.table(&table, "long", Digits::All);
        page.table(&table, "longer", Digits::All);
        let html = page.finish();
        assert!(html.len() < 3_000_000, "{}", html.len());
        assert!(html.contains("of 100000 rows"), "what is left out is said");
        assert!(html.contains("more figures would make the page too long"));
        assert!(html.ends_with("</html>\n"));
    }

    #[test]
    fn only_a_page_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.fio");
        fs::write(&path, "[job]\n").unwrap();
        let error = Destination::named(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("no page") && error.contains("hint: "), "{error}");
        let page = Page::new("page", &[]).finish();
        fs::write(&path, &page).unwrap();
        assert!(Destination::named(Some(&path)).unwrap().is_some());
        fs::write(&path, page.replacen("</main>", "<p>mine</p></main>", 1)).unwrap();
        assert!(Destination::named(Some(&path)).is_err(), "a reader's own words are kept");
        for bad in ["-", "/", "/dev/null", "absent/page.html", "."] {
            assert!(Destination::named(Some(Path::new(bad))).is_err(), "{bad}");
        }
        assert!(Destination::named(None).unwrap().is_none());
    }

    #[test]
    fn neither_page_nor_table_is_lost_with_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let destination = Destination::named(Some(&path)).unwrap();
        let page = || Page::new("page", &[]);
        let lost = || Err(anyhow::anyhow!("the table"));
        let said = beside(lost(), destination.as_ref(), page).unwrap_err().to_string();
        assert_eq!((said.as_str(), path.exists()), ("the table", true));
        assert!(beside(Ok(()), None, page).is_ok());
        drop(folder);
        assert!(beside(Ok(()), destination.as_ref(), page).is_err());
    }

    #[test]
    fn a_page_loads_nothing() {
        let mut page = Page::new("page", &[]);
        page.figures([&figure::tests::small("figure")]);
        let html = page.finish();
        for load in ["http:", "https:", "src=", "url(", "@import", "<script"] {
            assert!(!html.contains(load), "{load}");
        }
    }
}
