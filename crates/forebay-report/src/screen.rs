//! The terminal that a command prints on: its width, its colours, its pager.
//!
//! ```text
//!   standard output is       width                       colour        pager
//!   a terminal               the terminal's              unless        where a command asks
//!                                                        NO_COLOR      for one
//!   anything else            none                        none          none
//!   either, with --wide      none
//! ```

use std::env;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use rustix::termios;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

static SCREEN: OnceLock<Screen> = OnceLock::new();

#[derive(Clone, Copy, Debug, Default)]
struct Screen {
    is_wide: bool,
    columns: Option<usize>,
    has_color: bool,
}

/// Looks at standard output once; with `wide` lines may have any length.
pub fn set_up(wide: bool) {
    let is_terminal = io::stdout().is_terminal();
    let columns = if wide { None } else { width(is_terminal) };
    let is_plain = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_color = is_terminal && !is_dumb() && !is_plain("NO_COLOR");
    // A second call comes from a test and changes nothing.
    let _ = SCREEN.set(Screen { is_wide: wide, columns, has_color });
}

/// How many columns a line may have; `None` if there is no limit.
pub fn columns() -> Option<usize> {
    SCREEN.get().and_then(|screen| screen.columns)
}

/// Whether every column was asked for.
pub fn is_wide() -> bool {
    SCREEN.get().is_some_and(|screen| screen.is_wide)
}

/// The width of prose.
pub fn prose_columns() -> usize {
    columns().map_or(PROSE_MAX, |columns| columns.min(PROSE_MAX))
}

/// Words that stand for good, for a warning, and for bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Green.
    Good,
    /// Yellow.
    Mixed,
    /// Red.
    Bad,
}

/// The text in a colour, where the screen has colours.
pub fn painted(text: &str, mood: Mood) -> String {
    if !SCREEN.get().is_some_and(|screen| screen.has_color) {
        return text.to_owned();
    }
    let color = match mood {
        Mood::Good => AnsiColor::Green,
        Mood::Mixed => AnsiColor::Yellow,
        Mood::Bad => AnsiColor::Red,
    };
    let style = Style::new().bold().fg_color(Some(color.into()));
    format!("{style}{text}{style:#}")
}

/// Prints a text, through a pager if standard output is a terminal: `$PAGER`, or `less -FRX`, which
/// ends by itself if the text fits.
pub fn print_paged(text: &str) -> io::Result<()> {
    if !io::stdout().is_terminal() || is_dumb() {
        return io::stdout().lock().write_all(text.as_bytes());
    }
    let typed = env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let typed = typed.unwrap_or_else(|| "less -FRX".to_owned());
    let mut words = typed.split_whitespace();
    let program = words.next().unwrap_or("less");
    let pager = Command::new(program).args(words).stdin(Stdio::piped()).spawn();
    let Ok(mut pager) = pager else { return io::stdout().lock().write_all(text.as_bytes()) };
    let written = match pager.stdin.take() {
        Some(mut to) => to.write_all(text.as_bytes()),
        None => Ok(()),
    };
    pager.wait()?;
    // A reader that has seen enough is no error.
    written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Columns that a text takes on a terminal.
pub fn width_of(text: &str) -> usize {
    text.width()
}

/// The text cut to a number of columns, with `…` at the end if something is missing.
pub fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut taken = 0;
    for c in text.chars() {
        taken += c.width().unwrap_or(0);
        if taken + 1 > columns {
            break;
        }
        short.push(c);
    }
    short.truncate(short.trim_end().len());
    if columns > 0 {
        short.push('…');
    }
    short
}

/// The width of the terminal. What goes to a pipe or a file depends on no terminal.
fn width(is_terminal: bool) -> Option<usize> {
    let of_terminal = || termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col.into());
    let found: Option<usize> = is_terminal.then(of_terminal).flatten();
    // A terminal that does not know its width says 0.
    found.filter(|columns| *columns > 0).map(|columns| columns.max(COLUMNS_MIN))
}

/// Whether the terminal knows neither colours nor places: `TERM` is `dumb`, or not set.
pub fn is_dumb() -> bool {
    env::var_os("TERM").is_none_or(|term| term == "dumb")
}

/// Prose is not wider than this; commands may be.
const PROSE_MAX: usize = 100;

/// A narrower screen is taken for one of this width.
const COLUMNS_MIN: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_in_an_ellipsis() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 5), "abcd…");
        assert_eq!(cut("ab cdef", 4), "ab…");
        assert_eq!(cut("読書読書", 5), "読書…");
        assert_eq!(cut("abc", 0), "");
    }
}
