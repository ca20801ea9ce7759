//! Which policies serve writers, a light writer and a reader best in a backup burst.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use forebay_core::io::Op;
use forebay_core::policy::Slot;
use forebay_core::policy::Spec;
use forebay_core::time::Duration;
use forebay_core::units::{KIB, MIB, PAGE_SIZE};
use forebay_core::workload::Finished;
use forebay_sim::machine::Machine;
use forebay_sim::scenario::{NewFile, Outcome, PolicySet, Scenario};
use forebay_sim::workload::burst::{Burst, Probe};

/// What a burst came to.
struct Served {
    outcome: Outcome,
    /// Pauses of the light writer.
    light_pauses: u64,
    /// The longest write of the burst's writers among those issued after 400 ms.
    longest_write: Duration,
    longest_read: Duration,
    /// When the burst's writers had ended.
    written: Duration,
    /// The highest limit of dirty pages.
    limit: u64,
    reads: u64,
}

const WRITERS: u32 = 8;
const BYTES: u64 = 128 * MIB;
const BLOCK: u64 = 64 * KIB;

fn spec<T: Slot + ?Sized>(text: &str) -> Spec<T> {
    Spec::parse(text).unwrap()
}

/// The load that runs with the writers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Light,
    LightAndReader,
}

fn serve(machine: &str, (throttle, controller): (&str, &str), beside: Beside) -> Served {
    let mut machine = Machine::builtin(machine).unwrap();
    machine.set("memory.page_cache", "1GiB").unwrap();
    let kernel = PolicySet::of(&machine.kernel()).unwrap();
    let policies = PolicySet { throttle: spec(throttle), controller: spec(controller), ..kernel };
    let burst = Burst { writers: WRITERS, bytes: BYTES, block: BLOCK, ..Burst::default() };
    let wanted = |_: &Probe| beside == Beside::LightAndReader;
    let reader = burst.reader.filter(wanted);
    let reader = reader.map(|probe| Probe { file_bytes: 256 * MIB, ..probe });
    let burst = Burst { reader, ..burst };
    let file = |file: forebay_sim::workload::burst::File| NewFile {
        bytes: file.bytes,
        room: file.room,
        inode: false,
        device: 0,
    };
    let files: Vec<NewFile> = burst.files().into_iter().map(file).collect();
    let mut scenario = Scenario::new(&machine, &policies, 1, files.len() as u32, &files).unwrap();
    let (tasks, _) = burst.tasks(1, |place| scenario.open(place));
    let zero = Duration::ZERO;
    let (mut longest_write, mut longest_read) = (zero, zero);
    let mut written = zero;
    let mut reads = 0;
    let mut see = |finished: &Finished| {
        let longest = match finished.op {
            Op::Write { .. } if finished.task.0 < WRITERS => {
                written = written.max(Duration(finished.done.0));
                if finished.issued.0 < 400_000_000 {
                    return;
                }
                &mut longest_write
            }
            Op::Write { .. } => return,
            Op::Read { .. }
            | Op::Sync { .. }
            | Op::Truncate { .. }
            | Op::Discard { .. }
            | Op::Fault { .. }
            | Op::Direct { .. }
            | Op::Advise { .. } => {
                reads += 1;
                &mut longest_read
            }
        };
        *longest = (*longest).max(finished.latency());
    };
    let (outcome, record) = scenario.run(tasks, &mut see);
    let light_pauses = record.pauses.get(WRITERS as usize).map_or(0, |pauses| pauses.count);
    let frames = machine.page_cache_bytes() / PAGE_SIZE;
    let limits = record.knobs.iter().map(|(_, knobs)| knobs.limit.pages(frames));
    let limit = limits.max().unwrap_or(0);
    Served { outcome, light_pauses, longest_write, longest_read, written, limit, reads }
}

const MACHINES: [&str; 3] = ["hdd-2026", "ssd-2014", "nvme-2026"];
const OURS: (&str, &str) = ("paced", "drain");
const STOCK: (&str, &str) = ("linux-3.18", "fixed");
const OTHERS: [(&str, &str); 4] =
    [STOCK, ("off", "fixed"), ("linux-3.18", "drain"), ("paced", "fixed")];

#[test]
fn writers_are_paced_evenly_and_a_light_writer_not_at_all() {
    for machine in MACHINES {
        let served = serve(machine, OURS, Beside::Light);
        let bytes = u64::from(WRITERS) * BYTES;
        // N writers of blocks of c pages share a device of B pages a second: N c / B.
        let share = u64::from(WRITERS) * BLOCK * served.outcome.durable.0 / bytes;
        let most = Duration(share + share / 5 + 5_000_000);
        assert!(served.longest_write <= most, "{machine}: {} > {most}", served.longest_write);
        assert_eq!(served.light_pauses, 0, "{machine}");
        let peak = served.outcome.stats.unsafe_pages_max;
        assert!(peak <= served.limit, "{machine}: {peak} pages above {}", served.limit);
        let idle = served.outcome.idle_while_dirty;
        assert_eq!(idle, Duration::ZERO, "{machine}: the device has work while pages are dirty");
    }
}

#[test]
fn no_policy_is_durable_earlier() {
    for machine in MACHINES {
        let ours = serve(machine, OURS, Beside::Light).outcome.durable;
        for others in OTHERS {
            let other = serve(machine, others, Beside::Light).outcome.durable;
            // One part in fifteen: writing at once and in shorter chunks moves a disk's arm more
            // often between eight files.
            assert!(ours.0 <= other.0 + other.0 / 15, "{machine} {others:?}: {ours} > {other}");
        }
    }
}

#[test]
fn a_reader_is_served_sooner_and_no_less_often() {
    for machine in MACHINES {
        let ours = serve(machine, OURS, Beside::LightAndReader);
        let stock = serve(machine, STOCK, Beside::LightAndReader);
        assert!(ours.longest_read < stock.longest_read, "{machine}: {}", ours.longest_read);
        let rate = |served: &Served| served.reads * 1_000_000_000 / served.written.0;
        // On the fastest device the reader mostly waits for itself.
        let (ours_often, stock_often) = (rate(&ours), rate(&stock));
        assert!(ours_often * 20 > stock_often * 19, "{machine}: {ours_often} {stock_often}");
        assert_eq!(ours.light_pauses, 0, "{machine}");
    }
}
