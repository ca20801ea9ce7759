//! All that an image promises, checked before anybody relies on it.

use forebay_image::{Image, Kind, NodeId, read_at};

/// Checks the image's own checksum, and that every directory, link and attribute can be read and
/// every block decoded. Says what is wrong, with a path.
pub(super) fn check(image: &dyn Image) -> Result<(), String> {
    image.verify().map_err(|error| error.to_string())?;
    let mut open = vec![(image.root(), Vec::new())];
    let mut buffer = vec![0; STEP];
    while let Some((directory, path)) = open.pop() {
        let said = |path: &[u8], error: forebay_image::Error| {
            let path = String::from_utf8_lossy(if path.is_empty() { b"/" } else { path });
            format!("{}: {error}", path.escape_debug())
        };
        let entries = image.entries(directory).map_err(|error| said(&path, error))?;
        for entry in entries.iter() {
            let path = [&path[..], b"/", &entry.name].concat();
            check_node(image, entry.node, &mut buffer).map_err(|error| said(&path, error))?;
            if entry.kind == Kind::Directory {
                open.push((entry.node, path));
            }
        }
    }
    Ok(())
}

fn check_node(image: &dyn Image, id: NodeId, buffer: &mut [u8]) -> forebay_image::Result<()> {
    let node = image.node(id)?;
    image.xattrs(id)?;
    match node.kind {
        Kind::Symlink => image.link(id).map(drop),
        Kind::File => {
            let mut at = 0;
            while at < node.size {
                match read_at(image, id, at, buffer)? {
                    0 => break,
                    read => at += read as u64,
                }
            }
            Ok(())
        }
        Kind::Directory | Kind::BlockDevice | Kind::CharDevice | Kind::Fifo | Kind::Socket => {
            Ok(())
        }
    }
}

/// Bytes that are checked at once.
const STEP: usize = 1 << 20;
