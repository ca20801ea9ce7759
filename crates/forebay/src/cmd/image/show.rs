//! Nodes for people and for programs.

use std::fmt::Write;

use forebay_image::{Fault, Kind, Node};
use forebay_report::messages;
use forebay_report::screen;
use serde_json::{Map, Value, json};

/// `drwxr-xr-x`, as `ls -l` has it.
pub(super) fn mode(kind: Kind, permissions: u16) -> String {
    let kind = match kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::BlockDevice => 'b',
        Kind::CharDevice => 'c',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
    };
    let mut text = String::from(kind);
    // Owner, group, others: the shift of its bits, the bit that changes the last letter, and the
    // letter.
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = permissions >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, permissions & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
        });
    }
    text
}

/// A name in an object, with the bytes in hex if they are not UTF-8.
pub(crate) fn put_name(object: &mut Map<String, Value>, key: &str, name: &[u8]) {
    object.insert(key.to_owned(), String::from_utf8_lossy(name).into());
    if std::str::from_utf8(name).is_err() {
        object.insert(format!("{key}_hex"), hex(name).into());
    }
}

/// Bytes as digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

/// A node as an object.
pub(super) fn object(path: &[u8], node: &Node) -> Map<String, Value> {
    let mut object = Map::new();
    put_name(&mut object, "path", &absolute(path));
    let fields = [
        ("kind", json!(node.kind.name())),
        ("inode", json!(node.ino)),
        ("mode", json!(format!("{:04o}", node.permissions))),
        ("uid", json!(node.uid)),
        ("gid", json!(node.gid)),
        ("size", json!(node.size)),
        ("links", json!(node.links)),
        ("modified", json!(node.modified.map(|t| json!({"seconds": t.seconds, "nanos": t.nanos})))),
    ];
    object.extend(fields.map(|(key, value)| (key.to_owned(), value)));
    if let Kind::BlockDevice | Kind::CharDevice = node.kind {
        object.insert("device".to_owned(), json!([node.device.0, node.device.1]));
    }
    object
}

/// A path with its slash.
pub(super) fn absolute(path: &[u8]) -> Vec<u8> {
    [b"/", path].concat()
}

/// A fault as an object.
pub(super) fn fault(fault: &Fault) -> Value {
    let mut object = Map::new();
    put_name(&mut object, "path", &absolute(&fault.path));
    object.insert("offset".to_owned(), json!(fault.offset()));
    object.insert("error".to_owned(), fault.cause.to_string().into());
    Value::Object(object)
}

/// Names and values in two columns.
pub(super) fn columns(rows: &[(impl AsRef<str>, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.as_ref().chars().count()).max().unwrap_or(0);
    let lines = rows.iter().map(|(name, value)| {
        let label = format!("{:width$}  ", name.as_ref());
        match screen::columns() {
            Some(columns) => messages::filled(&label, value, columns),
            None => format!("{label}{value}\n"),
        }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_those_of_ls() {
        assert_eq!(mode(Kind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(mode(Kind::File, 0o6754), "-rwsr-sr--");
        assert_eq!(mode(Kind::Symlink, 0o7000), "l--S--S--T");
    }

    #[test]
    fn names_that_are_no_text_have_their_bytes_beside_them() {
        let mut object = Map::new();
        put_name(&mut object, "path", b"a\xff");
        put_name(&mut object, "target", b"b");
        assert_eq!(
            Value::Object(object),
            json!({
                "path": "a\u{fffd}", "path_hex": "61ff", "target": "b",
            })
        );
    }
}
