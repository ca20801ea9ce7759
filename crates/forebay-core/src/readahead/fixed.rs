//! A fixed number of pages from every missed page on.
//!
//! Source:     the simplest rule that reads ahead; a control for the adaptive ones.
//! Behaviour:  a miss at page p reads [p, p + window), whatever the request and its history.
//! Differs:    nothing.
//! Not for:    random reads smaller than the window, which waste the rest of it.

use alloc::boxed::Box;

use super::{Access, AddressSpace, Fault, Found, Parameter, Policy, Readahead, range_read};
use crate::units::PageIndex;

/// The table's line.
pub(super) const POLICY: Policy = Policy {
    name: "fixed",
    summary: "a fixed window from each missing page on",
    source: "Forebay",
    parameters: &[Parameter {
        name: "max",
        default: 32,
        low: 1,
        high: 65_536,
        summary: "pages of the window",
    }],
    build: |values| Box::new(Fixed { window: values.of("max") }),
};

#[derive(Debug)]
struct Fixed {
    window: u64,
}

impl Readahead for Fixed {
    fn on_read(&mut self, access: &Access, pages: &mut dyn AddressSpace) {
        self.on_page(access.page, access.found, pages);
    }

    fn on_fault(&mut self, fault: &Fault, pages: &mut dyn AddressSpace) {
        self.on_page(fault.page, fault.found, pages);
    }
}

impl Fixed {
    fn on_page(&self, page: PageIndex, found: Found, pages: &mut dyn AddressSpace) {
        if found == Found::Absent {
            range_read(page, self.window, 0, pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;

    #[test]
    fn reads_its_window_from_each_miss_on() {
        let mut bench = Bench::new("fixed:max=8");
        assert_eq!(bench.read(10, 1), "+[10,18)");
        assert_eq!(bench.read(17, 2), "+[18,26)");
        assert_eq!(bench.fault(12), "");
        assert_eq!(bench.read(5, 1), "+[5,10)");
    }

    #[test]
    fn clips_the_window_to_the_file() {
        let mut bench = Bench::with_pages("fixed:max=8", 12);
        assert_eq!(bench.read(10, 4), "+[10,12)");
    }
}
