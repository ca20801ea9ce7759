//! One boot of the lab's kernel: a process that is given an archive and prints to its console.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail, ensure};

use super::build::Lab;
use super::processors::Processor;

/// Boots the kernel with the init's arguments and returns what the init printed.
pub(super) fn boot(lab: &Lab, arguments: &[&str]) -> Result<String> {
    boot_with(lab, arguments, "")
}

/// As [`boot`], with a script for the init.
pub(super) fn boot_with(lab: &Lab, arguments: &[&str], script: &str) -> Result<String> {
    static BOOTS: AtomicU32 = AtomicU32::new(0);
    let number = BOOTS.fetch_add(1, Ordering::Relaxed);
    let folder = lab.folder.join(format!("run-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut console = boot_in(&folder, lab, arguments, script, LIMIT_SECONDS);
    if let Err(error) = &console
        && error.is::<Hung>()
    {
        eprintln!("kernel: {error}\nkernel: booting once more");
        console = boot_in(&folder, lab, arguments, script, LIMIT_SECONDS);
    }
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    records(&console?)
}

/// One attempt, with a limit in seconds by the wall clock.
fn boot_in(
    folder: &Path,
    lab: &Lab,
    arguments: &[&str],
    script: &str,
    seconds: u32,
) -> Result<String> {
    let archive = folder.join("initrd");
    let files = [
        ("init", fs::read(&lab.init)?),
        ("image", fs::read(&lab.image)?),
        ("script", script.into()),
    ];
    let files = files.each_ref().map(|(name, bytes)| (*name, bytes.as_slice()));
    fs::write(&archive, archive_of(&files))?;
    let processor = Processor::take();
    // Equal runs: virtual time, processor time for free, no random addresses inside or outside.
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", &seconds.to_string()]);
    command.args(["taskset", "-c", &processor.number().to_string()]);
    command.args(["setarch", "-R"]).arg(&lab.program);
    command.args([
        "mem=512M",
        "time-travel=inf-cpu",
        "norandmaps",
        "lab_flash=16M",
        "loglevel=5",
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
        return Err(Hung { seconds, console: tail(&console, &talk) }.into());
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
    let complaint = console.lines().find(|line| COMPLAINTS.iter().any(|one| line.contains(one)));
    if let Some(line) = complaint {
        bail!("the kernel complains: {}\n{}", line.trim(), tail(console, ""));
    }
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

/// How the kernel begins to report a fault of its own.
const COMPLAINTS: [&str; 5] = ["WARNING:", "BUG:", "Oops", "INFO: task", "scheduling while atomic"];

/// A kernel that was killed, with the end of its console.
#[derive(Debug)]
struct Hung {
    seconds: u32,
    console: String,
}

impl std::error::Error for Hung {}

impl std::fmt::Display for Hung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seconds, console } = self;
        write!(f, "the kernel hung and was killed after {seconds} s\n{console}")
    }
}

/// The longest that a boot may take, by the wall clock: ten times its time on a quiet machine.
const LIMIT_SECONDS: u32 = 600;

/// The last line of the init.
const END: &str = "END";

#[cfg(test)]
mod tests {
    use super::*;

    /// A lab whose kernel is a script for a shell.
    fn boot_script(name: &str, script: &str) -> Result<String> {
        use std::os::unix::fs::PermissionsExt;

        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let program = folder.join("linux");
        fs::write(&program, format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let file = |name: &str| -> Result<_> {
            let path = folder.join(name);
            fs::write(&path, name)?;
            Ok(path)
        };
        let (init, image) = (file("init")?, file("image")?);
        let lab = Lab { version: "0".into(), program, init, image, folder: folder.clone() };
        let console = boot_in(&folder, &lab, &["list"], "", 300);
        fs::remove_dir_all(&folder)?;
        console
    }

    #[test]
    fn a_hung_kernel_is_killed_and_its_console_shown() {
        // The signal is the one by which `timeout` hears that the time is over.
        let hangs = "echo Linux version 0; kill -ALRM $PPID; exec sleep 1000";
        let error = boot_script("hung", hangs).unwrap_err();
        assert!(error.is::<Hung>(), "{error:#}");
        assert_eq!(
            error.to_string(),
            "the kernel hung and was killed after 300 s\nLinux version 0"
        );
    }

    #[test]
    fn a_kernel_that_ends_too_early_shows_its_console() {
        let error = boot_script("early", "echo panic; exit 1").unwrap_err().to_string();
        assert_eq!(error, "the kernel ended before its init did\npanic");
        let registers = "echo ptrace set fp regs failed, errno = 14 >&2; exit 1";
        let error = boot_script("registers", registers).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "hint: the processor's registers need more room than HOST_FP_SIZE gives"
            )
        );
    }

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

    #[test]
    fn a_kernel_that_complains_is_no_result() {
        let error = records("WARNING: CPU: 0 PID: 1 at mm/filemap.c:9\n@a b=1\n").unwrap_err();
        assert!(error.to_string().starts_with("the kernel complains: WARNING: CPU: 0"), "{error}");
    }
}
