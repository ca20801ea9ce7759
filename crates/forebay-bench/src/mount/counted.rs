//! What our mount counted, as `forebay mount --stats` says it.

use serde_json::Value;

/// Pages that were decoded.
pub(super) fn decoded(counted: &Value) -> Option<f64> {
    counted.get("pages_decoded").and_then(Value::as_f64)
}

/// Pages that were pushed into the page cache.
pub(super) fn pushed(counted: &Value) -> Option<u64> {
    counted.get("pages_pushed").and_then(Value::as_u64)
}
