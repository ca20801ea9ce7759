//! The log of a mount: a line for each error, and a limit on lines a second.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use crate::lock::{Mutex, lock};

/// A log with a limit on its rate.
pub(super) struct Log {
    sink: Sink,
    state: Mutex<State>,
}

/// Where lines go.
pub type Sink = Box<dyn Fn(&str) + Send + Sync>;

struct State {
    /// The begin of the current period, and the lines in it.
    since: Instant,
    lines: u32,
    /// Lines that were dropped.
    held: u64,
    /// The places that were reported last.
    recent: VecDeque<(u64, u64)>,
}

impl Log {
    pub(super) fn new(sink: Sink) -> Self {
        let (since, recent) = (Instant::now(), VecDeque::new());
        Self { sink, state: Mutex::new(State { since, lines: 0, held: 0, recent }) }
    }

    /// Logs a line without a limit.
    pub(super) fn say(&self, line: &str) {
        (self.sink)(line);
    }

    /// Logs an error of a place, unless it was logged lately or there are too many lines.
    pub(super) fn say_rarely(&self, place: (u64, u64), line: impl FnOnce() -> String) {
        let held = {
            let mut state = lock(&self.state);
            if state.recent.contains(&place) {
                return;
            }
            state.recent.truncate(RECENT - 1);
            state.recent.push_front(place);
            let now = Instant::now();
            if now.duration_since(state.since) >= PERIOD {
                (state.since, state.lines) = (now, 0);
            }
            state.lines += 1;
            if state.lines > LINES {
                state.held += 1;
                return;
            }
            std::mem::take(&mut state.held)
        };
        self.count(held);
        (self.sink)(&line());
    }

    /// Logs the number of lines that were dropped.
    pub(super) fn close(&self) {
        let held = std::mem::take(&mut lock(&self.state).held);
        self.count(held);
    }

    fn count(&self, held: u64) {
        if held > 0 {
            (self.sink)(&format!("{held} more lines of this kind were left out"));
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

/// Lines in a [`PERIOD`].
const LINES: u32 = 20;

const PERIOD: Duration = Duration::from_secs(1);

/// Places that are remembered, so that a retry logs no second line.
const RECENT: usize = 256;

/// The message of a panic.
pub(super) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_place_is_named_once_and_many_places_are_held_back() {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&said);
        let log = Log::new(Box::new(move |line| lock(&sink).push(line.to_owned())));
        log.say_rarely((1, 2), || "one".to_owned());
        log.say_rarely((1, 2), || "one".to_owned());
        assert_eq!(*lock(&said), ["one"]);
        for place in 0..1_000 {
            log.say_rarely((7, place), || "many".to_owned());
        }
        // A slow machine may see a second window begin.
        assert!(lock(&said).len() < 1 + 4 * LINES as usize);
        log.close();
        assert!(lock(&said).last().unwrap().contains("more lines"), "nothing followed");
        let count = lock(&said).len();
        log.close();
        assert_eq!(lock(&said).len(), count);
    }
}
