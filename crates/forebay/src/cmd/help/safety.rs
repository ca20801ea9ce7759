//! What writes to the kernel, from the table of knobs, and how it goes back.

use forebay_live::journal::STATE_FOLDER;
use forebay_live::knob::Knob;
use forebay_live::number::DevNumber;

use super::sheet::Sheet;

pub(super) fn text(text: &mut Sheet) {
    text.heading("READS ONLY");
    for (commands, what) in READERS {
        text.paragraph(&format!("{commands:<33}"), what);
    }
    let words = "None of them writes a file unless you name one, such as --html FILE: that file, \
                 and no other.";
    text.paragraph("", words);
    text.heading("WRITES FILES OF YOURS");
    for (commands, what) in WRITERS {
        text.paragraph(&format!("{commands:<33}"), what);
    }
    text.heading("WRITES TO THE KERNEL");
    let words = "`forebay tune` without --dry-run, for root alone, and `bench live`, on devices \
                 that it makes itself. `bench mount` drops the caches of the whole machine. \
                 Nothing else does.";
    text.paragraph("", words);
    text.heading("WHAT TUNE MAY WRITE");
    text.paragraph("", "The window of an open file, from 16 KiB on, by posix_fadvise; and");
    for knob in knobs() {
        let rule = knob.rule();
        let (low, high, unit) = (rule.numbers.start(), rule.numbers.end(), rule.unit);
        let words = format!("{}; {low} to {high}{unit}", rule.meaning);
        text.paragraph(&format!("{:<17}", rule.name), &words);
        text.paragraph("                 ", &format!("beware: {}", rule.hazard));
        text.paragraph("                 ", &format!("goes back: {}", rule.restore));
    }
    let words = "Never elevators, queue depths, write caches or vm.dirty_*. docs/tuning.md has \
                 what each is for.";
    text.paragraph("", words);
    text.heading("ON RECORD");
    let words = format!(
        "The old value goes to the journal in {STATE_FOLDER} before the knob is written; without a \
         journal nothing is. `forebay tune status` shows what is changed, `forebay tune log` what \
         was done and why. A knob that another program has written meanwhile is left alone."
    );
    text.paragraph("", &words);
    text.heading("BACK");
    let words = "At the end, at any signal that asks for it, after a panic. After kill -9 or a \
                 crash: `sudo forebay tune undo`, or the next start. A restart of the machine \
                 forgets all of it.";
    text.paragraph("", words);
    text.heading("TRY IT WITHOUT");
    text.lines("  sudo forebay tune --dry-run --for 60s\n  forebay doctor");
}

/// The knobs that are ever steered.
fn knobs() -> [Knob; 4] {
    let any = DevNumber::default();
    // The last one only where a policy file asks for it.
    let wbt = Knob::WbtLatUsec(any);
    [Knob::ReadAheadKb(any), Knob::MaxRatioFine(any), Knob::StrictLimit(any), wbt]
}

const READERS: &[(&str, &str)] = &[
    ("advise", "looks at /proc and /sys; with --watch as watch does"),
    ("watch", "the same, and an instance of tracefs of its own; --no-trace goes without"),
    (
        "doctor",
        "as advise, and tries what commands would: a ring of io_uring, and as root tracefs and \
         debugfs, by a private mount that is gone with it",
    ),
    ("reproduce, simulate, plan", "virtual time: no file but the job, no device"),
    (
        "run, simulate --check",
        "read a file or device; in a folder they make a file that is gone afterwards, and with \
         --allow-writes they overwrite what is named",
    ),
    ("probe", "reads a file or device; --scratch names a file that is overwritten"),
    ("record", "an instance of tracefs of its own, removed at the end"),
    ("bench dispatch", "reads a file or device; it makes one and removes it"),
    ("image info, ls, stat, cat", "read an image; so do image verify and compare"),
    ("mount", "a read-only folder; the image is only read"),
];

const WRITERS: &[(&str, &str)] = &[
    (
        "--html FILE",
        "that one file, whatever the command: reproduce, simulate, run, bench, image compare",
    ),
    ("reproduce --series FILE", "that one file"),
    ("mount --profile, --log", "the files that are named"),
    ("advise --record DIR", "a new folder"),
    ("image extract", "below the folder that is named; --force replaces what is there"),
    ("image scan --extract", "new files in the folder that is named"),
    ("image make", "the image that is named"),
    ("man DIR", "pages in the folder that is named"),
];
