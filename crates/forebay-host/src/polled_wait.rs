//! A wait that a rule of dispatch may have polled before the thread sleeps.
//!
//! ```text
//!   sleep   reply |--- client ---| wake-up of a halted processor |== next request
//!   poll    reply |--- client ---|== next request
//! ```
//!
//! What is waited for is soon there where the other side works on this machine and the processor is
//! not wanted. The rule learns from each wait how long that takes.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use forebay_core::dispatch::{Class, Dispatch, Handling, Medium, Spec};
use forebay_core::time;

use crate::processor::{self, Watch, nanos};

/// The waits of one thread.
pub(crate) struct PolledWait {
    rule: Box<dyn Dispatch>,
    medium: Medium,
    watch: Watch,
    origin: Instant,
    begun: Instant,
    handling: Handling,
}

impl PolledWait {
    /// Nothing has been waited for. `medium` is what waiting times are made of.
    pub(crate) fn new(rule: &Spec, medium: Medium) -> Self {
        let (now, handling) = (Instant::now(), Handling::Deferred);
        // Measured now, or the first wait would seem to take as long.
        processor::costs();
        let (rule, watch) = (rule.build(), Watch::new());
        Self { rule, medium, watch, origin: now, begun: now, handling }
    }

    /// A wait begins.
    pub(crate) fn begin(&mut self, class: &Class) {
        self.begun = Instant::now();
        let processor = self.watch.processor(self.begun);
        let now = time::Instant(nanos(self.begun - self.origin));
        self.handling = self.rule.choose(now, class, self.medium, processor);
    }

    /// How long it is polled; zero for not at all. A device always completes; a client may stay
    /// silent for ever, so no poll is without a limit.
    pub(crate) fn limit(&self) -> Duration {
        match self.handling {
            Handling::Inline(limit) => Duration::from_nanos(limit.0).min(POLL_MAX),
            Handling::Deferred => Duration::ZERO,
        }
    }

    /// Looks until something is there, or until the limit.
    pub(crate) fn poll<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let limit = self.limit();
        if limit.is_zero() {
            return None;
        }
        loop {
            let found = look();
            if found.is_some() || self.begun.elapsed() >= limit {
                return found;
            }
            thread::yield_now();
        }
    }

    /// The wait has ended.
    pub(crate) fn end(&mut self, class: &Class) {
        let took = time::Duration(nanos(self.begun.elapsed()));
        let now = time::Instant(nanos(self.origin.elapsed()));
        self.rule.learn(now, class, self.handling, took);
    }
}

impl fmt::Debug for PolledWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolledWait({:?})", self.rule)
    }
}

/// The longest poll: what a client that falls silent costs, once.
const POLL_MAX: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: Class = Class { write: false, bytes: 4096, ahead: false };

    fn wait(rule: &str) -> PolledWait {
        let spec = Spec::parse(rule).unwrap();
        let mut wait = PolledWait::new(&spec, Medium::default());
        wait.begin(&CLASS);
        wait
    }

    #[test]
    fn a_rule_that_sleeps_looks_at_nothing() {
        let wait = wait("deferred");
        assert_eq!(wait.limit(), Duration::ZERO);
        assert_eq!(wait.poll(|| -> Option<()> { panic!("looked") }), None);
    }

    #[test]
    fn a_poll_ends_with_what_it_finds_or_at_the_limit() {
        let mut wait = wait("deferred");
        wait.handling = Handling::INLINE;
        assert_eq!(wait.limit(), POLL_MAX, "a client may never ask again");
        wait.begun = Instant::now() + Duration::from_secs(60);
        let mut looks = 0;
        let found = wait.poll(|| {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, Some(3));
        wait.begun = Instant::now();
        wait.handling = Handling::Inline(time::Duration(1));
        assert_eq!(wait.poll(|| None::<()>), None);
    }

    #[test]
    fn a_network_is_never_polled() {
        let remote = Medium { kind: forebay_core::dispatch::MediumKind::Remote, programmed: false };
        let mut wait = PolledWait::new(&Spec::parse("adaptive").unwrap(), remote);
        for _ in 0..200 {
            wait.begin(&CLASS);
            assert_eq!(wait.limit(), Duration::ZERO);
            wait.end(&CLASS);
        }
    }
}
