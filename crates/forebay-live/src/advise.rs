//! What should be otherwise: findings, each with its evidence, its gain and its remedy.
//!
//! ```text
//!   Machine   Claim...   Activity...   DeviceModel...
//!         \      |           |           /
//!          `----- Seen: what is known --'
//!                    |
//!                  RULES, each in a file of its own, pure
//!                    |
//!                 Finding...
//! ```
//!
//! Nothing is written. A gain is a ratio that was measured, here or elsewhere, or one that follows
//! from numbers in the evidence; without either there is none. What it costs stands beside it.

use std::collections::BTreeMap;
use std::fmt;

use crate::machine::{Device, Kind, Machine};
use crate::model::DeviceModel;
use crate::number::{DevNumber, FileKey};
use crate::pattern::Pattern;
use crate::process::{Held, Process, Reads};
use crate::signal::BdiCounts;

mod amplification;
mod background;
pub mod claim;
mod dirty_limit;
mod effect;
pub mod fix;
pub mod gather;
mod iostats;
mod read_ahead_large;
mod read_ahead_small;
mod remedy;
mod removable;
mod rival;
mod rotational;
mod scheduler;
mod traced;
mod wbt;

pub use claim::Claim;
pub use effect::{EffectBasis, Gain, RemedyCost};
pub use gather::Gatherer;
pub use remedy::quoted;
pub use traced::Traced;

/// What a judgement rests on.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The machine.
    pub machine: Machine,
    /// Other programs that set knobs.
    pub claims: Vec<Claim>,
    /// What processes did.
    pub activities: Vec<Activity>,
    /// What files were asked, if there was a trace; empty without one.
    pub files: Vec<FileActivity>,
    /// What devices can do, as far as it was seen.
    pub models: BTreeMap<DevNumber, DeviceModel>,
    /// Writeback of backing devices, where debugfs may be read.
    pub bdis: Vec<BdiCounts>,
    /// For how many seconds the machine was watched; 0 if the counters are those since boot.
    pub watched: u64,
    /// What could not be seen, in sentences for the user.
    pub gaps: Vec<String>,
}

/// What a process did: while it was watched, or since it began.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// The process.
    pub process: Process,
    /// What it read.
    pub reads: Reads,
    /// The files that it may be about, the likeliest first.
    pub files: Vec<Held>,
}

/// What a file was asked, from its trace events.
#[derive(Clone, Debug)]
pub struct FileActivity {
    /// The file.
    pub key: FileKey,
    /// Its path, if it could be found.
    pub path: Option<String>,
    /// The process that asked.
    pub pid: u32,
    /// How.
    pub pattern: Pattern,
}

/// Something that should be otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its rule, stable from version to version.
    pub id: &'static str,
    /// What it is about.
    pub subject: Subject,
    /// How bad it is.
    pub severity: Severity,
    /// What is the matter, in sentences.
    pub summary: String,
    /// The numbers it rests on.
    pub evidence: Vec<Evidence>,
    /// What can be won, if that is known.
    pub gain: Option<Gain>,
    /// What the remedy costs.
    pub cost: RemedyCost,
    /// What to do: commands and lines of files, each for itself.
    pub remedy: Vec<String>,
}

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A backing device.
    Device {
        /// Its name, for a mount its mount point.
        name: String,
        /// Its number.
        number: DevNumber,
    },
    /// A process and, if it is known, a file.
    Process {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
        /// The file.
        file: Option<String>,
    },
    /// A file of settings.
    File {
        /// Its path.
        path: String,
    },
    /// The whole machine.
    Machine,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It was seen to cost something.
    Problem,
    /// It will, under the load that is named.
    Risk,
    /// Good to know.
    Note,
}

/// A number or word that a finding rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What it is, mostly a knob's or counter's name.
    pub name: String,
    /// What it says.
    pub value: Value,
    /// Its unit, or nothing.
    pub unit: &'static str,
}

/// What evidence says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// A word.
    Word(String),
}

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, which its findings carry.
    pub id: &'static str,
    /// What it looks for.
    pub about: &'static str,
    /// Finds it.
    pub find: fn(&Seen) -> Vec<Finding>,
}

/// All rules.
pub const RULES: &[Rule] = &[
    amplification::RULE,
    read_ahead_large::RULE,
    read_ahead_small::RULE,
    dirty_limit::RULE,
    removable::RULE,
    background::RULE,
    rotational::RULE,
    scheduler::RULE,
    wbt::RULE,
    iostats::RULE,
    rival::RULE,
];

/// What every rule finds, the worst first.
pub fn advise(seen: &Seen) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| (rule.find)(seen)).collect();
    let place = |finding: &Finding| RULES.iter().position(|rule| rule.id == finding.id);
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| (finding.severity, place(finding));
        key(a).cmp(&key(b)).then_with(|| a.subject.cmp(&b.subject))
    });
    findings
}

impl Seen {
    /// Devices whose bdi serves something that is mounted, with the first of its mounts.
    fn mounted(&self) -> impl Iterator<Item = (&Device, &crate::machine::Mount)> {
        let machine = &self.machine;
        machine
            .devices
            .iter()
            .filter_map(|device| Some((device, machine.mounts_on(device).next()?)))
    }

    /// Devices that something mounted lies on, with their queues.
    fn queues(&self) -> impl Iterator<Item = (&Device, &crate::machine::Queue)> {
        let used = self.machine.devices.iter().filter(|device| self.machine.is_used(device));
        used.filter_map(|device| Some((device, device.queue.as_ref()?)))
    }

    /// Processes that bring in far more than they use, by faults in no order.
    fn amplifiers(&self) -> impl Iterator<Item = &Activity> {
        self.activities.iter().filter(|activity| amplification::is_amplifier(self, activity))
    }

    /// Whether one of a process's files lies on this device.
    fn reads_from(&self, activity: &Activity, device: &Device) -> bool {
        let keys = activity.files.iter().filter_map(|file| file.key);
        keys.into_iter().any(|key| self.machine.device_of(key.dev).is_some_and(|it| it.is(device)))
    }

    fn model(&self, device: &Device) -> Option<&DeviceModel> {
        self.models.get(&device.number)
    }
}

impl Subject {
    fn device(device: &Device, mount: Option<&crate::machine::Mount>) -> Self {
        let name = match (&device.queue, mount) {
            (None, Some(mount)) => mount.point.to_string_lossy().into_owned(),
            (Some(_) | None, _) => device.name.clone(),
        };
        Self::Device { name, number: device.number }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { name, .. } => f.write_str(name),
            Self::Process { pid, name, file: Some(file) } => write!(f, "{name} ({pid}): {file}"),
            Self::Process { pid, name, file: None } => write!(f, "{name} ({pid})"),
            Self::File { path } => f.write_str(path),
            Self::Machine => f.write_str("machine"),
        }
    }
}

impl Severity {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Risk => "risk",
            Self::Note => "note",
        }
    }
}

impl Evidence {
    fn count(name: &str, value: u64, unit: &'static str) -> Self {
        Self { name: name.to_owned(), value: Value::Count(value), unit }
    }

    fn word(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: Value::Word(value.to_owned()), unit: "" }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Count(count) => write!(f, "{} {count}", self.name)?,
            Value::Word(word) => write!(f, "{} {word}", self.name)?,
        }
        if self.unit.is_empty() { Ok(()) } else { write!(f, " {}", self.unit) }
    }
}

/// Whether reading elsewhere costs this device a movement. What hypervisors, files and sticks flag
/// as rotational is not believed.
fn seeks(device: &Device) -> bool {
    let flagged = device.queue.as_ref().is_some_and(|queue| queue.rotational);
    let believed = match device.kind {
        Kind::Scsi | Kind::Stacked => true,
        Kind::Virtual
        | Kind::Nvme
        | Kind::Mmc
        | Kind::Loop
        | Kind::Memory
        | Kind::Network
        | Kind::Fuse
        | Kind::Other => false,
    };
    flagged && believed && !device.removable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_names_of_their_own() {
        let mut ids: Vec<_> = RULES.iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), RULES.len());
        for rule in RULES {
            let words = rule.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            assert!(words && !rule.about.ends_with('.'), "{}", rule.id);
        }
    }

    #[test]
    fn nothing_is_found_on_a_machine_of_which_nothing_is_known() {
        assert_eq!(advise(&Seen::default()), []);
    }
}
