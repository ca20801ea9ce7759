//! Write errors that every open description hears of once.
//!
//! Source:     Linux 6.12, lib/errseq.c and mm/filemap.c.
//! Behaviour:  a file counts its write errors; an open description remembers the count that it has
//!             heard of. A description that is opened while an error has been heard by nobody hears
//!             of it too. Descriptions that a server opened for itself count for nobody.
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
pub(super) struct Heard {
    count: u64,
    /// The description is the server's own: an error that it alone has heard of is still to be
    /// reported to the next description that is opened.
    is_internal: bool,
}

impl Heard {
    /// From now on the description counts as the server's own.
    pub(super) fn set_internal(&mut self) {
        self.is_internal = true;
    }
}

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
        let count = if self.heard { self.count } else { self.count.saturating_sub(1) };
        Heard { count, is_internal: false }
    }

    /// Whether there is an error that a description has not heard of; now it has.
    pub(super) fn check_and_advance(&mut self, heard: &mut Heard) -> bool {
        let news = heard.count != self.count;
        if news {
            self.heard |= !heard.is_internal;
            heard.count = self.count;
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

    #[test]
    fn an_error_that_only_the_server_itself_heard_waits_for_the_next_to_open() {
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
