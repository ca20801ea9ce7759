//! A result as rows and columns, and the ways to print it.
//!
//! ```text
//!   Table --text-----> for the terminal: only the columns that vary, what is common below
//!         --markdown-> for a page
//!         --csv------> every column, numbers in full
//!         --json-----> an array of objects, one a row, absent values null
//! ```

use std::io::Write;

use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::CellAlignment;
use comfy_table::presets::ASCII_MARKDOWN;
use serde_json::{Map, Number, Value};

/// How a table is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns for a terminal.
    #[default]
    Text,
    /// A Markdown table.
    Markdown,
    /// Comma-separated values with a header line.
    Csv,
    /// An array of objects.
    Json,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Words.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A measured number and how many decimals a reader wants.
    Number(f64, usize),
    /// Not known, or not claimed.
    Missing,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// The key in CSV and JSON.
    pub(crate) key: &'static str,
    /// The heading for people.
    pub(crate) heading: &'static str,
}

/// A result.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Said above the table in text and Markdown.
    pub(crate) title: String,
    /// Said below it: what is needed to repeat it.
    pub(crate) notes: Vec<String>,
    /// Whether the columns of the text stand closer together.
    pub(crate) dense: bool,
}

impl Table {
    /// An empty table with these columns.
    pub(crate) fn new(title: impl Into<String>, columns: &[(&'static str, &'static str)]) -> Self {
        let columns = columns.iter().map(|&(key, heading)| Column { key, heading }).collect();
        Self { columns, title: title.into(), ..Self::default() }
    }

    /// Takes out the columns in which nothing stands but zeros.
    pub(crate) fn drop_empty(&mut self) {
        let rows = &self.rows;
        let holds = |place: usize| rows.iter().any(|row| !row[place].is_empty());
        let kept: Vec<bool> = (0..self.columns.len()).map(holds).collect();
        let mut column = kept.iter();
        self.columns.retain(|_| column.next().copied().unwrap_or(true));
        for row in &mut self.rows {
            let mut column = kept.iter();
            row.retain(|_| column.next().copied().unwrap_or(true));
        }
    }

    /// Prints the whole table; nothing is printed if it cannot be formed.
    pub(crate) fn print(&self, format: Format, out: &mut impl Write) -> Result<()> {
        let text = match format {
            Format::Text => self.framed(if self.dense { DENSE } else { UNDERLINED }),
            Format::Markdown => self.framed(ASCII_MARKDOWN),
            Format::Csv => self.csv()?,
            Format::Json => format!("{:#}\n", self.json()),
        };
        out.write_all(text.as_bytes()).context("cannot write the table")
    }

    fn framed(&self, preset: &str) -> String {
        let mut table = comfy_table::Table::new();
        table.load_preset(preset);
        table.set_header(self.columns.iter().map(|column| heading(column.heading, preset)));
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| {
                let alignment = match cell {
                    Cell::Text(_) => CellAlignment::Left,
                    Cell::Count(_) | Cell::Number(..) | Cell::Missing => CellAlignment::Right,
                };
                comfy_table::Cell::new(printable(&cell.shown(), preset)).set_alignment(alignment)
            }));
        }
        let mut text = String::new();
        if !self.title.is_empty() {
            text = format!("{}\n\n", self.title);
        }
        text += &format!("{}\n", table.trim_fmt());
        if !self.notes.is_empty() {
            text += &format!("\n{}\n", self.notes.join("\n"));
        }
        text
    }

    fn csv(&self) -> Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(self.columns.iter().map(|column| column.key))?;
        for row in &self.rows {
            writer.write_record(row.iter().map(Cell::exact))?;
        }
        let bytes = writer.into_inner().context("cannot form the table")?;
        String::from_utf8(bytes).context("a table is text")
    }

    fn json(&self) -> Value {
        Value::Array(self.objects().into_iter().map(Value::Object).collect())
    }

    /// The rows as objects.
    pub(crate) fn objects(&self) -> Vec<Map<String, Value>> {
        let object = |row: &Vec<Cell>| {
            let pairs = self.columns.iter().zip(row);
            pairs.map(|(column, cell)| (column.key.to_owned(), cell.json())).collect()
        };
        self.rows.iter().map(object).collect()
    }
}

impl Cell {
    /// A number that may be missing.
    pub(crate) fn maybe(number: Option<f64>, decimals: usize) -> Self {
        number.map_or(Self::Missing, |number| Self::Number(number, decimals))
    }

    /// The same with no decimal behind five digits.
    #[must_use]
    pub(crate) fn short(self) -> Self {
        match self {
            Self::Number(number, _) if number >= 10_000.0 => Self::Number(number, 0),
            Self::Number(..) | Self::Text(_) | Self::Count(_) | Self::Missing => self,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Count(count) => *count == 0,
            Self::Number(number, _) => *number == 0.0,
            Self::Missing => true,
        }
    }

    /// As people read it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number, decimals) => format!("{number:.decimals$}"),
            Self::Missing => "-".to_owned(),
        }
    }

    /// The digits that programs get, none of them left out.
    pub(crate) fn exact_digits(&self) -> String {
        match self {
            Self::Number(number, decimals) => {
                let digits = decimals + 2;
                format!("{:.digits$}", rounded(*number, *decimals))
            }
            Self::Text(_) | Self::Count(_) | Self::Missing => self.exact(),
        }
    }

    /// The number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number, _) => Some(*number).filter(|number| number.is_finite()),
            Self::Text(_) | Self::Missing => None,
        }
    }

    fn exact(&self) -> String {
        match self {
            Self::Text(_) | Self::Count(_) => self.shown(),
            Self::Number(number, decimals) => rounded(*number, *decimals).to_string(),
            Self::Missing => String::new(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => Value::String(text.clone()),
            Self::Count(count) => Value::Number((*count).into()),
            Self::Number(number, decimals) => {
                Number::from_f64(rounded(*number, *decimals)).map_or(Value::Null, Value::Number)
            }
            Self::Missing => Value::Null,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

/// A heading of several lines stands in one where a table has but one for it.
fn heading(text: &str, preset: &str) -> String {
    if preset == ASCII_MARKDOWN {
        text.replace('\n', " ").trim().to_owned()
    } else {
        text.to_owned()
    }
}

/// What stays in its cell: names come from files and may hold anything.
fn printable(text: &str, preset: &str) -> String {
    let text = text.replace(char::is_control, " ");
    if preset == ASCII_MARKDOWN { text.replace('|', "\\|") } else { text }
}

/// A preset of comfy-table: a line below the header and nothing else.
const UNDERLINED: &str = "     ──            ";

/// The same without a gap for lines between columns.
const DENSE: &str = "     ─             ";

/// Two decimals more than a reader is shown.
fn rounded(number: f64, decimals: usize) -> f64 {
    let scale = 10f64.powi(decimals as i32 + 2);
    (number * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("Two rows", &[("policy", "policy"), ("mb_per_s", "MB/s")]);
        table.rows.push(vec!["a, \"b\"".into(), Cell::Number(1.0 / 3.0, 1)]);
        table.rows.push(vec!["c".into(), Cell::Missing]);
        table.notes.push("seed 1".to_owned());
        table
    }

    fn printed(format: Format) -> String {
        let mut out = Vec::new();
        table().print(format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_quotes_and_keeps_decimals() {
        assert_eq!(printed(Format::Csv), "policy,mb_per_s\n\"a, \"\"b\"\"\",0.333\nc,\n");
    }

    #[test]
    fn json_says_null_for_what_is_missing() {
        let value: Value = serde_json::from_str(&printed(Format::Json)).unwrap();
        assert_eq!(value[0]["mb_per_s"], 0.333);
        assert_eq!(value[1]["mb_per_s"], Value::Null);
    }

    #[test]
    fn a_name_stays_in_its_cell() {
        assert_eq!(printable("a|b\n\u{1b}[31m", ASCII_MARKDOWN), "a\\|b  [31m");
        assert_eq!(printable("a|b", UNDERLINED), "a|b");
    }

    #[test]
    fn markdown_is_a_table_between_title_and_notes() {
        let text = printed(Format::Markdown);
        assert!(text.starts_with("Two rows\n\n| policy"));
        assert!(text.contains("| c"));
        assert!(text.ends_with("\nseed 1\n"));
    }
}
