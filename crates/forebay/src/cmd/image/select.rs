//! Paths that were typed, and patterns of paths.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use forebay_image::walk::{Choice, Limits, Tree};
use forebay_image::{Fault, Follow, Image, resolve};
use forebay_report::messages::Complaint;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::{No, WHAT_IS_THERE};
use crate::args::image::Patterns;

/// Patterns that are ready for use.
pub(super) struct Matcher {
    include: GlobSet,
    exclude: GlobSet,
}

impl Matcher {
    /// Parses the typed patterns.
    pub(super) fn new(patterns: &Patterns) -> Result<Self> {
        let set = |flag: &str, patterns: &[String]| -> Result<GlobSet> {
            let mut set = GlobSetBuilder::new();
            for pattern in patterns {
                let typed = pattern.strip_prefix('.').filter(|rest| rest.starts_with('/'));
                let typed = typed.unwrap_or(pattern);
                if typed.trim_matches('/').is_empty() {
                    let what = format!("{flag} '{pattern}' is no pattern: it has no name");
                    bail!(Complaint::new(what).hint("without patterns everything is chosen"));
                }
                // One without a slash is for names in any directory.
                let anchored = match typed.strip_prefix('/') {
                    Some(path) => path.to_owned(),
                    None if typed.contains('/') => typed.to_owned(),
                    None => format!("**/{typed}"),
                };
                match GlobBuilder::new(anchored.trim_end_matches('/'))
                    .literal_separator(true)
                    .build()
                {
                    Ok(glob) => set.add(glob),
                    Err(error) => bail!(
                        Complaint::new(format!(
                            "{flag} '{pattern}' is no pattern: {}",
                            error.kind()
                        ))
                        .hint("quote it, such as --include '*.conf'")
                    ),
                };
            }
            Ok(set.build()?)
        };
        Ok(Self {
            include: set("--include", &patterns.include)?,
            exclude: set("--exclude", &patterns.exclude)?,
        })
    }

    /// Whether there is a pattern.
    pub(super) fn is_empty(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Keeps only the selected part of a tree that has these paths.
    ///
    /// # Errors
    ///
    /// The patterns leave nothing of the paths.
    pub(super) fn choose(&self, tree: &mut Tree, paths: &[Vec<u8>]) -> Result<(), No> {
        let is_left = |tree: &Tree| {
            // The root has no name.
            (1..tree.items().len()).any(|place| {
                let name = tree.path(place);
                paths.iter().any(|path| is_at_or_below(&name, path))
            })
        };
        if self.is_empty() || self.include.is_empty() && !is_left(tree) {
            return Ok(());
        }
        tree.choose(|path| self.choice(path));
        if is_left(tree) {
            return Ok(());
        }
        let why = match (self.include.is_empty(), self.exclude.is_empty()) {
            (true, _) => "--exclude leaves no name of the image",
            (false, true) => "no name in the image matches --include",
            (false, false) => "no name in the image matches --include once --exclude is applied",
        };
        Err(No(Complaint::new(why).hint(WHAT_IS_THERE)))
    }

    fn choice(&self, path: &[u8]) -> Choice {
        let path = Path::new(OsStr::from_bytes(path));
        if self.exclude.is_match(path) {
            Choice::Out
        } else if self.include.is_empty() || self.include.is_match(path) {
            Choice::In
        } else {
            Choice::None
        }
    }
}

/// Whether a path is another one or below it; below the root are all.
pub(super) fn is_at_or_below(path: &[u8], top: &[u8]) -> bool {
    let rest = path.strip_prefix(top);
    rest.is_some_and(|rest| top.is_empty() || rest.is_empty() || rest[0] == b'/')
}

/// The tree of the typed paths, and the missing paths.
pub(super) fn tree(
    image: &dyn Image,
    typed: &[PathBuf],
    patterns: &Patterns,
) -> Result<(Tree, Vec<Fault>)> {
    let matcher = Matcher::new(patterns)?;
    let (mut paths, mut missing) = (Vec::new(), Vec::new());
    for path in typed {
        match resolve(image, path.as_os_str().as_bytes(), Follow::Above) {
            Ok(found) => paths.push(found.path),
            Err(fault) => missing.push(fault),
        }
    }
    if typed.is_empty() {
        paths.push(Vec::new());
    }
    let mut tree = Tree::of(image, &paths, Limits::default());
    // Where no path is there, that is the error.
    if !paths.is_empty() {
        matcher.choose(&mut tree, &paths)?;
    }
    Ok((tree, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(include: &[&str], exclude: &[&str], path: &str) -> Choice {
        choice_of_bytes(include, exclude, path.as_bytes())
    }

    fn choice_of_bytes(include: &[&str], exclude: &[&str], path: &[u8]) -> Choice {
        let owned = |patterns: &[&str]| patterns.iter().map(|text| (*text).to_owned()).collect();
        let patterns = Patterns { include: owned(include), exclude: owned(exclude) };
        Matcher::new(&patterns).expect("the patterns are valid").choice(path)
    }

    #[test]
    fn names_match_anywhere_and_paths_from_the_root() {
        for (pattern, path, is_in) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "etc/deep/a.conf", true),
            ("*.conf", "etc/a.conf/x", false),
            ("/etc/*.conf", "etc/a.conf", true),
            ("etc/*.conf", "etc/deep/a.conf", false),
            ("etc/**/*.conf", "etc/deep/er/a.conf", true),
            ("usr/", "usr", true),
            ("/usr", "other/usr", false),
            ("[ab]?", "x/b1", true),
            ("{sh,ash}", "bin/ash", true),
        ] {
            let expected = if is_in { Choice::In } else { Choice::None };
            assert_eq!(choice(&[pattern], &[], path), expected, "{pattern} {path}");
        }
        assert_eq!(choice_of_bytes(&["a?"], &[], b"x/a\xff"), Choice::In);
        assert_eq!(choice(&["a?"], &[], "aä"), Choice::None, "ä has two bytes");
        assert_eq!(choice(&["a??"], &[], "aä"), Choice::In);
        assert_eq!(choice(&["*.so"], &["lib*"], "libc.so"), Choice::Out);
        assert_eq!(choice(&[], &["lib*"], "x.so"), Choice::In);
    }

    #[test]
    fn what_is_no_pattern_is_refused_by_its_flag() {
        let patterns = Patterns { include: vec![], exclude: vec!["[a".to_owned()] };
        let error = Matcher::new(&patterns).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.starts_with("--exclude '[a' is no pattern: ")));
    }
}
