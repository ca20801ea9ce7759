//! squashfs.

use std::sync::Arc;

use crate::error::Result;
use crate::image::{Image, Options};
use crate::source::Source;

/// Opens an image of this format; none if it does not begin like one.
///
/// # Errors
///
/// If it begins like one and is invalid.
pub fn open(_source: &Arc<dyn Source>, _options: Options) -> Result<Option<Arc<dyn Image>>> {
    Ok(None)
}
