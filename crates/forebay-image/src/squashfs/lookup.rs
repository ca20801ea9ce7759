//! What Linux finds under the names of a directory.
//!
//! A lookup begins at the last run of the index that can have the name, or at the first run, and
//! ends at the name, or at a name whose first byte is greater. So in a directory that is sorted
//! every name is found; in another one it depends on what stands before it.

use super::Squashfs;
use super::directory::{Directory, ENTRIES_MAX, Indexed, NAME_MAX, Named};
use super::metadata::Place;
use crate::error::{Error, Result};
use crate::listing::{EntryTarget, Groups, Lookup, Promise, Stored};

/// The entries of a directory.
pub(super) type Listing = crate::listing::Listing<()>;

/// Maximum bytes of runs that are read if an index leads to anything but a run of its directory.
/// After that, names count as not found.
const STRAY_BYTES_MAX: u32 = 64 << 20;

/// What a name names, as the directory says it.
pub(super) fn named(listing: &Listing, name: &[u8]) -> Option<Named> {
    Some(named_at(listing, listing.place(name)?))
}

/// What the entry at a place of the listing names.
pub(super) fn named_at(listing: &Listing, place: usize) -> Named {
    let entry = &listing.entries[place];
    let target = EntryTarget { ino: entry.ino, kind: Some(entry.kind) };
    Named { node: entry.node, target }
}

/// A run of a directory.
struct Run {
    place: Place,
    /// Bytes of runs before it.
    before: u32,
    /// The number of entries before it.
    first: usize,
}

/// Reads a directory and checks it.
pub(super) fn list(image: &Squashfs, directory: &Directory) -> Result<Listing> {
    let (mut stored, mut runs) = (Vec::new(), Vec::new());
    if let Some(mut walk) = image.walk(directory.place, directory.bytes)? {
        loop {
            if let Some((place, left)) = walk.run()? {
                runs.push(Run { place, before: directory.bytes - left, first: stored.len() });
            }
            let Some(entry) = walk.next_stored()? else { break };
            if stored.len() >= ENTRIES_MAX {
                let what = format!("a directory of more than {ENTRIES_MAX} entries");
                return Err(Error::Unsupported { what, offset: directory.place.block });
            }
            stored.push(entry);
        }
    }
    let starts = Starts::read(image, directory, &runs);
    let found = starts.are_right(&stored);
    let promise = Promise { sorted: true, found, name_max: NAME_MAX, dots: None };
    let mut finder = None;
    Ok(Listing::new(stored, promise, |stored, place| {
        let finder = finder.get_or_insert_with(|| Finder::new(stored));
        starts.find(finder, stored, &stored[place].name)
    }))
}

/// Where the index has lookups begin.
struct Starts {
    indexed: Vec<(Indexed, Start)>,
    /// For each of them the greatest name up to it, by its place: a lookup goes no further than to
    /// the first greater name.
    greatest: Vec<usize>,
}

enum Start {
    /// At an entry that begins a run.
    Entry(usize),
    /// Elsewhere: the entries read there, if any can be read.
    Stray(Option<(Vec<Stored<()>>, Finder)>),
}

impl Starts {
    fn read(image: &Squashfs, directory: &Directory, runs: &[Run]) -> Self {
        let mut starts = Self { indexed: Vec::new(), greatest: Vec::new() };
        let mut budget = STRAY_BYTES_MAX;
        for indexed in image.index(directory).into_iter().flatten() {
            let table = image.directory_table.start;
            let place = directory.place_of(indexed.block, indexed.before, table);
            let run = runs.binary_search_by_key(&indexed.before, |run| run.before);
            let run = run.ok().map(|run| &runs[run]).filter(|run| run.place == place);
            let start = match run {
                Some(run) => Start::Entry(run.first),
                None => {
                    let left = directory.bytes.saturating_sub(indexed.before);
                    Start::Stray(stray(image, place, left, &mut budget))
                }
            };
            let last = starts.greatest.last().copied();
            let last = last.filter(|last| starts.indexed[*last].0.name >= indexed.name);
            starts.greatest.push(last.unwrap_or(starts.indexed.len()));
            starts.indexed.push((indexed, start));
        }
        starts
    }

    /// Whether no lookup begins behind a name that it may be for.
    fn are_right(&self, stored: &[Stored<()>]) -> bool {
        self.indexed.iter().all(|(indexed, start)| match start {
            Start::Entry(0) => true,
            Start::Entry(first) => stored[first - 1].name < indexed.name,
            Start::Stray(_) => false,
        })
    }

    fn find(&self, finder: &Finder, stored: &[Stored<()>], name: &[u8]) -> Lookup<()> {
        let name_at = |place: usize| self.indexed[place].0.name.as_slice();
        let passed = self.greatest.partition_point(|greatest| name_at(*greatest) <= name);
        let start = passed.checked_sub(1).map_or(&Start::Entry(0), |last| &self.indexed[last].1);
        let (strays, found) = match start {
            Start::Entry(first) => {
                return finder.find(stored, name, *first).map_or(Lookup::Nothing, Lookup::At);
            }
            Start::Stray(None) => return Lookup::Nothing,
            Start::Stray(Some((strays, finder))) => (strays, finder.find(strays, name, 0)),
        };
        let Some(found) = found.map(|at| &strays[at]) else { return Lookup::Nothing };
        let is_found =
            |at: &usize| (stored[*at].node, stored[*at].target) == (found.node, found.target);
        let own = finder.places(stored, name).find(is_found);
        own.map_or_else(|| Lookup::Foreign(found.clone()), Lookup::At)
    }
}

/// Reads from a position that is no run of the directory the entries that Linux would accept, up to
/// the point where it stops.
fn stray(
    image: &Squashfs,
    place: Place,
    left: u32,
    budget: &mut u32,
) -> Option<(Vec<Stored<()>>, Finder)> {
    *budget = budget.checked_sub(left)?;
    let mut walk = image.walk(place, left).ok()??;
    let mut strays = Vec::new();
    while let Ok(Some(entry)) = walk.next_stored() {
        strays.push(entry);
    }
    let finder = Finder::new(&strays);
    Some((strays, finder))
}

/// Finds names in a list as Linux does when it reads the list from some entry on.
struct Finder {
    groups: Groups,
    /// For each entry the last one before it whose first byte is greater.
    greater: Vec<Option<u32>>,
}

impl Finder {
    fn new(stored: &[Stored<()>]) -> Self {
        let mut last = [None; 256];
        let mut greater = Vec::with_capacity(stored.len());
        for (place, entry) in (0..).zip(stored) {
            let first = usize::from(entry.name[0]);
            greater.push(last[first + 1..].iter().copied().max().flatten());
            last[first] = Some(place);
        }
        Self { groups: Groups::of(stored.iter().map(|entry| &entry.name[..])), greater }
    }

    /// The places of a name, in their order.
    fn places<'a>(
        &'a self,
        stored: &'a [Stored<()>],
        name: &'a [u8],
    ) -> impl Iterator<Item = usize> + 'a {
        let by_name = &self.groups.by_name;
        let name_at = move |place: &u32| stored[*place as usize].name.as_slice();
        let begin = by_name.partition_point(|place| name_at(place) < name);
        let equal = by_name[begin..].iter().take_while(move |place| name_at(place) == name);
        equal.map(|place| *place as usize)
    }

    fn find(&self, stored: &[Stored<()>], name: &[u8], start: usize) -> Option<usize> {
        let place = self.places(stored, name).find(|place| *place >= start)?;
        let is_hidden = self.greater[place].is_some_and(|greater| greater as usize >= start);
        (!is_hidden).then_some(place)
    }
}
