//! A mounted image, and its end.
//!
//! Everything is mounted in a private namespace of the benchmark, and servers end with it, so a
//! mount or a loop device never outlives the benchmark. Each mount is still unmounted at the end of
//! its round, or when the round has failed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::process::{MeasuredProgram, Stop, answer, last_words, program, serve};
use super::set::Format;
use super::ways::{How, Way};

/// A mounted image.
#[derive(Debug)]
pub(super) struct Mounted {
    folder: PathBuf,
    /// Says what our own mount counted.
    forebay: MeasuredProgram,
    server: Option<Child>,
    stop: Stop,
}

impl Mounted {
    /// Mounts an image on a folder, which is made if need be; no part of its path is a link.
    pub(super) fn new(
        way: &Way,
        image: &Path,
        folder: &Path,
        forebay: &MeasuredProgram,
        stop: &Stop,
    ) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let mut mounted = Self {
            folder: folder.to_owned(),
            forebay: forebay.clone(),
            server: None,
            stop: stop.clone(),
        };
        match way.how {
            How::Kernel { direct } => kernel(way.format, image, folder, direct, &mounted.stop)?,
            How::Server(name) => {
                let arguments = ["-f".to_owned(), text(image)?, text(folder)?];
                mounted.serve(name, &arguments)?;
            }
            How::Ours(ours) => {
                let mut arguments = vec!["mount".to_owned(), text(image)?, text(folder)?];
                arguments.extend(["--foreground".to_owned(), "--policy".to_owned()]);
                arguments.extend([ours.policy.to_owned(), "--cache".to_owned()]);
                arguments.push(format!("{BUDGET}"));
                if ours.direct {
                    arguments.push("--direct".to_owned());
                }
                if ours.profile {
                    arguments.extend(["--profile".to_owned(), text(&profile(folder))?]);
                }
                mounted.serve(forebay.text()?, &arguments)?;
            }
        }
        Ok(mounted)
    }

    /// The server's process, if there is one.
    pub(super) fn server(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// What our own mount counted, by name.
    pub(super) fn counted(&self) -> Result<Value> {
        let mut command = self.forebay.command();
        command.args(["mount", "--stats"]).arg(&self.folder).arg("--json");
        let counted = answer(command, SHORT, &self.stop)?;
        serde_json::from_str(&counted).context("forebay mount --stats gave no JSON")
    }

    /// Unmounts, and fails if that does.
    pub(super) fn end(mut self) -> Result<()> {
        self.unmount()
    }

    fn serve(&mut self, name: &str, arguments: &[String]) -> Result<()> {
        let log = self.folder.with_extension("log");
        let server = self.server.insert(serve(name, arguments, &log)?);
        let begin = Instant::now();
        while !is_mounted(&self.folder)? {
            if let Some(status) = server.try_wait()? {
                bail!("{name}: {status}: {}", last_words(&log));
            }
            if begin.elapsed() > SHORT {
                bail!("{name} has not mounted within {} s", SHORT.as_secs());
            }
            self.stop.check()?;
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        let mut done = Ok(String::new());
        if is_mounted(&self.folder)? {
            // This must also run if the user interrupts.
            let quiet = Stop::never();
            let umount = |flags: &[&str]| {
                let mut command = program("umount");
                command.args(flags).arg(&self.folder);
                answer(command, SHORT, &quiet)
            };
            done = umount(&[]);
            if done.is_err() {
                // Forced: a server that hangs is cut off, and its waiters get an error.
                let _ = umount(&["--force"]);
                let _ = umount(&["--lazy"]);
            }
        }
        if let Some(mut server) = self.server.take() {
            let begin = Instant::now();
            while server.try_wait()?.is_none() {
                if begin.elapsed() > SHORT {
                    server.kill()?;
                    server.wait()?;
                    bail!("the server did not end with its mount and was killed");
                }
                thread::sleep(LOOK);
            }
        }
        done.map(drop).context("cannot unmount")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // An error has no receiver; the end of the namespace unmounts the rest.
        let _ = self.unmount();
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// The path of our mount's recorded profile.
pub(super) fn profile(folder: &Path) -> PathBuf {
    folder.with_extension("profile")
}

fn kernel(format: Format, image: &Path, on: &Path, direct: bool, stop: &Stop) -> Result<()> {
    let mut options = "ro".to_owned();
    if format == Format::Ext4 {
        options.push_str(",noload");
    }
    if !direct {
        options.push_str(",loop");
        return mount(format, image, on, &options, stop);
    }
    let mut losetup = program("losetup");
    losetup.args(["--find", "--show", "--read-only", "--direct-io=on"]).arg(image);
    let device = answer(losetup, SHORT, stop)?;
    let device = Path::new(device.trim());
    let mounted = mount(format, device, on, &options, stop);
    // It stays as long as it is mounted.
    let mut detach = program("losetup");
    detach.arg("--detach").arg(device);
    answer(detach, SHORT, stop)?;
    mounted
}

fn mount(format: Format, what: &Path, on: &Path, options: &str, stop: &Stop) -> Result<()> {
    let mut mount = program("mount");
    mount.args(["-t", format.kernel_name(), "-o", options]).arg(what).arg(on);
    answer(mount, SHORT, stop).map(drop)
}

/// Whether something is mounted there: asked of the kernel's list, since a server may hang.
fn is_mounted(folder: &Path) -> Result<bool> {
    let list = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(is_listed(&list, folder))
}

/// The fifth word of a line is the place, a blank in it written as a number.
fn is_listed(list: &str, folder: &Path) -> bool {
    let place = |line: &str| Some(PathBuf::from(line.split(' ').nth(4)?.replace("\\040", " ")));
    list.lines().any(|line| place(line).as_deref() == Some(folder))
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{}: not text", path.display()))?;
    Ok(text.to_owned())
}

/// What our mount may keep, in bytes.
pub(super) const BUDGET: u64 = 16 << 20;

/// To mount, to unmount, to answer a question.
const SHORT: Duration = Duration::from_secs(20);

/// Mounting takes milliseconds, and is not measured.
const LOOK: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_stands_in_the_fifth_place() {
        let list = "22 1 254:0 / / rw - ext4 /dev/vda rw\n40 22 0:40 / /work/at ro - fuse x ro\n";
        assert!(is_listed(list, Path::new("/work/at")));
        assert!(!is_listed(list, Path::new("/work")));
        assert!(is_listed("1 2 3 / /a\\040b rw", Path::new("/a b")));
    }
}
