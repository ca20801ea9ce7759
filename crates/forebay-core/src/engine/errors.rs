//! Write errors, each reported once on every open description.
//!
//! Source:     Linux 6.12, lib/errseq.c and mm/filemap.c.
//! Behaviour:  a file counts its write errors; an open description keeps the count that was last
//!             reported on it. An error that was reported on no description yet is also reported on
//!             the next one that is opened. Reports on internal descriptions do not count.
//! Differs:    one kind of error; the count does not wrap in 64 bits.
//! Not for:    errors of reads, which the read itself returns.

/// The errors of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteErrors {
    count: u64,
    /// The last one was reported on a description that is not internal.
    seen: bool,
}

/// The errors that were reported on an open description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    count: u64,
    /// The description belongs to no client: errors reported on it count as unreported.
    is_internal: bool,
}

impl Seen {
    /// From now on the description belongs to no client.
    pub(super) fn set_internal(&mut self) {
        self.is_internal = true;
    }
}

impl WriteErrors {
    /// A write failed.
    pub(super) fn set(&mut self) {
        self.count += 1;
        self.seen = false;
    }

    /// How many writes have failed.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// What a new description starts from.
    pub(super) fn sample(&self) -> Seen {
        let count = if self.seen { self.count } else { self.count.saturating_sub(1) };
        Seen { count, is_internal: false }
    }

    /// Whether there is an error that was not reported on a description; it counts as reported now.
    pub(super) fn check_and_advance(&mut self, seen: &mut Seen) -> bool {
        let news = seen.count != self.count;
        if news {
            self.seen |= !seen.is_internal;
            seen.count = self.count;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_reported_once_on_each_description() {
        let mut errors = WriteErrors::default();
        let (mut one, mut other) = (errors.sample(), errors.sample());
        assert!(!errors.check_and_advance(&mut one));
        errors.set();
        errors.set();
        assert!(errors.check_and_advance(&mut one));
        assert!(!errors.check_and_advance(&mut one));
        assert!(errors.check_and_advance(&mut other));
        assert!(!errors.check_and_advance(&mut other));
    }

    #[test]
    fn an_unreported_error_is_reported_on_the_next_description() {
        let mut errors = WriteErrors::default();
        errors.set();
        let mut late = errors.sample();
        assert!(errors.check_and_advance(&mut late));
        let mut later = errors.sample();
        assert!(!errors.check_and_advance(&mut later), "it was reported");
    }

    #[test]
    fn a_report_on_an_internal_description_does_not_count() {
        let mut errors = WriteErrors::default();
        let mut own = errors.sample();
        own.set_internal();
        errors.set();
        assert!(errors.check_and_advance(&mut own));
        assert!(!errors.check_and_advance(&mut own));
        let mut late = errors.sample();
        assert!(errors.check_and_advance(&mut late));
    }
}
