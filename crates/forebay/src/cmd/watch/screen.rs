//! A view on a grid of cells, of whatever size.
//!
//! ```text
//!   forebay watch ...                title, order, filter
//!   stall ...                        machine
//!   unwritten ...
//!   device   read  write ...         three tables share what is left;
//!   file     brought in ...          columns give way from the right
//!   process  brought in ...
//!   note: ...                        what cannot be seen
//! ```

use forebay_live::view::View;
use ratatui::Frame;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::keys::{Choice, HELP};
use super::panes::{Pane, head, notes, panes};
use super::text::widths;

/// Draws it.
pub(super) fn draw(frame: &mut Frame<'_>, view: Option<&View>, choice: &Choice) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = lines(view, choice, width, height);
    lines.truncate(height);
    frame.render_widget(Paragraph::new(lines), area);
}

fn lines(view: Option<&View>, choice: &Choice, width: usize, height: usize) -> Vec<Line<'static>> {
    let mut lines = vec![title(view, choice)];
    if choice.help {
        lines.extend(HELP.map(Line::from));
        return lines;
    }
    let Some(view) = view else {
        lines.push(Line::from("the first figures come after one interval"));
        return lines;
    };
    lines.extend(head(view).into_iter().map(Line::from));
    let mut notes = notes(view);
    // Notes leave most of the screen to the tables.
    notes.truncate((height / 6).max(1));
    let room = height.saturating_sub(lines.len() + notes.len());
    let panes = panes(view, choice);
    let shares = shares(room, panes.each_ref().map(|pane| pane.rows.len().max(1)));
    for (pane, share) in panes.iter().zip(shares) {
        lines.extend(table(pane, share, width));
    }
    lines.extend(notes.into_iter().map(|note| Line::from(format!("note: {note}"))));
    lines
}

fn title(view: Option<&View>, choice: &Choice) -> Line<'static> {
    let mut text = "forebay watch".to_owned();
    if choice.paused {
        text += "  HELD";
    }
    text += &format!("  by {}", choice.sort.word());
    if choice.typing {
        text += &format!("  /{}_", choice.filter);
    } else if !choice.filter.is_empty() {
        text += &format!("  /{}", choice.filter);
    }
    if let Some(view) = view {
        text += &format!("  {:.1} s", view.period.0 as f64 / 1e9);
    }
    text += "  q quit  ? help";
    Line::from(Span::styled(text, Style::new().add_modifier(Modifier::REVERSED)))
}

/// Lines for each table: a heading, its rows, and an empty line before it. What one does not need
/// is another's.
fn shares(room: usize, rows: [usize; 3]) -> [usize; 3] {
    let mut left = room;
    let mut shares = [0; 3];
    // Three passes give each table its fair part, then what the others have left over.
    for _ in 0..rows.len() {
        let wanting = (0..rows.len()).filter(|place| shares[*place] < rows[*place] + FRAME);
        let wanting: Vec<usize> = wanting.collect();
        for (turn, place) in wanting.iter().enumerate() {
            let wanted = rows[*place] + FRAME - shares[*place];
            let given = wanted.min(left / (wanting.len() - turn));
            shares[*place] += given;
            left -= given;
        }
    }
    // A heading without a row says nothing.
    if room < 3 * (FRAME + 1) {
        shares = [room.min(rows[0] + FRAME), room.saturating_sub(rows[0] + FRAME), 0];
    }
    shares
}

/// A table in so many lines, the first of them empty.
fn table(pane: &Pane, share: usize, width: usize) -> Vec<Line<'static>> {
    let Some(rows_max) = share.checked_sub(FRAME).filter(|rows| *rows > 0) else {
        return vec![Line::default(); share];
    };
    let widths = widths(pane);
    let shown = fitting(&widths, width);
    let heading = line(pane.columns, &widths, &shown, width);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![Line::default(), Line::from(Span::styled(heading, bold))];
    if pane.rows.is_empty() {
        lines.push(Line::from(pane.empty));
        return lines;
    }
    let hidden = pane.rows.len().saturating_sub(rows_max);
    // The line that says how many there are more takes one's place.
    let rows = if hidden > 0 { rows_max - 1 } else { pane.rows.len() };
    let cut = |row: &Vec<String>| Line::from(line(row.as_slice(), &widths, &shown, width));
    lines.extend(pane.rows.iter().take(rows).map(cut));
    if hidden > 0 {
        lines.push(Line::from(format!("... {} more", pane.rows.len() - rows)));
    }
    lines
}

/// How many columns fit, and how wide the first one is then.
fn fitting(widths: &[usize], width: usize) -> (usize, usize) {
    let first = widths[0].min(FIRST_LEAST);
    let mut used = first;
    let mut count = 1;
    for column in &widths[1..] {
        if used + GAP + column > width {
            break;
        }
        used += GAP + column;
        count += 1;
    }
    let spare = width.saturating_sub(used);
    (count, (first + spare).min(widths[0]))
}

fn line(
    cells: &[impl AsRef<str>],
    widths: &[usize],
    shown: &(usize, usize),
    width: usize,
) -> String {
    let (count, first) = *shown;
    let mut line = format!("{:first$}", tail(cells[0].as_ref(), first));
    for (cell, width) in cells.iter().zip(widths).take(count).skip(1) {
        line += &format!("{:GAP$}{:>width$}", "", cell.as_ref());
    }
    line.chars().take(width).collect()
}

/// The end of a path says more than its begin.
fn tail(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let begin = if width == 0 { "" } else { "<" };
    begin.to_owned() + &text.chars().skip(length - kept).collect::<String>()
}

/// Lines of a table besides its rows.
const FRAME: usize = 2;

/// Blanks between columns.
const GAP: usize = 2;

/// The first column does not give way beyond this.
const FIRST_LEAST: usize = 16;

#[cfg(test)]
mod tests;
