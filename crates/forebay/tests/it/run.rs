//! `forebay run`: the same jobs on real files. Times differ from run to run, so transcripts leave
//! out every number with a point in it, and what its width does to the columns.

use std::fs::{self, File};

use crate::support::{Scene, assert_refused, printed, stderr};

const STREAM: &str = "[stream]\nrw=read\nsize=64k\n";
/// Reads and writes in one file, of pages and of parts of pages, some synced to disk.
const WRITES: &str = "[w]\nrw=randrw\nfilename=w\nnumjobs=3\nsize=960k\nbsrange=512-24k\n\
                      bs_unaligned=1\nfsync=16\nloops=3\n";
/// A file that begins empty, and one that is read at the same time.
const GROWS: &str = "[grow]\nrw=write\nsize=100001\nbs=1001\nfdatasync=20\nend_fsync=1\n\
                     [look]\nrw=randread\nsize=64k\n";
const RANDOM: &str = "[random]\nrw=randread\nsize=1M\nbs=8k\n";

#[test]
fn a_file_is_read_by_worker_threads_or_on_the_spot() {
    let mut scene = scene();
    scene
        .forebay("run stream.fio --on file --policy dispatch=inline")
        .forebay("run stream.fio --on file --policy dispatch=inline --verify --format markdown")
        .forebay("run random.fio --on file --verify --workers 2")
        .forebay("run random.fio --on file --policy dispatch=inline --format csv")
        .forebay(
            "run random.fio --on file --policy dispatch=inline --compare readahead=off,linux-6.18",
        )
        .forebay("run stream.fio --on file --memory 4k --policy readahead=fixed");
    scene.matches_after("run.txt", without_times);
}

#[test]
fn odd_files_are_read_to_their_last_byte() {
    let text = "[odd]\nrw=read\nsize=10001\nbs=1001\n[rest]\nrw=read\nsize=1\nbs=1\n";
    let mut scene = scene().file("odd.fio", text).file("odd", contents(12_289));
    scene.forebay("run odd.fio --on odd --verify --policy dispatch=inline");
    scene.matches_after("run_odd.txt", without_times);
}

#[test]
fn what_cannot_be_read_is_refused() {
    let mut scene = scene()
        .file("empty", "")
        .file("many.fio", "[m]\nrw=read\nsize=8k\nnumjobs=3\n")
        .file("write.fio", "[w]\nrw=write\nsize=4k\n");
    scene
        .refused("run stream.fio --on missing")
        .refused("run stream.fio --on empty")
        .refused("run stream.fio --on /dev/null")
        .refused("run random.fio --on small")
        .refused("run many.fio --on small")
        .refused("run write.fio --on file")
        .refused("run write.fio --on /dev/null --allow-writes")
        .refused("run write.fio --on small --allow-writes")
        .refused("run write.fio --on file --allow-writes --policy elevator=none")
        .refused("run stream.fio --on file --policy throttle=off")
        .refused("run stream.fio --on file --memory 4095")
        .refused("run stream.fio --on file --memory 16T")
        .refused("run stream.fio --on file --memory 64Q")
        .refused("run stream.fio --on file --workers 0")
        .refused("run stream.fio --on file --workers 257")
        .refused("run stream.fio --on file --policy dispatch=later")
        .refused("run stream.fio");
    scene.matches("run_refused.txt");
}

/// A file of sysfs says that it has a page and holds a few bytes: to its reader it is a file that
/// was cut short after it was opened.
#[test]
fn a_file_that_is_cut_short_is_an_error_and_no_table() {
    const SHORT: &str = "/sys/devices/system/cpu/online";
    if fs::metadata(SHORT).is_ok_and(|file| file.len() == 4_096) {
        let scene = scene().file("page.fio", "[page]\nrw=read\nsize=4k\n");
        for dispatch in ["inline", "deferred", "adaptive"] {
            let line = format!("run page.fio --on {SHORT} --policy dispatch={dispatch}");
            let output = scene.command(&line).output().expect("the program runs");
            assert_refused(&line, &output);
            let expected = "at byte 0: the file was cut short: ";
            assert!(stderr(&output).contains(expected), "{}", stderr(&output));
        }
    } else {
        eprintln!("skipped: {SHORT} is not a page that ends early");
    }
}

#[test]
fn files_of_a_job_lie_one_behind_the_other() {
    let text = "[a]\nrw=read\nsize=64k\nnrfiles=4\n";
    let scene = scene().file("files.fio", text).file("exact", contents(4 * 16_384));
    printed(scene.command("run files.fio --on exact --verify"));
    File::options()
        .write(true)
        .open(scene.path("exact"))
        .and_then(|file| file.set_len(65_535))
        .expect("the file can be cut");
    let output = scene.command("run files.fio --on exact").output().expect("the program runs");
    assert_refused("a byte is missing", &output);
}

#[test]
fn nothing_is_written_without_leave() {
    let scene = scene().file("write.fio", WRITES);
    let before = fs::read(scene.path("file")).expect("the file is there");
    printed(scene.command("run random.fio --on file --verify"));
    printed(scene.command("run random.fio --on file --allow-writes"));
    let output = scene.command("run write.fio --on file").output().expect("the program runs");
    assert_refused("a job that writes needs leave", &output);
    assert_eq!(fs::read(scene.path("file")).expect("the file is there"), before);
}

#[test]
fn a_job_writes_what_it_is_given_and_every_byte_is_verified() {
    let mut scene = scene().file("write.fio", WRITES).file("grow.fio", GROWS);
    for dispatch in ["inline", "deferred", "adaptive"] {
        let line = format!(
            "run write.fio --on file --allow-writes --verify --memory 256k \
             --policy dispatch={dispatch}"
        );
        let before = fs::read(scene.path("file")).expect("the file is there");
        printed(scene.command(&line));
        let after = fs::read(scene.path("file")).expect("the file is there");
        assert_eq!(after.len(), before.len());
        let changed = |pages: std::ops::Range<usize>| {
            let pairs = before[pages.start * 4096..pages.end * 4096].chunks(4096);
            let pairs = pairs.zip(after[pages.start * 4096..].chunks(4096));
            pairs.filter(|(before, after)| before != after).count()
        };
        // The job's file is the first MiB but for its last 64 KiB.
        assert!(changed(0..240) > 200, "{} pages of {line}", changed(0..240));
        assert_eq!(changed(240..256), 0, "{line}");
    }
    scene.forebay("run grow.fio --on file --allow-writes --verify --policy dispatch=inline");
    scene.matches_after("run_writes.txt", without_times);
}

#[test]
fn a_file_that_is_made_in_a_folder_is_gone_afterwards() {
    let scene = scene().file("write.fio", WRITES);
    fs::create_dir(scene.path("folder")).expect("a folder can be made");
    for job in ["write.fio", "random.fio"] {
        printed(scene.command(&format!("run {job} --on folder --verify")));
        let left = fs::read_dir(scene.path("folder")).expect("the folder is there").count();
        assert_eq!(left, 0, "{job}");
    }
}

fn scene() -> Scene {
    Scene::new()
        .file("stream.fio", STREAM)
        .file("random.fio", RANDOM)
        .file("file", contents(1 << 20))
        .file("small", contents(1_000))
}

/// Bytes that differ from page to page.
fn contents(len: u32) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Numbers with a point become `#`, columns are one blank apart, and comparisons are cut.
fn without_times(text: &str) -> String {
    let number = |word: &str| word.contains('.') && word.parse::<f64>().is_ok();
    let words = |line: &str, divider: &str| {
        let words = line.split(divider).filter(|word| !word.is_empty() || divider == ",");
        words.map(|word| if number(word) { "#" } else { word }).collect::<Vec<_>>().join(divider)
    };
    let is_rule =
        |line: &str| line.chars().all(|c| "─-| ".contains(c)) && line.contains(['─', '-']);
    let lines = text.lines().map(|line| match line {
        line if is_rule(line) => "---".to_owned(),
        line if line.contains(',') && !line.contains(' ') => words(line, ","),
        // The sentence that compares two policies is of measured times.
        line if line.contains(": reads ") => {
            let (policy, _) = line.split_once(": reads ").unwrap_or_default();
            format!("{policy}: reads ...")
        }
        line => words(line, " "),
    });
    lines.map(|line| line + "\n").collect()
}
