//! Opens an image file: once for the parser of its tree, once for the engine.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_image::{FileSource, Image, Source};
use rustix::fs::{Mode, OFlags};

use super::file::{ImageFile, Opened};
use super::stats::PathStats;
use crate::backend::BlockCache;

/// How an image is opened.
#[derive(Clone, Debug)]
pub(crate) struct OpenOptions {
    /// The bytes, if they are not those of a file.
    pub(crate) cached: Option<Arc<BlockCache>>,
    /// Where the image begins in its file, in bytes.
    pub(crate) offset: u64,
    /// Read past the page cache (`O_DIRECT`).
    pub(crate) direct: bool,
    /// Fill short blocks with zeros.
    pub(crate) lenient: bool,
    /// Refuse a truncated image.
    pub(crate) is_whole: bool,
}

/// Why an image cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read.
    #[error("cannot read '{}': {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// The file is not an image, or the image is damaged.
    #[error("{}: {why}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: forebay_image::Error,
    },
}

/// Opens an image. A truncated one is opened as if it were whole, unless that is refused; reads
/// beyond its end fail. `report` gets a line for each thing that is wrong with the image.
pub(crate) fn open(
    path: &Path,
    options: &OpenOptions,
    stats: &Arc<PathStats>,
    report: impl Fn(&str),
) -> Result<(Arc<dyn Image>, Arc<ImageFile>), OpenError> {
    let wrong = |why| OpenError::Image { path: path.to_owned(), why };
    let open = || {
        open_file(path, options, stats)
            .map_err(|why| OpenError::File { path: path.to_owned(), why })
    };
    let parse = |file: ImageFile| {
        let file = Arc::new(file);
        let source: Arc<dyn Source> = Arc::clone(&file) as Arc<dyn Source>;
        let lenient = forebay_image::Options { lenient: options.lenient };
        forebay_image::open(&source, lenient).map(|image| (image, file))
    };
    let (image, file) = match parse(open()?) {
        Err(forebay_image::Error::Truncated { expected, found }) if !options.is_whole => {
            // If the tree cannot be read either, the truncation is the error to report.
            let truncated = |_| wrong(forebay_image::Error::Truncated { expected, found });
            let opened = parse(open()?.with_len(expected)).map_err(truncated)?;
            report(&format!(
                "{}: the image is truncated: it says {expected} bytes and has {found}; what lies \
                 beyond cannot be read",
                path.display()
            ));
            opened
        }
        opened => opened.map_err(wrong)?,
    };
    for warning in &image.summary().warnings {
        report(&format!("{}: {warning}", path.display()));
    }
    Ok((image, file))
}

fn open_file(path: &Path, options: &OpenOptions, stats: &Arc<PathStats>) -> io::Result<ImageFile> {
    if let Some(cache) = &options.cached {
        return Ok(ImageFile::cached(Arc::clone(cache), options.offset, Arc::clone(stats)));
    }
    let direct = options.direct;
    // Opening a pipe without a writer does not block.
    let plain = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = if direct { plain | OFlags::DIRECT } else { plain };
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(io::Error::other("it is neither a file nor a block device"));
    }
    // The same file, even if the path names another one by now.
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let random = match rustix::fs::open(again, plain, Mode::empty()) {
        Ok(random) => File::from(random),
        Err(_) => file.try_clone()?,
    };
    let source = FileSource::new(file)?;
    let place = options.offset..source.len();
    let file = source.file().try_clone()?;
    Ok(ImageFile::new(Opened { file, random, direct }, place, Arc::clone(stats)))
}
