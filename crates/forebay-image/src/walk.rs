//! The tree of an image as a list, bounded in number and of any depth.
//!
//! ```text
//!   /            0            A directory's names stand together, before those of its
//!   ├── a        1            directories: a pass over the list in order opens each
//!   │   └── c    3            directory once, and meets every directory before what is in it.
//!   └── b        2
//! ```
//!
//! An error of the tree becomes a [`Fault`], and the walk continues with the rest.

use std::collections::{HashMap, HashSet};

use crate::fault::{Cause, Fault};
use crate::image::Image;
use crate::listing::wrong_name;
use crate::node::{Entry, Kind, NodeId};

/// How far a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of names at most.
    pub names: usize,
}

impl Default for Limits {
    /// 4 Mi names, a quarter of a GiB of memory. Depth has no limit: Linux goes as deep as a tree
    /// is, step by step.
    fn default() -> Self {
        Self { names: 4 << 20 }
    }
}

/// A name in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The place of its directory in the list; the root is its own.
    pub parent: usize,
    /// The name; empty for the root.
    pub name: Box<[u8]>,
    /// Its node.
    pub node: NodeId,
    /// What that is.
    pub kind: Kind,
    /// The place of the first name of the same node, if this is another one: a hard link.
    pub first: Option<usize>,
}

/// The result of a choice for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It is taken, with all below.
    In,
    /// It is left out, with everything below, whatever other choices say.
    Out,
    /// Neither.
    None,
}

/// All names of a tree, and its errors.
#[derive(Debug, Default)]
pub struct Tree {
    pub(crate) items: Vec<Item>,
    /// What could not be walked.
    pub faults: Vec<Fault>,
}

impl Tree {
    /// Everything that is reached from the root.
    pub fn whole(image: &dyn Image, limits: Limits) -> Self {
        Self::walk(image, &[], Scope::All, limits)
    }

    /// The nodes at and below some paths, and the directories above them. A path is as
    /// [`Tree::path`] gives it, without links in it; a missing path is missing in the tree.
    pub fn of(image: &dyn Image, paths: &[Vec<u8>], limits: Limits) -> Self {
        let wanted: Vec<Vec<&[u8]>> = paths
            .iter()
            .map(|path| path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect())
            .collect();
        let through = (0..wanted.len()).collect();
        let scope = Scope::of(through, &wanted, 0);
        Self::walk(image, &wanted, scope, limits)
    }

    /// Leaves what a choice takes by its path, with all below and the directories above. Faults of
    /// directories that are left out go too.
    pub fn choose(&mut self, choice: impl Fn(&[u8]) -> Choice) {
        let mut chosen: Vec<Choice> = Vec::with_capacity(self.items.len());
        let mut kept = vec![false; self.items.len()];
        kept[0] = true;
        for (place, item) in self.items.iter().enumerate() {
            let above = chosen.get(item.parent).copied().unwrap_or(Choice::None);
            let own = choice(&self.path(place));
            chosen.push(match (above, own) {
                (Choice::Out, _) | (_, Choice::Out) => Choice::Out,
                (Choice::In, _) | (_, Choice::In) => Choice::In,
                (Choice::None, Choice::None) => Choice::None,
            });
            let mut line = place;
            while chosen[place] == Choice::In && !kept[line] {
                kept[line] = true;
                line = self.items[line].parent;
            }
        }
        self.faults.retain(|fault| {
            let prefixes = fault.path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let mut above = prefixes.map(|(end, _)| &fault.path[..end]);
            choice(&fault.path) != Choice::Out && above.all(|path| choice(path) != Choice::Out)
        });
        let mut places = vec![0; self.items.len()];
        let mut firsts: HashMap<usize, usize> = HashMap::new();
        let items = std::mem::take(&mut self.items);
        for (place, item) in items.into_iter().enumerate().filter(|(place, _)| kept[*place]) {
            places[place] = self.items.len();
            // The first name may be left out; then another one is the first.
            let first = firsts.get(&item.first.unwrap_or(place)).copied();
            firsts.entry(item.first.unwrap_or(place)).or_insert(self.items.len());
            self.items.push(Item { parent: places[item.parent], first, ..item });
        }
    }

    /// The names, directories before their contents.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The path of a name, without a slash in front.
    pub fn path(&self, place: usize) -> Vec<u8> {
        let mut path = Vec::new();
        for place in self.line(place) {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&self.items[place].name);
        }
        path
    }

    /// A name and the directories above it, from the first one below the root on.
    pub(crate) fn line(&self, mut place: usize) -> Vec<usize> {
        let mut line = Vec::new();
        while place != 0 {
            line.push(place);
            place = self.items[place].parent;
        }
        line.reverse();
        line
    }

    /// A tree that is its root.
    pub(crate) fn rooted(node: NodeId) -> Self {
        let (parent, name, kind) = (0, Box::default(), Kind::Directory);
        let items = vec![Item { parent, name, node, kind, first: None }];
        Self { items, faults: Vec::new() }
    }

    fn walk(image: &dyn Image, wanted: &[Vec<&[u8]>], scope: Scope, limits: Limits) -> Self {
        let mut walk = Walk {
            tree: Self::rooted(image.root()),
            directories: HashMap::from([(image.root(), 0)]),
            others: HashMap::new(),
            limits,
            wanted,
            fault_bytes: 0,
            untold: 0,
        };
        let mut stack = vec![Open { place: 0, depth: 0, scope }];
        while let Some(open) = stack.pop() {
            let directory = walk.tree.items[open.place].node;
            let listed = image
                .entries(directory)
                .and_then(|entries| Ok((entries, image.defects(directory)?)));
            let (entries, defects) = match listed {
                Ok(listed) => listed,
                Err(error) => {
                    walk.fault(open.place, None, error.into());
                    continue;
                }
            };
            for defect in defects.iter() {
                if open.scope.below(&defect.name, wanted, open.depth).is_some() {
                    walk.fault(open.place, None, Cause::Entry(Box::new(defect.clone())));
                }
            }
            let opened = stack.len();
            if !walk.list(&open, &entries, &mut stack) {
                break;
            }
            stack[opened..].reverse();
        }
        walk.finish()
    }
}

/// The names in each directory of a tree, sorted.
#[derive(Debug)]
pub struct Inside {
    /// All places but the root's, by directory and name.
    places: Vec<usize>,
    /// Where the names of each place begin; one more at the end.
    starts: Vec<usize>,
}

impl Inside {
    /// Those of a tree.
    pub fn new(tree: &Tree) -> Self {
        let items = tree.items();
        let mut places: Vec<usize> = (1..items.len()).collect();
        places.sort_by(|a, b| {
            let key = |place: usize| (items[place].parent, &items[place].name);
            key(*a).cmp(&key(*b))
        });
        let mut starts = vec![0; items.len() + 1];
        for item in &items[1..] {
            starts[item.parent + 1] += 1;
        }
        for place in 0..items.len() {
            starts[place + 1] += starts[place];
        }
        Self { places, starts }
    }

    /// The places of the names in the directory at a place.
    pub fn names(&self, directory: usize) -> &[usize] {
        &self.places[self.starts[directory]..self.starts[directory + 1]]
    }
}

/// A directory whose names are still to be listed.
struct Open {
    place: usize,
    /// The number of directories above it.
    depth: usize,
    scope: Scope,
}

/// What of a directory is wanted.
enum Scope {
    All,
    /// What these of the wanted paths go through.
    Some(Vec<usize>),
}

impl Scope {
    /// The wanted part of some paths, after `walked` parts have been walked.
    fn of(paths: Vec<usize>, wanted: &[Vec<&[u8]>], walked: usize) -> Self {
        let is_over = |path: &usize| wanted[*path].len() == walked;
        if paths.iter().any(is_over) { Self::All } else { Self::Some(paths) }
    }

    /// The wanted part below a name in a directory of a depth; none if it is not wanted itself.
    fn below(&self, name: &[u8], wanted: &[Vec<&[u8]>], depth: usize) -> Option<Self> {
        let Self::Some(paths) = self else { return Some(Self::All) };
        let through = |path: &usize| wanted[*path].get(depth).is_some_and(|part| *part == name);
        let rest: Vec<_> = paths.iter().copied().filter(through).collect();
        (!rest.is_empty()).then(|| Self::of(rest, wanted, depth + 1))
    }
}

struct Walk<'a> {
    tree: Tree,
    /// The place of each directory.
    directories: HashMap<NodeId, usize>,
    /// The first name of everything else.
    others: HashMap<NodeId, usize>,
    limits: Limits,
    wanted: &'a [Vec<&'a [u8]>],
    /// Bytes of the faults' paths.
    fault_bytes: usize,
    /// Faults that are only counted.
    untold: u64,
}

impl Walk<'_> {
    /// Adds a directory's names. Returns whether there is space for more.
    fn list(&mut self, open: &Open, entries: &[Entry], stack: &mut Vec<Open>) -> bool {
        let mut names = HashSet::new();
        for entry in entries {
            let below = open.scope.below(&entry.name, self.wanted, open.depth);
            let Some(scope) = below else { continue };
            if !is_name(&entry.name) {
                self.fault(open.place, None, Cause::Name(entry.name.clone()));
                continue;
            }
            if !names.insert(&entry.name[..]) {
                self.fault(open.place, None, Cause::Double(entry.name.clone()));
                continue;
            }
            if self.tree.items.len() >= self.limits.names {
                self.fault(open.place, None, Cause::Many(self.limits.names));
                return false;
            }
            if entry.kind == Kind::Directory {
                if let Some(cause) = self.refusal(open, entry.node) {
                    self.fault(open.place, Some(&entry.name), cause);
                    continue;
                }
                let place = self.add(open.place, entry, None);
                self.directories.insert(entry.node, place);
                stack.push(Open { place, depth: open.depth + 1, scope });
            } else {
                let first = self.others.get(&entry.node).copied();
                let place = self.add(open.place, entry, first);
                self.others.entry(entry.node).or_insert(place);
            }
        }
        true
    }

    /// Why a directory is not walked, if it has been met before.
    fn refusal(&self, open: &Open, node: NodeId) -> Option<Cause> {
        let met = *self.directories.get(&node)?;
        // The way up is as long as a path, so it is only walked for a fault that is reported.
        if self.fault_bytes > FAULT_BYTES_MAX {
            return Some(Cause::TwoNames);
        }
        let mut above = open.place;
        while above > met {
            above = self.tree.items[above].parent;
        }
        Some(if above == met { Cause::Loop } else { Cause::TwoNames })
    }

    fn add(&mut self, parent: usize, entry: &Entry, first: Option<usize>) -> usize {
        let (name, node, kind) = (entry.name.clone().into(), entry.node, entry.kind);
        self.tree.items.push(Item { parent, name, node, kind, first });
        self.tree.items.len() - 1
    }

    fn fault(&mut self, directory: usize, name: Option<&[u8]>, cause: Cause) {
        if self.fault_bytes > FAULT_BYTES_MAX {
            self.untold += 1;
            return;
        }
        let mut path = self.tree.path(directory);
        if let Some(name) = name {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        self.fault_bytes += path.len() + FAULT_COST;
        self.tree.faults.push(Fault::new(path, cause));
    }

    fn finish(mut self) -> Tree {
        if self.untold > 0 {
            self.tree.faults.push(Fault::new("", Cause::Untold(self.untold)));
        }
        self.tree
    }
}

/// Bytes of all faults at most. The path of each may be as long as the tree is deep.
const FAULT_BYTES_MAX: usize = 64 << 20;
/// Memory of a fault without its path, in bytes.
const FAULT_COST: usize = 256;

/// Whether a name can be that of a file: it stays in its directory.
pub(crate) fn is_name(name: &[u8]) -> bool {
    wrong_name(name).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    fn paths(tree: &Tree) -> Vec<String> {
        let path = |place| String::from_utf8(tree.path(place)).unwrap();
        (0..tree.items().len()).map(path).collect()
    }

    fn faults(tree: &Tree) -> Vec<String> {
        tree.faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_of_a_directory_stand_together_before_what_is_below() {
        let mut image = Memory::new();
        for path in ["b/x", "a/y", "c", "a/d/z"] {
            image.file(path, b"1");
        }
        let tree = Tree::whole(&image, Limits::default());
        assert_eq!(paths(&tree), ["", "b", "a", "c", "b/x", "a/y", "a/d", "a/d/z"]);
        assert!(tree.faults.is_empty());
    }

    #[test]
    fn a_choice_brings_what_lies_above_and_below() {
        let mut image = Memory::new();
        for path in ["b/x", "a/y", "c", "a/d/z", "a/d/zz"] {
            image.file(path, b"1");
        }
        let chosen = |choice: &[&str]| {
            let choice: Vec<Vec<u8>> = choice.iter().map(|path| path.as_bytes().to_vec()).collect();
            paths(&Tree::of(&image, &choice, Limits::default()))
        };
        assert_eq!(chosen(&["a/d/z"]), ["", "a", "a/d", "a/d/z"]);
        assert_eq!(chosen(&["a/d", "b"]), ["", "b", "a", "b/x", "a/d", "a/d/z", "a/d/zz"]);
        assert_eq!(chosen(&["a/d/z", "a"]), ["", "a", "a/y", "a/d", "a/d/z", "a/d/zz"]);
        assert_eq!(chosen(&["nowhere"]), [""]);
        assert_eq!(chosen(&[""]).len(), 9);
    }

    #[test]
    fn a_choice_by_path_keeps_directories_above_and_finds_new_first_names() {
        let mut image = Memory::new();
        let file = image.file("a/one", b"1");
        image.name("b/two", file);
        image.name("b/three", file);
        image.file("b/c/x", b"1");
        let whole = || Tree::whole(&image, Limits::default());
        let mut tree = whole();
        tree.choose(|path| match path {
            b"b" => Choice::In,
            b"b/c" => Choice::Out,
            _ => Choice::None,
        });
        assert_eq!(paths(&tree), ["", "b", "b/two", "b/three"]);
        assert_eq!((tree.items()[2].first, tree.items()[3].first), (None, Some(2)));
        let mut tree = whole();
        tree.choose(|path| if path.ends_with(b"x") { Choice::In } else { Choice::None });
        assert_eq!(paths(&tree), ["", "b", "b/c", "b/c/x"]);
        let mut tree = whole();
        tree.choose(|_| Choice::None);
        assert_eq!(paths(&tree), [""]);
    }

    #[test]
    fn another_name_of_the_same_file_is_noticed() {
        let mut image = Memory::new();
        let file = image.file("a/one", b"1");
        image.name("two", file);
        let tree = Tree::whole(&image, Limits::default());
        assert_eq!(paths(&tree), ["", "a", "two", "a/one"]);
        assert_eq!(tree.items()[3].first, Some(2));
        assert_eq!(tree.items()[2].first, None);
    }

    #[test]
    fn a_directory_that_holds_itself_is_an_error_and_no_loop() {
        let mut image = Memory::new();
        let inner = image.directory("a/b");
        image.name("a/b/again", inner);
        image.name("a/b/top", image.root());
        image.name("c", inner);
        let tree = Tree::whole(&image, Limits::default());
        assert_eq!(paths(&tree), ["", "a", "c"]);
        let expected = [
            "/c/again: the directory holds itself",
            "/c/top: the directory holds itself",
            "/a/b: the directory has a second name",
        ];
        // The last name that was met first is the one that is walked.
        let mut found = faults(&tree);
        let mut expected: Vec<String> = expected.map(str::to_owned).to_vec();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_tree_is_walked_as_deep_as_it_is() {
        let mut image = Memory::new();
        let mut above = image.root();
        for _ in 0..20_000 {
            above = image.directory_in(above, b"d");
        }
        image.name_in(above, b"again", image.root());
        let tree = Tree::whole(&image, Limits::default());
        assert_eq!(tree.items().len(), 20_001);
        let deepest = "/d".repeat(20_000);
        assert_eq!(tree.path(20_000), deepest.as_bytes()[1..]);
        assert_eq!(faults(&tree), [format!("{deepest}/again: the directory holds itself")]);
        let chosen = Tree::of(&image, &[deepest.into_bytes()], Limits::default());
        assert_eq!(chosen.items().len(), 20_001);
    }

    #[test]
    fn faults_of_any_number_are_bounded() {
        let mut image = Memory::new();
        let mut above = image.root();
        for _ in 0..6_000 {
            above = image.directory_in(above, &[b'd'; 200]);
            image.name_in(above, b"again", image.root());
        }
        let tree = Tree::whole(&image, Limits::default());
        let bytes: usize = tree.faults.iter().map(|fault| fault.path.len()).sum();
        assert!((60 << 20..66 << 20).contains(&bytes), "{bytes}");
        let (told, last) = (tree.faults.len() - 1, tree.faults.last().unwrap());
        let more = 6_000 - told;
        assert_eq!(last.to_string(), format!("/: {more} more faults, which are not listed"));
    }

    #[test]
    fn numbers_are_bounded() {
        let mut image = Memory::new();
        image.file("1/2/3/4", b"1");
        let walked = |names| Tree::whole(&image, Limits { names });
        assert_eq!(walked(5).items().len(), 5);
        assert!(walked(5).faults.is_empty());
        let few = walked(4);
        assert_eq!(few.items().len(), 4);
        let expected = "/1/2/3: more than 4 names are in the tree; the rest is left out";
        assert_eq!(faults(&few), [expected]);
    }

    #[test]
    fn what_is_no_name_is_left_out() {
        let mut image = Memory::new();
        let file = image.file("good", b"1");
        for name in [&b""[..], b".", b"..", b"a/b", b"../../etc/passwd", b"/etc", b"a\0b", b"good"]
        {
            image.raw_name("", name, file);
        }
        let tree = Tree::whole(&image, Limits::default());
        assert_eq!(paths(&tree), ["", "good"]);
        assert_eq!(tree.faults.len(), 8);
        assert_eq!(faults(&tree)[4], "/: '../../etc/passwd' is no name of a file");
        assert_eq!(faults(&tree)[7], "/: the name 'good' is there twice");
    }

    #[test]
    fn a_damaged_directory_hides_only_what_is_in_it() {
        let mut image = Memory::new();
        let bad = image.directory("bad");
        image.file("bad/x", b"1");
        image.file("good/y", b"1");
        image.damage_directory(bad);
        let tree = Tree::whole(&image, Limits::default());
        assert_eq!(paths(&tree), ["", "bad", "good", "good/y"]);
        assert_eq!(tree.faults.len(), 1);
        assert_eq!(tree.faults[0].path, b"bad");
        assert!(tree.faults[0].offset().is_some());
    }
}
