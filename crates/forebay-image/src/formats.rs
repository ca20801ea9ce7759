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
    let mut head = [0; 64];
    let len = source.len().min(head.len() as u64);
    let head = &mut head[..usize::try_from(len).unwrap_or(0)];
    source.fill(head, 0)?;
    Err(Error::Unknown { found: described(head, source.len()) })
}

/// What a file is that is no image, by its first bytes.
fn described(head: &[u8], len: u64) -> String {
    let is_printed = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if !head.is_empty() && head.iter().all(is_printed) {
        return format!("a text file of {len} bytes");
    }
    let first = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
    format!("{len} bytes that begin with {}", first.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_image_is_described_by_its_beginning() {
        assert_eq!(described(b"root:x:0:0\n", 1_294), "a text file of 1294 bytes");
        assert_eq!(described(b"\x7fELF\x02\x01", 900), "900 bytes that begin with 7f 45 4c 46");
        assert_eq!(described(b"\0", 1), "1 bytes that begin with 00");
    }
}
