//! A rule for the files of a crate: none takes a name from a file that takes one from it, directly
//! or by way of others.
//!
//! ```text
//!   disk.rs --Connection--> connection.rs --Serving--> serving.rs --Disk--> disk.rs      a circle
//! ```
//!
//! An arrow goes from the file that uses a name to the file that defines it, past those that only
//! hand it on. What a file takes from the front doors of its own folders is not counted, and tests
//! are not.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemFn, ItemMod, ItemUse, Path, UseTree, Visibility};

use super::{File, Finding};

/// The path of a module from the root of its crate; empty for the root.
type Module = Vec<String>;

/// The arrows of a file: to which, the name, and where the first one is.
type Arrows<'a> = BTreeMap<&'a Module, (String, usize)>;

/// What a file names of its crate.
struct Names {
    /// What it uses: paths from the root of the crate, and their lines.
    used: Vec<(Module, usize)>,
    /// What it hands on, by the names under which it does.
    handed_on: BTreeMap<String, Module>,
}

/// Finds the arrows that close circles, crate by crate.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &File>> = BTreeMap::new();
    for file in files {
        if let Some((name, path)) = file.path.split_once("/src/")
            && let Some(path) = path.strip_suffix(".rs")
        {
            crates.entry(name).or_default().insert(module(path), file);
        }
    }
    crates.values().flat_map(circles).collect()
}

/// `a/b` is `a::b`; `lib` and `main` are the root.
fn module(path: &str) -> Module {
    match path {
        "lib" | "main" => Module::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

fn circles(files: &BTreeMap<Module, &File>) -> Vec<Finding> {
    let names: BTreeMap<&Module, Names> =
        files.iter().map(|(module, file)| (module, Names::of(module, &file.text))).collect();
    let arrows: BTreeMap<&Module, Arrows<'_>> =
        names.iter().map(|(module, own)| (*module, arrows(module, own, &names))).collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        arrows.keys().map(|module| (*module, reached(module, &arrows))).collect();
    let mut findings = Vec::new();
    for (from, out) in &arrows {
        for (to, (name, line)) in out.iter().filter(|(to, _)| reached[*to].contains(from)) {
            let there = &files[*to].path;
            let remedy = format!(
                "a circle of files: {name} is taken from {there}, which leads back here; move what \
                 both need to the lower of the two, or to a file of its own"
            );
            findings.push(Finding::new(&files[*from].path, *line, remedy));
        }
    }
    findings
}

/// Where the names lead that a file uses.
fn arrows<'a>(at: &Module, own: &Names, all: &BTreeMap<&'a Module, Names>) -> Arrows<'a> {
    let mut arrows = Arrows::new();
    for (path, line) in &own.used {
        if let Some((to, name)) = defined(path, all)
            && !at.starts_with(to)
        {
            arrows.entry(to).or_insert((name, *line));
        }
    }
    arrows
}

/// The file that defines what a path names. A name that a file hands on is followed.
fn defined<'a>(path: &Module, all: &BTreeMap<&'a Module, Names>) -> Option<(&'a Module, String)> {
    const STEPS_MAX: usize = 8;
    let mut path = path.clone();
    for _ in 0..STEPS_MAX {
        let known = |len: &usize| all.contains_key(&path[..*len].to_vec());
        let len = (0..path.len()).rev().find(known)?;
        let (module, names) = all.get_key_value(&path[..len].to_vec())?;
        let name = path[len].clone();
        match names.handed_on.get(&name) {
            Some(origin) => path = [&origin[..], &path[len + 1..]].concat(),
            None => return Some((module, name)),
        }
    }
    None
}

/// Every file that arrows lead to from one, itself only if they lead back.
fn reached<'a>(
    from: &'a Module,
    arrows: &BTreeMap<&'a Module, Arrows<'a>>,
) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut next = vec![from];
    while let Some(module) = next.pop() {
        next.extend(arrows[module].keys().filter(|to| found.insert(**to)));
    }
    found
}

impl Names {
    fn of(at: &Module, text: &str) -> Self {
        let mut reader = Reader {
            at: at.clone(),
            known: BTreeMap::new(),
            names: Self { used: Vec::new(), handed_on: BTreeMap::new() },
        };
        // What is no Rust is the compiler's to say.
        if let Ok(parsed) = syn::parse_file(text) {
            reader.learn_names(&parsed.items);
            reader.visit_file(&parsed);
        }
        reader.names
    }
}

/// Collects the names of a file.
struct Reader {
    /// The module that is being read: that of the file, or one inside it.
    at: Module,
    /// What is imported or declared at the top of the file, and where it lies.
    known: BTreeMap<String, Module>,
    names: Names,
}

impl Reader {
    /// Imports and modules of the file: a path may begin with them.
    fn learn_names(&mut self, items: &[Item]) {
        for item in items {
            if let Item::Mod(module) = item {
                let name = module.ident.to_string();
                self.known.insert(name.clone(), [&self.at[..], &[name]].concat());
            }
        }
        for item in items {
            if let Item::Use(import) = item {
                for Leaf { path, name, .. } in leaves(&import.tree) {
                    let Some(path) = self.absolute(&path) else { continue };
                    if !matches!(import.vis, Visibility::Inherited) {
                        self.names.handed_on.insert(name.clone(), path.clone());
                    }
                    self.known.insert(name, path);
                }
            }
        }
    }

    /// A path as it is written, from the root of the crate. None for one into another crate.
    fn absolute(&self, written: &[String]) -> Option<Module> {
        let (first, mut rest) = written.split_first()?;
        let mut path = match first.as_str() {
            "crate" => Module::new(),
            "self" => self.at.clone(),
            "super" => self.at.split_last()?.1.to_vec(),
            name => self.known.get(name)?.clone(),
        };
        while let Some((_, after)) = rest.split_first().filter(|(name, _)| *name == "super") {
            path.pop();
            rest = after;
        }
        Some([&path, rest].concat())
    }

    fn use_path(&mut self, written: &[String], line: usize) {
        self.names.used.extend(self.absolute(written).map(|path| (path, line)));
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        // What is only handed on is not used here.
        if !matches!(import.vis, Visibility::Inherited) {
            return;
        }
        for Leaf { path, line, .. } in leaves(&import.tree) {
            self.use_path(&path, line);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let written: Vec<String> = path.segments.iter().map(|one| one.ident.to_string()).collect();
        // A single name was imported or is of this file.
        if written.len() > 1 {
            self.use_path(&written, path.segments[0].ident.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            self.at.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.at.pop();
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }
}

/// `#[test]` or `#[cfg(test)]`.
fn is_test(attributes: &[Attribute]) -> bool {
    let is = |path: &Path| path.is_ident("test");
    attributes.iter().any(|one| is(one.path()) || one.parse_args().is_ok_and(|path| is(&path)))
}

/// One name of an import.
struct Leaf {
    path: Vec<String>,
    /// What it is called here.
    name: String,
    line: usize,
}

fn leaves(tree: &UseTree) -> Vec<Leaf> {
    let leaf = |path: &[&Ident], name: &Ident| Leaf {
        path: path.iter().map(ToString::to_string).collect(),
        name: name.to_string(),
        line: name.span().start().line,
    };
    match tree {
        UseTree::Path(step) => {
            let mut below = leaves(&step.tree);
            for one in &mut below {
                one.path.insert(0, step.ident.to_string());
                // `a::{self, b}` imports a too.
                if one.path.last().is_some_and(|last| last == "self") {
                    one.path.pop();
                    one.name = step.ident.to_string();
                }
            }
            below
        }
        UseTree::Name(name) => vec![leaf(&[&name.ident], &name.ident)],
        UseTree::Rename(name) => vec![leaf(&[&name.ident], &name.rename)],
        UseTree::Glob(_) => Vec::new(),
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings of a crate, as `file:line name`.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| File {
            path: format!("crates/disk/src/{path}.rs"),
            text: (*text).to_owned(),
        };
        let files: Vec<File> = files.iter().map(file).collect();
        let short = |one: Finding| {
            let name = one.remedy.split(' ').nth(4).expect("the remedy names it").to_owned();
            let path = one.path.trim_start_matches("crates/disk/src/").to_owned();
            format!("{path}:{} {name}", one.line)
        };
        check(&files).into_iter().map(short).collect()
    }

    #[test]
    fn files_that_take_from_each_other_are_a_circle() {
        let (a, b) = (("a", "\nuse crate::b::B;"), ("b", "fn f() -> crate::a::A {}"));
        assert_eq!(found(&[a, b]), ["a.rs:2 B", "b.rs:1 A"]);
        assert_eq!(found(&[a, ("b", "use std::fmt::Debug;")]), [""; 0]);
    }

    #[test]
    fn a_circle_may_lead_through_others() {
        let files = [
            ("a", "use super::b::{self, B};\nfn f() { b::g(); }"),
            ("b", "mod below { use super::super::c::C as D; }"),
            ("c", "use crate::b;\nfn f() { let x = crate::a::inner::A::new(); }"),
            ("d", "use crate::{a::A, b::B, c::C};"),
        ];
        assert_eq!(found(&files), ["a.rs:1 B", "b.rs:1 C", "c.rs:2 inner"]);
    }

    #[test]
    fn a_folder_and_its_front_door_are_no_circle() {
        let files = [
            ("lib", "mod a;\nfn f() { a::f(); }"),
            ("a", "mod b;\npub fn f() -> A { b::g() }"),
            ("a/b", "use super::A;\nuse crate::f;\nfn g() {}"),
        ];
        assert_eq!(found(&files), [""; 0]);
        // But two folders that take from each other are one.
        let other = ("c", "use crate::a::A;\npub fn f() {}");
        let back = ("a/d", "use crate::c::f;");
        assert_eq!(found(&[files[0], files[1], files[2], other, back]), [""; 0]);
        let door = ("a", "mod d;\npub fn f() { d::f() }");
        assert_eq!(found(&[door, other, back]), ["a.rs:2 f", "a/d.rs:1 f", "c.rs:1 A"]);
    }

    #[test]
    fn a_name_that_is_handed_on_is_taken_from_where_it_is_defined() {
        let door = ("a", "mod b;\nmod c;\npub use b::B;\npub use c::C as D;");
        let files = [door, ("a/b", "pub struct B;"), ("a/c", "use crate::d::f;\npub struct C;")];
        let with = |d: &'static str| [&files[..], &[("d", d)]].concat();
        assert_eq!(found(&with("use crate::a::B;\npub fn f() {}")), [""; 0]);
        assert_eq!(found(&with("use crate::a::D;\npub fn f() {}")), ["a/c.rs:1 f", "d.rs:1 C"]);
    }

    #[test]
    fn tests_and_other_crates_are_not_counted() {
        let files = [
            ("a", "use crate::b::B;\nfn a() {}"),
            ("b", "#[cfg(test)] mod tests { use crate::a::a; }\n#[test] fn t() { crate::a::a(); }"),
            ("c", "this is no Rust"),
        ];
        assert_eq!(found(&files), [""; 0]);
        let elsewhere = File { path: "crates/x/src/b.rs".into(), text: "use crate::a::A;".into() };
        assert!(check(&[elsewhere]).is_empty());
    }
}
