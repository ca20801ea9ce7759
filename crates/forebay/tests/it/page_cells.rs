//! What a page shows, read as its readers see it: every cell of the JSON, and nothing is loaded.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::support::{Scene, stderr, stdout};

/// The most bytes of a page.
const BYTES_MAX: usize = 3_000_000;

/// Runs a command with and without a page; returns the rows of its JSON, and the page.
pub(crate) fn page_beside_json(scene: &Scene, line: &str, code: i32) -> (Value, String) {
    let output = scene.command(&format!("{line} --html page.html")).output();
    let output = output.expect("the program runs");
    assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
    assert_eq!(stderr(&output), "note: the page is page.html\n");
    let page = fs::read_to_string(scene.path("page.html")).expect("the page is there");
    assert!(page.len() < BYTES_MAX, "{line}: {} bytes", page.len());
    loads_nothing(&page);
    (serde_json::from_str(stdout(&output)).expect("the table is still printed"), page)
}

/// No scripts, no addresses, no files.
pub(crate) fn loads_nothing(page: &str) {
    let lower = page.to_lowercase();
    for load in ["<script", "<iframe", "<object", "<embed", "<img", "@import", " src=", "url("] {
        assert!(!lower.contains(load), "{load}");
    }
    assert!(!lower.contains("http://") && !lower.contains("https://"));
    assert!(lower.contains("default-src 'none'"));
}

/// The last table of a page whose header has these keys, with the values common to its rows.
fn rows_of(page: &str, keys: &[&str]) -> Vec<BTreeMap<String, String>> {
    let parts = page.split("<div class=\"table\">").skip(1);
    let mut found = Vec::new();
    for part in parts {
        let (before, body) = part.split_once("<tbody>").expect("a table has a body");
        let mut common = BTreeMap::new();
        let (said, head) = before.split_once("<table>").expect("a table has a begin");
        for span in said.split("<span data-key=\"").skip(1) {
            let (key, rest) = span.split_once("\">").expect("a key ends");
            let value = rest.split("</span>").next().and_then(|said| said.split_once("<b>"));
            let value = value.and_then(|(_, value)| value.split("</b>").next());
            common.insert(key.to_owned(), text(value.unwrap_or("\u{2013}")));
        }
        let own: Vec<&str> = head
            .split("data-key=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().expect("a key ends"))
            .collect();
        let has = |key: &&str| own.contains(key) || common.contains_key(*key);
        if !keys.iter().all(has) {
            continue;
        }
        let body = body.split("</tbody>").next().expect("a body ends");
        let rows = body.split("<tr>").skip(1).map(|row| {
            let row = row.replace("<th ", "<td ").replace("</th>", "</td>");
            let cells = row.split("<td").skip(1).map(|cell| {
                let (_, cell) = cell.split_once('>').expect("a tag ends");
                text(cell.split("</td>").next().expect("a cell ends"))
            });
            let cells: Vec<String> = cells.collect();
            assert_eq!(cells.len(), own.len(), "{row}");
            let own = own.iter().map(|key| (*key).to_owned()).zip(cells);
            common.clone().into_iter().chain(own).collect()
        });
        found = rows.collect();
    }
    found
}

/// What a reader sees of a piece of HTML.
fn text(html: &str) -> String {
    let mut inside = false;
    let is_shown = |c: &char| {
        let shown = !inside && *c != '<';
        inside = (inside || *c == '<') && *c != '>';
        shown
    };
    let mut text: String = html.chars().filter(is_shown).collect();
    for (entity, sign) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
    {
        text = text.replace(entity, sign);
    }
    text
}

/// Every cell of the rows is in the table of the page, row by row.
pub(crate) fn has_every_cell(page: &str, rows: &[Value]) {
    let keys: Vec<&str> =
        rows[0].as_object().expect("a row is an object").keys().map(String::as_str).collect();
    let shown = rows_of(page, &keys);
    assert_eq!(shown.len(), rows.len(), "{keys:?}");
    for (row, shown) in rows.iter().zip(&shown) {
        for (key, value) in row.as_object().expect("a row is an object") {
            let seen = &shown[key];
            let same = match value {
                Value::Null => seen == "\u{2013}",
                Value::Number(number) => seen.parse().ok() == number.as_f64(),
                Value::String(text) => seen == text || (text.is_empty() && seen == "\u{2013}"),
                Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
            };
            assert!(same, "{key}: {value} is shown as {seen:?} in {row}");
        }
    }
}
