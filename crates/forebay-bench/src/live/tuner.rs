//! `forebay tune` during a round: started for it, ended by a signal.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::folder::Folder;
use crate::measure::mount::{cpu_of, rss_of};
use crate::process::{MeasuredProgram, Stop, find, last_words, program};

/// A tuner that runs.
pub(super) struct Tuner {
    child: Child,
    log: PathBuf,
    begin: Instant,
    cpu: Duration,
}

/// Its cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Processor time in percent of one processor.
    pub(super) cpu: f64,
    /// The most memory that it has held, in MiB.
    pub(super) memory: f64,
}

impl Tuner {
    /// Starts it, and waits until it reports that it runs.
    pub(super) fn start(
        forebay: &MeasuredProgram,
        folder: &Folder,
        arguments: &[String],
        stop: &Stop,
    ) -> Result<Self> {
        let (log, notices) = (folder.join("tune.log"), folder.join("notices"));
        if notices.exists() {
            fs::remove_file(&notices)?;
        }
        let socket =
            UnixDatagram::bind(&notices).context("cannot make a socket for its start notice")?;
        socket.set_read_timeout(Some(LOOK))?;
        let mut command = if find("setpriv") {
            // Should we be killed, it puts everything back.
            let mut command = program("setpriv");
            command.args(["--pdeathsig", "TERM", "--"]).arg(forebay.text()?);
            command
        } else {
            program(forebay.text()?)
        };
        // In memory, as is the folder that it has by default.
        let state = folder.join("ram/state");
        fs::create_dir_all(&state)?;
        command.args(["tune", "--state"]).arg(state);
        command.args(arguments).env("NOTIFY_SOCKET", &notices).stdin(std::process::Stdio::null());
        let words = fs::File::create(&log)?;
        command.stdout(words.try_clone()?).stderr(words);
        let child = command.spawn().context("cannot run forebay tune")?;
        let mut tuner = Self { child, log, begin: Instant::now(), cpu: Duration::ZERO };
        tuner.await_start(&socket, stop)?;
        tuner.begin = Instant::now();
        tuner.cpu = cpu_of(tuner.child.id())?;
        Ok(tuner)
    }

    /// Ends it, and fails if it has not ended well.
    pub(super) fn end(mut self) -> Result<Cost> {
        if let Some(status) = self.child.try_wait()? {
            bail!("forebay tune: {status}: {}", last_words(&self.log));
        }
        let id = self.child.id();
        let cpu = cpu_of(id)?.saturating_sub(self.cpu).as_secs_f64();
        let cost = Cost {
            cpu: cpu * 100.0 / self.begin.elapsed().as_secs_f64(),
            memory: rss_of(id)?.1 as f64 / f64::from(1 << 20),
        };
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let begin = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(cost),
                Some(status) => bail!("forebay tune: {status}: {}", last_words(&self.log)),
                None if begin.elapsed() > PATIENCE => bail!("forebay tune does not end"),
                None => thread::sleep(LOOK),
            }
        }
    }

    fn await_start(&mut self, socket: &UnixDatagram, stop: &Stop) -> Result<()> {
        let mut notice = [0; 256];
        while self.begin.elapsed() < PATIENCE {
            if let Ok(len) = socket.recv(&mut notice)
                && notice[..len].split(|byte| *byte == b'\n').any(|line| line == b"READY=1")
            {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("forebay tune: {status}: {}", last_words(&self.log));
            }
            stop.check()?;
        }
        bail!("forebay tune has not said READY=1 within {} s", PATIENCE.as_secs())
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // It restores the values that it has changed, and this waits for it: the device is
            // removed next.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let begin = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < PATIENCE {
                thread::sleep(LOOK);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// To start or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(10);
