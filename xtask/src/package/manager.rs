//! A small stand-in for systemd: what starting, stopping and killing a unit does.
//!
//! Source:     systemd.service(5) and sd_notify(3).
//! Behaviour:  `ExecStart` is run with `NOTIFY_SOCKET` and counts as started at `READY=1`; it is
//!             stopped by SIGTERM; `ExecStopPost` is run when it has ended, however it ended.
//! Differs:    no sandbox, no cgroup, no restart; `systemd-analyze verify` reads the rest.
//! Not for:    units of another kind than `Type=notify` with one command each.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{finish, run};

/// The executed part of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    start: Vec<String>,
    stop_post: Vec<String>,
}

impl Unit {
    /// Reads a unit file.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let one = |key: &str| {
            let values = text.lines().filter_map(|line| line.strip_prefix(key));
            let mut values = values.filter_map(|rest| rest.strip_prefix('='));
            let (Some(value), None) = (values.next(), values.next()) else {
                bail!("the unit has not one {key}");
            };
            let words: Vec<String> = value.split_whitespace().map(Into::into).collect();
            ensure!(words.first().is_some_and(|word| word.starts_with('/')), "{key}={value}");
            Ok(words)
        };
        ensure!(text.lines().any(|line| line == "Type=notify"), "the unit has another type");
        Ok(Self { start: one("ExecStart")?, stop_post: one("ExecStopPost")? })
    }
}

/// A unit that runs; stopped when dropped.
#[derive(Debug)]
pub(super) struct Service {
    child: Child,
    log: PathBuf,
    socket: PathBuf,
    stop_post: Option<Vec<String>>,
}

impl Service {
    /// Starts it, and waits until it reports that it is ready.
    pub(super) fn start(unit: &Unit, folder: &Path) -> Result<Self> {
        let (socket, log) = (folder.join("notify"), folder.join("log"));
        let _ = fs::remove_file(&socket);
        let manager = UnixDatagram::bind(&socket)
            .with_context(|| format!("cannot bind {}", socket.display()))?;
        manager.set_read_timeout(Some(Duration::from_millis(100)))?;
        let mut command = command(&unit.start);
        command.env("NOTIFY_SOCKET", &socket).stderr(File::create(&log)?);
        let child = command.spawn().with_context(|| format!("cannot run {}", unit.start[0]))?;
        let stop_post = Some(unit.stop_post.clone());
        let mut service = Self { child, log, socket, stop_post };
        service.is_ready(&manager)?;
        Ok(service)
    }

    /// Asks it to end, waits, and does what the unit does then.
    pub(super) fn stop(mut self) -> Result<()> {
        self.signal("TERM")?;
        let status = self.ends()?;
        ensure!(status.success(), "it ended with {status}: {}", self.said());
        self.clean()
    }

    /// Kills it. What the unit does then is left to do.
    pub(super) fn kill(mut self) -> Result<Self> {
        self.signal("KILL")?;
        self.ends()?;
        Ok(self)
    }

    /// What the unit does when it has ended.
    pub(super) fn clean(&mut self) -> Result<()> {
        let Some(words) = self.stop_post.take() else { return Ok(()) };
        finish(&mut command(&words)).map(drop)
    }

    /// Whether it still runs.
    pub(super) fn is_alive(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// That another process has ended it, and its program is gone.
    pub(super) fn has_ended(&mut self) -> Result<()> {
        let status = self.ends()?;
        ensure!(status.success(), "it ended with {status}: {}", self.said());
        self.stop_post = None;
        Ok(())
    }

    /// Its output.
    pub(super) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }

    fn is_ready(&mut self, manager: &UnixDatagram) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let mut bytes = [0; 4_096];
        while Instant::now() < end {
            match manager.recv(&mut bytes) {
                Ok(length) => {
                    let said = String::from_utf8_lossy(&bytes[..length]);
                    if said.lines().any(|line| line == "READY=1") {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("cannot hear what it says"),
            }
            ensure!(self.is_alive()?, "it ended before it was ready: {}", self.said());
        }
        bail!("it was not ready after {PATIENCE:?}: {}", self.said())
    }

    fn signal(&self, name: &str) -> Result<()> {
        // The shell's own, so that no package is needed for it.
        run("sh", &["-c", &format!("kill -s {name} {}", self.child.id())]).map(drop)
    }

    fn ends(&mut self) -> Result<ExitStatus> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("it has not ended after {PATIENCE:?}: {}", self.said())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if matches!(self.is_alive(), Ok(true)) && self.signal("TERM").is_ok() {
            let _ = self.ends();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Err(error) = self.clean() {
            eprintln!("warning: {error:#}");
        }
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(&self.log);
    }
}

/// A command as a manager runs it: nothing of our environment, no input.
fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("LANG", "C.UTF-8").current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// What a unit has for its start and its end.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = include_str!("../../../packaging/forebay-tune.service");

    #[test]
    fn our_unit_is_one_that_is_understood() {
        let unit = Unit::parse(UNIT).unwrap();
        assert_eq!(unit.start.join(" "), "/usr/bin/forebay tune --policy /etc/forebay/tune.toml");
        assert_eq!(unit.stop_post.join(" "), "/usr/bin/forebay tune undo --if-ended");
    }

    #[test]
    fn a_unit_without_an_end_is_refused() {
        let text = UNIT.replace("ExecStopPost=", "ExecStop=");
        let error = Unit::parse(&text).unwrap_err();
        assert_eq!(error.to_string(), "the unit has not one ExecStopPost");
    }
}
