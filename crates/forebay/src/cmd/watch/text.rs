//! A view as text tables, for `--once`.

use forebay_live::view::View;

use super::history::History;
use super::keys::Choice;
use super::panes::{Pane, head, notes, panes};

/// The whole view.
pub(super) fn tables(view: &View) -> String {
    let mut text = String::new();
    for (label, line) in head(view, &History::default()) {
        text += &format!("{label}{line}\n");
    }
    for pane in panes(view, &Choice::default(), None) {
        text += &format!("\n{}", table(&pane));
    }
    for note in notes(view) {
        text += &format!("\nnote: {note}");
    }
    text.trim_end().to_owned() + "\n"
}

fn table(pane: &Pane) -> String {
    if pane.rows.is_empty() {
        return format!("{}: {}\n", pane.title, pane.empty);
    }
    let rows = pane.rows.iter().map(|row| row.cells.iter().map(|cell| cell.text.as_str()));
    let rows: Vec<Vec<&str>> = rows.map(Iterator::collect).collect();
    let widths = widths(&pane.columns, &rows);
    let mut text = line(&pane.columns, &widths);
    for row in rows.iter().take(ROWS_MAX) {
        text += &line(row, &widths);
    }
    if let Some(more) = pane.rows.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
        text += &format!("... {more} more; --json has all\n");
    }
    text
}

/// The width of each column.
pub(super) fn widths(columns: &[impl AsRef<str>], rows: &[Vec<impl AsRef<str>>]) -> Vec<usize> {
    let width = |text: &str| text.chars().count();
    let width = |(place, heading): (usize, &_)| {
        let cells = rows.iter().map(|row| width(row[place].as_ref()));
        cells.max().unwrap_or(0).max(width(AsRef::<str>::as_ref(heading)))
    };
    columns.iter().enumerate().map(width).collect()
}

fn line(cells: &[impl AsRef<str>], widths: &[usize]) -> String {
    let mut line = String::new();
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        let cell = cell.as_ref();
        line += &if column == 0 { format!("{cell:width$}") } else { format!("  {cell:>width$}") };
    }
    line.trim_end().to_owned() + "\n"
}

/// Rows of a table; a build touches hundreds of files a second.
const ROWS_MAX: usize = 20;
