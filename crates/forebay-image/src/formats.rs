//! Which formats there are, and an image of any of them.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::image::{Image, Options};
use crate::source::Source;
use crate::{cramfs, erofs, squashfs};

/// Opens an image of any format that is known.
///
/// # Errors
///
/// If it is none, or an invalid one.
pub fn open(source: &Arc<dyn Source>, options: Options) -> Result<Arc<dyn Image>> {
    let openers = [cramfs::open, squashfs::open, erofs::open];
    for open in openers {
        if let Some(image) = open(source, options)? {
            return Ok(image);
        }
    }
    let mut magic = [0; 4];
    let len = source.len().min(4);
    let start = &mut magic[..usize::try_from(len).unwrap_or(0)];
    source.fill(start, 0)?;
    let found = format!("{} bytes that begin with {start:02x?}", source.len());
    Err(Error::Unknown { found })
}
