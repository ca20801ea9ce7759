//! Which device a knob belongs to at present.

use std::io;

use crate::number::DevNumber;

use super::{Identity, Kernel, Knob};

impl Identity {
    /// What a knob belongs to at present.
    pub fn of(knob: Knob, kernel: &dyn Kernel) -> io::Result<Self> {
        let Some(number) = knob.device() else { return Ok(Self::default()) };
        let node = kernel.node(&format!("/sys/class/bdi/{number}"))?;
        let disk = |what| format!("/sys/dev/block/{number}/{what}");
        let name = kernel.text(&disk("uevent")).ok().and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("DEVNAME=").map(str::to_owned))
        });
        Ok(Self {
            number: Some(number),
            node: Some(node),
            diskseq: kernel.number(&disk("diskseq")).ok(),
            size: kernel.number(&disk("size")).ok(),
            name: name.or_else(|| mounted(number, kernel)),
        })
    }

    /// What a knob belongs to at present, where it most likely belongs to this: of an object and a
    /// medium that are the same the rest is the same too, and is not read.
    pub fn again(&self, knob: Knob, kernel: &dyn Kernel) -> io::Result<Self> {
        let Some(number) = knob.device() else { return Ok(Self::default()) };
        let node = kernel.node(&format!("/sys/class/bdi/{number}"))?;
        let is_known = self.number == Some(number) && self.node == Some(node);
        // What has no disk has an object for each mount.
        let is_same = match self.diskseq {
            None => number.is_anonymous(),
            Some(known) => {
                let present = kernel.number(&format!("/sys/dev/block/{number}/diskseq"));
                present.is_ok_and(|present| present == known)
            }
        };
        if is_known && is_same { Ok(self.clone()) } else { Self::of(knob, kernel) }
    }
}

/// What is mounted from a backing device without a disk.
fn mounted(number: DevNumber, kernel: &dyn Kernel) -> Option<String> {
    if !number.is_anonymous() {
        return None;
    }
    let table = kernel.text("/proc/self/mountinfo").ok()?;
    let number = number.to_string();
    table.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        (head.split(' ').nth(2)? == number).then(|| tail.split(' ').nth(1))?.map(str::to_owned)
    })
}
