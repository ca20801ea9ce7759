//! A view on a grid of cells, of whatever size.
//!
//! ```text
//!   forebay watch ...                title, order, filter
//!   stall ...                        machine
//!   unwritten ...
//!   device   read  write ...  +5     three tables share what is left;
//!   file     brought in ...          columns give way from the right, and are counted
//!   process  brought in ...
//!   note: ...                        what cannot be seen
//! ```
//!
//! A process that was opened, or the help, takes the place of the tables.

use forebay_live::view::View;
use forebay_report::messages::filled;
use ratatui::Frame;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::history::History;
use super::keys::{Choice, Cursor, HELP, TABLES};
use super::panes::{Pane, ProcessFiles, head, notes, panes, process_files};
use super::text::widths;

/// The drawn view.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) view: View,
    pub(super) history: History,
    /// The files of the process that was opened.
    pub(super) files: Option<ProcessFiles>,
    pub(super) is_coloured: bool,
}

/// Draws it, and says where the cursor came to stand.
pub(super) fn draw(frame: &mut Frame<'_>, shown: Option<&Shown>, choice: &mut Choice) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = lines(shown, choice, width, height);
    lines.truncate(height);
    frame.render_widget(Paragraph::new(lines), area);
}

fn lines(
    shown: Option<&Shown>,
    choice: &mut Choice,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let mut lines = vec![title(shown.map(|shown| &shown.view), choice)];
    if choice.help {
        lines.extend(help(&mut choice.cursor, width, height.saturating_sub(1)));
        return lines;
    }
    let Some(shown) = shown else {
        lines.push(Line::from("the first figures come after one interval"));
        return lines;
    };
    let wrapped = |label: &str, text: &str| match height < WRAPPED_MIN {
        true => vec![Line::from(format!("{label}{text}"))],
        false => filled(label, text, width).lines().map(|it| Line::from(it.to_owned())).collect(),
    };
    for (label, text) in head(&shown.view, &shown.history) {
        lines.extend(wrapped(&label, &text));
    }
    let mut notes: Vec<Line<'static>> =
        notes(&shown.view).iter().flat_map(|note| wrapped("note: ", note)).collect();
    // Notes leave most of the screen to the tables.
    let notes_max = (height / 6).max(1);
    if notes.len() > notes_max {
        let left = notes.len() + 1 - notes_max;
        notes.truncate(notes_max - 1);
        notes.push(Line::from(format!("{left} more lines of notes; --once has all")));
    }
    let room = height.saturating_sub(lines.len() + notes.len());
    let look = Look { width, is_coloured: shown.is_coloured };
    if let Some(files) = shown.files.as_ref().filter(|it| Some(it.process) == choice.process) {
        let pane = process_files(&shown.view, choice, files);
        lines.extend(table(&pane, room, look, Some(&mut choice.cursor)));
    } else {
        let panes = panes(&shown.view, choice, Some(&shown.history));
        let shares = shares(room, panes.each_ref().map(|pane| pane.rows.len().max(1)));
        let shares = favoured(shares, &panes, choice.table);
        for (place, (pane, share)) in panes.iter().zip(shares).enumerate() {
            let cursor = (choice.table == Some(place)).then_some(&mut choice.cursor);
            lines.extend(table(pane, share, look, cursor));
        }
    }
    lines.extend(notes);
    lines
}

/// The help, filled to the width, from the row of the cursor on if it is longer than the screen.
fn help(cursor: &mut Cursor, width: usize, room: usize) -> Vec<Line<'static>> {
    let text: String = HELP.iter().map(|(label, text)| filled(label, text, width)).collect();
    let lines: Vec<&str> = text.lines().collect();
    let is_cut = lines.len() > room;
    // The line that reports this replaces a row.
    let page = if is_cut { room.saturating_sub(1) } else { room };
    cursor.row = cursor.row.min(lines.len().saturating_sub(page));
    cursor.page = page.max(1);
    let (top, end) = (cursor.row, (cursor.row + page).min(lines.len()));
    let mut shown: Vec<_> =
        lines[top..end].iter().map(|line| Line::from((*line).to_owned())).collect();
    if is_cut {
        let count = lines.len();
        shown.push(Line::from(format!("{} to {end} of {count}; up and down move it", top + 1)));
    }
    shown
}

fn title(view: Option<&View>, choice: &Choice) -> Line<'static> {
    let mut text = "forebay watch".to_owned();
    if choice.paused {
        text += "  HELD";
    }
    if let Some(process) = choice.process {
        text += &format!("  files of process {process}, Esc back");
    }
    text += &format!("  by {}", choice.sort.word());
    if choice.reversed {
        text += ", reversed";
    }
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
fn shares(room: usize, rows: [usize; TABLES]) -> [usize; TABLES] {
    let mut left = room;
    let mut shares = [0; TABLES];
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
    if room < TABLES * (FRAME + 1) {
        shares = [room.min(rows[0] + FRAME), room.saturating_sub(rows[0] + FRAME), 0];
    }
    shares
}

/// Shares of which the table with the cursor takes its need from the others.
fn favoured(
    mut shares: [usize; TABLES],
    panes: &[Pane; TABLES],
    table: Option<usize>,
) -> [usize; TABLES] {
    let Some(table) = table else { return shares };
    for place in (0..TABLES).filter(|place| *place != table) {
        let wanted = (panes[table].rows.len() + FRAME).saturating_sub(shares[table]);
        let given = wanted.min(shares[place].saturating_sub(BESIDE_MAX + FRAME));
        shares[place] -= given;
        shares[table] += given;
    }
    shares
}

/// How tables are drawn.
#[derive(Clone, Copy, Debug)]
struct Look {
    width: usize,
    is_coloured: bool,
}

/// A table in a number of lines, the first of them empty. The one with the cursor follows it.
fn table(
    pane: &Pane,
    share: usize,
    look: Look,
    mut cursor: Option<&mut Cursor>,
) -> Vec<Line<'static>> {
    let Some(rows_max) = share.checked_sub(FRAME).filter(|rows| *rows > 0) else {
        return vec![Line::default(); share];
    };
    // The line that names the shown rows replaces a row.
    let is_cut = pane.rows.len() > rows_max;
    let page = if is_cut { rows_max - 1 } else { rows_max };
    if let Some(cursor) = &mut cursor {
        cursor.follow(pane.rows.len(), page, pane.columns.len());
        cursor.process = pane.rows.get(cursor.row).and_then(|row| row.process);
    }
    let headings: Vec<String> = pane.columns.iter().map(|name| heading(pane, name)).collect();
    let cells = |row: &super::panes::Row| row.cells.iter().map(super::cell::Cell::shown).collect();
    let texts: Vec<Vec<String>> = pane.rows.iter().map(cells).collect();
    let widths = widths(&headings, &texts);
    let columns = fitting(&widths, look.width, cursor.as_ref().map_or(0, |cursor| cursor.column));
    let mut title = line(&headings, &widths, &columns, |_| Style::new());
    if columns.hidden > 0 {
        let used: usize = title.iter().map(|span| span.content.chars().count()).sum();
        let count = format!("+{}", columns.hidden);
        title.push(Span::from(format!("{count:>0$}", look.width.saturating_sub(used))));
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![Line::default(), Line::from(title).patch_style(bold)];
    if pane.rows.is_empty() {
        let empty = filled("", &pane.empty, look.width);
        lines.extend(empty.lines().map(|line| Line::from(line.to_owned())));
        lines.truncate(share);
        return lines;
    }
    let top = cursor.as_ref().map_or(0, |cursor| cursor.top);
    for (place, row) in pane.rows.iter().enumerate().skip(top).take(page) {
        let style = |column: usize| row.cells[column].tone.style(look.is_coloured);
        let cut = Line::from(line(&texts[place], &widths, &columns, style));
        let is_here = cursor.as_ref().is_some_and(|cursor| cursor.row == place);
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        lines.push(if is_here { cut.patch_style(reversed) } else { cut });
    }
    if is_cut {
        let count = pane.rows.len();
        lines.push(Line::from(match &cursor {
            Some(_) => format!("{} to {} of {count}", top + 1, (top + page).min(count)),
            None => format!("... {} more", count - page),
        }));
    }
    lines
}

/// A heading, with a mark at the column by which rows are sorted.
fn heading(pane: &Pane, name: &str) -> String {
    if pane.sorted == Some(name) { format!("{name}\u{25be}") } else { name.to_owned() }
}

/// The columns that fit.
#[derive(Debug, PartialEq, Eq)]
struct Columns {
    places: Vec<usize>,
    /// How wide the first one is.
    first: usize,
    /// Those that do not fit or were passed over.
    hidden: usize,
}

/// The columns that fit, but some behind the first one, with room for the count of the others.
fn fitting(widths: &[usize], width: usize, passed: usize) -> Columns {
    let first = widths[0].min(FIRST_LEAST);
    let all: usize = widths[1..].iter().map(|column| GAP + column).sum();
    let room =
        if passed == 0 && first + all <= width { width } else { width.saturating_sub(COUNT) };
    let mut used = first;
    let mut places = vec![0];
    for (place, column) in widths.iter().enumerate().skip(1 + passed) {
        if used + GAP + column > room {
            break;
        }
        used += GAP + column;
        places.push(place);
    }
    let spare = room.saturating_sub(used);
    let hidden = widths.len() - places.len();
    Columns { places, first: (first + spare).min(widths[0]), hidden }
}

fn line(
    cells: &[String],
    widths: &[usize],
    columns: &Columns,
    style: impl Fn(usize) -> Style,
) -> Vec<Span<'static>> {
    let first = columns.first;
    let mut spans = vec![Span::styled(format!("{:first$}", tail(&cells[0], first)), style(0))];
    for &place in &columns.places[1..] {
        let width = widths[place];
        spans.push(Span::from(" ".repeat(GAP + width - cells[place].chars().count())));
        spans.push(Span::styled(cells[place].clone(), style(place)));
    }
    spans
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

/// Columns for the count of those that do not fit.
const COUNT: usize = 4;

/// Rows that a table keeps while the cursor is in another one.
const BESIDE_MAX: usize = 3;

/// Lines of a screen on which long lines are filled; on a lower one they are cut.
const WRAPPED_MIN: usize = 16;

/// The first column does not give way beyond this.
const FIRST_LEAST: usize = 16;

#[cfg(test)]
mod tests;
