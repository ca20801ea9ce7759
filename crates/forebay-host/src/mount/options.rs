//! How an image is mounted, and what the core is made with for it.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_core::packed::{Ahead, Spec};
use forebay_core::serving::{MountConfig, PathConfig};
use forebay_core::units::PAGE_SIZE;
use forebay_image::Time;

use crate::backend::BlockCache;

/// How an image is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bytes of the image, if they are not those of a file.
    pub cached: Option<Arc<BlockCache>>,
    /// Where the image begins in its file, in bytes.
    pub offset: u64,
    /// Read past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Fill short blocks with zeros.
    pub lenient: bool,
    /// Verify the whole image before it is mounted, and refuse damage.
    pub strict: bool,
    /// Bytes of raw and decoded blocks that are kept.
    pub cache: u64,
    /// Worker threads, beside the one that takes requests.
    pub threads: usize,
    /// The fill rule.
    pub policy: Spec,
    /// What reads ahead.
    pub window: Window,
    /// The time that every node shows; its own if none.
    pub time: Option<Time>,
    /// Users other than the one who mounts may use it.
    pub allow_other: bool,
    /// Set-user-id bits and device nodes take effect.
    pub trusted: bool,
    /// The prefetch profile: replayed if the file exists, otherwise recorded and written at
    /// unmount.
    pub profile: Option<PathBuf>,
    /// Record the profile again.
    pub profile_update: bool,
    /// A new file to which READ requests are recorded.
    pub record: Option<PathBuf>,
}

impl Default for Options {
    /// The options of the command line's defaults.
    fn default() -> Self {
        Self {
            cached: None,
            offset: 0,
            direct: false,
            lenient: false,
            strict: false,
            cache: 32 << 20,
            threads: 2,
            policy: Spec::parse("selective-then-idle").expect("the table has it"),
            window: Window::Rule,
            time: None,
            allow_other: false,
            trusted: false,
            profile: None,
            profile_update: false,
            record: None,
        }
    }
}

/// What reads ahead of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// What the fill rule chooses.
    #[default]
    Rule,
    /// The mount alone.
    Ours,
    /// The kernel.
    Kernel,
}

/// How the core serves an image of `image_bytes` that is mounted with `options`.
pub fn config(options: &Options, image_bytes: u64) -> MountConfig {
    let ahead = match (options.window, options.policy.build().ahead()) {
        (Window::Ours, _) => Ahead::Ours,
        (Window::Rule, ahead) => ahead,
        (Window::Kernel, Ahead::Kernel) => Ahead::Kernel,
        (Window::Kernel, Ahead::Both | Ahead::Ours) => Ahead::Both,
    };
    let frames = options.cache.max(CACHE_MIN) / PAGE_SIZE;
    let frames = u32::try_from(frames).unwrap_or(u32::MAX);
    let keeps_raw = options.direct;
    let path = PathConfig { frames, requests_max: REQUESTS_MAX, keeps_raw, image_bytes };
    let only_asked = options.policy.policy().name == "off";
    MountConfig { path, policy: options.policy.clone(), ahead, only_asked }
}

/// Bytes of the cache at most: what is known of its pages takes memory from the beginning.
pub const CACHE_MAX: u64 = 64 << 30;

/// Bytes of the cache at least: requests of several tasks are in flight at once.
pub const CACHE_MIN: u64 = 256 << 10;

/// Requests in flight at most.
const REQUESTS_MAX: u32 = 512;
