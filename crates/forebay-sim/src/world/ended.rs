//! The end of a request at its device.

use forebay_core::time::Duration;
use forebay_core::units::RequestId;

/// A request that its device is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ended {
    pub(super) id: RequestId,
    pub(super) success: bool,
    pub(super) sectors: u64,
    pub(super) written: bool,
    /// The device's time, without waits for a processor.
    pub(super) took: Duration,
}
