//! A help text that can be shown on a screen or written as a manual page.
//!
//! ```text
//!   heading          SIZES: --memory                  .SH
//!   name               readahead                      .SS
//!   lines                k K      1024 bytes          as they are
//!   paragraph          label      words, filled up    .IP, filled by the formatter
//! ```

use clap_mangen::roff::{Roff, roman};
use forebay_report::messages;

/// A text of headings, lines and paragraphs.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Heading(String),
    Name(String),
    Line(String),
    Paragraph { label: String, words: String },
}

impl Sheet {
    /// Starts a section.
    pub(super) fn heading(&mut self, text: &str) {
        self.parts.push(Part::Heading(text.to_owned()));
    }

    /// Starts a named part of the section.
    pub(super) fn name(&mut self, text: &str) {
        self.parts.push(Part::Name(text.to_owned()));
    }

    /// Adds lines that are not filled.
    pub(super) fn lines(&mut self, text: &str) {
        self.parts.extend(text.lines().map(|line| Part::Line(line.to_owned())));
    }

    /// Adds a paragraph that is filled up to the width, behind its label. A label of blanks aligns
    /// it with the paragraph of the label above.
    pub(super) fn paragraph(&mut self, label: &str, words: &str) {
        let (label, words) = (label.to_owned(), words.to_owned());
        self.parts.push(Part::Paragraph { label, words });
    }

    /// The text for a terminal.
    pub(super) fn screen(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Heading(_) | Part::Name(_) if text.is_empty() => {}
                Part::Heading(_) | Part::Name(_) => text.push('\n'),
                Part::Line(_) | Part::Paragraph { .. } => {}
            }
            match part {
                Part::Heading(heading) => text += &format!("{heading}\n"),
                Part::Name(name) => text += &format!("  {name}\n"),
                Part::Line(line) => text += &format!("{line}\n"),
                Part::Paragraph { label, words } => text += &messages::paragraph(label, words),
            }
        }
        text
    }

    /// The sections of a manual page.
    pub(crate) fn page(&self) -> Roff {
        let mut page = Roff::new();
        if !matches!(self.parts.first(), None | Some(Part::Heading(_))) {
            page.control("SH", ["DESCRIPTION"]);
        }
        let mut is_fixed = false;
        for part in &self.parts {
            let is_line = matches!(part, Part::Line(_));
            if is_line != is_fixed {
                page.control(if is_line { "nf" } else { "fi" }, []);
                is_fixed = is_line;
            }
            match part {
                Part::Heading(heading) => {
                    page.control("SH", [quoted(heading).as_str()]);
                }
                Part::Name(name) => {
                    page.control("SS", [quoted(name).as_str()]);
                }
                Part::Line(line) => {
                    page.text([roman(line)]);
                }
                Part::Paragraph { label, words } => paragraph(&mut page, label, words),
            }
        }
        if is_fixed {
            page.control("fi", []);
        }
        page
    }
}

fn paragraph(page: &mut Roff, label: &str, words: &str) {
    let name = label.trim();
    // Leading blanks indent the label, unless there is no label.
    let deeper = if name.is_empty() { 0 } else { label.len() - label.trim_start().len() };
    let width = format!("{}n", label.len() - deeper);
    if deeper > 0 {
        page.control("RS", [format!("{deeper}n").as_str()]);
    }
    if label.is_empty() {
        page.control("PP", []);
    } else {
        page.control("PD", ["0"]);
        page.control("IP", [quoted(name).as_str(), width.as_str()]);
        page.control("PD", []);
    }
    page.text([roman(words)]);
    if deeper > 0 {
        page.control("RE", []);
    }
}

/// Escapes text as an argument of a macro: no quotes inside, plain hyphens.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq");
    // The library puts quotes around text with a blank.
    if text.is_empty() { "\"\"".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mut sheet = Sheet::default();
        sheet.heading("READS ONLY");
        sheet.paragraph("watch  ", &"word ".repeat(30).trim_end().replace("word", "a-b"));
        sheet.paragraph("       ", "below");
        sheet.paragraph("", ".dot");
        sheet.name("off");
        sheet.lines("  k K  1024\n  m M  'x\n");
        sheet
    }

    #[test]
    fn a_screen_has_filled_lines_and_a_blank_one_above_each_heading() {
        let text = sheet().screen();
        let (first, rest) = text.split_once('\n').unwrap();
        assert_eq!(first, "READS ONLY");
        assert!(rest.starts_with("  watch  a-b a-b") && rest.contains("\n         a-b"), "{text}");
        assert!(text.ends_with("\n         below\n  .dot\n\n  off\n  k K  1024\n  m M  'x\n"));
    }

    #[test]
    fn a_page_leaves_filling_to_the_formatter_and_no_word_is_taken_for_a_request() {
        let page = sheet().page().render();
        let (_, page) = page.split_once(".SH").unwrap();
        assert!(
            page.starts_with(" \"READS ONLY\"\n.PD 0\n.IP watch 7n\n.PD\na\\-b a\\-b "),
            "{page}"
        );
        assert!(page.contains(".IP \"\" 7n\n.PD\nbelow\n.PP\n\\&.dot\n.SS off\n.nf\n"), "{page}");
        assert!(page.ends_with("\n  k K  1024\n  m M  \\*(Aqx\n.fi\n"), "{page}");
    }
}
