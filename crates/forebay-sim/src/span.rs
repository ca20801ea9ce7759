//! The time from the first of some calls to the last.

use forebay_core::time::{Duration, Instant};

/// When the first call was issued, and when the last one ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span(Option<(Instant, Instant)>);

impl Span {
    /// A call has ended.
    pub fn extend(&mut self, issued: Instant, done: Instant) {
        let (first, last) = self.0.unwrap_or((issued, done));
        self.0 = Some((first.min(issued), last.max(done)));
    }

    /// The calls of both.
    pub(crate) fn merge(&mut self, other: Self) {
        if let Some((first, last)) = other.0 {
            self.extend(first, last);
        }
    }

    /// Its length: zero if there was no call.
    pub fn length(&self) -> Duration {
        self.0.map_or(Duration::ZERO, |(first, last)| last.since(first))
    }
}
