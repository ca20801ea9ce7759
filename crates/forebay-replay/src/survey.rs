//! What is known of traces before their replay: the lengths of volumes, and who uses them.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::units::{MIB, SECTOR_SIZE};
use forebay_sim::machine::Machine;
use forebay_sim::replay::Placement;
use forebay_trace::Layer;

use crate::below::kind_of;
use crate::error::ReplayError;
use crate::trace_set::TraceSet;

/// Facts about traces that are needed before their replay.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Where the requests were recorded.
    pub layer: Layer,
    /// The files or devices, by number.
    pub volumes: Vec<Volume>,
    /// Which streams use which volumes.
    pub pairs: BTreeSet<(u32, u32)>,
    /// All requests.
    pub requests: u64,
    /// Those of them that are not replayed.
    pub left_out: u64,
}

/// A file or device of a trace. A trace does not say how long it is: it is as long as its requests
/// reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The byte after the last requested one.
    pub end: u64,
    /// Whether a request of it is replayed.
    pub is_used: bool,
}

/// The most volumes: each has its own latencies.
pub const VOLUMES_MAX: usize = 1_024;

/// The most pairs of a stream and a volume: each is an open file.
const PAIRS_MAX: usize = 1 << 16;

impl Survey {
    /// Reads traces to their end.
    ///
    /// # Errors
    /// They cannot be read, or have more volumes or open files than a replay takes.
    pub fn of(traces: &mut TraceSet<'_>) -> Result<Self, ReplayError> {
        Self::of_while(traces, || true)
    }

    /// The same, as long as `goes_on`, which is called before each request.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_while(
        traces: &mut TraceSet<'_>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Self, ReplayError> {
        let layer = traces.layer();
        let (volumes, pairs) = (Vec::new(), BTreeSet::new());
        let mut survey = Self { layer, volumes, pairs, requests: 0, left_out: 0 };
        while goes_on()
            && let Some(record) = traces.next()?
        {
            survey.requests += 1;
            let volume = record.object as usize;
            if volume >= VOLUMES_MAX {
                return Err(ReplayError::Volumes { name: traces.name(), most: VOLUMES_MAX });
            }
            for name in traces.names().iter().take(volume + 1).skip(survey.volumes.len()) {
                survey.volumes.push(Volume { name: name.to_owned(), end: 0, is_used: false });
            }
            if kind_of(&record).is_none() {
                survey.left_out += 1;
                continue;
            }
            let found = &mut survey.volumes[volume];
            found.end = found.end.max(record.offset + record.len);
            found.is_used = true;
            survey.pairs.insert((record.stream, record.object));
            if survey.pairs.len() > PAIRS_MAX {
                return Err(ReplayError::OpenFiles { name: traces.name(), most: PAIRS_MAX });
            }
        }
        Ok(survey)
    }

    /// The volumes that are used.
    pub fn used(&self) -> u32 {
        self.volumes.iter().filter(|volume| volume.is_used).count() as u32
    }

    /// The device of each volume, those that are used in turn on `devices` devices; one for each
    /// if there is no number. Returns the number of devices too.
    ///
    /// # Errors
    /// There are more machines than devices.
    pub fn spread(
        &self,
        machines: usize,
        devices: Option<u32>,
    ) -> Result<(Vec<u32>, u32), ReplayError> {
        let devices = devices.unwrap_or(self.used()).clamp(1, self.used().max(1));
        if machines > devices as usize {
            return Err(ReplayError::Machines { machines, devices });
        }
        let mut turn = 0;
        let device = |volume: &Volume| {
            let device = if volume.is_used { turn % devices } else { 0 };
            turn += u32::from(volume.is_used);
            device
        };
        Ok((self.volumes.iter().map(device).collect(), devices))
    }

    /// Where volumes lie below the page cache, each on its device of `spread`, one behind another.
    /// Device n is of machine n, in turn.
    ///
    /// # Errors
    /// A volume does not fit on its device.
    ///
    /// # Panics
    /// If there is no machine.
    pub fn place(
        &self,
        machines: &[&Machine],
        spread: &[u32],
    ) -> Result<Vec<Placement>, ReplayError> {
        let mut ends = BTreeMap::new();
        let mut placements = Vec::new();
        for (Volume { name, end, .. }, device) in self.volumes.iter().zip(spread) {
            let behind = ends.entry(*device).or_insert(0u64);
            let begin = *behind;
            placements.push(Placement { device: *device, sector: begin / SECTOR_SIZE });
            let length = end.saturating_add(MIB - 1) / MIB * MIB;
            *behind = begin.saturating_add(length);
            let machine = machines[*device as usize % machines.len()];
            let (end, capacity) = (begin.saturating_add(*end), machine.capacity_bytes());
            if end > capacity {
                let (volume, machine) = (name.clone(), machine.name().to_owned());
                return Err(ReplayError::Capacity { volume, end, machine, capacity });
            }
        }
        Ok(placements)
    }
}
