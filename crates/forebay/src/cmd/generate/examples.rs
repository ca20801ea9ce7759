//! What the manual shows of each command: calls to copy, and what its exit code means.

use clap_mangen::roff::{Roff, bold, roman};

/// Examples of a command and their descriptions; the name is that of its page.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "forebay",
        &[
            ("forebay advise", "lists what is wrong with the I/O path of this machine"),
            ("forebay reproduce", "prints a verdict for each of five papers"),
        ],
    ),
    (
        "forebay-reproduce",
        &[
            ("forebay reproduce flush", "prints claim, verdict and misses of one paper"),
            ("forebay reproduce --html papers.html", "writes charts and every row as a page"),
            ("forebay reproduce readahead --check", "exits with 1 if a predicted figure is missed"),
        ],
    ),
    (
        "forebay-simulate",
        &[
            ("forebay simulate job.fio --machine hdd-2026", "runs a job on a modelled hard disk"),
            (
                "forebay simulate --name=a --rw=randread --bs=4k --size=1g --direct=1 --iodepth=4",
                "runs a job that is typed as for fio",
            ),
            (
                "forebay simulate job.fio --compare controller=fixed,drain",
                "runs it under two controllers and says how they differ",
            ),
        ],
    ),
    (
        "forebay-run",
        &[("forebay run job.fio --on big.file --verify", "reads a file and checks every byte")],
    ),
    (
        "forebay-plan",
        &[(
            "forebay plan --policy readahead=linux-6.18 --script steps.txt",
            "prints the pages that each step reads",
        )],
    ),
    (
        "forebay-advise",
        &[
            ("forebay advise --watch 30", "looks for 30 s and names files and processes"),
            ("forebay advise --fix vda", "shows the remedies for a device and asks"),
        ],
    ),
    ("forebay-watch", &[("forebay watch --once", "prints two samples as tables and ends")]),
    (
        "forebay-tune",
        &[
            ("forebay tune --dry-run --for 60s", "prints what it would change"),
            ("forebay tune status", "prints what is changed now"),
            ("forebay tune undo", "restores every value"),
        ],
    ),
    (
        "forebay-mount",
        &[
            ("forebay mount image.squashfs /mnt", "mounts an image read-only"),
            ("forebay mount --stats /mnt", "prints the counters of a mount"),
        ],
    ),
    ("forebay-image-verify", &[("forebay image verify image.cramfs", "ends with OK or DAMAGED")]),
    (
        "forebay-image-extract",
        &[("forebay image extract image.cramfs tree", "writes its files to a folder")],
    ),
    ("forebay-image-ls", &[("forebay image ls -lR image.cramfs", "lists every file of an image")]),
    ("forebay-serve", &[("forebay serve memory:1G", "serves a disk in memory to NBD clients")]),
    ("forebay-doctor", &[("forebay doctor --json", "prints the checks for a script")]),
];

/// What exit code 1 means, where a command has it.
const ANSWERS_NO: &[(&str, &str)] = &[
    ("forebay-reproduce", "With --check: a predicted figure is outside its tolerance."),
    ("forebay-advise", "There are findings."),
    ("forebay-doctor", "advise, watch or mount cannot work for this user."),
    ("forebay-tune-status", "A change is left behind, or the journal is damaged."),
    ("forebay-tune-undo", "A value could not be restored, or the journal is damaged."),
    ("forebay-image-verify", "The image is damaged."),
    ("forebay-image-compare", "There is a difference."),
    ("forebay-image-extract", "A file was not extracted."),
];

/// The sections EXIT STATUS and EXAMPLES of a page.
pub(super) fn sections(name: &str) -> Roff {
    let mut page = Roff::new();
    page.control("SH", ["EXIT STATUS"]);
    let no = ANSWERS_NO.iter().find(|(command, _)| *command == name);
    let codes =
        [Some(("0", "Success.")), no.map(|(_, what)| ("1", *what)), Some(("2", "An error."))];
    for (code, what) in codes.into_iter().flatten() {
        page.control("TP", []);
        page.text([bold(code)]);
        page.text([roman(what)]);
    }
    if let Some((_, calls)) = EXAMPLES.iter().find(|(command, _)| *command == name) {
        page.control("SH", ["EXAMPLES"]);
        for (call, what) in *calls {
            page.control("TP", []);
            page.text([bold(*call)]);
            page.text([roman(*what)]);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::iter;

    use clap::{Command, CommandFactory, Parser};

    use super::*;
    use crate::args::Arguments;
    use crate::typed_jobs;

    #[test]
    fn every_example_can_be_typed() {
        for (name, calls) in EXAMPLES {
            for (call, _) in *calls {
                let words: Vec<OsString> = call.split(' ').skip(1).map(OsString::from).collect();
                let words = typed_jobs::rewritten(&words).unwrap();
                let parsed = Arguments::try_parse_from(iter::once("forebay".into()).chain(words));
                assert!(parsed.is_ok(), "{call}: {}", parsed.err().unwrap());
                assert!(call.replace(' ', "-").starts_with(name), "{call} is of {name}");
            }
        }
    }

    #[test]
    fn every_name_is_that_of_a_page() {
        let mut command = Arguments::command();
        command.build();
        let mut names = BTreeSet::from(["forebay".to_owned()]);
        add(&command, &mut names);
        let typed = EXAMPLES.iter().map(|(name, _)| name).chain(ANSWERS_NO.iter().map(|(n, _)| n));
        typed.for_each(|name| assert!(names.contains(*name), "{name}"));
    }

    fn add(command: &Command, names: &mut BTreeSet<String>) {
        for below in command.get_subcommands() {
            names.insert(super::super::page::name(below).to_owned());
            add(below, names);
        }
    }
}
