//! All that an image promises, checked before anybody relies on it.

use forebay_image::Image;
use forebay_image::verify::verify;
use forebay_image::walk::{Limits, Tree};

/// Checks the image's own checksum, and that every directory, link and attribute can be read and
/// every block decoded. Says what is wrong first, with a path.
pub(super) fn check(image: &dyn Image, threads: usize) -> Result<(), String> {
    let tree = Tree::whole(image, Limits::default());
    let damage = verify(image, tree, threads, &|_| {}).damage;
    let Some(first) = damage.first() else { return Ok(()) };
    match damage.len() - 1 {
        0 => Err(first.to_string()),
        more => Err(format!("{first}; and {more} more")),
    }
}
