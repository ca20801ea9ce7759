//! The tree of an image as a list, in bounded depth and number.
//!
//! ```text
//!   /            0            A directory's names stand together, before those of its
//!   ├── a        1            directories: who works on the list in order opens each
//!   │   └── c    3            directory once, and meets every directory before what is in it.
//!   └── b        2
//! ```
//!
//! What is wrong with the tree becomes a [`Fault`], and the walk goes on beside it.

use std::collections::{HashMap, HashSet};

use crate::fault::{Cause, Fault};
use crate::image::{Entry, Image, Kind, NodeId};

/// How far a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of directories above a node at most.
    pub depth: usize,
    /// The number of names at most.
    pub names: usize,
}

impl Default for Limits {
    /// 256 directories deep, as deep as any path that a call can take; 4 Mi names, a quarter of
    /// a GiB of memory.
    fn default() -> Self {
        Self { depth: 256, names: 4 << 20 }
    }
}

/// A name in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The place of its directory in the list; the root is its own.
    pub parent: usize,
    /// The name; empty for the root.
    pub name: Box<[u8]>,
    /// What it names.
    pub node: NodeId,
    /// What that is.
    pub kind: Kind,
    /// The place of the first name of the same node, if this is another one: a hard link.
    pub first: Option<usize>,
}

/// All names of a tree, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Tree {
    pub(crate) items: Vec<Item>,
    /// What could not be walked.
    pub faults: Vec<Fault>,
}

impl Tree {
    /// Everything that is reached from the root.
    pub fn whole(image: &dyn Image, limits: Limits) -> Self {
        Self::walk(image, Scope::All, limits)
    }

    /// What lies at and below some paths, and the directories above them. A path is as
    /// [`Tree::path`] gives it, without links in it; what is missing is missing in the tree.
    pub fn of(image: &dyn Image, paths: &[Vec<u8>], limits: Limits) -> Self {
        let parts = |path: &Vec<u8>| -> Vec<Vec<u8>> {
            path.split(|byte| *byte == b'/')
                .filter(|part| !part.is_empty())
                .map(<[u8]>::to_vec)
                .collect()
        };
        let mut wanted: Vec<Vec<Vec<u8>>> = paths.iter().map(parts).collect();
        for parts in &mut wanted {
            parts.reverse();
        }
        Self::walk(image, Scope::of(wanted), limits)
    }

    /// The names, directories before what is in them.
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

    fn walk(image: &dyn Image, scope: Scope, limits: Limits) -> Self {
        let mut walk = Walk {
            tree: Self::rooted(image.root()),
            directories: HashSet::from([image.root()]),
            others: HashMap::new(),
            limits,
        };
        let mut stack = vec![Open { place: 0, depth: 0, scope }];
        while let Some(open) = stack.pop() {
            let directory = walk.tree.items[open.place].node;
            let entries = match image.entries(directory) {
                Ok(entries) => entries,
                Err(error) => {
                    walk.fault(open.place, None, error.into());
                    continue;
                }
            };
            let opened = stack.len();
            if !walk.list(&open, &entries, &mut stack) {
                break;
            }
            stack[opened..].reverse();
        }
        walk.tree
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
    depth: usize,
    scope: Scope,
}

/// What of a directory is wanted.
enum Scope {
    All,
    /// What these paths go through; the next part of each is its last element.
    Some(Vec<Vec<Vec<u8>>>),
}

impl Scope {
    fn of(wanted: Vec<Vec<Vec<u8>>>) -> Self {
        if wanted.iter().any(Vec::is_empty) { Self::All } else { Self::Some(wanted) }
    }

    /// What is wanted below a name; none if it is not wanted itself.
    fn below(&self, name: &[u8]) -> Option<Self> {
        let Self::Some(paths) = self else { return Some(Self::All) };
        let through = |path: &&Vec<Vec<u8>>| path.last().is_some_and(|part| part == name);
        let rest: Vec<_> =
            paths.iter().filter(through).map(|path| path[..path.len() - 1].to_vec()).collect();
        (!rest.is_empty()).then(|| Self::of(rest))
    }
}

struct Walk {
    tree: Tree,
    directories: HashSet<NodeId>,
    /// The first name of everything else.
    others: HashMap<NodeId, usize>,
    limits: Limits,
}

impl Walk {
    /// Takes in a directory's names. Says whether there is room for more.
    fn list(&mut self, open: &Open, entries: &[Entry], stack: &mut Vec<Open>) -> bool {
        let mut names = HashSet::new();
        for entry in entries {
            let Some(scope) = open.scope.below(&entry.name) else { continue };
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
                stack.push(Open { place, depth: open.depth + 1, scope });
            } else {
                let first = self.others.get(&entry.node).copied();
                let place = self.add(open.place, entry, first);
                self.others.entry(entry.node).or_insert(place);
            }
        }
        true
    }

    /// Why a directory is not walked.
    fn refusal(&mut self, open: &Open, node: NodeId) -> Option<Cause> {
        if open.depth >= self.limits.depth {
            return Some(Cause::Deep(self.limits.depth));
        }
        if self.directories.insert(node) {
            return None;
        }
        let above = self.tree.line(open.place);
        let holds_itself = node == self.tree.items[0].node
            || above.iter().any(|p| self.tree.items[*p].node == node);
        Some(if holds_itself { Cause::Loop } else { Cause::TwoNames })
    }

    fn add(&mut self, parent: usize, entry: &Entry, first: Option<usize>) -> usize {
        let (name, node, kind) = (entry.name.clone().into(), entry.node, entry.kind);
        self.tree.items.push(Item { parent, name, node, kind, first });
        self.tree.items.len() - 1
    }

    fn fault(&mut self, directory: usize, name: Option<&[u8]>, cause: Cause) {
        let mut path = self.tree.path(directory);
        if let Some(name) = name {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        self.tree.faults.push(Fault::new(path, cause));
    }
}

/// Whether a name can be that of a file: it stays in its directory.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
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
    fn depth_and_number_are_bounded() {
        let mut image = Memory::new();
        image.file("1/2/3/4", b"1");
        let walked = |depth, names| Tree::whole(&image, Limits { depth, names });
        assert_eq!(walked(3, 5).items().len(), 5);
        assert!(walked(3, 5).faults.is_empty());
        let shallow = walked(2, 5);
        assert_eq!(paths(&shallow), ["", "1", "1/2"]);
        assert_eq!(faults(&shallow), ["/1/2/3: more than 2 directories lie above it"]);
        let few = walked(3, 4);
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
