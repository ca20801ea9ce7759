//! What the I/O path of an image counts.

use crate::counters::counters;

counters! {
    /// The counters.
    PathStats:
    /// Pages that were decoded; what a block decodes beyond what was asked for counts too.
    pages_decoded,
    /// Decoded blocks.
    blocks_decoded,
    /// Nanoseconds that decoding took.
    decode_nanos,
    /// Reads of the image that reached the system.
    raw_operations,
    /// Bytes that they brought.
    raw_bytes,
    /// Nanoseconds that they took.
    raw_nanos,
    /// Bytes that the kernel was asked to read into its page cache.
    raw_advised,
    /// Reads of the image that the kernel's page cache answered.
    raw_near,
    /// Requests that were sent for an object that is the image; 0 of a file.
    object_requests,
    /// Bytes of the object that they brought.
    object_bytes,
}
