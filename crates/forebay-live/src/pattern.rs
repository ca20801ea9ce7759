//! What each file is being asked, by its readahead events.
//!
//! Source:     Forebay; what the events of Linux 6.18 look like was counted for seven patterns.
//! Behaviour:  per file and period: many windows and hardly a marker reached are faults in no
//!             order; as many markers as windows are a stream; misses answered by plain ranges are
//!             reads in no order. Whatever lies between is left alone.
//! Differs:    nothing.
//! Not for:    files wholly cached, which cause no events.

/// What a file is being asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// Page faults in no order: each brings in a whole window.
    RandomFaults,
    /// A stream of reads or faults.
    Stream,
    /// Reads in no order, of this many pages each (the median).
    RandomReads {
        /// Pages.
        request: u64,
    },
    /// Something between, or too few events to say.
    #[default]
    Unclear,
}
