//! Write errors that every open description hears of once.
//!
//! Source:     Linux 6.12, lib/errseq.c and mm/filemap.c.
//! Behaviour:  a file counts its write errors; an open description remembers the count that it has
//!             heard of. A description that is opened while an error has been heard by nobody hears
//!             of it too.
//! Differs:    one kind of error; the count does not wrap in 64 bits.
//! Not for:    errors of reads, which the reader hears of at once.

/// The errors of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteErrors {
    count: u64,
    /// Whether somebody has heard of the last one.
    heard: bool,
}

/// What an open description has heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard(u64);

impl WriteErrors {
    /// A write failed.
    pub(super) fn set(&mut self) {
        self.count += 1;
        self.heard = false;
    }

    /// How many writes have failed.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// What a new description starts from.
    pub(super) fn sample(&self) -> Heard {
        Heard(if self.heard { self.count } else { self.count.saturating_sub(1) })
    }

    /// Whether there is an error that a description has not heard of; now it has.
    pub(super) fn check_and_advance(&mut self, heard: &mut Heard) -> bool {
        let news = heard.0 != self.count;
        if news {
            self.heard = true;
            heard.0 = self.count;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_description_hears_of_an_error_once() {
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
    fn an_error_that_nobody_heard_waits_for_the_next_to_open() {
        let mut errors = WriteErrors::default();
        errors.set();
        let mut late = errors.sample();
        assert!(errors.check_and_advance(&mut late));
        let mut later = errors.sample();
        assert!(!errors.check_and_advance(&mut later), "somebody has heard of it");
    }
}
