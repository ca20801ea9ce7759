//! `forebay-bench live-rig`: a slow device that another program measures programs on.
//!
//! It is made, described in one line, and then does one order a line until its standard input ends;
//! each order is answered by `ok` or by `error:` and why. The first line is
//!
//! ```text
//!   PROCESS DEVICE NUMBERS GROUP FOLDER      4711 loop200 7:200 /sys/fs/cgroup/blkio /var/tmp/...
//! ```
//!
//! Programs join the mount namespace of the process, and the control group if it is not `-`.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::folder::Folder;
use super::knobs::{Fix, Knobs, Values, differing};
use super::rig::{Rig, Spec, Speed};
use super::stage;
use super::throttle::Throttle;
use super::tuner::Tuner;
use super::work::settle_down;
use crate::args::live::{BenchLiveRig, LiveRigSpeed};
use crate::measure::mount::own_namespace;
use crate::process::{MeasuredProgram, Stop};

/// Makes the device and obeys until there are no more orders.
pub(crate) fn run(arguments: &BenchLiveRig, forebay: Option<&Path>) -> Result<u8> {
    let forebay = MeasuredProgram::find(forebay)?;
    own_namespace().context("cannot have mounts out of others' sight")?;
    let stop = Stop::listen()?;
    let folder = Folder::new(&arguments.work)?;
    // Databases refuse to run as root, and have to reach their files.
    fs::set_permissions(folder.join("."), Permissions::from_mode(0o755))?;
    let throttle = Throttle::find();
    let speed = match arguments.speed {
        LiveRigSpeed::Volume => Speed::Limited(stage::VOLUME),
        LiveRigSpeed::Link => Speed::Served(stage::LINK),
        LiveRigSpeed::Stick => Speed::Limited(stage::STICK),
        LiveRigSpeed::Fast => Speed::Fast,
    };
    let spec = Spec { speed, bytes: arguments.bytes, files: &[] };
    let rig = Rig::new(&folder, &spec, throttle.as_ref(), &stop)?;
    let knobs = Knobs::of(&rig)?;
    let clean = knobs.now();
    let group = rig.group().map_or("-".to_owned(), |group| group.display().to_string());
    let (device, numbers, at) = (rig.device().name(), rig.numbers()?, rig.at());
    let mut out = io::stdout();
    writeln!(out, "{} {device} {numbers} {group} {}", std::process::id(), at.display())?;
    let mut lent = Lent {
        forebay: &forebay,
        folder: &folder,
        rig: &rig,
        knobs,
        clean,
        tuner: None,
        stop: &stop,
    };
    for line in io::stdin().lock().lines() {
        match lent.obey(&line?) {
            Ok(()) => writeln!(out, "ok")?,
            Err(error) => writeln!(out, "error: {error:#}")?,
        }
    }
    drop(lent);
    rig.end()?;
    Ok(0)
}

/// The device and its round.
struct Lent<'a> {
    forebay: &'a MeasuredProgram,
    folder: &'a Folder,
    rig: &'a Rig<'a>,
    knobs: Knobs,
    /// What the knobs are at the begin of each round.
    clean: Values,
    tuner: Option<(Tuner, Values)>,
    stop: &'a Stop,
}

impl Lent<'_> {
    fn obey(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["fill", name, bytes] => self.rig.fill(&self.rig.at().join(name), bytes.parse()?),
            ["clean", "read-ahead", kib] => {
                self.knobs.read_ahead(kib.parse()?)?;
                self.clean = self.knobs.now();
                Ok(())
            }
            ["read-ahead", kib] => self.knobs.fix(Fix::ReadAhead(kib.parse()?)),
            ["cap", mib] => self.knobs.fix(Fix::Cap(mib.parse()?)),
            ["remount"] => self.rig.remount(),
            ["slow"] => self.rig.slow(true),
            ["tune", ref arguments @ ..] => self.tune(arguments),
            ["reset"] => self.reset(),
            _ => bail!("'{line}' is no order"),
        }
    }

    /// Starts `forebay tune` with its arguments.
    fn tune(&mut self, arguments: &[&str]) -> Result<()> {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let before = self.knobs.now();
        let tuner = Tuner::start(self.forebay, self.folder, &arguments, self.stop)?;
        self.tuner = Some((tuner, before));
        Ok(())
    }

    /// Ends the tuner and resets the device to its state before the round.
    fn reset(&mut self) -> Result<()> {
        let ended = self.tuner.take().map(|(tuner, before)| {
            tuner.end()?;
            let left = differing(&before, &self.knobs.now());
            if left.is_empty() { Ok(()) } else { bail!("tune has left {}", left.join(", ")) }
        });
        self.rig.slow(false)?;
        settle_down(&self.rig.at())?;
        self.knobs.put_back(&self.clean)?;
        ended.unwrap_or(Ok(()))
    }
}
