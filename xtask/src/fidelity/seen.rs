//! What a step did, in a form that kernel and model share.

use std::fmt;

use forebay_core::readahead::Window;
use forebay_core::units::PageIndex;
use forebay_sim::plan::Step;

/// What a step did inside, where it can be seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Details {
    /// First page and order of each folio that was added, in this order.
    pub(super) added: Vec<(PageIndex, u8)>,
    /// The windows that a descriptor went through.
    pub(super) windows: Vec<Window>,
}

/// The last window of each of the two descriptors. A window that is chosen once more is no news.
#[derive(Debug, Default)]
pub(super) struct Windows {
    reading: Window,
    mapping: Window,
}

impl Windows {
    /// Forgets the windows of descriptors that the step made anew.
    pub(super) fn begin(&mut self, step: Step) {
        match step {
            Step::Open => self.reading = Window::default(),
            Step::Drop => self.mapping = Window::default(),
            Step::Read { .. } | Step::Touch { .. } | Step::Advise(_) => {}
        }
    }

    /// Whether the step's window differs from the last one of the same descriptor.
    pub(super) fn is_news(&mut self, step: Step, window: Window) -> bool {
        let last = match step {
            Step::Touch { .. } | Step::Drop => &mut self.mapping,
            Step::Read { .. } | Step::Advise(_) | Step::Open => &mut self.reading,
        };
        std::mem::replace(last, window) != window
    }
}

impl fmt::Display for Details {
    /// `win(start,size,tail)` of every window, then `[a,b)oK` of every folio.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for window in &self.windows {
            write!(f, "{window} ")?;
        }
        let mut folios = self.added.iter().peekable();
        while let Some(&(start, order)) = folios.next() {
            // Folios of one order in a row are written as one.
            let mut end = start + (1 << order);
            while folios.next_if(|folio| **folio == (end, order)).is_some() {
                end += 1 << order;
            }
            write!(f, "[{start},{end})o{order} ")?;
        }
        Ok(())
    }
}
