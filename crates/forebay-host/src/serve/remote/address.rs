//! Where another server's export is: `nbd://HOST[:PORT]/EXPORT`, `nbd+unix:///EXPORT?socket=PATH`.
//!
//! Source:     the NBD project, "The NBD Uniform Resource Indicator".
//! Behaviour:  a name behind the first slash, `%xx` decoded; port 10809 by default.
//! Differs:    no TLS (`nbds`), no vsock.
//! Not for:    users and passwords, which NBD does not have.

use std::fmt;
use std::io;
use std::path::{self, PathBuf};

/// Where an export of another server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdAddress {
    pub(super) place: Place,
    pub(super) export: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl NbdAddress {
    /// Whether a text is meant to be such an address.
    pub fn is_one(typed: &str) -> bool {
        let scheme = typed.split_once("://").map(|(scheme, _)| scheme);
        matches!(scheme, Some("nbd" | "nbd+unix" | "nbds" | "nbds+unix" | "nbd+vsock"))
    }

    /// Takes an address apart.
    ///
    /// # Errors
    /// The error in it.
    pub fn parse(typed: &str) -> Result<Self, String> {
        let (scheme, rest) = typed.split_once("://").ok_or("it has no scheme")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, name) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decoded(name)?;
        let place = match scheme {
            "nbd" if query.is_empty() => {
                let (host, port) = host_and_port(host)?;
                Place::Tcp(host, port)
            }
            "nbd" => return Err(format!("'{query}' is not understood")),
            "nbd+unix" if host.is_empty() => {
                let path = query.strip_prefix("socket=").filter(|path| !path.contains('&'));
                let path = path.filter(|path| !path.is_empty());
                Place::Unix(decoded(path.ok_or("it ends with ?socket=PATH")?)?.into())
            }
            "nbd+unix" => return Err("it has a socket and no host: three slashes".to_owned()),
            other => return Err(format!("'{other}' sources are not supported")),
        };
        Ok(Self { place, export })
    }

    /// The same address for a process in any folder.
    ///
    /// # Errors
    /// The current folder cannot be told.
    pub fn absolute(self) -> io::Result<Self> {
        let place = match self.place {
            Place::Unix(path) => Place::Unix(path::absolute(path)?),
            tcp @ Place::Tcp(..) => tcp,
        };
        Ok(Self { place, ..self })
    }
}

/// What [`NbdAddress::parse`] takes.
impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = encoded(&self.export);
        match &self.place {
            Place::Tcp(host, port) if host.contains(':') => {
                write!(f, "nbd://[{host}]:{port}/{export}")
            }
            Place::Tcp(host, port) => write!(f, "nbd://{host}:{port}/{export}"),
            Place::Unix(path) => {
                let path = encoded(&path.to_string_lossy());
                write!(f, "nbd+unix:///{export}?socket={path}")
            }
        }
    }
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => {
            let port = rest.strip_prefix(':');
            (host, Some(port.ok_or_else(|| format!("'{rest}' is no port: :PORT"))?))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("it names no host".to_owned());
    }
    let port = port.map_or(Ok(PORT), str::parse);
    Ok((host.to_owned(), port.map_err(|_| format!("'{text}' has no port in it"))?))
}

/// Text without `%xx`.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or_else(|| format!("'{text}' has a % without two digits"))?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| format!("'{text}' is not UTF-8"))
}

/// Text with `%xx` for what has a meaning in an address.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for one in text.chars() {
        if one.is_ascii_alphanumeric() || !one.is_ascii() || "/-._~:@+,=".contains(one) {
            encoded.push(one);
        } else {
            encoded.push_str(&format!("%{:02X}", u32::from(one)));
        }
    }
    encoded
}

/// The port of NBD.
const PORT: u16 = 10809;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart_or_refused() {
        let tcp = |host: &str, port, export: &str| {
            Ok(NbdAddress { place: Place::Tcp(host.to_owned(), port), export: export.to_owned() })
        };
        assert_eq!(NbdAddress::parse("nbd://host"), tcp("host", 10809, ""));
        assert_eq!(NbdAddress::parse("nbd://host:7/a%20b/c"), tcp("host", 7, "a b/c"));
        assert_eq!(NbdAddress::parse("nbd://[::1]:7/x"), tcp("::1", 7, "x"));
        assert_eq!(NbdAddress::parse("nbd://[::1]"), tcp("::1", 10809, ""));
        let unix = NbdAddress::parse("nbd+unix:///x?socket=/tmp/a%3Fb").unwrap();
        assert_eq!(unix.place, Place::Unix("/tmp/a?b".into()));
        assert_eq!(unix.export, "x");
        for typed in [
            "nbd://host:7/a%20b/c",
            "nbd://[::1]:7/",
            "nbd+unix:///x%3Fy?socket=/tmp/a%3Fb%25%26c",
            "nbd+unix:///\u{e4}?socket=/tmp/\u{e4}",
        ] {
            assert_eq!(NbdAddress::parse(typed).unwrap().to_string(), typed);
        }
        let relative = NbdAddress::parse("nbd+unix:///?socket=far").unwrap().absolute().unwrap();
        assert!(matches!(relative.place, Place::Unix(path) if path.is_absolute()));
        for bad in [
            "nbd://",
            "nbd:///x",
            "nbd://host:x/",
            "nbd://host:70000/",
            "nbd://[::1]7/",
            "nbd://host/x?socket=y",
            "nbd://host/%4",
            "nbd://host/%zz",
            "nbd://host/%ff",
            "nbd+unix:///x",
            "nbd+unix:///x?socket=",
            "nbd+unix:///x?socket=a&b=c",
            "nbd+unix://host/x?socket=a",
            "nbds://host/x",
        ] {
            assert!(NbdAddress::is_one(bad), "{bad}");
            assert!(NbdAddress::parse(bad).is_err(), "{bad}");
        }
        assert!(!NbdAddress::is_one("https://host/x") && !NbdAddress::is_one("disk.img"));
    }
}
