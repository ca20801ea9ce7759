//! Virtual disks that call themselves rotational.
//!
//! Source:     Linux drivers/block/virtio_blk.c, block/blk-wbt.c, block/blk-settings.c
//! Behaviour:  some drivers set the flag because they do not know. From it follow a target of 75 ms
//!             for reads beside background writes in place of 2, a large window since Linux 6.17,
//!             and the elevator that distributions choose.
//! Differs:    the flag itself is not written at once: writing it resets the window.
//! Not for:    virtual disks that do lie on disks that seek.

use super::{Evidence, Finding, RemedyCost, Rule, Seen, Severity, Subject};
use crate::machine::Kind;

pub(super) const RULE: Rule = Rule {
    id: "rotational-flag-doubtful",
    about: "a virtual disk that is flagged rotational",
    find,
};

fn find(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (device, queue) in seen.queues() {
        if !queue.rotational || device.kind != Kind::Virtual {
            continue;
        }
        let mut evidence = vec![Evidence::count("rotational", 1, "")];
        let mut attributes = vec![("queue/rotational", "0".to_owned())];
        let slow_target = queue.wbt_lat_usec.filter(|us| *us >= SLOW_TARGET_US);
        if let Some(us) = slow_target {
            evidence.push(Evidence::count("wbt_lat_usec", us, "us"));
            attributes.push(("queue/wbt_lat_usec", "2000".to_owned()));
        }
        // Writing the flag resets the window, so that it comes last.
        attributes.push(("queue/read_ahead_kb", "128".to_owned()));
        let then = if slow_target.is_some() {
            " Background writes are throttled only once reads take 75 ms (wbt_lat_usec)."
        } else {
            ""
        };
        findings.push(Finding {
            id: RULE.id,
            subject: Subject::device(device, None),
            severity: Severity::Risk,
            summary: format!(
                "virtio reports every disk as rotational, whatever the host stores it on.{then}"
            ),
            evidence,
            gain: None,
            cost: RemedyCost::of_smaller_window(128),
            remedy: super::remedy::udev(device, &attributes).into_iter().collect(),
        });
    }
    findings
}

/// The kernel's target for disks that seek.
pub(super) const SLOW_TARGET_US: u64 = 75_000;
