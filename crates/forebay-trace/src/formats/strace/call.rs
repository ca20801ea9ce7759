//! One call as strace prints it: name, arguments, result, duration.
//!
//! ```text
//!   pwrite64(3</data/f2>, "a, b)\""..., 100, 4000) = 96 <0.000010>
//!   name     arguments, apart at commas outside of quotes and brackets
//! ```

use crate::error::Fault;
use crate::text::{decimal, hexadecimal, seconds};

pub(super) struct Call<'a> {
    pub(super) name: &'a [u8],
    arguments: Vec<&'a [u8]>,
    /// Its return value; none if it never returned.
    pub(super) result: Option<i64>,
    /// The text of `-y` for a descriptor that it returned.
    pub(super) decoration: Option<&'a [u8]>,
    /// How long it took, in nanoseconds.
    pub(super) took: Option<u64>,
}

/// The most arguments of a call, structures that are spread out included.
const ARGUMENTS_MAX: usize = 64;

impl<'a> Call<'a> {
    /// Splits a call that has returned; nothing for `restart_syscall` and calls that are cut.
    pub(super) fn split(text: &'a [u8]) -> Result<Option<Self>, Fault> {
        let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let end = text.iter().take_while(is_name).count();
        if end == 0 || text.get(end) != Some(&b'(') {
            return Err(Fault::new("call", "a name and its arguments in parentheses", text));
        }
        let name = &text[..end];
        let (arguments, close) = split_arguments(&text[end + 1..]);
        let Some(close) = close else {
            return Err(Fault::new("call", "a closing parenthesis", text));
        };
        let behind = text[end + 1 + close + 1..].trim_ascii();
        let Some(behind) = behind.strip_prefix(b"=") else {
            return Err(Fault::new("result", "'= RESULT' behind the call", behind));
        };
        let behind = behind.trim_ascii_start();
        if behind.starts_with(b"?") {
            return Ok(Some(Self { name, arguments, result: None, decoration: None, took: None }));
        }
        let digits =
            behind.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-');
        let (word, behind) = behind.split_at(digits.count());
        let Some(result) = integer(word) else {
            return Err(Fault::new("result", "a number, or ?", word));
        };
        let (decoration, behind) = match decorated(behind) {
            Some((path, behind)) => (Some(path), behind),
            None => (None, behind),
        };
        let took = duration(behind)?;
        Ok(Some(Self { name, arguments, result: Some(result), decoration, took }))
    }

    /// An argument, by its place.
    pub(super) fn argument(&self, place: usize) -> Result<&'a [u8], Fault> {
        let argument = self.arguments.get(place).copied();
        argument.ok_or_else(|| Fault::new("arguments", "more of them", self.name))
    }

    /// An argument as a number that is not negative.
    pub(super) fn number(&self, place: usize) -> Result<u64, Fault> {
        let argument = self.argument(place)?;
        let number = integer(argument).and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| Fault::new("arguments", "a number that is not negative", argument))
    }

    /// What an argument points to, `[4096]` or `[4096] => [8192]`: its value before the call. None
    /// of `NULL`, and of one that a call without it has not.
    pub(super) fn pointed(&self, place: usize) -> Result<Option<u64>, Fault> {
        let Some(argument) = self.arguments.get(place) else { return Ok(None) };
        if *argument == b"NULL" {
            return Ok(None);
        }
        let inside = argument.strip_prefix(b"[").and_then(|inside| {
            let end = memchr::memchr(b']', inside)?;
            integer(&inside[..end]).and_then(|number| u64::try_from(number).ok())
        });
        let expected = "NULL, or an offset in brackets";
        inside.map(Some).ok_or_else(|| Fault::new("arguments", expected, argument))
    }

    /// A position that an argument is; none of -1, by which a call means the descriptor's own.
    pub(super) fn position(&self, place: usize) -> Result<Option<u64>, Fault> {
        if self.argument(place)? == b"-1" { Ok(None) } else { self.number(place).map(Some) }
    }

    /// Whether a flag stands among the arguments, between `|` or in a structure.
    pub(super) fn flag(&self, flag: &[u8]) -> bool {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let has = |argument: &&'a [u8]| {
            !argument.starts_with(b"\"")
                && argument.split(|byte| !is_word(*byte)).any(|word| word == flag)
        };
        self.arguments.iter().any(has)
    }

    /// The descriptors of `[3, 4]`.
    pub(super) fn pair(&self) -> Vec<u64> {
        let found = self.arguments.iter().find_map(|argument| argument.strip_prefix(b"["));
        let inside = found.unwrap_or_default().split(|byte| *byte == b',');
        inside.filter_map(|one| descriptor(one.trim_ascii())).take(2).collect()
    }
}

/// The number of a descriptor, which `-y` may have decorated.
pub(super) fn descriptor(argument: &[u8]) -> Option<u64> {
    let digits = argument.iter().take_while(|byte| byte.is_ascii_digit()).count();
    decimal(&argument[..digits])
}

/// What `-y` says behind a number, and what follows: `</data/f2>`. A path may hold `<` and `>`.
pub(super) fn decorated(behind: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = behind.strip_prefix(b"<")?;
    let mut depth = 1;
    for (at, byte) in inside.iter().enumerate() {
        // An arrow is part of what a socket is called.
        let is_arrow = *byte == b'>' && at > 0 && inside[at - 1] == b'-';
        match byte {
            b'<' => depth += 1,
            b'>' if !is_arrow => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&inside[..at], &inside[at + 1..]));
        }
    }
    None
}

/// Arguments apart at commas, and where the parenthesis closes.
fn split_arguments(text: &[u8]) -> (Vec<&[u8]>, Option<usize>) {
    let (mut arguments, mut start, mut depth) = (Vec::new(), 0, 0u32);
    let (mut is_quoted, mut is_escaped) = (false, false);
    let mut add = |from: usize, to: usize| {
        let argument = text[from..to].trim_ascii();
        if !argument.is_empty() && arguments.len() < ARGUMENTS_MAX {
            arguments.push(argument);
        }
    };
    let mut decorated_until = 0;
    for (at, byte) in text.iter().enumerate() {
        if at < decorated_until {
            continue;
        }
        if is_quoted {
            is_quoted = is_escaped || *byte != b'"';
            is_escaped = !is_escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'"' => is_quoted = true,
            // A path that `-y` prints may hold anything.
            b'<' if at > 0 && (text[at - 1].is_ascii_digit() || text[..at].ends_with(b"CWD")) => {
                let behind = decorated(&text[at..]).map(|(path, _)| at + path.len() + 2);
                decorated_until = behind.unwrap_or(0);
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                add(start, at);
                return (arguments, Some(at));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                add(start, at);
                start = at + 1;
            }
            _ => {}
        }
    }
    (arguments, None)
}

/// A number as strace prints results and arguments.
fn integer(word: &[u8]) -> Option<i64> {
    if let Some(positive) = word.strip_prefix(b"-") {
        return decimal(positive).and_then(|number| i64::try_from(number).ok()).map(|n| -n);
    }
    if word.starts_with(b"0x") {
        // Addresses: as large as they are, they are no error.
        return hexadecimal(word).map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    }
    decimal(word).and_then(|number| i64::try_from(number).ok())
}

/// The time of `-T` at the end of a line.
fn duration(behind: &[u8]) -> Result<Option<u64>, Fault> {
    let Some(inside) = behind.trim_ascii().strip_suffix(b">") else { return Ok(None) };
    let Some(at) = inside.iter().rposition(|byte| *byte == b'<') else { return Ok(None) };
    seconds("duration", &inside[at + 1..]).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_parentheses_in_strings_separate_nothing() {
        let text = br#"pwrite64(3</data/a,b(1)>, "x, \"y)\""..., 100, 4000) = 96 <0.000010>"#;
        let call = Call::split(text).unwrap().unwrap();
        assert_eq!(call.name, b"pwrite64");
        assert_eq!(call.argument(0).unwrap(), b"3</data/a,b(1)>".as_slice());
        assert_eq!((call.number(2), call.number(3)), (Ok(100), Ok(4000)));
        assert_eq!((call.result, call.took), (Some(96), Some(10_000)));
    }

    #[test]
    fn results_may_be_errors_paths_or_absent() {
        let of = |text| Call::split(text).unwrap().unwrap();
        let failed = of(b"open(\"/x\", O_RDONLY) = -1 ENOENT (No such file) <0.1>");
        assert_eq!(failed.result, Some(-1));
        assert_eq!(of(b"exit_group(0) = ?").result, None);
        let opened = of(b"openat(AT_FDCWD</>, \"f\", O_RDWR|O_SYNC) = 4</data/f1> <0.000038>");
        assert_eq!((opened.decoration, opened.took), (Some(&b"/data/f1"[..]), Some(38_000)));
        assert!(opened.flag(b"O_SYNC") && !opened.flag(b"O_DSYNC"));
        assert_eq!(of(b"pipe2([3, 4<pipe:[17]>], O_CLOEXEC) = 0").pair(), [3, 4]);
    }
}
