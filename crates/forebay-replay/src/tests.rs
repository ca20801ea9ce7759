//! Small traces on both sides of the page cache.

use forebay_core::elevator;
use forebay_core::time::Duration;
use forebay_sim::machine::Machine;
use forebay_sim::replay::{Outcome, Pace, Replay};
use forebay_sim::scenario::PolicySet;
use forebay_trace::{Options, Reader};

use crate::above::{CachedOutcome, CachedReplay};
use crate::{ReplayError, Survey, TraceSet, below};

/// Two volumes, at 0 us and 10 us.
const EARLY: &str =
    "128166372003001000,src1,0,Read,0,4096,1\n128166372003001100,hm,0,Read,8192,4096,1\n";

/// One of them and a third one, at 5 us and 20 us.
const LATE: &str =
    "128166372003001050,hm,0,Write,0,4096,1\n128166372003001200,usr,0,Read,4096,4096,1\n";

/// A file that is written, read, discarded and read again.
const CALLS: &str = "fio version 3 iolog\n0 /f add\n0 /f open\n10 /f write 0 65536\n\
20 /f read 0 65536\n30 /f trim 0 65536\n40 /f read 0 4096\n50 /f close\n";

fn open<'a>(texts: &[&'a str]) -> TraceSet<'a> {
    let reader = |text: &&'a str| {
        ("a".to_owned(), Reader::new(text.as_bytes(), &Options::default()).unwrap())
    };
    TraceSet::new(texts.iter().map(reader).collect(), None).unwrap()
}

fn machine(name: &str) -> Machine {
    Machine::builtin(name).unwrap()
}

fn below(texts: &[&str], machines: &[&Machine]) -> (Survey, Outcome) {
    let survey = Survey::of(&mut open(texts)).unwrap();
    let (spread, devices) = survey.spread(machines.len(), None).unwrap();
    let of_devices: Vec<&Machine> =
        machines.iter().copied().cycle().take(devices as usize).collect();
    let elevator = elevator::Spec::parse("none").unwrap();
    let replay = Replay {
        devices: &of_devices,
        elevator: &elevator,
        seed: 1,
        pace: Pace::Closed { depth: 1 },
        volumes: &survey.place(machines, &spread).unwrap(),
    };
    let mut traces = open(texts);
    let outcome = below::replay(&replay, &mut || traces.next()).unwrap();
    (survey, outcome)
}

fn above(texts: &[&str], machines: &[&Machine], spread: &[u32]) -> CachedOutcome {
    let survey = Survey::of(&mut open(texts)).unwrap();
    let mut policies = PolicySet::of(&machines[0].kernel()).unwrap();
    policies.readahead = forebay_core::readahead::Spec::parse("off").unwrap();
    let replay = CachedReplay {
        survey: &survey,
        machines,
        spread,
        policies: &policies,
        seed: 1,
        is_open: false,
        speed_ppm: 1_000_000,
    };
    let mut traces = open(texts);
    replay.run::<ReplayError>("a", &mut || traces.next()).unwrap()
}

#[test]
fn several_traces_share_volumes_which_lie_on_the_machines_in_turn() {
    let (fast, slow) = (machine("nvme-2026"), machine("desktop-2004"));
    let (survey, outcome) = below(&[EARLY, LATE], &[&fast, &slow]);
    let names: Vec<&str> = survey.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["src1_0", "hm_0", "usr_0"]);
    let counts = outcome.volumes.iter().map(|one| (one.reads.count, one.writes.count));
    assert_eq!(counts.collect::<Vec<_>>(), [(1, 0), (1, 1), (1, 0)]);
    let [src, hm, usr] = [0, 1, 2].map(|volume: usize| outcome.volumes[volume].reads.mean);
    assert!(hm > src.times(10) && hm > usr.times(10), "{src:?} {hm:?} {usr:?}");
    assert_eq!(outcome.all.reads.count, 3);
}

#[test]
fn a_discard_drops_cached_pages_and_reaches_the_device() {
    let outcome = above(&[CALLS], &[&machine("nvme-2026")], &[0]);
    let all = &outcome.all;
    let counts = (all.reads.count, all.writes.count, all.discards.count, all.errors);
    assert_eq!(counts, (2, 1, 1, 0));
    assert_eq!(all.bytes, 2 * 65_536 + 4_096);
    assert_eq!(outcome.run.stats.pages_read, 1, "only the last read finds its page absent");
    // The device takes at least its own time for it.
    assert!(all.discards.mean > Duration(1_000), "{:?}", all.discards.mean);
}

#[test]
fn above_the_page_cache_volumes_have_rows_and_devices_of_their_own() {
    let (fast, slow) = (machine("nvme-2026"), machine("desktop-2004"));
    let outcome = above(&[EARLY, LATE], &[&fast, &slow], &[0, 1, 2]);
    let counts = outcome.volumes.iter().map(|one| (one.reads.count, one.writes.count));
    assert_eq!(counts.collect::<Vec<_>>(), [(1, 0), (1, 1), (1, 0)]);
    let [src, hm] = [0, 1].map(|volume: usize| outcome.volumes[volume].reads.mean);
    assert!(hm > src.times(10), "{src:?} {hm:?}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let survey = Survey::of(&mut open(&[EARLY])).unwrap();
    let mut small = machine("nvme-2026");
    small.set("device.capacity", "1MiB").unwrap();
    let error = survey.place(&[&small], &[0, 0]).err().unwrap();
    let ReplayError::Capacity { volume, end, .. } = &error else { panic!("{error}") };
    assert_eq!((volume.as_str(), *end), ("hm_0", (1 << 20) + 12_288));
    let error = survey.spread(3, None).err().unwrap();
    assert_eq!(error.to_string(), "3 machines for 2 devices");
}
