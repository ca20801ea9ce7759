//! The backup that froze the paper's server: the longest time without an answer to any client.

use forebay_core::io::Op;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::MIB;
use forebay_core::workload::Finished;

use super::settings::Setting;
use crate::machine::{Machine, MachineError};
use crate::paper::{Measured, RunSize};
use crate::scenario::{NewFile, Scenario};
use crate::workload::burst::Burst;

/// Threads of the file server, of which a blocked write holds one: the useful number of nfsd(8).
const NFS_THREADS: u32 = 8;

/// The workloads: the clients as tasks of the server, and behind its threads.
pub(super) fn bursts(size: RunSize) -> [(&'static str, Burst); 2] {
    let (names, bytes) = match size {
        RunSize::Full => (["8 writers of 1 GB", "8 writers of 1 GB, 8 NFS threads"], 1024 * MIB),
        // Still more than four times memory: writers wait for the disks from the first seconds on.
        RunSize::Counted | RunSize::Scaled => {
            (["8 writers of 1 GB, 1/4", "8 writers of 1 GB, 8 NFS threads, 1/4"], 256 * MIB)
        }
    };
    let burst = Burst { bytes, ..Burst::DEFAULT };
    [(names[0], burst), (names[1], Burst { threads: Some(NFS_THREADS), ..burst })]
}

/// The longest time without any answer, in seconds.
pub(super) const ALL: &str = "longest time without any answer";
/// The longest time without an answer to the light writer, in seconds.
pub(super) const LIGHT: &str = "longest time without an answer to the light writer";
/// The longest time without an answer to the reader, in seconds.
pub(super) const READER: &str = "longest time without an answer to the reader";
/// From the start until all is safe, in seconds.
pub(super) const DURABLE: &str = "time to durable";

/// The longest time between two answers; the start and the end of the burst count as answers.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    last: Instant,
    longest: Duration,
}

impl Gap {
    fn answer(&mut self, at: Instant) {
        self.longest = self.longest.max(at.since(self.last));
        self.last = self.last.max(at);
    }

    fn figure(self, name: &'static str) -> (&'static str, f64) {
        (name, self.longest.as_nanos() as f64 / 1e9)
    }
}

/// Runs the burst once on a machine.
pub(super) fn measure(
    burst: Burst,
    machine: &Machine,
    setting: Setting,
    seed: u64,
) -> Result<Measured, MachineError> {
    let grows = |file: &crate::workload::burst::File| NewFile {
        bytes: file.bytes,
        room: file.room,
        inode: true,
        device: 0,
    };
    let files: Vec<NewFile> = burst.files().iter().map(grows).collect();
    let tasks = burst.threads.unwrap_or(files.len() as u32);
    let policies = setting.policies(machine);
    let mut scenario = Scenario::new(machine, &policies, seed, tasks, &files)?;
    let mut handles = Vec::new();
    let (tasks, _) = burst.tasks(seed, |file| {
        let handle = scenario.open(file);
        handles.push(handle);
        handle
    });
    // The last two files are those of the light writer and of the reader.
    let [.., light, reader] = handles[..] else { panic!("a burst has both beside its writers") };
    let (mut bytes, mut gaps) = (0, [Gap::default(); 3]);
    let mut observe = |finished: &Finished| {
        // The sync at the end is no client's.
        let (Op::Write { handle, .. } | Op::Read { handle, .. }) = finished.op else { return };
        bytes += finished.result.unwrap_or(0);
        let concerned = [true, handle == light, handle == reader];
        let concerned = gaps.iter_mut().zip(concerned).filter(|(_, concerned)| *concerned);
        concerned.for_each(|(gap, _)| gap.answer(finished.done));
    };
    let (outcome, _) = scenario.run(tasks, &mut observe);
    // A client that waited for an answer when the last one came waited until then.
    let end = gaps[0].last;
    gaps.iter_mut().for_each(|gap| gap.answer(end));
    let mut measured = Measured::new(bytes, outcome);
    measured.figures =
        gaps.iter().zip([ALL, LIGHT, READER]).map(|(gap, name)| gap.figure(name)).collect();
    measured.figures.push((DURABLE, outcome.durable.as_nanos() as f64 / 1e9));
    Ok(measured)
}
