//! No readahead: every page is read singly when it is missed.
//!
//! Source:     the path itself, with its readahead taken away.
//! Behaviour:  a read of n absent pages becomes n reads of one page, each waited for.
//! Differs:    nothing.
//! Not for:    anything but a lower bound, or a device without any cost per request.

use alloc::boxed::Box;

use super::{Access, AddressSpace, Fault, Policy, Readahead};

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "off",
    summary: "no readahead: each missing page is read singly",
    source: "Forebay",
    parameters: &[],
    build: |_| Box::new(Off),
};

#[derive(Debug)]
struct Off;

impl Readahead for Off {
    fn on_read(&mut self, _access: &Access, _pages: &mut dyn AddressSpace) {}

    fn on_fault(&mut self, _fault: &Fault, _pages: &mut dyn AddressSpace) {}
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;

    #[test]
    fn reads_each_missing_page_alone() {
        let mut bench = Bench::new("off");
        assert_eq!(bench.read(10, 3), "S 10, S 11, S 12");
        assert_eq!(bench.read(11, 1), "");
        assert_eq!(bench.fault(40), "S 40");
    }
}
