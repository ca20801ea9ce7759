//! Elevators at odds with their device.
//!
//! Source:     the kernel's documentation, block/bfq-iosched.rst; Linux block/elevator.c
//! Behaviour:  a disk that seeks needs its requests sorted; a device that answers in microseconds
//!             needs them passed on. BFQ switches the throttling of background writes off.
//! Differs:    nothing.
//! Not for:    shares by control group: there BFQ was chosen for a reason.

use super::{
    EffectBasis, Evidence, Finding, Gain, RemedyCost, Rule, Seen, Severity, Subject, remedy, seeks,
};
use crate::machine::{Device, Kind, Queue};

pub(super) const RULE: Rule =
    Rule { id: "scheduler-mismatch", about: "an elevator that does not suit its device", find };

fn find(seen: &Seen) -> Vec<Finding> {
    let found = seen.queues().filter_map(|(device, queue)| judged(device, queue));
    found.collect()
}

fn judged(device: &Device, queue: &Queue) -> Option<Finding> {
    let (summary, gain, cost, wanted) = if queue.scheduler == "bfq" && device.kind == Kind::Nvme {
        let gain = Gain {
            ratio_tenths: 27,
            basis:
                "time of a request in the elevator, 1.9 us with bfq and 0.7 us with mq-deadline, \
                    by the kernel's documentation of BFQ; the device gains less than that"
                    .to_owned(),
            known: EffectBasis::MeasuredElsewhere,
        };
        let cost =
            RemedyCost::new(EffectBasis::NotMeasured, "BFQ's shares by process and group are gone");
        let summary = "BFQ takes longer for a request than a fast device's queue can bear, and \
                       switches the throttling of background writes off.";
        (summary, Some(gain), cost, ["none", "mq-deadline"])
    } else if queue.scheduler == "none" && device.kind == Kind::Scsi && seeks(device) {
        let summary = "Without an elevator a disk that seeks gets its requests unsorted, and reads \
                       wait behind writes.";
        let what = "a request takes 0.7 us in mq-deadline, by the kernel's documentation of BFQ";
        (
            summary,
            None,
            RemedyCost::new(EffectBasis::MeasuredElsewhere, what),
            ["mq-deadline", "bfq"],
        )
    } else {
        return None;
    };
    let name = wanted.into_iter().find(|name| queue.schedulers.iter().any(|it| it == name))?;
    let path = format!("{}/scheduler", device.queue_path()?);
    Some(Finding {
        id: RULE.id,
        subject: Subject::device(device, None),
        severity: Severity::Risk,
        summary: summary.to_owned(),
        evidence: vec![
            Evidence::word("scheduler", &queue.scheduler),
            Evidence::count("rotational", u64::from(queue.rotational), ""),
        ],
        gain,
        cost,
        remedy: [remedy::now(&path, name)]
            .into_iter()
            .chain(remedy::udev(device, &[("queue/scheduler", name.to_owned())]))
            .collect(),
    })
}
