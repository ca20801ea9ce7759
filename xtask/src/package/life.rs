//! The life of the package on this machine, from its installation to its purge.
//!
//! ```text
//!   dpkg -i ── files, pages, unit ── start ── TERM ── start ── KILL ── start ── dpkg -i again
//!                                      |                |                |
//!                                 knobs as before  knobs as before   still steers
//!
//!   ── dpkg -r while it steers ── knobs as before ── dpkg --purge ── nothing is left
//! ```
//!
//! Steering is confined to a loop device of our own by the policy file that was installed, and a
//! dry run says so before it may write. However this ends, the package is purged and the device is
//! gone; no knob of another device is ever written.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{find_program, interruption, output_of, run as ran, say};

use super::disk::Disk;
use super::installed::{Installed, NAME, PROGRAM};
use super::manager::{Service, Unit};
use super::traces::{Knobs, Traces};

/// Why the package's life cannot be tried here, if so.
pub(super) fn skip() -> Result<Option<String>> {
    if ran("id", &["-u"])?.trim() != "0" {
        return Ok(Some("installing it takes root".into()));
    }
    for program in ["dpkg", "losetup", "mkfs.ext4", "mount", "umount", "man"] {
        if find_program(program).is_none() {
            return Ok(Some(format!("it takes the program {program}")));
        }
    }
    if !Path::new("/dev/loop-control").exists() {
        return Ok(Some("this machine has no loop devices".into()));
    }
    if !has_limits() {
        return Ok(Some(
            "limits of a device's own take Linux 6.2, and /sys that is written".into(),
        ));
    }
    // As dpkg has it and as its files are: either may be the user's own.
    let known = output_of(Command::new("dpkg-query").args(["-W", NAME]))?;
    let found = ["/etc/forebay", PROGRAM].into_iter().find(|path| Path::new(path).exists());
    Ok(match (known, found) {
        (Some(_), _) => Some(format!(
            "a package {NAME} is installed, and is not ours to remove: dpkg --purge {NAME}"
        )),
        (None, Some(path)) => Some(format!("{path} is there, and is not ours to remove")),
        (None, None) => is_steered().then(|| {
            format!(
                "`forebay tune` is running or left state behind; \
                 forebay tune undo, then rm -r {STATE}"
            )
        }),
    })
}

/// Whether the folder that a purge removes says more than nothing. Tests leave empty locks in it.
fn is_steered() -> bool {
    let says = |name| fs::metadata(Path::new(STATE).join(name)).is_ok_and(|file| file.len() > 0);
    ["journal", "lock", "log"].into_iter().any(says)
}

/// Whether any device has its own limit, and it can be written.
fn has_limits() -> bool {
    let devices = fs::read_dir("/sys/class/bdi").into_iter().flatten().flatten();
    let mut limits = devices.map(|device| device.path().join("strict_limit"));
    limits.any(|limit| fs::OpenOptions::new().write(true).open(limit).is_ok())
}

/// Tries the package's life. All is as it was afterwards, also on an error.
pub(super) fn run(package: &Path, folder: &Path) -> Result<()> {
    let started = Instant::now();
    let interrupted = interruption()?;
    let traces = Traces::find();
    let knobs = Knobs::of_machine();
    // Dropped in the opposite order: first the daemon, then the package, then the disk.
    let disk = Disk::new(folder)?;
    let mut installed = Installed::new(package)?;
    let files = installed.files()?;
    step(&format!("installed, {} files and folders", files.len()))?;
    installed.check(&files)?;
    let policy = confine(&disk)?;
    let stage = Stage { disk: &disk, unit: installed.unit()?, folder, interrupted };

    stage.ends_with_a_signal()?;
    stage.ends_with_a_kill()?;
    stage.is_upgraded_and_removed(package, &mut installed)?;
    let kept = fs::read_to_string(POLICY).unwrap_or_default();
    ensure!(kept == policy, "removing the package changed {POLICY}");
    installed.purge()?;
    let left = traces.left(&files);
    ensure!(left.is_empty(), "the purge left {}", left.join(", "));
    step("purged, nothing is left")?;
    drop(stage);
    drop(disk);
    let changed = knobs.changed();
    ensure!(changed.is_empty(), "knobs of other devices have changed: {}", changed.join(", "));
    step(&format!("life tried in {:.0} s", started.elapsed().as_secs_f64()))
}

fn step(what: &str) -> Result<()> {
    say(&format!("package: {what}"))
}

/// Confines the policy to our disk, as an administrator would: by editing the installed file. A dry
/// run shows which devices it then tunes.
fn confine(disk: &Disk) -> Result<String> {
    let mut policy = fs::read_to_string(POLICY).with_context(|| format!("no {POLICY}"))?;
    let ours = format!("\nwithin = [\"{}\"]\n", disk.name());
    // Only dirty limits are switched off, which show in /sys. Our disk lies on this machine's,
    // which may be fast.
    for (from, to) in [
        ("\nwithin = []\n", ours.as_str()),
        ("\nenabled = false\n", "\nenabled = true\n"),
        ("\nslow_seconds = 5\n", "\nslow_seconds = 1\n"),
    ] {
        ensure!(policy.matches(from).count() == 1, "{POLICY} has no line {from:?}");
        policy = policy.replace(from, to);
    }
    fs::write(POLICY, &policy).with_context(|| format!("cannot write {POLICY}"))?;
    let words = ["tune", "--dry-run", "--for", "1s", "--policy", POLICY];
    let output = Command::new(PROGRAM).args(words).output().context("no dry run")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let confined = format!("tuning device {} (dry run", disk.number());
    ensure!(said.lines().any(|line| line.starts_with(&confined)), "a dry run says: {said}");
    Ok(policy)
}

/// The unit and the disk that it tunes.
#[derive(Debug)]
struct Stage<'a> {
    disk: &'a Disk,
    unit: Unit,
    folder: &'a Path,
    interrupted: Arc<AtomicBool>,
}

impl Stage<'_> {
    fn ends_with_a_signal(&self) -> Result<()> {
        let (service, before) = self.steers()?;
        service.stop()?;
        self.is_as(&before, "after TERM")?;
        step("started by its unit, changed a limit, stopped: values as before")
    }

    fn ends_with_a_kill(&self) -> Result<()> {
        let (service, before) = self.steers()?;
        let mut killed = service.kill()?;
        ensure!(self.disk.knobs() != before, "a kill leaves nothing to restore");
        killed.clean()?;
        self.is_as(&before, "after KILL and what the unit does then")?;
        step("killed while a limit was changed, put back by the unit: values as before")
    }

    fn is_upgraded_and_removed(&self, package: &Path, installed: &mut Installed) -> Result<()> {
        let (mut service, before) = self.steers()?;
        installed.again(package)?;
        ensure!(service.is_alive()?, "installing it again ended what ran");
        step("installed again, the policy file and what ran stay")?;
        installed.remove()?;
        service.has_ended()?;
        self.is_as(&before, "after the package was removed")?;
        step("removed while a limit was changed: ended, values as before")
    }

    /// Starts the unit and writes until a limit of our disk is changed; returns the old values.
    fn steers(&self) -> Result<(Service, Vec<(String, String)>)> {
        let before = self.disk.knobs();
        let mut service = Service::start(&self.unit, self.folder)?;
        for _ in 0..BURSTS {
            self.disk.burst()?;
            let end = Instant::now() + BURST;
            while Instant::now() < end {
                ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted");
                ensure!(service.is_alive()?, "what the unit starts has ended: {}", service.said());
                if self.disk.knobs() != before {
                    return Ok((service, before));
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
        bail!("no limit was changed: {}", service.said())
    }

    fn is_as(&self, before: &[(String, String)], when: &str) -> Result<()> {
        let found = self.disk.knobs();
        ensure!(found == before, "{when} knobs are {found:?}, and were {before:?}");
        Ok(())
    }
}

/// What the unit's program reads.
const POLICY: &str = "/etc/forebay/tune.toml";

/// Where changes and locks are recorded.
const STATE: &str = "/run/forebay";

/// How often our disk is written to, and how long a limit is then waited for.
const BURSTS: u32 = 8;
const BURST: Duration = Duration::from_secs(4);
