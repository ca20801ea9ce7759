//! What the user chose: order, filter, pause, help; and what a key changes.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The shown tables, and their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) sort: Sort,
    /// Whether the last row is the first.
    pub(super) reversed: bool,
    /// Rows whose name holds this text, in any case, are shown.
    pub(super) filter: String,
    /// Whether the filter is being typed.
    pub(super) typing: bool,
    /// Whether the display is frozen.
    pub(super) paused: bool,
    pub(super) help: bool,
    /// The table that keys move in, from the top; none before the first such key.
    pub(super) table: Option<usize>,
    /// The process whose files are shown instead of the tables.
    pub(super) process: Option<u32>,
    pub(super) cursor: Cursor,
}

/// Where one is in a table, or in the help.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) row: usize,
    /// The first row that is shown.
    pub(super) top: usize,
    /// Rows that are shown at once, as they were drawn.
    pub(super) page: usize,
    /// Columns behind the first one that are passed over.
    pub(super) column: usize,
    /// The process of the row, as it was drawn.
    pub(super) process: Option<u32>,
}

impl Cursor {
    /// Adapts to a table of `rows` rows and `columns` columns, of which `page` rows are shown at
    /// once.
    pub(super) fn follow(&mut self, rows: usize, page: usize, columns: usize) {
        self.page = page.max(1);
        self.row = self.row.min(rows.saturating_sub(1));
        self.top = self.top.min(self.row).min(rows.saturating_sub(self.page));
        self.top = self.top.max((self.row + 1).saturating_sub(self.page));
        self.column = self.column.min(columns.saturating_sub(2));
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all other keys leave the row")]
    fn moved(&mut self, code: KeyCode) -> bool {
        self.row = match code {
            KeyCode::Up | KeyCode::Char('k') => self.row.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.row.saturating_add(1),
            KeyCode::PageUp => self.row.saturating_sub(self.page),
            KeyCode::PageDown => self.row.saturating_add(self.page),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => usize::MAX - 1,
            _ => return false,
        };
        true
    }
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

/// Actions of a key other than a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing.
    Stay,
    /// The end.
    Quit,
}

impl Choice {
    /// Takes in a key.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other keys do nothing")]
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
        if key.code == KeyCode::Esc && (self.help || self.process.is_some()) {
            (self.help, self.process, self.cursor) = (false, None, Cursor::default());
            return Wish::Stay;
        }
        let moves = self.help || self.table.is_some();
        if moves && self.cursor.moved(key.code) {
            return Wish::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('?' | 'h') => {
                (self.help, self.cursor) = (!self.help, Cursor::default());
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('b') => self.sort = Sort::Brought,
            KeyCode::Char('x') => self.sort = Sort::Amplification,
            KeyCode::Char('p') => self.sort = Sort::Pauses,
            KeyCode::Char('l') => self.sort = Sort::Latency,
            KeyCode::Char('n') => self.sort = Sort::Name,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Tab => self.select(self.table.map_or(0, |table| (table + 1) % TABLES)),
            KeyCode::BackTab => {
                self.select(self.table.map_or(0, |table| (table + TABLES - 1) % TABLES));
            }
            KeyCode::Down | KeyCode::PageDown | KeyCode::Char('j') if self.table.is_none() => {
                self.select(FILES);
            }
            KeyCode::Left => self.cursor.column = self.cursor.column.saturating_sub(1),
            KeyCode::Right => self.cursor.column += 1,
            KeyCode::Enter if self.table.is_some() && self.process.is_none() => {
                if let Some(process) = self.cursor.process {
                    (self.process, self.cursor) = (Some(process), Cursor::default());
                }
            }
            KeyCode::Esc if self.filter.is_empty() => {
                (self.table, self.cursor) = (None, Cursor::default());
            }
            KeyCode::Esc => self.filter.clear(),
            _ => {}
        }
        Wish::Stay
    }

    fn select(&mut self, table: usize) {
        (self.table, self.cursor) = (Some(table), Cursor::default());
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
    fn next(self) -> Self {
        match self {
            Self::Brought => Self::Amplification,
            Self::Amplification => Self::Pauses,
            Self::Pauses => Self::Latency,
            Self::Latency => Self::Name,
            Self::Name => Self::Brought,
        }
    }

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

/// What the keys do, and what the words mean.
pub(super) const HELP: [(&str, &str); 24] = [
    ("q  Ctrl-C   ", "quit"),
    ("Tab         ", "go to the next table; Shift-Tab to the one before"),
    ("up down j k ", "go to a row; PgUp, PgDn, Home, End, g, G"),
    ("left right  ", "pass over columns; +5 says that five do not fit"),
    ("Enter       ", "the files of the row's process, as it has them open or mapped"),
    ("Esc         ", "back; take the filter away; leave the table"),
    ("/           ", "filter by name; Enter keeps it, Esc takes it away"),
    ("space       ", "hold the screen, and let it go on"),
    ("b           ", "sort by bytes brought in or moved"),
    ("x           ", "sort by amplification: bytes brought in for each byte used"),
    ("p           ", "sort by pauses of writers"),
    ("l           ", "sort devices by latency"),
    ("n           ", "sort by name"),
    ("s  r        ", "the next order; the other way round"),
    ("?  h        ", "this help"),
    ("", ""),
    (
        "used    ",
        "what reads asked for, a page for each fault, and windows whose marker was reached",
    ),
    ("*       ", "by the process's counters: read_bytes, against rchar or a page for each fault"),
    ("= N s   ", "time until so much is on the device, by the kernel's estimate of its bandwidth"),
    ("busy    ", "share of time with a request; a device that serves many at once can take more"),
    ("window  ", "largest readahead window; of a device, that of files that are opened now"),
    ("trend   ", "bytes of the last ten views, the latest to the right; the largest is full"),
    ("yellow  ", "busy 60 %, a request 20 ms, 2 s to drain, any pause, 2 x the bytes used"),
    ("red     ", "busy 90 %, a request 100 ms, 10 s to drain, pauses 0.5 s, 8 x the bytes used"),
];

/// Tables, and the place of files among them.
pub(super) const TABLES: usize = 3;
const FILES: usize = 1;

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
        for expected in [Sort::Amplification, Sort::Pauses, Sort::Latency, Sort::Name] {
            press(&mut choice, KeyCode::Char('s'));
            assert_eq!(choice.sort, expected);
        }
        press(&mut choice, KeyCode::Char('s'));
        press(&mut choice, KeyCode::Char('r'));
        assert!(choice.reversed);
        press(&mut choice, KeyCode::Char('r'));
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

    #[test]
    fn rows_are_gone_to_and_a_process_is_opened_and_left() {
        let mut choice = Choice::default();
        press(&mut choice, KeyCode::Up);
        assert_eq!(choice, Choice::default());
        press(&mut choice, KeyCode::Down);
        assert_eq!((choice.table, choice.cursor.row), (Some(FILES), 0));
        press(&mut choice, KeyCode::Tab);
        assert_eq!(choice.table, Some(2));
        press(&mut choice, KeyCode::Tab);
        press(&mut choice, KeyCode::BackTab);
        assert_eq!(choice.table, Some(2));
        let cursor = |choice: &mut Choice, code| {
            press(choice, code);
            choice.cursor.follow(24, 5, 9);
            (choice.cursor.row, choice.cursor.top)
        };
        for (code, expected) in [
            (KeyCode::Up, (0, 0)),
            (KeyCode::Char('j'), (1, 0)),
            (KeyCode::PageDown, (6, 2)),
            (KeyCode::Char('k'), (5, 2)),
            (KeyCode::End, (23, 19)),
            (KeyCode::Down, (23, 19)),
            (KeyCode::PageUp, (18, 18)),
            (KeyCode::Home, (0, 0)),
        ] {
            assert_eq!(cursor(&mut choice, code), expected, "{code:?}");
        }
        for _ in 0..20 {
            cursor(&mut choice, KeyCode::Right);
        }
        assert_eq!(choice.cursor.column, 7, "one column is left");
        cursor(&mut choice, KeyCode::Left);
        assert_eq!(choice.cursor.column, 6);
        press(&mut choice, KeyCode::Enter);
        assert_eq!(choice.process, None, "a row without a process");
        choice.cursor.process = Some(812);
        press(&mut choice, KeyCode::Enter);
        assert_eq!((choice.process, choice.cursor.row), (Some(812), 0));
        press(&mut choice, KeyCode::Esc);
        assert_eq!((choice.process, choice.table), (None, Some(2)));
        press(&mut choice, KeyCode::Esc);
        assert_eq!(choice, Choice::default());
    }

    #[test]
    fn a_cursor_stays_in_a_table_that_shrinks() {
        let mut cursor = Cursor { row: 23, top: 19, column: 3, ..Cursor::default() };
        cursor.follow(3, 5, 2);
        assert_eq!((cursor.row, cursor.top, cursor.column), (2, 0, 0));
        cursor.follow(0, 0, 0);
        assert_eq!((cursor.row, cursor.top, cursor.page), (0, 0, 1));
    }

    fn press(choice: &mut Choice, code: KeyCode) -> Wish {
        choice.key(KeyEvent::new(code, KeyModifiers::NONE))
    }
}
