//! What the user chose: order, filter, pause, help; and what a key changes.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What is shown, and in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) sort: Sort,
    /// Rows whose name holds this text, in any case, are shown.
    pub(super) filter: String,
    /// Whether the filter is being typed.
    pub(super) typing: bool,
    /// Whether what is shown stays as it is.
    pub(super) paused: bool,
    pub(super) help: bool,
}

/// By what rows are sorted; a table without such a column is sorted by bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Brought,
    Amplification,
    Pauses,
    Latency,
    Name,
}

/// What a key asks for beyond the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing.
    Stay,
    /// The end.
    Quit,
}

impl Choice {
    /// Takes in a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Stay;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Wish::Quit } else { Wish::Stay };
        }
        if self.typing {
            self.typed(key.code);
            return Wish::Stay;
        }
        let KeyCode::Char(letter) = key.code else {
            if key.code == KeyCode::Esc {
                self.help = false;
                self.filter.clear();
            }
            return Wish::Stay;
        };
        match letter {
            'q' => return Wish::Quit,
            '?' | 'h' => self.help = !self.help,
            '/' => self.typing = true,
            ' ' => self.paused = !self.paused,
            'b' => self.sort = Sort::Brought,
            'x' => self.sort = Sort::Amplification,
            'p' => self.sort = Sort::Pauses,
            'l' => self.sort = Sort::Latency,
            'n' => self.sort = Sort::Name,
            _ => {}
        }
        Wish::Stay
    }

    /// Whether a row of this name is shown.
    pub(super) fn lets(&self, name: &str) -> bool {
        self.filter.is_empty() || name.to_lowercase().contains(&self.filter.to_lowercase())
    }

    fn typed(&mut self, code: KeyCode) {
        if let KeyCode::Char(letter) = code {
            if self.filter.len() < FILTER_MAX {
                self.filter.push(letter);
            }
        } else if code == KeyCode::Backspace {
            self.filter.pop();
        } else if code == KeyCode::Enter {
            self.typing = false;
        } else if code == KeyCode::Esc {
            self.typing = false;
            self.filter.clear();
        }
    }
}

impl Sort {
    /// Its word on the screen.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Brought => "bytes",
            Self::Amplification => "x",
            Self::Pauses => "pauses",
            Self::Latency => "latency",
            Self::Name => "name",
        }
    }
}

/// What the keys do, a line each.
pub(super) const HELP: [&str; 15] = [
    "q  Ctrl-C   quit",
    "b           sort by bytes brought in or moved",
    "x           sort by amplification: bytes brought in for each byte used",
    "p           sort by pauses of writers",
    "l           sort devices by latency",
    "n           sort by name",
    "/           filter by name; Enter keeps it, Esc takes it away",
    "space       hold the screen, and let it go on",
    "?  h        this help",
    "",
    "used: what reads asked for, a page for each fault, and windows whose marker was reached",
    "*   : by the process's counters: read_bytes, against rchar or a page for each major fault",
    "= N s: time until so much is on the device, by the kernel's estimate of its bandwidth",
    "busy: share of time with a request; a device that serves many at once can take more",
    "window: largest readahead window; of a device, that of files that are opened now",
];

/// The longest filter.
const FILTER_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_hold_and_quit() {
        let mut choice = Choice::default();
        for (key, sort) in [
            ('x', Sort::Amplification),
            ('p', Sort::Pauses),
            ('l', Sort::Latency),
            ('n', Sort::Name),
            ('b', Sort::Brought),
        ] {
            assert_eq!(press(&mut choice, KeyCode::Char(key)), Wish::Stay);
            assert_eq!(choice.sort, sort);
        }
        press(&mut choice, KeyCode::Char(' '));
        press(&mut choice, KeyCode::Char('?'));
        assert!(choice.paused && choice.help);
        press(&mut choice, KeyCode::Char(' '));
        press(&mut choice, KeyCode::Esc);
        assert_eq!(choice, Choice::default());
        assert_eq!(press(&mut choice, KeyCode::Char('q')), Wish::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        choice.typing = true;
        assert_eq!(choice.key(interrupt), Wish::Quit);
    }

    #[test]
    fn a_filter_is_typed_corrected_kept_and_taken_away() {
        let mut choice = Choice::default();
        for key in "/Qqx".chars() {
            press(&mut choice, KeyCode::Char(key));
        }
        press(&mut choice, KeyCode::Backspace);
        press(&mut choice, KeyCode::Enter);
        assert_eq!((choice.filter.as_str(), choice.typing), ("Qq", false));
        assert!(choice.lets("/srv/aqQ") && !choice.lets("/srv/q"));
        press(&mut choice, KeyCode::Esc);
        assert!(choice.lets("/srv/q"));
        press(&mut choice, KeyCode::Char('/'));
        for _ in 0..100 {
            press(&mut choice, KeyCode::Char('a'));
        }
        assert_eq!(choice.filter.len(), FILTER_MAX);
        press(&mut choice, KeyCode::Esc);
        assert_eq!(choice, Choice::default());
    }

    fn press(choice: &mut Choice, code: KeyCode) -> Wish {
        choice.key(KeyEvent::new(code, KeyModifiers::NONE))
    }
}
