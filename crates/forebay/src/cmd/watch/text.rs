//! A view as text tables, for `--once`.

use forebay_live::view::View;

use super::keys::Choice;
use super::panes::{Pane, head, notes, panes};

/// The whole view.
pub(super) fn tables(view: &View) -> String {
    let mut text = String::new();
    for line in head(view) {
        text += &format!("{line}\n");
    }
    for pane in panes(view, &Choice::default()) {
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
    let widths = widths(pane);
    let mut text = line(pane.columns, &widths);
    for row in pane.rows.iter().take(ROWS_MAX) {
        text += &line(row, &widths);
    }
    if let Some(more) = pane.rows.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
        text += &format!("... {more} more; --json has all\n");
    }
    text
}

/// The width of each column.
pub(super) fn widths(pane: &Pane) -> Vec<usize> {
    let width = |column: usize| {
        let cells = pane.rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(pane.columns[column].chars().count())
    };
    (0..pane.columns.len()).map(width).collect()
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
