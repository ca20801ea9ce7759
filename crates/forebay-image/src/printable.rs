//! Names of any bytes as one line of text.

use std::fmt::Write;
use std::ops::RangeInclusive;

/// A name as text for people: invalid text, and characters that control a terminal, are escaped.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if c.is_control() || INVISIBLE.iter().any(|range| range.contains(&c)) => {
                    let mut bytes = [0; 4];
                    escape(&mut text, c.encode_utf8(&mut bytes).as_bytes());
                }
                c => text.push(c),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

/// Letters that show nothing, or turn the direction of what follows.
const INVISIBLE: [RangeInclusive<char>; 4] = [
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{2069}',
    '\u{feff}'..='\u{feff}',
];

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(text, "\\x{byte:02x}").expect("a string takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_bytes_is_one_line_of_text() {
        assert_eq!(shown("straße".as_bytes()), "straße");
        assert_eq!(shown(b"a\nb\\\xff\x1b[m"), "a\\x0ab\\\\\\xff\\x1b[m");
        assert_eq!(shown("\u{9b}".as_bytes()), "\\xc2\\x9b");
        assert_eq!(shown("a\u{202e}b".as_bytes()), "a\\xe2\\x80\\xaeb");
    }
}
