//! The slow device, by `forebay-bench live-rig`, and programs that run on it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::super::Programs;
use super::way::{Tuned, Way};

/// Whether a signal requests the end.
pub(in crate::bench) type Interrupted = Arc<AtomicBool>;

/// A device and its file system; it goes when this is dropped.
pub(in crate::bench) struct Rig<'a> {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    device: String,
    group: String,
    at: PathBuf,
    stop: &'a Interrupted,
}

/// A program that runs on the device; killed when it is dropped.
pub(super) struct Running<'a> {
    child: Option<Child>,
    name: String,
    stop: &'a Interrupted,
}

impl<'a> Rig<'a> {
    /// Makes a device by what `live-rig` calls its speed, and its bytes.
    pub(in crate::bench) fn with_speed(
        programs: &Programs,
        work: &Path,
        (speed, bytes): (&str, u64),
        stop: &'a Interrupted,
    ) -> Result<Self> {
        let mut command = Command::new(&programs.bench);
        command.arg("--forebay").arg(&programs.forebay).args(["live-rig", "--work"]).arg(work);
        command.args([speed, &bytes.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot run forebay-bench")?;
        let orders = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().context("its output is piped")?);
        let mut line = String::new();
        answers.read_line(&mut line)?;
        let words: Vec<&str> = line.trim_end().splitn(5, ' ').collect();
        let [_, device, _, group, at] = words[..] else {
            let status = child.wait()?;
            bail!("the device was not made: {status}");
        };
        let (device, group, at) = (device.to_owned(), group.to_owned(), at.into());
        Ok(Self { child, orders, answers, device, group, at, stop })
    }

    /// Where the file system is, in the rig's mount namespace.
    pub(in crate::bench) fn path(&self, name: &str) -> String {
        self.at.join(name).display().to_string()
    }

    /// Gives an order and waits for the answer.
    pub(in crate::bench) fn order(&mut self, order: &str) -> Result<()> {
        let orders = self.orders.as_mut().context("the rig has ended")?;
        writeln!(orders, "{order}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        ensure!(answer == "ok\n", "{order}: {}", answer.trim_end());
        Ok(())
    }

    /// Sets the device for a round of a way, and starts `forebay tune` if it takes part.
    pub(super) fn begin(&mut self, way: Way, tuned: Tuned) -> Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
        self.order("remount")?;
        match way {
            Way::Default | Way::Tune => {}
            Way::ReadAhead(kib) => self.order(&format!("read-ahead {kib}"))?,
            Way::Cap(mib) => self.order(&format!("cap {mib}"))?,
        }
        self.order("slow")?;
        if way == Way::Tune {
            let scope = self.scope(tuned)?;
            self.order(&format!("tune {scope}"))?;
        }
        Ok(())
    }

    /// What `forebay tune` said in the last round.
    pub(super) fn tuner_said(&self) -> String {
        let log = self.at.parent().map(|folder| folder.join("tune.log"));
        log.and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default()
    }

    /// The device by name, or all but the devices of others.
    fn scope(&self, tuned: Tuned) -> Result<String> {
        match tuned {
            Tuned::Named => Ok(format!("--scope {}", self.device)),
            Tuned::Unnamed => {
                let mut words = Vec::new();
                for entry in fs::read_dir("/sys/block")? {
                    let name = entry?.file_name().to_string_lossy().into_owned();
                    if name != self.device {
                        words.push(format!("--protect {name}"));
                    }
                }
                Ok(words.join(" "))
            }
        }
    }

    /// Runs a program to its end; returns its output.
    pub(in crate::bench) fn run(&self, words: &[&str]) -> Result<String> {
        self.start(words)?.output()
    }

    /// The same as another user.
    pub(super) fn run_as(&self, user: &str, words: &[&str]) -> Result<String> {
        self.start_as(user, words)?.output()
    }

    /// The seconds that a program takes.
    pub(super) fn seconds(&self, words: &[&str]) -> Result<f64> {
        let begun = Instant::now();
        self.run(words)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Starts a program on the device.
    pub(super) fn start(&self, words: &[&str]) -> Result<Running<'a>> {
        self.spawn(&["env"], words)
    }

    /// The same as another user.
    pub(super) fn start_as(&self, user: &str, words: &[&str]) -> Result<Running<'a>> {
        self.spawn(&["setpriv", "--reuid", user, "--regid", user, "--init-groups"], words)
    }

    fn spawn(&self, user: &[&str], words: &[&str]) -> Result<Running<'a>> {
        let namespace = format!("--mount=/proc/{}/ns/mnt", self.child.id());
        let mut command = Command::new("nsenter");
        command.args([namespace.as_str(), "--", "sh", "-c", JOIN, &self.group]);
        // The second one: a change of user resets the first setting.
        command.args(user).args(["setpriv", "--pdeathsig", "KILL"]).args(words);
        command.env("LC_ALL", "C").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = words.join(" ").chars().take(60).collect();
        let child = command.spawn().context("cannot run nsenter")?;
        Ok(Running { child: Some(child), name, stop: self.stop })
    }

    /// Takes all away.
    pub(in crate::bench) fn end(mut self) -> Result<()> {
        self.orders = None;
        let status = self.child.wait()?;
        ensure!(status.success(), "the rig ended with {status}");
        Ok(())
    }
}

impl Drop for Rig<'_> {
    fn drop(&mut self) {
        self.orders = None;
        // Its own words are on standard error.
        let _ = self.child.wait();
    }
}

impl Running<'_> {
    /// Waits for its end; returns its output.
    pub(super) fn output(mut self) -> Result<String> {
        let mut child = self.child.take().context("it is waited for once")?;
        let (out, said) = (drain(child.stdout.take()), drain(child.stderr.take()));
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let is_over = self.stop.load(Ordering::Relaxed) || begun.elapsed() > LIMIT;
            if is_over {
                let _ = child.kill();
                let _ = child.wait();
                bail!("'{}' was given up", self.name);
            }
            thread::sleep(LOOK);
        };
        let text = |thread: thread::JoinHandle<String>| thread.join().unwrap_or_default();
        let (out, said) = (text(out), text(said));
        ensure!(status.success(), "'{}': {status}: {}", self.name, said.trim());
        Ok(out)
    }

    /// Ends it by a signal, and waits.
    pub(super) fn end(mut self, signal: &str) -> Result<String> {
        let child = self.child.as_ref().context("it is waited for once")?;
        crate::process::run("kill", &["-s", signal, &child.id().to_string()])?;
        let child = self.child.take();
        let ended = Self { child, name: std::mem::take(&mut self.name), stop: self.stop };
        ended.output()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn drain(from: Option<impl std::io::Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            // The output before a failure is all there is.
            let _ = from.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Joins the control group that the device is limited in, if there is one.
const JOIN: &str = r#"[ "$0" = - ] || echo 0 > "$0/cgroup.procs"; exec "$@""#;

/// Far more than any program takes.
const LIMIT: Duration = Duration::from_secs(300);

/// Short compared with the measurements.
const LOOK: Duration = Duration::from_millis(2);
