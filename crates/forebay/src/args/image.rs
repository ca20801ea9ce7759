//! Arguments of `image`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use forebay_report::page::PageChoice;

/// Arguments of `image`.
#[derive(Debug, Args)]
pub(crate) struct Image {
    #[command(subcommand)]
    pub(crate) what: What,
}

/// Subcommands of `image`.
#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// Show what an image's header says about it
    Info(Info),
    /// Find the images inside a file or device, at any offset
    ///
    /// Lists each position that looks like the beginning of an image if the image opens and its
    /// root can be listed. gzip and xz streams that begin with an image are unpacked, and a uImage
    /// header in front of an image is named. A truncated image is listed as truncated. What begins
    /// like an image and is damaged is noted, not listed. Exit code 1 if there is no image, and if
    /// a listed one is in a damaged stream, or a stream was not searched.
    Scan(Scan),
    /// List a directory
    ///
    /// Names are printed unchanged; on a terminal, control characters are escaped, as in `\x1b`.
    /// JSON has all fields of `--long`.
    Ls(Ls),
    /// Show all attributes of files, including their blocks
    Stat(Stat),
    /// Write files to standard output
    Cat(Cat),
    /// Write an image's tree to disk
    ///
    /// Modes, times, extended attributes, hard links and holes are those of the image. If the
    /// caller is root, so are owners and devices. Nothing outside of DIR is written, whatever the
    /// image contains. A file gets its name only when it is complete; partial files of a killed run
    /// are named `.forebay-` and a number, and may be removed. Exit code 1 if a file could not be
    /// extracted, the target refused an extended attribute, or a PATH is not in the image;
    /// everything else is extracted. If no PATH is in the image, nothing is created, and the exit
    /// code is 2; if the patterns leave nothing, 1.
    Extract(Extract),
    /// Write an image's tree to standard output as a tar archive
    ///
    /// Owners, modes, times, links, devices and extended attributes are those of the image, for
    /// every user; holes become zeros. A damaged file is left out and named. So is a socket,
    /// because tar has no sockets. Exit code 1 if anything is damaged, and if a PATH is not in the
    /// image or the patterns leave nothing; a socket does not count.
    Tar(Tar),
    /// Check an image's checksum, decode every node and every block
    ///
    /// Prints a line for each damage. With `--strict`, also prints a line for each finding:
    /// directory entries that Linux shows differently from readers that only list them, blocks that
    /// overlap, and unreachable bytes, inside and after the image, that are not zero. Exit code 1
    /// if there is any; 2 if the file or the server that holds the image failed, and nothing else
    /// is wrong.
    Verify(Verify),
    /// Make an image of a directory; the same tree gives the same bytes
    ///
    /// Refuses whatever the format cannot store, with its path: owners above 65535, groups above
    /// 255, extended attributes, capabilities, access control lists, further names of a file. With
    /// `--lossy` it is truncated or left out, and counted. Times are never stored.
    Make(Make),
    /// Show how scattered over an image the blocks are that a program start reads
    ///
    /// The profile is one that `mount --profile` has written. The report compares the image with
    /// one whose files are sorted by their first read. `--sort` prints this order for an image
    /// writer: `mksquashfs TREE IMAGE -sort FILE`, or a list of paths for `tar --no-unquote -T`,
    /// for a writer that lays out an archive in its order. `make --profile` makes a sorted cramfs.
    Layout(Layout),
    /// Compare an image with a directory or another image
    ///
    /// Prints a line for each difference: path, kind, first and second. An attribute that one of
    /// them does not store at all is not compared. Exit code 1 if anything differs. squashfs stores
    /// times from 1970 to 2106: a time outside of that range differs from the stored one, and a
    /// note says so.
    Compare(Compare),
}

/// The image.
#[derive(Debug, Args)]
pub(crate) struct Opened {
    /// The image: a file, a block device, or an object: `s3://`, `gs://` or `az://` with
    /// BUCKET/KEY, `http://`, `https://`
    pub(crate) image: PathBuf,
    /// Where in the file the image begins, in bytes or with a unit: k, M, G, T
    #[arg(long, value_name = "BYTES", default_value = "0", allow_hyphen_values = true)]
    pub(crate) offset: String,
    /// Fill short blocks with zeros, as Linux does with cramfs
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Memory for blocks of an object, in bytes or with a unit: k, M, G; less than 4M counts as 4M
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(crate) object_cache: String,
}

/// The number of threads.
#[derive(Debug, Args)]
pub(crate) struct Threads {
    /// Decoding threads; by default one for each processor
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

/// The output format.
#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// Print JSON instead of text
    ///
    /// A name, target or value that is not UTF-8 is printed twice: as text, with U+FFFD for invalid
    /// bytes, and as all of its bytes in hex, in a field such as `path_hex` beside `path`.
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
    /// Write each image to a file in DIR, named after its offset and format and filled up with
    /// zeros to a multiple of 4 KiB, so that the kernel can mount it
    #[arg(long, value_name = "DIR")]
    pub(crate) extract: Option<PathBuf>,
    /// Refuse if --extract would write more bytes than this; with a unit: k, M, G, T [default: 8
    /// times FILE, at least 1 GiB]
    #[arg(long, value_name = "BYTES", requires = "extract")]
    pub(crate) max_bytes: Option<String>,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Filters of paths.
#[derive(Debug, Args)]
pub(crate) struct Patterns {
    /// Only paths that match, and everything below them; may be given several times
    ///
    /// `*` matches any bytes except a slash, `?` one of them (a letter beyond ASCII has two or
    /// more), `**` any bytes, `[a-z]` one of these, and `{a,b}` either. A pattern without a slash
    /// matches names in any directory.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Not paths that match, nor anything below them; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
}

/// Kinds of files for `image ls --find`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trait {
    /// Files with set-user-id
    Setuid,
    /// Files and directories with set-group-id
    Setgid,
    /// Files with capabilities
    Capability,
    /// Files that any user may write, except links and sticky directories
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
    /// Also mode, link count, owner, group, size and time; times are UTC
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Also the directories below; --include, --exclude and --find look there anyway
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Search the directories below for this kind of file; prints a line with the path of each
    ///
    /// May be given several times: a file of any of these kinds is found. Exit code 1 if nothing is
    /// found.
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
    /// Files of any kind; links are not followed
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
    /// The target: a directory that is empty or does not exist; by default the image's name without
    /// its extension, and `-root`, in the current directory
    #[arg(value_name = "DIR")]
    pub(crate) target: Option<PathBuf>,
    /// Paths to extract, with everything below and the directories above; by default everything
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) patterns: Patterns,
    /// Make the caller the owner of everything; users other than root have no other choice
    #[arg(long)]
    pub(crate) no_owner: bool,
    /// Leave out devices, set-user-id, set-group-id, capabilities and other privileged attributes;
    /// the default for users other than root
    #[arg(long)]
    pub(crate) safe: bool,
    /// Extract what --safe leaves out, as far as the system allows; for users other than root
    #[arg(long, conflicts_with = "safe")]
    pub(crate) no_safe: bool,
    /// Refuse if all files together have more bytes than this, including holes; with a unit: k, M,
    /// G, T
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_bytes: Option<String>,
    /// Extract into a directory that is not empty, and replace files in it
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
    /// Paths to include, with everything below and the directories above; by default everything
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) patterns: Patterns,
}

/// Arguments of `image verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) opened: Opened,
    /// Also check for data that readers may show differently, or not at all
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
    /// The profile of a start
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: PathBuf,
    /// Print the files in the order of their first reads, instead of the report
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "json")]
    pub(crate) sort: Option<SortList>,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Formats of an order of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortList {
    /// A sort file of mksquashfs: a path and a priority on each line
    Mksquashfs,
    /// One path on each line
    Paths,
}

/// Arguments of `image compare`.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) opened: Opened,
    /// A directory, or another image
    pub(crate) other: PathBuf,
    /// The position of the other image in its file
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
    /// The image; it gets its name only when it is complete
    pub(crate) image: PathBuf,
    /// The format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: MakeFormat,
    /// Begin with 512 zero bytes, for boot code; Linux and fsck.cramfs accept this, 7-Zip does not
    #[arg(long)]
    pub(crate) pad: bool,
    /// Store no bytes for blocks of zeros; Linux accepts this, fsck.cramfs and 7-Zip do not
    #[arg(long)]
    pub(crate) holes: bool,
    /// Store blocks uncompressed if compression does not make them smaller; Linux accepts this from
    /// 4.15 on, fsck.cramfs and 7-Zip do not
    #[arg(long)]
    pub(crate) stored: bool,
    /// Write big-endian, for big-endian machines
    #[arg(long)]
    pub(crate) big_endian: bool,
    /// The name of the volume, 16 bytes at most
    #[arg(long, default_value = "Compressed")]
    pub(crate) name: String,
    /// The edition number of the image, shown by `image info`
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) edition: u32,
    /// The compression level: 1 is the fastest, 12 gives the smallest image
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u8).range(1..=12))]
    pub(crate) level: u8,
    /// Put the files of a start first, in the order of the start; the profile is one of
    /// `mount --profile`
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Truncate or leave out what the format cannot store, and report it, instead of refusing
    #[arg(long)]
    pub(crate) lossy: bool,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) threads: Threads,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

/// Formats that `image make` writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MakeFormat {
    /// Blocks of 4 KiB, files below 16 MiB, no times, no hard links
    #[default]
    Cramfs,
}
