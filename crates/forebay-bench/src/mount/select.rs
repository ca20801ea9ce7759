//! Which files of a tree the images are made of: a bounded selection, the same on every run.
//!
//! ```text
//!   program    what the measured program needs to start: all of it, whatever the size
//!   modules    its library, by path                      until the size is reached
//!   bin, lib   programs a third, libraries the rest, by path
//! ```

use std::path::PathBuf;

/// A file that could be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Below the tree.
    pub(super) path: PathBuf,
    /// Its length; none for a link.
    pub(super) bytes: u64,
}

/// Files that share a budget.
#[derive(Debug)]
pub(super) struct Group {
    /// Its name.
    pub(super) name: &'static str,
    /// What there is.
    pub(super) candidates: Vec<Candidate>,
    /// The percentage of the remaining bytes when its turn comes.
    pub(super) percent: u64,
}

/// Takes files by path as long as they fit. A file that does not fit is passed over, and smaller
/// ones behind it are not. None is longer than [`FILE_MAX`], and none is taken twice.
pub(super) fn select(groups: &[Group], bytes: u64) -> Vec<(&'static str, Vec<Candidate>)> {
    let mut left = bytes;
    let mut taken: Vec<PathBuf> = Vec::new();
    let mut selected = Vec::new();
    for group in groups {
        let mut share = left / 100 * group.percent.min(100);
        let mut sorted = group.candidates.clone();
        sorted.sort_by(|a, b| a.path.cmp(&b.path));
        sorted.dedup();
        sorted.retain(|candidate| {
            let fits = candidate.bytes <= share.min(FILE_MAX);
            let is_new = taken.binary_search(&candidate.path).is_err();
            if fits && is_new {
                share -= candidate.bytes;
                left -= candidate.bytes;
            }
            fits && is_new
        });
        taken.extend(sorted.iter().map(|candidate| candidate.path.clone()));
        taken.sort();
        selected.push((group.name, sorted));
    }
    selected
}

/// The longest file of a cramfs image; the other formats hold the same tree.
pub(super) const FILE_MAX: u64 = (16 << 20) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &'static str, percent: u64, files: &[(&str, u64)]) -> Group {
        let candidates = files
            .iter()
            .map(|(path, bytes)| Candidate { path: path.into(), bytes: *bytes })
            .collect();
        Group { name, candidates, percent }
    }

    fn names(selected: &[(&'static str, Vec<Candidate>)]) -> Vec<Vec<String>> {
        let path = |candidate: &Candidate| candidate.path.display().to_string();
        selected.iter().map(|(_, taken)| taken.iter().map(path).collect()).collect()
    }

    #[test]
    fn the_selection_does_not_depend_on_the_order_of_folders() {
        let one = group("a", 100, &[("x", 400), ("y", 500), ("z", 300)]);
        let other = group("a", 100, &[("z", 300), ("x", 400), ("y", 500)]);
        let taken = names(&select(&[one], 1000));
        assert_eq!(taken, names(&select(&[other], 1000)));
        assert_eq!(taken, [["x", "y"]]);
    }

    #[test]
    fn what_does_not_fit_is_passed_over_and_the_next_group_has_what_is_left() {
        let groups = [
            group("a", 50, &[("a", 600), ("b", 300), ("c", 0)]),
            group("b", 100, &[("d", 700), ("b", 300)]),
        ];
        let selected = select(&groups, 1000);
        assert_eq!(names(&selected), [vec!["b", "c"], vec!["d"]]);
        let bytes: u64 = selected.iter().flat_map(|(_, taken)| taken).map(|file| file.bytes).sum();
        assert_eq!(bytes, 1000);
    }

    #[test]
    fn no_file_is_longer_than_every_format_can_hold() {
        let files = group("a", 100, &[("fits", FILE_MAX), ("long", FILE_MAX + 1)]);
        assert_eq!(names(&select(&[files], u64::MAX)), [["fits"]]);
    }
}
