//! Plain bytes of a file, block by block.

use crate::error::{Error, Result};
use crate::image::{Block, Coding, Image};
use crate::node::NodeId;
use crate::source::Source;

/// Fills `buffer` with a file's bytes from `offset` on, and returns how many there were: fewer than
/// asked for only at the file's end.
///
/// # Errors
///
/// What [`Image::locate`], reading or [`Image::decode`] say.
pub fn read_at(image: &dyn Image, id: NodeId, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let left = image.node(id)?.size.saturating_sub(offset);
    let len = index(left.min(buffer.len() as u64));
    let locate = |at| image.locate(id, at);
    let decode = |block: &Block, raw: &[u8], upto, content: &mut [u8]| {
        image.decode(block, raw, upto, content)
    };
    fill(image.source().as_ref(), offset, &mut buffer[..len], locate, decode)?;
    Ok(len)
}

/// Fills all of `buffer` with content from `offset` on, whose blocks `locate` and `decode` know as
/// an [`Image`] does.
pub(crate) fn fill(
    source: &dyn Source,
    offset: u64,
    buffer: &mut [u8],
    locate: impl Fn(u64) -> Result<Block>,
    decode: impl Fn(&Block, &[u8], usize, &mut [u8]) -> Result<usize>,
) -> Result<()> {
    let end = offset + buffer.len() as u64;
    let mut at = offset;
    let (mut raw, mut content) = (Vec::new(), Vec::new());
    while at < end {
        let block = locate(at)?;
        let stop = block.plain.end.min(end);
        let target = &mut buffer[index(at - offset)..index(stop - offset)];
        match block.coding {
            Coding::Hole => target.fill(0),
            Coding::Stored => {
                let start = block.raw.start + u64::from(block.inside) + (at - block.plain.start);
                source.fill(target, start)?;
            }
            Coding::Packed => {
                raw.resize(index(block.raw.end - block.raw.start), 0);
                source.fill(&mut raw, block.raw.start)?;
                content.resize(block.decoded as usize, 0);
                let upto = block.upto(stop);
                let there = decode(&block, &raw, upto, &mut content)?;
                if there < upto {
                    let why = format!("it decodes to {there} bytes, not to {upto}");
                    let (offset, len) = (block.raw.start, raw.len() as u64);
                    return Err(Error::Block { offset, len, why });
                }
                target.copy_from_slice(&content[block.upto(at)..upto]);
            }
        }
        at = stop;
    }
    Ok(())
}

/// A number that is no larger than a length in memory.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("no larger than a buffer")
}
