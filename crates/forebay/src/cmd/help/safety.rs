//! Writes to the kernel, from the table of knobs, and how values are restored.

use forebay_live::journal::STATE_FOLDER;
use forebay_live::knob::Knob;
use forebay_live::number::DevNumber;

use super::sheet::Sheet;

pub(super) fn text(text: &mut Sheet) {
    text.heading("READ-ONLY COMMANDS");
    for (commands, what) in READERS {
        text.paragraph(&format!("{commands:<33}"), what);
    }
    let words = "These commands write only files that you name, such as --html FILE.";
    text.paragraph("", words);
    text.heading("COMMANDS THAT WRITE FILES");
    for (commands, what) in WRITERS {
        text.paragraph(&format!("{commands:<33}"), what);
    }
    text.heading("COMMANDS THAT WRITE TO THE KERNEL");
    let words = "`forebay tune` without --dry-run, `tune undo`, `advise --fix` and \
                 `advise --undo`, only for root. No other command changes settings.";
    text.paragraph("", words);
    text.heading("KNOBS OF TUNE");
    text.paragraph("", "The window of an open file, from 16 KiB on, by posix_fadvise; and");
    for knob in knobs() {
        let rule = knob.rule();
        let (low, high, unit) = (rule.numbers.start(), rule.numbers.end(), rule.unit);
        let words = format!("{}; {low} to {high}{unit}", rule.meaning);
        text.paragraph(&format!("{:<17}", rule.name), &words);
        text.paragraph("                 ", &format!("beware: {}", rule.hazard));
        text.paragraph("                 ", &format!("restored: {}", rule.restore));
    }
    let words = "Never elevators, queue depths, write caches or vm.dirty_*. docs/tuning.md \
                 describes each knob.";
    text.paragraph("", words);
    text.heading("JOURNAL");
    let words = format!(
        "The old value is written to the journal in {STATE_FOLDER} before the knob is changed; \
         without a journal no knob is changed. `forebay tune status` shows the changes in effect, \
         `forebay tune log` all changes with their reasons. A knob that another program has \
         written in the meantime is not changed again."
    );
    text.paragraph("", &words);
    text.heading("RESTORE");
    let words = "Values are restored at the end, on a signal that ends the program, and after a \
                 panic. After kill -9 or a crash, `sudo forebay tune undo` or the next start \
                 restores them. A restart of the machine resets all of them.";
    text.paragraph("", words);
    text.heading("TRY IT WITHOUT WRITING");
    text.lines("  sudo forebay tune --dry-run --for 60s\n  forebay doctor");
}

/// The knobs that can be tuned.
fn knobs() -> [Knob; 4] {
    let any = DevNumber::default();
    // The last one only if a policy file requests it.
    let wbt = Knob::WbtLatUsec(any);
    [Knob::ReadAheadKb(any), Knob::MaxRatioFine(any), Knob::StrictLimit(any), wbt]
}

const READERS: &[(&str, &str)] = &[
    ("advise without --fix", "reads /proc and /sys; with --watch the same as watch"),
    ("watch", "the same, and its own tracefs instance unless --no-trace is given"),
    (
        "doctor",
        "the same as advise, and tests features that commands use: a ring of io_uring, and as root \
         tracefs and debugfs in a private mount that ends with the process",
    ),
    ("reproduce, simulate, plan", "virtual time: read only the job file, and no device"),
    (
        "run, simulate --check",
        "read a file or device; in a folder they create a file and remove it afterwards, and with \
         --allow-writes they overwrite the named path",
    ),
    ("probe", "reads a file or device; --scratch names a file that is overwritten"),
    ("record", "uses its own tracefs instance, removed at the end"),
    ("image info, ls, stat, cat", "read an image; so do image verify and compare"),
    ("mount", "makes a read-only folder; the image is only read"),
];

const WRITERS: &[(&str, &str)] = &[
    (
        "--html FILE",
        "that file; for reproduce, simulate, run, image compare, trace stats, sweep merge and best",
    ),
    ("reproduce --series FILE", "that file"),
    ("mount --profile, --record, --log", "the named files"),
    ("probe -o, record -o", "the named file"),
    ("trace convert -o, sample -o", "the named file"),
    ("sweep", "below the named folder"),
    ("serve", "the served files and devices, unless --read-only; --overlay and --log name files"),
    ("overlay commit, discard", "the source of the overlay; the overlay"),
    ("advise --record DIR", "a new folder"),
    ("image extract", "below the named folder; --force replaces existing files"),
    ("image scan --extract", "new files in the named folder"),
    ("image make", "the named image"),
    ("man DIR", "pages in the named folder"),
];
