//! What a call in flight can wait for.

use crate::units::FrameId;

/// What a call waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wait {
    /// There is no call.
    #[default]
    Idle,
    Running,
    /// A page to be read, or to arrive at its device.
    Page(FrameId),
    Memory,
    /// The end of a pass of the flush rule.
    Pass,
    /// A place for a read at a device.
    ReadPlace,
    /// A place for a write at a device.
    Place,
    /// A separate request.
    Request,
    /// All requests that it has a part in, past the page cache.
    Direct,
    /// The buffers of an image.
    Buffers,
    /// Its turn to keep raw pages as they come.
    Holder,
    /// The end of its decode, which the world knows.
    Decode,
    /// The end of a pause, which the world knows.
    Pause,
    /// Woken but not resumed; the page it waited for is pinned.
    Woken(Option<FrameId>),
}
