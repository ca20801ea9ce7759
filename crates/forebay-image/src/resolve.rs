//! From a path to a node, inside the image: links lead where they would if its root were `/`.

use crate::fault::{Cause, Fault};
use crate::image::Image;
use crate::node::{Kind, NodeId};

/// As many links as Linux follows on one path.
const LINKS_MAX: usize = 40;

/// How a symbolic link at the path's end is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// It leads on.
    Last,
    /// It is the target itself, unless a slash follows it.
    Above,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The node.
    pub node: NodeId,
    /// Its path without links, `.` and `..`, and without a slash in front.
    pub path: Vec<u8>,
}

/// Finds a path. `..` of the root is the root; no path leads out of the image.
///
/// # Errors
///
/// With the path as far as it was followed.
pub fn resolve(image: &dyn Image, path: &[u8], follow: Follow) -> Result<Resolved, Fault> {
    let mut way = Way { image, nodes: Vec::new(), path: Vec::new() };
    // The parts that are still to be walked, the next one last.
    let mut parts = split(path);
    let mut links = 0;
    while let Some(part) = parts.pop() {
        match &part[..] {
            b"." => way.needs_directory()?,
            b".." => way.up()?,
            name => {
                way.needs_directory()?;
                let node = way.down(name)?;
                let last = parts.is_empty() && follow == Follow::Above;
                if last || way.kind(node)? != Kind::Symlink {
                    continue;
                }
                links += 1;
                if links > LINKS_MAX {
                    return Err(way.fault(Cause::Links(LINKS_MAX)));
                }
                let target = image.link(node).map_err(|error| way.fault(error.into()))?;
                way.leave();
                if target.first() == Some(&b'/') {
                    (way.nodes, way.path) = (Vec::new(), Vec::new());
                }
                parts.extend(split(&target));
            }
        }
    }
    Ok(Resolved { node: way.here(), path: way.path })
}

/// The parts of a path, the first one last. A slash at the end requires a directory.
fn split(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let mut parts: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
    if path.last() == Some(&b'/') && !parts.is_empty() {
        parts.push(b".".to_vec());
    }
    parts.reverse();
    parts
}

struct Way<'a> {
    image: &'a dyn Image,
    /// The nodes below the root that were gone through.
    nodes: Vec<NodeId>,
    path: Vec<u8>,
}

impl Way<'_> {
    fn here(&self) -> NodeId {
        self.nodes.last().copied().unwrap_or_else(|| self.image.root())
    }

    fn down(&mut self, name: &[u8]) -> Result<NodeId, Fault> {
        let found = self.image.lookup(self.here(), name);
        let found = found.map_err(|error| self.fault(error.into()))?;
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
        let node = found.ok_or_else(|| self.fault(Cause::Missing))?;
        self.nodes.push(node);
        Ok(node)
    }

    fn up(&mut self) -> Result<(), Fault> {
        self.needs_directory()?;
        self.leave();
        Ok(())
    }

    fn leave(&mut self) {
        self.nodes.pop();
        let end = self.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        self.path.truncate(end);
    }

    fn needs_directory(&self) -> Result<(), Fault> {
        match self.kind(self.here())? {
            Kind::Directory => Ok(()),
            Kind::File
            | Kind::Symlink
            | Kind::BlockDevice
            | Kind::CharDevice
            | Kind::Fifo
            | Kind::Socket => Err(self.fault(Cause::NotDirectory)),
        }
    }

    fn kind(&self, node: NodeId) -> Result<Kind, Fault> {
        Ok(self.image.node(node).map_err(|error| self.fault(error.into()))?.kind)
    }

    fn fault(&self, cause: Cause) -> Fault {
        Fault::new(self.path.clone(), cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    fn image() -> Memory {
        let mut image = Memory::new();
        image.file("usr/bin/sh", b"shell");
        image.symlink("bin", "usr/bin");
        image.symlink("usr/up", "..");
        image.symlink("usr/bin/abs", "/usr/bin/sh");
        image.symlink("out", "../../../usr");
        image.symlink("loop", "loop");
        image.symlink("dangling", "nowhere");
        image
    }

    #[test]
    fn links_lead_inside_the_image() {
        let image = image();
        for (path, expected) in [
            ("", ""),
            ("/", ""),
            ("/..", ""),
            ("bin/sh", "usr/bin/sh"),
            ("/bin/abs", "usr/bin/sh"),
            ("usr/up/bin/./sh", "usr/bin/sh"),
            ("out/bin", "usr/bin"),
            ("bin", "usr/bin"),
            ("usr//bin/../bin", "usr/bin"),
        ] {
            let found = resolve(&image, path.as_bytes(), Follow::Last).unwrap();
            assert_eq!(String::from_utf8_lossy(&found.path), expected, "{path}");
        }
    }

    #[test]
    fn a_link_at_the_end_can_be_meant_itself() {
        let image = image();
        let path = |typed: &str| resolve(&image, typed.as_bytes(), Follow::Above).unwrap().path;
        assert_eq!(path("bin"), b"bin");
        assert_eq!(path("bin/"), b"usr/bin");
        assert_eq!(path("bin/abs"), b"usr/bin/abs");
        assert_eq!(path("loop"), b"loop");
    }

    #[test]
    fn what_leads_nowhere_is_named() {
        let image = image();
        let said =
            |path: &str| resolve(&image, path.as_bytes(), Follow::Last).unwrap_err().to_string();
        assert_eq!(said("usr/nothing"), "/usr/nothing: there is nothing of this name");
        assert_eq!(said("dangling"), "/nowhere: there is nothing of this name");
        assert_eq!(said("bin/sh/x"), "/usr/bin/sh: is no directory");
        assert_eq!(said("bin/sh/"), "/usr/bin/sh: is no directory");
        assert_eq!(said("bin/sh/.."), "/usr/bin/sh: is no directory");
        assert_eq!(said("loop"), "/loop: more than 40 symbolic links on the way");
    }
}
