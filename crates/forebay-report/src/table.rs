//! A result as rows and columns, and the ways to print it.
//!
//! ```text
//!   Table --text-----> for the terminal, fitted to its width
//!         --markdown-> for a page
//!         --csv------> every column, numbers in full
//!         --json-----> an array of objects, one a row, absent values null
//! ```
//!
//! A text that is wider than the screen gets narrower in steps, until it fits:
//!
//! ```text
//!   1  columns leave, those with the highest rank first; a line below names them
//!   2  the longest texts are cut, and end in an ellipsis
//!   3  rows are stacked: a line for each value
//! ```

use std::io::Write;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use comfy_table::CellAlignment;
use comfy_table::presets::ASCII_MARKDOWN;
use serde_json::{Map, Number, Value};

use crate::messages;
use crate::screen;

/// How a table is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
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

/// The format that was typed.
#[derive(Clone, Copy, Debug, Args)]
pub struct FormatChoice {
    /// How to print the table
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl FormatChoice {
    /// The one that both flags come to.
    pub fn format(self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A measured number and its shown decimals.
    Number(f64, usize),
    /// Not known, or not claimed.
    Missing,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The key in CSV and JSON.
    pub key: &'static str,
    /// The heading for people. The first of two lines is that of a group, and is shown once.
    pub heading: &'static str,
    /// On a narrow screen columns with a higher rank leave first; those with rank 0 stay.
    pub rank: u8,
}

/// A result.
#[derive(Debug, Default)]
pub struct Table {
    /// The columns, from left to right.
    pub columns: Vec<Column>,
    /// A cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Said above the table in text and Markdown.
    pub title: String,
    /// Notes below it: the parameters that repeat it.
    pub notes: Vec<String>,
    /// Whether the columns of the text stand closer together.
    pub dense: bool,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(title: impl Into<String>, columns: &[(&'static str, &'static str)]) -> Self {
        let columns =
            columns.iter().map(|&(key, heading)| Column { key, heading, rank: 0 }).collect();
        Self { columns, title: title.into(), ..Self::default() }
    }

    /// Names the columns that leave on a narrow screen, the first one first.
    pub fn leave_first(&mut self, keys: &[&str]) {
        for column in &mut self.columns {
            let place = keys.iter().position(|key| *key == column.key);
            let rank = place.map_or(0, |place| keys.len() - place);
            column.rank = u8::try_from(rank).unwrap_or(u8::MAX);
        }
    }

    /// Takes out the columns in which nothing stands but zeros.
    pub fn drop_empty(&mut self) {
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
    pub fn print(&self, format: Format, out: &mut impl Write) -> Result<()> {
        let text = match format {
            Format::Text => self.fitted(screen::columns()),
            Format::Markdown => self.framed(ASCII_MARKDOWN),
            Format::Csv => self.csv()?,
            Format::Json => format!("{:#}\n", self.json()),
        };
        out.write_all(text.as_bytes()).context("cannot write the table")
    }

    /// For a screen of a number of columns.
    pub fn fitted(&self, screen: Option<usize>) -> String {
        let preset = if self.dense { DENSE } else { UNDERLINED };
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let limits = vec![usize::MAX; self.columns.len()];
        let Some(screen) = screen else {
            return self.surrounded(&self.grid(preset, &all, &limits));
        };
        let mut shown = all;
        let mut left_out = Vec::new();
        let mut grid = self.grid(preset, &shown, &limits);
        while widest(&grid) > screen {
            let rank = |place: &usize| self.columns[*place].rank;
            let Some(last) = (0..shown.len()).rev().max_by_key(|at| rank(&shown[*at])) else {
                break;
            };
            if rank(&shown[last]) == 0 {
                break;
            }
            left_out.push(shown.remove(last));
            grid = self.grid(preset, &shown, &limits);
        }
        if widest(&grid) > screen {
            grid = match self.cut(preset, &shown, screen) {
                Some(grid) => grid,
                None => {
                    left_out.clear();
                    self.stacked(screen)
                }
            };
        }
        left_out.sort_unstable();
        let names = left_out.iter().map(|place| self.columns[*place].heading.replace('\n', " "));
        let names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
        let more = match names.len() {
            0 => String::new(),
            _ => filled(&format!("not shown: {} (--wide)", names.join(", ")), screen),
        };
        let mut text = String::new();
        if !self.title.is_empty() {
            text = format!("{}\n", filled(&self.title, screen));
        }
        text += &format!("{grid}\n{more}");
        if !self.notes.is_empty() {
            text.push('\n');
            text.extend(self.notes.iter().map(|note| filled(note, screen)));
        }
        text
    }

    /// The table with its longest texts cut; nothing if it does not fit even so.
    fn cut(&self, preset: &str, shown: &[usize], screen: usize) -> Option<String> {
        let mut limits = vec![usize::MAX; self.columns.len()];
        let longest = |place: usize, limit: usize| {
            let texts = self.rows.iter().filter_map(|row| match &row[place] {
                Cell::Text(text) => Some(screen::width_of(text)),
                Cell::Count(_) | Cell::Number(..) | Cell::Missing => None,
            });
            texts.max().unwrap_or(0).min(limit)
        };
        loop {
            let grid = self.grid(preset, shown, &limits);
            let over = widest(&grid).checked_sub(screen).filter(|over| *over > 0);
            let Some(over) = over else { return Some(grid) };
            let length = |place: &&usize| longest(**place, limits[**place]);
            let &place = shown.iter().max_by_key(length)?;
            let length = longest(place, limits[place]);
            if length <= CUT_MIN {
                return None;
            }
            // Two columns that are about as long share the loss.
            let step = over.min((length - CUT_MIN).div_ceil(4)).max(1);
            limits[place] = length - step;
        }
    }

    /// A line for each value, and a blank one between rows.
    fn stacked(&self, screen: usize) -> String {
        let headings: Vec<String> = self
            .columns
            .iter()
            .map(|column| column.heading.replace('\n', " ").trim().to_owned())
            .collect();
        let width = headings.iter().map(|heading| screen::width_of(heading)).max().unwrap_or(0);
        let rows = self.rows.iter().map(|row| {
            let lines = headings.iter().zip(row).map(|(heading, cell)| {
                let pad = " ".repeat(width - screen::width_of(heading));
                let value = printable(&cell.shown(), UNDERLINED);
                let line = format!("{heading}{pad}  {value}");
                format!("{}\n", screen::cut(line.trim_end(), screen))
            });
            lines.collect::<String>()
        });
        rows.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    fn framed(&self, preset: &str) -> String {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        self.surrounded(&self.grid(preset, &all, &vec![usize::MAX; all.len()]))
    }

    /// The rows between title and notes.
    fn surrounded(&self, grid: &str) -> String {
        let mut text = String::new();
        if !self.title.is_empty() {
            text = format!("{}\n\n", self.title);
        }
        text += &format!("{grid}\n");
        if !self.notes.is_empty() {
            text += &format!("\n{}\n", self.notes.join("\n"));
        }
        text
    }

    /// The columns that are shown, and their rows. Texts are cut to the limit of their column.
    fn grid(&self, preset: &str, shown: &[usize], limits: &[usize]) -> String {
        let mut table = comfy_table::Table::new();
        table.load_preset(preset);
        let mut group = "";
        table.set_header(shown.iter().map(|place| {
            let text = self.columns[*place].heading;
            let (above, below) = text.split_once('\n').unwrap_or(("", text));
            let is_same = !above.is_empty() && above == group && preset != ASCII_MARKDOWN;
            group = above;
            if is_same { format!("\n{below}") } else { heading(text, preset) }
        }));
        for row in &self.rows {
            table.add_row(shown.iter().map(|place| {
                let cell = &row[*place];
                let alignment = match cell {
                    Cell::Text(_) => CellAlignment::Left,
                    Cell::Count(_) | Cell::Number(..) | Cell::Missing => CellAlignment::Right,
                };
                let text = screen::cut(&printable(&cell.shown(), preset), limits[*place]);
                comfy_table::Cell::new(text).set_alignment(alignment)
            }));
        }
        table.trim_fmt()
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
    pub fn objects(&self) -> Vec<Map<String, Value>> {
        let object = |row: &Vec<Cell>| {
            let pairs = self.columns.iter().zip(row);
            pairs.map(|(column, cell)| (column.key.to_owned(), cell.json())).collect()
        };
        self.rows.iter().map(object).collect()
    }
}

impl Cell {
    /// A number that may be missing.
    pub fn maybe(number: Option<f64>, decimals: usize) -> Self {
        number.map_or(Self::Missing, |number| Self::Number(number, decimals))
    }

    /// The same with no decimal behind five digits.
    #[must_use]
    pub fn short(self) -> Self {
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
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number, decimals) => format!("{number:.decimals$}"),
            Self::Missing => "-".to_owned(),
        }
    }

    /// The digits that programs get, none of them left out.
    pub fn exact_digits(&self) -> String {
        match self {
            Self::Number(number, decimals) => {
                let digits = decimals + 2;
                format!("{:.digits$}", rounded(*number, *decimals))
            }
            Self::Text(_) | Self::Count(_) | Self::Missing => self.exact(),
        }
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
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

/// A heading of several lines becomes one line if the table allows only one.
fn heading(text: &str, preset: &str) -> String {
    if preset == ASCII_MARKDOWN {
        text.replace('\n', " ").trim().to_owned()
    } else {
        text.to_owned()
    }
}

/// The width of the longest line.
fn widest(text: &str) -> usize {
    text.lines().map(screen::width_of).max().unwrap_or(0)
}

/// A sentence filled up to the width of the screen, with a line's end.
fn filled(text: &str, screen: usize) -> String {
    messages::filled("", text, screen.min(screen::prose_columns()))
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

/// A text is not cut to fewer columns.
const CUT_MIN: usize = 10;

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

    fn wide() -> Table {
        let columns = [("name", "name"), ("a", "group\na"), ("b", "group\nb"), ("c", "c")];
        let mut table = Table::new("A title of five words", &columns);
        table.leave_first(&["c", "a"]);
        let long = "a text that is quite long";
        table.rows.push(vec![long.into(), Cell::Count(1), Cell::Count(2), Cell::Count(3)]);
        table.rows.push(vec!["x".into(), Cell::Count(10), Cell::Missing, Cell::Count(30)]);
        table
    }

    #[test]
    fn columns_leave_by_rank_and_the_rest_keeps_its_group() {
        let text = wide().fitted(Some(40));
        assert!(text.contains("not shown: c (--wide)"), "{text}");
        let text = wide().fitted(Some(36));
        assert!(text.contains("not shown: group a, c (--wide)"), "{text}");
        assert!(text.contains(" group"), "{text}");
        assert!(wide().fitted(None).lines().next() == Some("A title of five words"));
    }

    #[test]
    fn a_text_is_cut_and_then_rows_are_stacked() {
        let text = wide().fitted(Some(24));
        assert!(text.contains('…') && widest(&text) <= 24, "{text}");
        let mut table = wide();
        table.rows[0][0] = "short".into();
        table.rows[0][1] = Cell::Number(1e12, 3);
        table.leave_first(&[]);
        let text = table.fitted(Some(20));
        assert!(text.contains("name     short\n") && widest(&text) <= 20, "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for columns in 40..120 {
            assert!(widest(&wide().fitted(Some(columns))) <= columns, "{columns}");
        }
    }

    #[test]
    fn markdown_is_a_table_between_title_and_notes() {
        let text = printed(Format::Markdown);
        assert!(text.starts_with("Two rows\n\n| policy"));
        assert!(text.contains("| c"));
        assert!(text.ends_with("\nseed 1\n"));
    }
}
