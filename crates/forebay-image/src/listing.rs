//! The entries of a directory, checked: those that Linux shows, and the errors of the others.
//!
//! ```text
//!   stored    b   b   a   ../x       each format: in the image's order, whatever is there
//!             |   |   |   |
//!   lookup    ✓       -              each format: which of them Linux finds by its name
//!             |   |   |   |
//!   listing   b   duplicate, not found, no name
//! ```
//!
//! Linux lists a directory from front to back and looks a name up in another way, which relies on
//! the order of the names. Where the two disagree the lookup wins: it decides what a program gets.
//! A name is shown once, with the inode that the lookup leads to; everything else is an
//! [`EntryDefect`].

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::node::{Entry, Kind, NodeId};
use crate::printable::shown;

/// Defects that are kept as [`Image::oddities`](crate::Image::oddities).
const ODDITIES_MAX: usize = 64;

/// What an entry of a directory names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryTarget {
    /// The inode's number, as the directory says it.
    pub ino: u64,
    /// Its type in the directory; none if that is invalid.
    pub kind: Option<Kind>,
}

impl fmt::Display for EntryTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ino, kind } = self;
        write!(f, "inode {ino} ({})", kind.map_or("unknown type", Kind::name))
    }
}

/// An entry of a directory that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDefect {
    /// The stored name.
    pub name: Vec<u8>,
    /// What the entry names.
    pub target: EntryTarget,
    /// Its error.
    pub problem: EntryProblem,
}

/// What can be wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryProblem {
    /// No file can have the name. The entry is left out.
    Name(&'static str),
    /// The type is unknown. The entry is left out.
    Type,
    /// Another entry of this name is shown, and this one is left out.
    Duplicate(EntryTarget),
    /// Linux does not find the name, since it stands behind a greater one. The entry is left out.
    NotFound(Option<(Vec<u8>, EntryTarget)>),
    /// It stands behind a greater name. Linux finds it nevertheless, and it is shown.
    Unsorted(Vec<u8>, EntryTarget),
    /// A lookup of the name leads to another inode, which is shown.
    Misled(EntryTarget),
    /// Linux reads the name up to a zero byte only. The entry has this shorter name.
    Cut(Vec<u8>),
}

impl EntryDefect {
    /// Whether the entry is still shown with its own inode.
    pub const fn is_shown(&self) -> bool {
        matches!(self.problem, EntryProblem::Unsorted(..) | EntryProblem::Cut(_))
    }
}

impl fmt::Display for EntryDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, target) = (shown(&self.name), self.target);
        match &self.problem {
            EntryProblem::Name(why) => {
                write!(f, "the entry '{name}' of {target} is left out: {why}")
            }
            EntryProblem::Type => {
                write!(f, "the entry '{name}' of {target} is left out: no such type of file")
            }
            EntryProblem::Duplicate(other) => write!(
                f,
                "the name '{name}' is there twice: {other} is shown, {target} is left out",
            ),
            EntryProblem::NotFound(Some((before, other))) => write!(
                f,
                "the entry '{name}' of {target} is left out: it stands behind '{}' of {other}, \
                 where Linux does not find it",
                shown(before),
            ),
            EntryProblem::NotFound(None) => write!(
                f,
                "the entry '{name}' of {target} is left out: Linux does not find it, since other \
                 names or the directory's index are out of order",
            ),
            EntryProblem::Unsorted(before, other) => write!(
                f,
                "the entry '{name}' of {target} is out of order: it stands behind '{}' of {other}, \
                 where Linux finds it nevertheless",
                shown(before),
            ),
            EntryProblem::Misled(other) => write!(
                f,
                "the entry '{name}' names {target}, but a lookup leads to {other}, which is shown",
            ),
            EntryProblem::Cut(shorter) => write!(
                f,
                "the name '{name}' of {target} has a zero byte: Linux reads it as '{}'",
                shown(shorter),
            ),
        }
    }
}

/// A stored entry, and data of the format about it.
#[derive(Clone, Debug)]
pub(crate) struct Stored<T> {
    pub(crate) name: Vec<u8>,
    pub(crate) node: NodeId,
    pub(crate) target: EntryTarget,
    pub(crate) extra: T,
}

/// What Linux finds under a name.
pub(crate) enum Lookup<T> {
    /// The entry at this place of the stored ones.
    At(usize),
    /// An entry that is not in the list.
    Foreign(Stored<T>),
    Nothing,
    /// The format cannot hold the name.
    Refused(&'static str),
}

/// What the format promises of a directory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Promise {
    /// Names ascend.
    pub(crate) sorted: bool,
    /// Names that ascend are all found: nothing but their order decides.
    pub(crate) found: bool,
    /// Bytes of a name at most.
    pub(crate) name_max: usize,
    /// `.` and `..` are stored; this is the directory's own inode number.
    pub(crate) dots: Option<u64>,
}

/// The entries of a directory that are shown, and the defects of the others.
#[derive(Debug)]
pub(crate) struct Listing<T> {
    /// In the image's order.
    pub(crate) entries: Arc<[Entry]>,
    pub(crate) defects: Arc<[EntryDefect]>,
    /// What else is known of each entry.
    extras: Box<[T]>,
    /// Places of entries by name, if that is not their order.
    by_name: Option<Box<[u32]>>,
    /// Memory that it takes, in bytes.
    pub(crate) weight: usize,
}

impl<T: Clone> Listing<T> {
    /// Checks the stored entries. `find` returns what Linux finds under the name of an entry; it is
    /// called once for each name, with the first entry that has it, in their order.
    pub(crate) fn new(
        stored: Vec<Stored<T>>,
        promise: Promise,
        find: impl FnMut(&[Stored<T>], usize) -> Lookup<T>,
    ) -> Self {
        let ascending = stored.is_sorted_by(|one, two| one.name < two.name);
        let mut dots = Dots::default();
        let plain = |entry: &Stored<T>| {
            entry.target.kind.is_some() && refusal(&entry.name, promise).is_none()
        };
        let mut check = Check { entries: Vec::new(), extras: Vec::new(), defects: Vec::new() };
        if ascending
            && promise.found
            && stored.iter().all(|entry| dots.is_legal(entry, promise) || plain(entry))
        {
            for entry in stored.into_iter().filter(|entry| !is_dot(&entry.name)) {
                check.show(entry);
            }
        } else {
            check.all(&stored, promise, find);
        }
        check.finish()
    }

    /// Adds defects that the format found.
    pub(crate) fn add_defects(&mut self, more: Vec<EntryDefect>) {
        if !more.is_empty() {
            self.weight += cost(&more);
            self.defects = self.defects.iter().cloned().chain(more).collect();
        }
    }

    /// The place of a name among the entries.
    pub(crate) fn place(&self, name: &[u8]) -> Option<usize> {
        match &self.by_name {
            None => self.entries.binary_search_by(|entry| entry.name.as_slice().cmp(name)).ok(),
            Some(places) => {
                let name_at = |place: &u32| self.entries[*place as usize].name.as_slice();
                let at = places.binary_search_by(|place| name_at(place).cmp(name)).ok()?;
                Some(places[at] as usize)
            }
        }
    }

    /// The entry of a name, and what else is known of it.
    pub(crate) fn find(&self, name: &[u8]) -> Option<(&Entry, &T)> {
        let place = self.place(name)?;
        Some((&self.entries[place], &self.extras[place]))
    }

    /// What else is known of the entries.
    pub(crate) const fn extras(&self) -> &[T] {
        &self.extras
    }
}

/// The state of the check.
struct Check<T> {
    entries: Vec<Entry>,
    extras: Vec<T>,
    defects: Vec<EntryDefect>,
}

impl<T: Clone> Check<T> {
    fn all(
        &mut self,
        stored: &[Stored<T>],
        promise: Promise,
        mut find: impl FnMut(&[Stored<T>], usize) -> Lookup<T>,
    ) {
        let groups = Groups::of(stored.iter().map(|entry| &entry.name[..]));
        // The result of a lookup, at the place of the name's first entry: the place, or none if it
        // is foreign, and its target.
        let mut found: Vec<Option<(Option<usize>, EntryTarget)>> = vec![None; stored.len()];
        let mut dots = Dots::default();
        let mut greatest: Option<usize> = None;
        for (place, entry) in stored.iter().enumerate() {
            if dots.is_legal(entry, promise) {
                continue;
            }
            if let Some(why) = refusal(&entry.name, promise) {
                self.defect(entry, EntryProblem::Name(why));
                continue;
            }
            let first = groups.first(place);
            if first == place {
                found[place] = match find(stored, place) {
                    Lookup::At(at) => {
                        self.show_as(&entry.name, &stored[at]);
                        Some((Some(at), stored[at].target))
                    }
                    Lookup::Foreign(other) => {
                        self.show_as(&entry.name, &other);
                        Some((None, other.target))
                    }
                    Lookup::Nothing => None,
                    Lookup::Refused(why) => {
                        self.defect(entry, EntryProblem::Name(why));
                        continue;
                    }
                };
            }
            let before = greatest
                .filter(|greatest| promise.sorted && stored[*greatest].name > entry.name)
                .map(|greatest| (stored[greatest].name.clone(), stored[greatest].target));
            if greatest.is_none_or(|greatest| stored[greatest].name < entry.name) {
                greatest = Some(place);
            }
            match (found[first], before) {
                (None, before) => self.defect(entry, EntryProblem::NotFound(before)),
                (Some((at, _)), before) if at == Some(place) => {
                    if entry.target.kind.is_none() {
                        self.defect(entry, EntryProblem::Type);
                    } else if let Some((name, target)) = before {
                        self.defect(entry, EntryProblem::Unsorted(name, target));
                    }
                }
                (Some((at, other)), _) => {
                    let is_twin = at.is_some_and(|at| stored[at].name == entry.name);
                    let problem = if is_twin {
                        EntryProblem::Duplicate(other)
                    } else {
                        EntryProblem::Misled(other)
                    };
                    self.defect(entry, problem);
                }
            }
        }
    }

    fn defect(&mut self, entry: &Stored<T>, problem: EntryProblem) {
        let (name, target) = (entry.name.clone(), entry.target);
        self.defects.push(EntryDefect { name, target, problem });
    }

    fn show_as(&mut self, name: &[u8], entry: &Stored<T>) {
        self.show(Stored { name: name.to_vec(), ..entry.clone() });
    }

    fn show(&mut self, entry: Stored<T>) {
        let Stored { name, node, target, extra } = entry;
        let Some(kind) = target.kind else { return };
        self.entries.push(Entry { name, node, ino: target.ino, kind });
        self.extras.push(extra);
    }

    fn finish(self) -> Listing<T> {
        let Self { entries, extras, defects } = self;
        let by_name = (!entries.is_sorted_by(|one, two| one.name < two.name)).then(|| {
            // Formats limit the number of entries to far fewer than 2^32.
            let mut places: Vec<u32> = (0..).take(entries.len()).collect();
            places.sort_by(|&a, &b| entries[a as usize].name.cmp(&entries[b as usize].name));
            places.into_boxed_slice()
        });
        let names: usize = entries.iter().map(|entry| entry.name.len()).sum();
        let each = size_of::<Entry>() + size_of::<T>() + ENTRY_OVERHEAD;
        let weight = OVERHEAD + names + entries.len() * each + cost(&defects);
        let (entries, defects, extras) = (entries.into(), defects.into(), extras.into());
        Listing { entries, defects, extras, by_name, weight }
    }
}

/// Memory that defects take, in bytes.
fn cost(defects: &[EntryDefect]) -> usize {
    defects.iter().map(|defect| 2 * defect.name.len() + DEFECT_COST).sum()
}

/// Which places of a list have equal names.
pub(crate) struct Groups {
    /// Places by name, equal names in their order.
    pub(crate) by_name: Vec<u32>,
    /// The first place of each place's name.
    firsts: Vec<u32>,
}

impl Groups {
    pub(crate) fn of<'a>(names: impl Iterator<Item = &'a [u8]>) -> Self {
        let names: Vec<&[u8]> = names.collect();
        let mut by_name: Vec<u32> = (0..).take(names.len()).collect();
        by_name.sort_by(|&a, &b| names[a as usize].cmp(names[b as usize]).then(a.cmp(&b)));
        let mut firsts = vec![0; names.len()];
        let mut first = 0;
        for &place in &by_name {
            if names[place as usize] != names[first as usize] || place == by_name[0] {
                first = place;
            }
            firsts[place as usize] = first;
        }
        Self { by_name, firsts }
    }

    fn first(&self, place: usize) -> usize {
        self.firsts[place] as usize
    }
}

/// Which of `.` and `..` have been met.
#[derive(Default)]
struct Dots([bool; 2]);

impl Dots {
    /// Whether an entry is `.` or `..` where these are stored, for the first time, and names a
    /// directory: its own if it is `.`.
    fn is_legal<T>(&mut self, entry: &Stored<T>, promise: Promise) -> bool {
        let Some(own) = promise.dots.filter(|_| is_dot(&entry.name)) else { return false };
        let met = &mut self.0[entry.name.len() - 1];
        let is_named = entry.name.len() == 2 || entry.target.ino == own;
        let is_directory = matches!(entry.target.kind, None | Some(Kind::Directory));
        is_named && is_directory && !std::mem::replace(met, true)
    }
}

fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

fn refusal(name: &[u8], promise: Promise) -> Option<&'static str> {
    let long = || (name.len() > promise.name_max).then_some("the name is too long");
    wrong_name(name).or_else(long)
}

/// Why no file can have a name.
pub(crate) fn wrong_name(name: &[u8]) -> Option<&'static str> {
    if name.is_empty() {
        Some("the name is empty")
    } else if is_dot(name) {
        Some("only the directory and the one above it have this name")
    } else if name.contains(&b'/') {
        Some("a slash in the name")
    } else if name.contains(&0) {
        Some("a zero byte in the name")
    } else {
        None
    }
}

/// Defects in the order in which directories were listed, each once, and a bounded number.
#[derive(Debug, Default)]
pub(crate) struct Oddities(Mutex<Vec<String>>);

impl Oddities {
    /// Adds the defects of a directory.
    pub(crate) fn add(&self, directory: u64, defects: &[EntryDefect]) {
        if defects.is_empty() {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for defect in defects {
            if kept.len() >= ODDITIES_MAX {
                return;
            }
            let text = format!("directory of inode {directory}: {defect}");
            if !kept.contains(&text) {
                kept.push(text);
            }
        }
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Memory of a listing without its entries, in bytes.
const OVERHEAD: usize = 160;
/// Memory of an entry besides itself and its name: an allocation.
const ENTRY_OVERHEAD: usize = 16;
/// Memory of a defect without names.
const DEFECT_COST: usize = 128;

#[cfg(test)]
mod tests;
