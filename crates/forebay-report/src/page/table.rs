//! A table as HTML: what is the same in all rows is said once above it, the rest stands in a box
//! that scrolls by itself.

use std::fmt::Write;

use super::escaped;
use crate::table::{Cell, Table};

/// How many digits a number has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// As many as people want.
    Few,
    /// As many as CSV and JSON have, the last ones paler.
    All,
}

/// Adds the table to a page that may have `end` bytes.
pub(super) fn put(html: &mut String, table: &Table, caption: &str, digits: Digits, end: usize) {
    let common: Vec<bool> = (0..table.columns.len()).map(|place| is_common(table, place)).collect();
    html.push_str("<div class=\"table\">\n");
    put_common(html, table, &common, digits);
    let class = if digits == Digits::Few { " few" } else { "" };
    writeln!(html, "<div class=\"scroll{class}\" tabindex=\"0\">\n<table>").expect(STRING);
    if !caption.is_empty() {
        writeln!(html, "<caption>{}</caption>", escaped(caption)).expect(STRING);
    }
    html.push_str("<thead><tr>");
    let own = || table.columns.iter().enumerate().filter(|(place, _)| !common[*place]);
    for (place, column) in own() {
        let side = if is_number(table, place) { " class=\"n\"" } else { "" };
        let heading = escaped(column.heading.trim());
        write!(html, "<th scope=\"col\"{side} data-key=\"{}\">{heading}</th>", column.key)
            .expect(STRING);
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let mut shown = 0;
    for row in &table.rows {
        let mut line = String::from("<tr>");
        for (nth, (place, column)) in own().enumerate() {
            put_cell(&mut line, &row[place], column.key, nth == 0, digits);
        }
        if html.len() + line.len() > end {
            break;
        }
        html.push_str(&line);
        html.push_str("</tr>\n");
        shown += 1;
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
    if shown < table.rows.len() {
        let rows = table.rows.len();
        let words = "a page has no room for more, CSV and JSON have all";
        writeln!(html, "<p>The first {shown} of {rows} rows; {words}.</p>").expect(STRING);
    }
    html.push_str("</div>\n");
}

/// Whether all rows have the same in a column, and enough rows to say so once.
fn is_common(table: &Table, place: usize) -> bool {
    const ENOUGH: usize = 3;
    let mut cells = table.rows.iter().map(|row| &row[place]);
    let first = cells.next();
    table.rows.len() >= ENOUGH && cells.all(|cell| Some(cell) == first)
}

fn put_common(html: &mut String, table: &Table, common: &[bool], digits: Digits) {
    let Some(first) = table.rows.first() else { return };
    let (mut said, mut missing) = (Vec::new(), Vec::new());
    for ((column, cell), _) in
        table.columns.iter().zip(first).zip(common).filter(|(_, is_common)| **is_common)
    {
        if *cell == Cell::Missing || *cell == Cell::from("") {
            missing.push(format!("<span data-key=\"{}\">{}</span>", column.key, column.key));
        } else {
            let (key, value) = (column.key, written(cell, digits));
            said.push(format!("<span data-key=\"{key}\">{key} <b>{value}</b></span>"));
        }
    }
    if !said.is_empty() {
        let said = said.join(", ");
        writeln!(html, "<p class=\"common\">In every row: {said}.</p>").expect(STRING);
    }
    if !missing.is_empty() {
        let missing = missing.join(", ");
        writeln!(html, "<p class=\"missing\">In no row: {missing}.</p>").expect(STRING);
    }
}

fn is_number(table: &Table, place: usize) -> bool {
    let mut cells = table.rows.iter().map(|row| &row[place]).filter(|c| **c != Cell::Missing);
    cells.next().is_some_and(|cell| matches!(cell, Cell::Count(_) | Cell::Number(..)))
}

fn put_cell(html: &mut String, cell: &Cell, key: &str, is_first: bool, digits: Digits) {
    let (open, close) = if is_first { ("th scope=\"row\"", "th") } else { ("td", "td") };
    let text = written(cell, digits);
    let class = match cell {
        Cell::Count(_) | Cell::Number(..) | Cell::Missing => "n",
        Cell::Text(text) if key == "verdict" => verdict(text),
        Cell::Text(text) if text.len() > LONG => "long",
        // A table for people fits its box: words go to the next line, names and ranges do not.
        Cell::Text(text) if digits == Digits::Few && text.contains(' ') => "w",
        Cell::Text(_) => "",
    };
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    write!(html, "<{open}{class}>{text}</{close}>").expect(STRING);
}

/// The class of a verdict, which may have the number of a note behind it.
fn verdict(text: &str) -> &'static str {
    match text.split(' ').next() {
        Some("within" | "met") => "v yes",
        Some("outside" | "contradicted" | "missed") => "v no",
        Some(_) | None => "v",
    }
}

fn written(cell: &Cell, digits: Digits) -> String {
    match (cell, digits) {
        (Cell::Missing, _) => ABSENT.to_owned(),
        (Cell::Number(number, _), _) if !number.is_finite() => ABSENT.to_owned(),
        (Cell::Number(_, decimals), Digits::All) => {
            let all = cell.exact_digits();
            let (few, rest) = all.split_at(all.len() - if *decimals == 0 { 3 } else { 2 });
            format!("{few}<small>{rest}</small>")
        }
        (Cell::Text(_) | Cell::Count(_) | Cell::Number(..), _) => escaped(&cell.shown()),
    }
}

const STRING: &str = "a string takes everything";

/// What JSON has as null.
const ABSENT: &str = "\u{2013}";

/// A text of more bytes than these may be broken.
const LONG: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn html(rows: Vec<Vec<Cell>>) -> String {
        let mut table = Table::new("", &[("a", "A"), ("verdict", "verdict"), ("n", "N")]);
        table.rows = rows;
        let mut html = String::new();
        put(&mut html, &table, "", Digits::All, usize::MAX);
        html
    }

    #[test]
    fn what_all_rows_have_is_said_once() {
        let row = |n: u64| vec!["x".into(), Cell::Missing, Cell::Count(n)];
        let common = html((0..3).map(row).collect());
        assert!(common.contains("In every row: <span data-key=\"a\">a <b>x</b></span>."));
        assert!(common.contains("In no row: <span data-key=\"verdict\">verdict</span>."));
        assert_eq!(common.matches(">x<").count(), 1, "{common}");
        assert!(html((0..2).map(row).collect()).contains("<th scope=\"row\">x</th>"));
    }

    #[test]
    fn the_digits_of_programs_stand_behind_those_of_people() {
        let cell = |number, decimals| written(&Cell::Number(number, decimals), Digits::All);
        assert_eq!(cell(1.4804, 2), "1.48<small>04</small>");
        assert_eq!(cell(1.9999, 2), "1.99<small>99</small>", "people see 2.00");
        assert_eq!(cell(-3.0, 0), "-3<small>.00</small>");
        assert_eq!(written(&Cell::Number(1.4804, 2), Digits::Few), "1.48");
    }

    #[test]
    fn a_verdict_is_marked_also_if_it_has_a_note() {
        let text = html(vec![vec!["x".into(), "outside [3]".into(), Cell::Missing]]);
        assert!(text.contains("<td class=\"v no\">outside [3]</td>"), "{text}");
    }

    #[test]
    fn words_may_go_to_the_next_line_in_a_table_for_people() {
        let mut table = Table::new("", &[("a", "A"), ("b", "B")]);
        table.rows = vec![vec!["a row".into(), "request-size".into()]];
        for (digits, cell) in
            [(Digits::Few, "<th scope=\"row\" class=\"w\">"), (Digits::All, "<th scope=\"row\">")]
        {
            let mut html = String::new();
            put(&mut html, &table, "", digits, usize::MAX);
            assert!(html.contains(&format!("{cell}a row</th><td>request-size</td>")), "{html}");
        }
    }

    #[test]
    fn a_table_without_rows_is_a_table() {
        assert!(html(Vec::new()).contains("<tbody>\n</tbody>"));
    }
}
