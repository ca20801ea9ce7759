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
                "forebay simulate --name=a --rw=randread --bs=4k --size=1g --direct=1 \
                 --ioengine=libaio --iodepth=4",
                "runs a job that is typed as for fio",
            ),
            (
                "forebay simulate job.fio --compare controller=fixed,drain",
                "runs it under two controllers and says how they differ",
            ),
            (
                "forebay simulate trace.csv --compare elevator=none,mq-deadline",
                "replays a trace under two elevators",
            ),
            (
                "forebay simulate job.fio --check big.file",
                "also reads a real file, and compares the two",
            ),
        ],
    ),
    (
        "forebay-sweep",
        &[
            (
                "forebay sweep plan job.fio --grid controller=fixed,drain -o study",
                "writes the list of points into a folder",
            ),
            ("forebay sweep submit study", "runs all of them on this machine"),
            (
                "forebay sweep best study --by read_p99_us",
                "prints the settings with the lowest p99 of reads",
            ),
        ],
    ),
    (
        "forebay-sweep-plan",
        &[
            (
                "forebay sweep plan job.fio --machine vm-2026,hdd-2026 -o study",
                "plans a job on two machines",
            ),
            (
                "forebay sweep plan job.fio --grid controller=fixed,drain --seeds 1..5 -o study",
                "plans ten points: two controllers, five seeds each",
            ),
        ],
    ),
    (
        "forebay-sweep-run",
        &[("forebay sweep run study --chunk 0", "runs the first chunk, unless it has a result")],
    ),
    (
        "forebay-sweep-submit",
        &[
            ("forebay sweep submit study", "runs what is missing, a process for each processor"),
            ("forebay sweep submit study --jobs 2", "runs two chunks at once"),
        ],
    ),
    (
        "forebay-sweep-status",
        &[
            ("forebay sweep status study", "says how many points have results"),
            ("forebay sweep status study --json", "lists the missing chunks for a script"),
        ],
    ),
    (
        "forebay-sweep-merge",
        &[
            ("forebay sweep merge study", "prints all results as CSV"),
            (
                "forebay sweep merge study --html study.html",
                "also writes heat maps and Pareto fronts as a page",
            ),
        ],
    ),
    (
        "forebay-sweep-best",
        &[
            (
                "forebay sweep best study --by read_p99_us",
                "prints the settings with the lowest p99 of reads",
            ),
            (
                "forebay sweep best study --by throughput_mb_s --max -n 3",
                "prints the three with the highest throughput",
            ),
        ],
    ),
    (
        "forebay-trace",
        &[
            ("forebay trace info trace.csv", "prints format, time span and volumes"),
            (
                "forebay trace stats trace.csv",
                "prints request sizes, sequentiality and reuse distances",
            ),
        ],
    ),
    (
        "forebay-trace-info",
        &[
            ("forebay trace info trace.csv", "prints format, time span and volumes"),
            ("forebay trace info trace.csv --json", "prints the same for a script"),
        ],
    ),
    (
        "forebay-trace-head",
        &[("forebay trace head trace.csv -n 5", "prints the first five requests")],
    ),
    (
        "forebay-trace-convert",
        &[
            (
                "forebay trace convert trace.csv -o trace.iolog",
                "writes a trace that fio can replay",
            ),
            (
                "forebay trace convert trace.csv --to vscsi -o trace.vscsi",
                "writes it in a format of VMware",
            ),
        ],
    ),
    (
        "forebay-trace-sample",
        &[(
            "forebay trace sample trace.csv --one-in 10 -o sample.iolog",
            "keeps the requests of a tenth of all addresses",
        )],
    ),
    (
        "forebay-trace-stats",
        &[
            (
                "forebay trace stats trace.csv",
                "prints request sizes, sequentiality and reuse distances",
            ),
            ("forebay trace stats trace.csv --html trace.html", "also writes charts as a page"),
        ],
    ),
    (
        "forebay-record",
        &[
            (
                "forebay record vda --time 60s -o vda.trace",
                "records what reaches a disk in a minute",
            ),
            (
                "forebay record 4711 -o process.trace",
                "records a process and its children until Ctrl-C",
            ),
        ],
    ),
    (
        "forebay-run",
        &[
            ("forebay run job.fio --on big.file --verify", "reads a file and checks every byte"),
            (
                "forebay run job.fio --on /data --compare readahead=linux-2.6.7,linux-6.18",
                "compares two policies on a new file in a folder, and removes it",
            ),
        ],
    ),
    (
        "forebay-probe",
        &[
            (
                "forebay probe /dev/vda -o disk.toml",
                "measures reads of a disk for at most a minute",
            ),
            (
                "forebay probe big.file --scratch scratch.file -o disk.toml",
                "measures writes too, to another file",
            ),
        ],
    ),
    (
        "forebay-machines",
        &[
            ("forebay machines", "lists the modelled machines"),
            ("forebay machines hdd-2026", "prints the numbers of one, with their sources"),
        ],
    ),
    (
        "forebay-policies",
        &[
            ("forebay policies", "lists the policies of each slot"),
            ("forebay policies --format csv", "prints them for a spreadsheet"),
        ],
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
    (
        "forebay-watch",
        &[
            ("forebay watch --once", "prints two samples as tables and ends"),
            ("forebay watch --json --interval 10s", "prints a JSON object every ten seconds"),
        ],
    ),
    (
        "forebay-tune",
        &[
            ("forebay tune --dry-run --for 60s", "prints what it would change"),
            ("forebay tune status", "prints what is changed now"),
            ("forebay tune undo", "restores every value"),
        ],
    ),
    (
        "forebay-tune-status",
        &[
            ("forebay tune status", "prints what is changed now, and why"),
            ("forebay tune status --json", "prints the same for a script"),
        ],
    ),
    (
        "forebay-tune-undo",
        &[
            ("forebay tune undo", "ends a running tune and restores every value"),
            ("forebay tune undo --patience 2min", "waits up to two minutes for it to end"),
        ],
    ),
    (
        "forebay-tune-log",
        &[
            ("forebay tune log", "lists all changes since the machine was started"),
            (
                "forebay tune log --at 03:07",
                "says what was changed in that minute (UTC), and what came of it",
            ),
        ],
    ),
    (
        "forebay-tune-recommend",
        &[("forebay tune recommend", "names a profile for this machine and prints its settings")],
    ),
    (
        "forebay-mount",
        &[
            ("forebay mount image.squashfs /mnt", "mounts an image read-only"),
            (
                "forebay mount image.squashfs /mnt --profile start.profile",
                "records what a program start reads, and prefetches it at the next mount",
            ),
            ("forebay mount --stats /mnt", "prints the counters of a mount"),
        ],
    ),
    (
        "forebay-unmount",
        &[
            ("forebay unmount /mnt", "unmounts an image"),
            ("forebay unmount --lazy /mnt", "unmounts it even if files are open"),
        ],
    ),
    (
        "forebay-image",
        &[
            ("forebay image ls -lR image.cramfs", "lists every file of an image"),
            ("forebay image extract image.cramfs tree", "writes its files to a folder"),
        ],
    ),
    (
        "forebay-image-info",
        &[
            ("forebay image info image.cramfs", "prints format, size and compression"),
            (
                "forebay image info firmware.bin --offset 128k",
                "prints them of an image inside a larger file",
            ),
        ],
    ),
    (
        "forebay-image-scan",
        &[
            ("forebay image scan firmware.bin", "lists the images inside a larger file"),
            (
                "forebay image scan firmware.bin --extract images",
                "also writes each to a file in a folder",
            ),
        ],
    ),
    (
        "forebay-image-ls",
        &[
            ("forebay image ls -lR image.cramfs", "lists every file of an image"),
            ("forebay image ls image.cramfs --find setuid", "lists the files with set-user-id"),
        ],
    ),
    (
        "forebay-image-stat",
        &[(
            "forebay image stat image.cramfs bin/sh",
            "prints all attributes of a file, and its blocks",
        )],
    ),
    ("forebay-image-cat", &[("forebay image cat image.cramfs etc/passwd", "prints a file")]),
    (
        "forebay-image-extract",
        &[
            ("forebay image extract image.cramfs tree", "writes its files to a folder"),
            ("forebay image extract image.cramfs tree etc", "writes only what is in one directory"),
        ],
    ),
    (
        "forebay-image-tar",
        &[
            ("forebay image tar image.cramfs > tree.tar", "writes all files as an archive"),
            (
                "forebay image tar image.cramfs etc > etc.tar",
                "writes only what is in one directory",
            ),
        ],
    ),
    (
        "forebay-image-verify",
        &[
            ("forebay image verify image.cramfs", "ends with OK or DAMAGED"),
            (
                "forebay image verify image.cramfs --strict",
                "also lists bytes that no file uses and names that readers show differently",
            ),
        ],
    ),
    (
        "forebay-image-make",
        &[
            ("forebay image make tree image.cramfs", "makes an image of a folder"),
            (
                "forebay image make tree image.cramfs --profile start.profile",
                "puts the files of a program start first",
            ),
        ],
    ),
    (
        "forebay-image-layout",
        &[
            (
                "forebay image layout image.cramfs --profile start.profile",
                "says how scattered the blocks of a start are",
            ),
            (
                "forebay image layout image.cramfs --profile start.profile --sort mksquashfs",
                "prints a sort file for mksquashfs",
            ),
        ],
    ),
    (
        "forebay-image-compare",
        &[
            ("forebay image compare image.cramfs tree", "lists what differs from a folder"),
            (
                "forebay image compare old.squashfs new.squashfs --html diff.html",
                "compares two images, and writes charts as a page",
            ),
        ],
    ),
    (
        "forebay-serve",
        &[
            ("forebay serve memory:1G --unix disk.sock", "serves a disk in memory to NBD clients"),
            (
                "forebay serve disk.img --overlay disk.overlay --unix disk.sock",
                "serves a file, and keeps the writes in another one",
            ),
        ],
    ),
    (
        "forebay-serve-status",
        &[
            ("forebay serve status", "prints what running servers hold and do"),
            ("forebay serve status --json", "prints the same for a script"),
        ],
    ),
    (
        "forebay-overlay",
        &[
            ("forebay overlay info disk.overlay", "prints its source, and how much has changed"),
            ("forebay overlay commit disk.overlay", "writes the changes to the source"),
        ],
    ),
    (
        "forebay-overlay-info",
        &[("forebay overlay info disk.overlay", "prints its source, and how much has changed")],
    ),
    (
        "forebay-overlay-commit",
        &[(
            "forebay overlay commit disk.overlay",
            "writes the changes to the source and empties it",
        )],
    ),
    (
        "forebay-overlay-discard",
        &[(
            "forebay overlay discard disk.overlay",
            "leaves the source as it was, and removes the file",
        )],
    ),
    (
        "forebay-doctor",
        &[
            ("forebay doctor", "says which commands work here, and what others lack"),
            ("forebay doctor --json", "prints the checks for a script"),
        ],
    ),
    (
        "forebay-completions",
        &[
            ("forebay completions bash", "prints what belongs in /etc/bash_completion.d/forebay"),
            (
                "forebay completions zsh",
                "prints what belongs in a file _forebay in a folder of $fpath",
            ),
        ],
    ),
    (
        "forebay-man",
        &[(
            "forebay man pages",
            "writes all pages into a folder; man -l pages/forebay-tune.1 shows one",
        )],
    ),
];

/// What exit code 1 means, where a command has it.
const ANSWERS_NO: &[(&str, &str)] = &[
    (
        "forebay",
        "The answer is no: a check failed, something differs, is damaged, or was not found.",
    ),
    ("forebay-reproduce", "With --check: a predicted figure is outside its tolerance."),
    ("forebay-simulate", "With --check: a predicted figure is outside its tolerance."),
    ("forebay-probe", "The model does not fit what was measured."),
    ("forebay-sweep", "A chunk failed, or no setting is left."),
    ("forebay-sweep-submit", "A chunk failed."),
    ("forebay-sweep-best", "No setting has the column and is within the limits."),
    (
        "forebay-advise",
        "There are findings. With --fix: nothing was changed. With --undo: a value could not be \
         restored, or the journal is damaged.",
    ),
    ("forebay-doctor", "advise, watch or mount cannot work for this user."),
    ("forebay-tune", "A value could not be restored at the end."),
    ("forebay-tune-status", "A change is left behind, or the journal is damaged."),
    ("forebay-tune-undo", "A value could not be restored, or the journal is damaged."),
    ("forebay-tune-log", "With --at: nothing was changed at this time."),
    ("forebay-tune-recommend", "No profile fits this machine."),
    (
        "forebay-serve",
        "With --run: the command ended with 1; its exit code is passed on, whatever it is.",
    ),
    ("forebay-image", "The image is damaged, differs, or has nothing that was asked for."),
    ("forebay-image-info", "The image is damaged and cannot be opened."),
    (
        "forebay-image-scan",
        "No image was found, or one is in a damaged gzip or xz stream, or a stream was not \
         searched.",
    ),
    ("forebay-image-ls", "The image is damaged, or --find, --include and --exclude leave nothing."),
    ("forebay-image-stat", "The image is damaged."),
    ("forebay-image-cat", "A file is damaged; it is written up to there, and the others follow."),
    (
        "forebay-image-extract",
        "A file or an attribute was not extracted, a PATH is not in the image, or no name matches \
         the patterns.",
    ),
    (
        "forebay-image-tar",
        "A file is damaged and left out, a PATH is not in the image, or no name matches the \
         patterns.",
    ),
    ("forebay-image-verify", "The image is damaged, or --strict has findings."),
    ("forebay-image-layout", "The image is damaged and cannot be opened."),
    ("forebay-image-compare", "There is a difference, or an image is damaged."),
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
    fn every_page_has_an_example() {
        let mut command = Arguments::command().disable_help_subcommand(true);
        command.build();
        let mut names = BTreeSet::from(["forebay".to_owned()]);
        add(&command, &mut names);
        names.retain(|name| EXAMPLES.iter().all(|(page, _)| page != name));
        assert!(names.is_empty(), "{names:?}");
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
