//! What was typed behind `image`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::PageChoice;

/// Arguments of `image`.
#[derive(Debug, Args)]
pub(crate) struct Image {
    #[command(subcommand)]
    pub(crate) what: What,
}

/// What can be done with an image.
#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// Show what an image says about itself
    Info(Info),
    /// Find the images inside a file or device, at any offset
    ///
    /// What looks like the beginning of an image is listed if it opens and its root can be listed.
    /// gzip and xz streams that begin with an image are unpacked, and a uImage header around one is
    /// named. An image that is cut off is listed as truncated. Exit code 1 if there is none.
    Scan(Scan),
    /// List a directory
    ///
    /// Names are printed as they are; on a terminal, what it would obey is escaped, as in
    /// `\x1b`. JSON has all that `--long` has.
    Ls(Ls),
    /// Show everything about files, their blocks among it
    Stat(Stat),
    /// Write files to standard output
    Cat(Cat),
    /// Write an image's tree to disk
    ///
    /// Modes, times, extended attributes, hard links and holes are those of the image; owners and
    /// devices too if root asks. Nothing outside of DIR is touched, whatever the image holds. A
    /// file has its name only when it is complete; what a killed run leaves is named `.forebay-`
    /// and a number, and may be removed. Exit code 1 if a file could not be extracted, the target
    /// refused an extended attribute, or a PATH is not in the image; everything else is extracted.
    /// If none of them is there, nothing is made: exit code 2.
    Extract(Extract),
    /// Write an image's tree to standard output as a tar archive
    ///
    /// Owners, modes, times, links, devices and extended attributes are those of the image, for
    /// every user; holes become zeros. A file that is damaged is left out and named, as is a
    /// socket, which tar does not know. Exit code 1 if anything is damaged.
    Tar(Tar),
    /// Check an image's checksum, decode every node and every block
    ///
    /// Each damage has its line. With `--strict`, findings have too: entries of directories that
    /// Linux and readers that only list them show in different ways, blocks that overlap, and
    /// bytes in and behind the image that nothing leads to and that are not zero. Exit code 1 if
    /// there is any.
    Verify(Verify),
    /// Make an image of a directory; the same tree makes the same bytes
    ///
    /// Whatever of the tree the format cannot hold is refused with its path: owners above 65535,
    /// groups above 255, extended attributes, capabilities, access control lists, further names of
    /// a file. With `--lossy` it is cut or left out, and counted. Times are never kept.
    Make(Make),
    /// Show how scattered over an image that is which a start reads
    ///
    /// The profile is one that `mount --profile` has written. Beside the image as it is stands what
    /// sorting its files by their first read would bring. `--sort` prints the order for a writer:
    /// `mksquashfs TREE IMAGE -sort FILE`, or a list of paths for `tar -T`, for a writer that lays
    /// an archive out in its order. `make --profile` makes a sorted cramfs.
    Layout(Layout),
    /// Compare an image with a directory or another image
    ///
    /// Each difference has its line: path, kind, first and second. What one of them does not keep
    /// at all is not compared. Exit code 1 if anything differs. squashfs keeps times from 1970 to
    /// 2106: a time outside of that differs from what became of it, and a note says so.
    Compare(Compare),
}

/// Which image.
#[derive(Debug, Args)]
pub(crate) struct Opened {
    /// The image: a file, a block device, or an object: `s3://`, `gs://` or `az://` with
    /// BUCKET/KEY, `http://`, `https://`
    pub(crate) image: PathBuf,
    /// Where in the file the image begins, in bytes or with a unit: k, M, G, T
    #[arg(long, value_name = "BYTES", default_value = "0", allow_hyphen_values = true)]
    pub(crate) offset: String,
    /// Fill blocks that are shorter than they should be with zeros, as Linux does with cramfs
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Memory for blocks of an object, in bytes or with a unit: k, M, G; 4M at least
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(crate) object_cache: String,
}

/// How many work.
#[derive(Debug, Args)]
pub(crate) struct Threads {
    /// Threads that decode; without it as many as there are processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

impl Threads {
    /// The number.
    pub(crate) fn count(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(all, usize::from)
    }
}

/// How the answer is printed.
#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// Print JSON instead of text
    ///
    /// A name, target or value that is not UTF-8 is there twice: as text in which U+FFFD stands for
    /// what is none, and all of its bytes in hex, in a field such as `path_hex` beside `path`.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `image info`.
#[derive(Debug, Args)]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) opened: Opened,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Arguments of `image scan`.
#[derive(Debug, Args)]
pub(crate) struct Scan {
    /// The file, block device or object
    pub(crate) file: PathBuf,
    /// Write each image to a file in DIR, named after its offset and format
    #[arg(long, value_name = "DIR")]
    pub(crate) extract: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Which paths.
#[derive(Debug, Args)]
pub(crate) struct Patterns {
    /// Only what matches, with all below; may be given several times
    ///
    /// `*` and `?` stand for letters but a slash, `**` for any, `[a-z]` for one of them and
    /// `{a,b}` for either. A pattern without a slash is for names in any directory.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Not what matches, nor anything below; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
}

/// What `image ls --find` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trait {
    /// Files with set-user-id
    Setuid,
    /// Files with set-group-id
    Setgid,
    /// Files with capabilities
    Capability,
    /// What anyone may write: no links, no sticky directories
    WorldWritable,
    /// Block and character devices
    Device,
}

/// Arguments of `image ls`.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    #[command(flatten)]
    pub(crate) opened: Opened,
    /// The directory or file
    #[arg(default_value = "/")]
    pub(crate) path: PathBuf,
    /// Mode, names, owner, group, size and time too; times are UTC
    #[arg(short, long)]
    pub(crate) long: bool,
    /// The directories below too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Search the directories below for this; each find is a line with its path
    ///
    /// Given several times, either of them is enough. Exit code 1 if nothing is found.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) find: Vec<Trait>,
    #[command(flatten)]
    pub(crate) patterns: Patterns,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Arguments of `image stat`.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    pub(crate) opened: Opened,
    /// Files of any kind; a link is shown itself
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Arguments of `image cat`.
#[derive(Debug, Args)]
pub(crate) struct Cat {
    #[command(flatten)]
    pub(crate) opened: Opened,
    /// Regular files; links are followed inside the image
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
}

/// Arguments of `image extract`.
#[derive(Debug, Args)]
pub(crate) struct Extract {
    #[command(flatten)]
    pub(crate) opened: Opened,
    /// Where to: a directory that is empty, or is not there and is made. Without it the image's
    /// name without its ending, and `-root`, in the current directory
    #[arg(value_name = "DIR")]
    pub(crate) target: Option<PathBuf>,
    /// What to extract, with all below and the directories above; everything if none is given
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) patterns: Patterns,
    /// Leave everything to the caller; the only way if that is not root
    #[arg(long)]
    pub(crate) no_owner: bool,
    /// Leave out devices, set-user-id, set-group-id, capabilities and other privileged attributes;
    /// the default for others than root
    #[arg(long)]
    pub(crate) safe: bool,
    /// Others than root: extract what --safe leaves out, as far as the system lets them
    #[arg(long, conflicts_with = "safe")]
    pub(crate) no_safe: bool,
    /// Refuse if the files have more bytes than this in all, holes included; with a unit: k, M, G,
    /// T
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_bytes: Option<String>,
    /// Extract into a directory that holds something, and replace files in it
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Arguments of `image tar`.
#[derive(Debug, Args)]
pub(crate) struct Tar {
    #[command(flatten)]
    pub(crate) opened: Opened,
    /// What to take, with all below and the directories above; everything if none is given
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) patterns: Patterns,
}

/// Arguments of `image verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) opened: Opened,
    /// Check also what readers may show in different ways, or not at all
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Arguments of `image layout`.
#[derive(Debug, Args)]
pub(crate) struct Layout {
    #[command(flatten)]
    pub(crate) opened: Opened,
    /// A profile of a start
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: PathBuf,
    /// Print the files in the order of their first reads, instead of the report
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "json")]
    pub(crate) sort: Option<SortList>,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// How an order of files is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortList {
    /// A sort file of mksquashfs: a path and a priority on each line
    Mksquashfs,
    /// A path on each line
    Paths,
}

/// Arguments of `image compare`.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) opened: Opened,
    /// A directory, or another image
    pub(crate) other: PathBuf,
    /// Where in its file the other image begins
    #[arg(long, value_name = "BYTES", default_value = "0", allow_hyphen_values = true)]
    pub(crate) other_offset: String,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) answer: Answer,
    #[command(flatten)]
    pub(crate) page: PageChoice,
}

/// Arguments of `image make`.
#[derive(Debug, Args)]
pub(crate) struct Make {
    /// The directory
    pub(crate) directory: PathBuf,
    /// The image; it has its name only when it is complete
    pub(crate) image: PathBuf,
    /// The format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: MakeFormat,
    /// Begin with 512 bytes of zeros, for boot code; Linux and fsck.cramfs take it, 7-Zip does not
    #[arg(long)]
    pub(crate) pad: bool,
    /// Blocks of zeros take no bytes; Linux takes it, fsck.cramfs and 7-Zip do not
    #[arg(long)]
    pub(crate) holes: bool,
    /// Store blocks as they are that packing does not make smaller; Linux takes it from 4.15 on,
    /// fsck.cramfs and 7-Zip do not
    #[arg(long)]
    pub(crate) stored: bool,
    /// For machines that have the high byte first
    #[arg(long)]
    pub(crate) big_endian: bool,
    /// The name of the volume, 16 bytes at most
    #[arg(long, default_value = "Compressed")]
    pub(crate) name: String,
    /// A number of the image's own, shown by `image info`
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) edition: u32,
    /// How hard to pack: 1 is the fastest, 12 the smallest
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u8).range(1..=12))]
    pub(crate) level: u8,
    /// Put the files first that a start reads, in its order: a profile of `mount --profile`
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Cut or leave out what the format cannot hold, and say so, instead of refusing
    #[arg(long)]
    pub(crate) lossy: bool,
    /// Replace a file that is there
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Formats that can be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MakeFormat {
    /// Blocks of 4 KiB, files below 16 MiB, no times, no hard links
    #[default]
    Cramfs,
}
