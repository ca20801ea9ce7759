//! One boot of the lab's kernel: a process that is given an archive and prints to its console.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::build::Lab;

/// Boots the kernel with the init's arguments and returns what the init printed.
pub(super) fn boot(lab: &Lab, arguments: &[&str]) -> Result<String> {
    boot_with(lab, arguments, "")
}

/// As [`boot`], with a script for the init.
pub(super) fn boot_with(lab: &Lab, arguments: &[&str], script: &str) -> Result<String> {
    let folder = lab.folder.join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut console = boot_in(&folder, lab, arguments, script);
    if let Err(error) = &console
        && error.is::<Hung>()
    {
        eprintln!("kernel: {error}\nkernel: booting once more");
        console = boot_in(&folder, lab, arguments, script);
    }
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    records(&console?)
}

fn boot_in(folder: &Path, lab: &Lab, arguments: &[&str], script: &str) -> Result<String> {
    let archive = folder.join("initrd");
    let files = [
        ("init", fs::read(&lab.init)?),
        ("image", fs::read(&lab.image)?),
        ("script", script.into()),
    ];
    let files = files.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()));
    fs::write(&archive, archive_of(&files))?;
    // Equal runs: virtual time, processor time for free, no random addresses inside or outside.
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", &LIMIT_SECONDS.to_string(), "setarch", "-R"]).arg(&lab.program);
    command.args([
        "mem=512M",
        "time-travel=inf-cpu",
        "norandmaps",
        "quiet",
        "random.trust_cpu=off",
    ]);
    command.arg(format!("initrd={}", archive.display()));
    command.arg(format!("uml_dir={}", folder.display())).arg("umid=lab");
    command.args(["con=null", "con0=null,fd:1", "rdinit=/init", "--"]).args(arguments);
    command.env("HOME", folder).env("TMPDIR", folder).stdin(Stdio::null());
    let output = command.output().context("cannot run the kernel")?;
    let console = String::from_utf8_lossy(&output.stdout).into_owned();
    let talk = String::from_utf8_lossy(&output.stderr);
    if output.status.code().is_none_or(|code| code == 137) {
        return Err(Hung(tail(&console, &talk)).into());
    }
    if !console.lines().any(|line| line.trim() == END) {
        let hint = if talk.contains("ptrace set fp regs failed") {
            "\nhint: the processor's registers need more room than HOST_FP_SIZE gives"
        } else {
            ""
        };
        bail!("the kernel ended before its init did\n{}{hint}", tail(&console, &talk));
    }
    Ok(console)
}

/// The init's lines, which begin with `@`. A line that begins with `!` is an error of the init.
fn records(console: &str) -> Result<String> {
    let errors: Vec<&str> =
        console.lines().filter_map(|line| line.trim().strip_prefix('!')).collect();
    ensure!(errors.is_empty(), "the init failed:{}", errors.join(";"));
    let lines = console.lines().filter_map(|line| line.trim_end().strip_prefix('@'));
    Ok(lines.map(|line| format!("{}\n", line.trim_start())).collect())
}

/// The last lines of a console.
fn tail(console: &str, talk: &str) -> String {
    let lines: Vec<&str> = console.lines().chain(talk.lines()).collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// An archive as the kernel unpacks it: cpio, the new ASCII format, with files of mode 0755.
fn archive_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    let end = ("TRAILER!!!", &[][..]);
    for (number, (name, bytes)) in files.iter().copied().chain([end]).enumerate() {
        let mode = if name == end.0 { 0 } else { 0o100_755 };
        let fields = [number + 1, mode, 0, 0, 1, 0, bytes.len(), 0, 0, 0, 0, name.len() + 1, 0];
        archive.extend(b"070701");
        for field in fields {
            archive.extend(format!("{field:08x}").bytes());
        }
        archive.extend(name.bytes().chain([0]));
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(bytes);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }
    archive
}

/// A kernel that was killed, with the end of its console.
#[derive(Debug)]
struct Hung(String);

impl std::error::Error for Hung {}

impl std::fmt::Display for Hung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the kernel hung and was killed after {LIMIT_SECONDS} s\n{}", self.0)
    }
}

/// The longest that a boot may take, by the wall clock: ten times what it takes on a quiet machine.
const LIMIT_SECONDS: u32 = 600;

/// The last line of the init.
const END: &str = "END";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_a_list_of_headers_names_and_bytes() {
        let archive = archive_of(&[("init", b"abc")]);
        assert_eq!(&archive[..14], b"07070100000001");
        assert_eq!(&archive[110..120], b"init\0\0abc\0");
        assert!(archive.len().is_multiple_of(4));
        assert!(archive.windows(10).any(|bytes| bytes == b"TRAILER!!!"));
    }

    #[test]
    fn records_are_the_lines_of_the_init() {
        assert_eq!(records("x\n@a b=1\r\n@ a b=2\nEND\n").unwrap(), "a b=1\na b=2\n");
        let error = records("@a\n! mount: no such device\n").unwrap_err();
        assert_eq!(error.to_string(), "the init failed: mount: no such device");
    }
}
