//! The changes that a finding's remedy consists of, as knobs.
//!
//! They are read off the lines that the user is shown, so that what is written is what was shown.
//! A remedy that sets something else at once is left to the user: half of it may be worse than
//! nothing.

use super::{Finding, Subject, remedy};
use crate::knob::{Change, Knob, Value};
use crate::machine::{Device, Machine};

/// The changes of a finding; none if its remedy sets no knob, or not knobs alone.
pub fn changes(finding: &Finding, machine: &Machine) -> Vec<Change> {
    let Subject::Device { number, .. } = &finding.subject else { return Vec::new() };
    let Some(device) = machine.devices.iter().find(|device| device.number == *number) else {
        return Vec::new();
    };
    let lines = finding.remedy.iter().filter_map(|line| remedy::set_now(line));
    let change = |(value, path): (&str, &str)| {
        let knob = knob_of(device, path)?;
        let to = Value::Number(value.parse().ok()?);
        let why = format!("`forebay advise` found {}", finding.id);
        knob.unfit(to).is_none().then_some(Change { knob, to, why })
    };
    lines.map(change).collect::<Option<Vec<Change>>>().unwrap_or_default()
}

/// The knob of a device that a file is, if it may be written without being asked for by name.
fn knob_of(device: &Device, path: &str) -> Option<Knob> {
    let (folder, name) = path.rsplit_once('/')?;
    let number = device.number;
    let is_bdi = device.bdi_path().is_some_and(|path| path == folder);
    match name {
        "read_ahead_kb" if is_bdi || device.queue_path().is_some_and(|path| path == folder) => {
            Some(Knob::ReadAheadKb(number))
        }
        "max_ratio_fine" if is_bdi => Some(Knob::MaxRatioFine(number)),
        "strict_limit" if is_bdi => Some(Knob::StrictLimit(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{EffectBasis, RemedyCost, Severity};
    use crate::machine::{Bdi, Kind, Queue};
    use crate::number::DevNumber;

    const NUMBER: DevNumber = DevNumber { major: 8, minor: 0 };

    fn machine() -> Machine {
        let device = Device {
            name: "sda".to_owned(),
            number: NUMBER,
            kind: Kind::Scsi,
            queue: Some(Queue::default()),
            bdi: Some(Bdi::default()),
            ..Device::default()
        };
        Machine { devices: vec![device], ..Machine::default() }
    }

    fn fixed(remedy: &[&str]) -> Vec<(Knob, Value)> {
        let finding = Finding {
            id: "some-id",
            subject: Subject::Device { name: "sda".to_owned(), number: NUMBER },
            severity: Severity::Note,
            summary: String::new(),
            evidence: Vec::new(),
            gain: None,
            cost: RemedyCost::new(EffectBasis::NotMeasured, ""),
            remedy: remedy.iter().map(|line| (*line).to_owned()).collect(),
        };
        let all = changes(&finding, &machine());
        assert!(all.iter().all(|change| change.why == "`forebay advise` found some-id"));
        all.into_iter().map(|change| (change.knob, change.to)).collect()
    }

    #[test]
    fn lines_that_set_knobs_are_changes_and_others_are_the_user_s() {
        let window = (Knob::ReadAheadKb(NUMBER), Value::Number(128));
        let rule = "grep -qsxF 'RULE' /etc/x || echo 'RULE' >> /etc/x";
        assert_eq!(fixed(&["echo 128 > /sys/block/sda/queue/read_ahead_kb", rule]), [window]);
        assert_eq!(
            fixed(&[
                "echo 6667 > /sys/class/bdi/8:0/max_ratio_fine",
                "echo 1 > /sys/class/bdi/8:0/strict_limit",
            ]),
            [
                (Knob::MaxRatioFine(NUMBER), Value::Number(6_667)),
                (Knob::StrictLimit(NUMBER), Value::Number(1)),
            ]
        );
        assert_eq!(fixed(&[rule, "sysctl -w vm.dirty_bytes=1"]), []);
    }

    #[test]
    fn a_remedy_of_which_only_a_part_are_knobs_is_left_to_the_user() {
        for first in [
            "echo none > /sys/block/sda/queue/scheduler",
            "echo 1 > /sys/block/sda/queue/iostats",
            "echo 2000 > /sys/block/sda/queue/wbt_lat_usec",
            "echo 128 > /sys/block/sdb/queue/read_ahead_kb",
            "echo 0 > /sys/block/sda/queue/read_ahead_kb",
            "echo -1 > /sys/class/bdi/8:0/max_ratio_fine",
        ] {
            assert_eq!(fixed(&[first, "echo 128 > /sys/block/sda/queue/read_ahead_kb"]), []);
        }
    }
}
