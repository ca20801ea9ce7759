//! Data that is legal for one reader and shown differently by another, and bytes that no reader
//! shows.
//!
//! ```text
//!   image   | superblock | block a      | gap | inodes | tables |  behind the end
//!                        |----| block b
//!                             overlap    unused                    unused
//! ```
//!
//! The byte ranges of everything that is reachable from the root are compared. Identical blocks are
//! shared, as writers do with equal content. Stored content may be shared in part, if it is whole
//! blocks of the file system, as with the chunks of erofs. All other overlaps are findings. So are
//! bytes outside of all ranges unless they are zero, as padding is.

use std::fmt;
use std::ops::Range;

use crate::content::Content;
use crate::error::Result;
use crate::fault::{Cause, Fault};
use crate::image::{Image, UsedBytes};
use crate::listing::{EntryDefect, EntryProblem};
use crate::node::Kind;
use crate::printable::shown;
use crate::source::Source;
use crate::walk::Tree;

/// Overlaps that are listed; more are counted.
const OVERLAPS_MAX: usize = 64;
/// Runs of bytes that are compared at most, 32 bytes of memory each.
const RUNS_MAX: usize = 8 << 20;
/// Bytes that are looked through at once.
const STEP: usize = 64 << 10;

/// What a strict check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Readers do not show the same of an entry of a directory.
    Readers {
        /// The directory's path, without a slash in front.
        path: Vec<u8>,
        /// The entry.
        defect: EntryDefect,
    },
    /// Two things lie on the same bytes, and are not the same.
    Overlap {
        /// The bytes that both have.
        bytes: Range<u64>,
        /// Their owners, as the path and the part of it.
        owners: [String; 2],
    },
    /// There are more overlaps than are listed.
    MoreOverlaps(u64),
    /// Bytes that nothing leads to and that are not all zero.
    Unused {
        /// The bytes.
        bytes: Range<u64>,
        /// The first of them that is not zero.
        first: u64,
        /// Whether they lie behind the end of the image.
        behind: bool,
    },
    /// Too many runs of bytes are in use to compare all.
    Many(usize),
}

impl Finding {
    /// Its kind in a word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Readers { .. } => "readers",
            Self::Overlap { .. } | Self::MoreOverlaps(_) => "overlap",
            Self::Unused { .. } => "unused",
            Self::Many(_) => "many",
        }
    }

    /// The bytes of the image that it is about.
    #[must_use]
    pub const fn bytes(&self) -> Option<&Range<u64>> {
        match self {
            Self::Overlap { bytes, .. } | Self::Unused { bytes, .. } => Some(bytes),
            Self::Readers { .. } | Self::MoreOverlaps(_) | Self::Many(_) => None,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Readers { path, defect } => {
                let (name, target) = (shown(&defect.name), defect.target);
                write!(f, "/{}: '{name}': ", shown(path))?;
                match &defect.problem {
                    EntryProblem::Duplicate(other) | EntryProblem::Misled(other) => write!(
                        f,
                        "Linux opens {other}; a reader that only lists the directory shows \
                         {target} too, or instead"
                    ),
                    EntryProblem::NotFound(_) => write!(
                        f,
                        "Linux lists it and does not find it; a reader that only lists the \
                         directory shows {target}"
                    ),
                    EntryProblem::Unsorted(..) => write!(
                        f,
                        "Linux finds {target}; a reader that relies on the order of names may not"
                    ),
                    EntryProblem::Cut(shorter) => write!(
                        f,
                        "Linux opens {target} as '{}'; a reader that checks names refuses it",
                        shown(shorter)
                    ),
                    EntryProblem::Name(why) => {
                        write!(f, "readers refuse or change the name, or stop at it: {why}")
                    }
                    EntryProblem::Type => {
                        write!(f, "readers take {target} for what its inode says, or leave it out")
                    }
                }
            }
            Self::Overlap { bytes: Range { start, end }, owners: [one, two] } => {
                write!(f, "bytes {start}..{end} are part of {one} and of {two}")
            }
            Self::MoreOverlaps(count) => write!(f, "{count} more overlaps, which are not listed"),
            Self::Unused { bytes: Range { start, end }, first, behind } => {
                let place = if *behind { "behind the end of the image" } else { "used by nothing" };
                write!(f, "bytes {start}..{end} are {place} and not zero from byte {first} on")
            }
            Self::Many(most) => {
                write!(f, "more than {most} runs of bytes are in use; the rest is not compared")
            }
        }
    }
}

/// Compares the byte ranges of everything reachable in a whole tree. Unreadable parts are left to
/// [`verify`](super::verify()), and bytes that only they lead to count as unused.
///
/// # Errors
///
/// If the image cannot be read where nothing is.
pub fn strict(image: &dyn Image, tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings: Vec<Finding> = tree.faults.iter().filter_map(of_entry).collect();
    let mut runs = Runs::default();
    if let Ok(used) = image.used() {
        runs.add_all(used, NO_PLACE);
    }
    let content = Content::new(image);
    for (place, item) in tree.items().iter().enumerate() {
        if item.first.is_some() {
            continue;
        }
        let place = u32::try_from(place).unwrap_or(NO_PLACE);
        if let Ok(used) = image.used_by(item.node) {
            runs.add_all(used, place);
        }
        if item.kind == Kind::File
            && let Ok(node) = image.node(item.node)
        {
            let mut at = 0;
            while at < node.size
                && !runs.full
                && let Ok(block) = content.block(item.node, at)
            {
                at = block.plain.end;
                runs.add_all(UsedBytes::of_block(&block), place);
            }
        }
    }
    runs.tidy();
    if runs.full {
        findings.push(Finding::Many(RUNS_MAX));
    }
    runs.overlaps(tree, image.summary().block_size.max(1).into(), &mut findings);
    let source = image.source();
    let end = image.summary().bytes.min(source.len());
    for gap in runs.gaps(end) {
        unused(source.as_ref(), gap, false, &mut findings)?;
    }
    unused(source.as_ref(), end..source.len(), true, &mut findings)?;
    Ok(findings)
}

fn of_entry(fault: &Fault) -> Option<Finding> {
    let Cause::Entry(defect) = &fault.cause else { return None };
    Some(Finding::Readers { path: fault.path.clone(), defect: (**defect).clone() })
}

/// Adds a finding if the bytes are not all zero.
fn unused(
    source: &dyn Source,
    bytes: Range<u64>,
    behind: bool,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let mut buffer = vec![0; STEP];
    let mut at = bytes.start;
    while at < bytes.end {
        let len = usize::try_from(bytes.end - at).unwrap_or(STEP).min(STEP);
        source.fill(&mut buffer[..len], at)?;
        if let Some(place) = buffer[..len].iter().position(|byte| *byte != 0) {
            let first = at + place as u64;
            findings.push(Finding::Unused { bytes, first, behind });
            return Ok(());
        }
        at += len as u64;
    }
    Ok(())
}

/// The place of what belongs to no name.
const NO_PLACE: u32 = u32::MAX;

/// Bytes of the image that something has.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u64,
    end: u64,
    /// Whose they are, in the tree.
    place: u32,
    what: &'static str,
}

impl Run {
    fn owner(&self, tree: &Tree) -> String {
        match usize::try_from(self.place) {
            Ok(place) if self.place != NO_PLACE => {
                format!("{} of '/{}'", self.what, shown(&tree.path(place)))
            }
            _ => self.what.to_owned(),
        }
    }

    /// Whether both are the same, or stored content that begins a number of whole blocks apart and
    /// shares whole blocks, or all up to the end of both.
    fn may_share(&self, other: &Self, block_size: u64) -> bool {
        let is_same = (self.start, self.end) == (other.start, other.end) && self.what == other.what;
        let are_stored = (self.what, other.what) == (UsedBytes::STORED, UsedBytes::STORED);
        let shared = self.end.min(other.end).saturating_sub(self.start.max(other.start));
        let are_whole = self.start.abs_diff(other.start).is_multiple_of(block_size)
            && (shared.is_multiple_of(block_size) || self.end == other.end);
        is_same || are_stored && are_whole
    }
}

#[derive(Debug, Default)]
struct Runs {
    runs: Vec<Run>,
    /// The number at which they are sorted and made fewer again.
    tidy_at: usize,
    full: bool,
}

impl Runs {
    fn add_all(&mut self, used: impl IntoIterator<Item = UsedBytes>, place: u32) {
        for UsedBytes { bytes, what } in used {
            self.add(Run { start: bytes.start, end: bytes.end, place, what });
        }
    }

    fn add(&mut self, run: Run) {
        if run.start >= run.end || self.full {
            return;
        }
        self.runs.push(run);
        if self.runs.len() >= self.tidy_at.max(1 << 16) {
            self.tidy();
            self.full = self.runs.len() >= RUNS_MAX;
            self.tidy_at = (2 * self.runs.len()).min(RUNS_MAX);
        }
    }

    /// Sorts them, and leaves each once that several names share.
    fn tidy(&mut self) {
        self.runs.sort_by_key(|run| (run.start, run.end, run.what, run.place));
        self.runs.dedup_by_key(|run| (run.start, run.end, run.what));
    }

    fn overlaps(&self, tree: &Tree, block_size: u64, findings: &mut Vec<Finding>) {
        // Of all before a run, the one that reaches farthest, and that of those that are not stored
        // blocks.
        let mut before: [Option<Run>; 2] = [None, None];
        let (mut listed, mut more) = (0, 0);
        for run in &self.runs {
            let reach = |other: &&Run| other.end > run.start && !other.may_share(run, block_size);
            if let Some(other) = before.iter().flatten().find(reach) {
                if listed < OVERLAPS_MAX {
                    let bytes = run.start..run.end.min(other.end);
                    let owners = [other.owner(tree), run.owner(tree)];
                    findings.push(Finding::Overlap { bytes, owners });
                    listed += 1;
                } else {
                    more += 1;
                }
            }
            let kinds = [true, run.what != UsedBytes::STORED];
            for (farthest, _) in before.iter_mut().zip(kinds).filter(|(_, counts)| *counts) {
                if farthest.is_none_or(|other| other.end < run.end) {
                    *farthest = Some(*run);
                }
            }
        }
        if more > 0 {
            findings.push(Finding::MoreOverlaps(more));
        }
    }

    /// The bytes before `end` that no run has.
    fn gaps(&self, end: u64) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = 0;
        for run in &self.runs {
            if run.start > at {
                gaps.push(at..run.start.min(end));
            }
            at = at.max(run.end);
        }
        gaps.push(at..end);
        gaps.retain(|gap| gap.start < gap.end);
        gaps
    }
}

#[cfg(test)]
mod tests;
