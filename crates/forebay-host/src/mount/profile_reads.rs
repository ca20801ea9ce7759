//! What a profile says was read, for others than a mount: to lay an image out by it.

use std::io;
use std::path::Path;

use super::profile::{Profile, ProfileError, Step};

/// Pages of 4096 bytes that a start read of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileRead {
    /// The file's path, with a slash in front.
    pub path: Vec<u8>,
    /// The first page.
    pub page: u64,
    /// How many.
    pub pages: u64,
}

/// The reads of a profile, in their order.
///
/// # Errors
///
/// If there is no such file, or it is no profile.
pub fn profile_reads(path: &Path) -> Result<Vec<ProfileRead>, ProfileError> {
    let missing =
        || ProfileError::File { path: path.to_owned(), why: io::ErrorKind::NotFound.into() };
    let profile = Profile::read(path)?.ok_or_else(missing)?;
    let reads = profile.steps.into_iter().filter_map(|step| match step {
        Step::Read(path, page, pages) => Some(ProfileRead { path, page, pages }),
        Step::Name(_) => None,
    });
    Ok(reads.collect())
}
