//! The package as installed by dpkg: its files, and whether they are complete.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::{find_program, finish, output_of, run, say};

use super::manager::Unit;

/// An installed package; purged when dropped.
#[derive(Debug)]
pub(super) struct Installed {
    is_purged: bool,
}

impl Installed {
    /// Installs it.
    pub(super) fn new(package: &Path) -> Result<Self> {
        // Before dpkg runs: a half-finished installation is purged too.
        let installed = Self { is_purged: false };
        finish(&mut dpkg(&["--install"], Some(package)))?;
        Ok(installed)
    }

    /// Installs it over itself, as an upgrade does.
    pub(super) fn again(&mut self, package: &Path) -> Result<()> {
        finish(&mut dpkg(&["--install"], Some(package))).map(drop)
    }

    /// Removes it; the policy file stays.
    pub(super) fn remove(&mut self) -> Result<()> {
        finish(&mut dpkg(&["--remove", NAME], None))?;
        ensure!(!Path::new(PROGRAM).exists(), "{PROGRAM} is still there");
        Ok(())
    }

    /// Removes the rest.
    pub(super) fn purge(&mut self) -> Result<()> {
        finish(&mut dpkg(&["--purge", NAME], None))?;
        self.is_purged = true;
        Ok(())
    }

    /// Every file and folder of it.
    pub(super) fn files(&self) -> Result<Vec<String>> {
        let list = run("dpkg-query", &["--listfiles", NAME])?;
        Ok(list.lines().filter(|line| *line != "/.").map(Into::into).collect())
    }

    /// The unit as it lies there.
    pub(super) fn unit(&self) -> Result<Unit> {
        let files = self.files()?;
        let path = files.iter().find(|path| path.ends_with(UNIT)).context("no unit")?;
        Unit::parse(&fs::read_to_string(path)?)
    }

    /// Everything is in place, whole, and asleep.
    pub(super) fn check(&self, files: &[String]) -> Result<()> {
        for part in PARTS {
            ensure!(files.iter().any(|path| path == part), "{part} is not in the package");
        }
        let broken = run("dpkg", &["--verify", NAME])?;
        ensure!(broken.is_empty(), "dpkg --verify: {broken}");
        let version = run(PROGRAM, &["--version"])?;
        let expected = format!("forebay {}", env!("CARGO_PKG_VERSION"));
        ensure!(version.trim() == expected, "{PROGRAM} --version says {version}");
        let pages: Vec<&String> = files.iter().filter(|path| path.contains("/man/man")).collect();
        let pages: Vec<&String> = pages.into_iter().filter(|path| path.ends_with(".gz")).collect();
        ensure!(!pages.is_empty(), "there is no page of the manual");
        for page in &pages {
            check_page(page)?;
        }
        let shells = check_completions()?;
        say(&format!("package: {} pages render; completions of {shells}", pages.len()))?;
        let unit = files.iter().find(|path| path.ends_with(UNIT)).context("no unit")?;
        check_unit(unit)?;
        let status = run(PROGRAM, &["tune", "status"])?;
        let asleep = "No daemon uses this journal.\nNothing is changed.\n";
        ensure!(status == asleep, "installing it has started something: {status}");
        let wanted = format!("/etc/systemd/system/multi-user.target.wants/{UNIT}");
        ensure!(fs::symlink_metadata(&wanted).is_err(), "installing it has enabled its unit");
        Ok(())
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        if self.is_purged {
            return;
        }
        let purged = output_of(&mut dpkg(&["--purge", NAME], None));
        if !matches!(purged, Ok(Some(_))) {
            eprintln!("warning: the package is still there; as root: dpkg --purge {NAME}");
        }
    }
}

/// dpkg that asks nothing and touches nothing but the package.
fn dpkg(words: &[&str], package: Option<&Path>) -> Command {
    let mut dpkg = Command::new("dpkg");
    dpkg.env("DEBIAN_FRONTEND", "noninteractive").args(words).args(package);
    dpkg
}

/// A page is shown without a complaint of the formatter.
fn check_page(page: &str) -> Result<()> {
    let mut man = Command::new("man");
    man.args(["--warnings", "--local-file", "--pager=cat", page]);
    man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "100");
    let output = man.output().context("cannot run man")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && said.is_empty(), "man {page}: {said}");
    let shown = String::from_utf8_lossy(&output.stdout);
    let (part, what) =
        if page.contains("/man1/") { ("SYNOPSIS", "synopsis") } else { ("SEE ALSO", "end") };
    ensure!(shown.contains(part), "man {page} shows no {what}");
    Ok(())
}

/// Each shell that is here reads its file; the names of those shells.
fn check_completions() -> Result<String> {
    let mut seen = Vec::new();
    for (shell, flag, path) in COMPLETIONS {
        if find_program(shell).is_some() {
            run(shell, &[flag, path])?;
            seen.push(*shell);
        }
    }
    Ok(seen.join(", "))
}

fn check_unit(path: &str) -> Result<()> {
    if find_program("systemd-analyze").is_none() {
        return say("package: skip: the unit as systemd reads it: no systemd-analyze");
    }
    let mut verify = Command::new("systemd-analyze");
    // It calls man for the page that the unit names. Of 80 columns, man keeps a formatted page.
    verify.env("MANWIDTH", "100");
    let output = verify.args(["verify", path]).output().context("cannot run systemd-analyze")?;
    let said = String::from_utf8_lossy(&output.stderr);
    // It reads all units in the same directory, and reports errors of those too.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains(NAME)).collect();
    ensure!(ours.is_empty(), "systemd-analyze verify: {}", ours.join("\n"));
    ensure!(output.status.success(), "systemd-analyze verify: {said}");
    say("package: the unit is valid")
}

/// Of the package.
pub(super) const NAME: &str = "forebay";

/// The installed program.
pub(super) const PROGRAM: &str = "/usr/bin/forebay";

const UNIT: &str = "forebay-tune.service";

/// What must be there.
const PARTS: &[&str] = &[
    PROGRAM,
    "/etc/forebay/tune.toml",
    "/usr/share/bash-completion/completions/forebay",
    "/usr/share/doc/forebay/changelog.gz",
    "/usr/share/doc/forebay/copyright",
    "/usr/share/doc/forebay/package.md",
    "/usr/share/doc/forebay/README.md",
    "/usr/share/doc/forebay/tuning.md",
    "/usr/share/fish/vendor_completions.d/forebay.fish",
    "/usr/share/man/man1/forebay.1.gz",
    "/usr/share/man/man7/forebay-safety.7.gz",
    "/usr/share/zsh/vendor-completions/_forebay",
];

/// A shell, how it reads without running, and what.
const COMPLETIONS: &[(&str, &str, &str)] = &[
    ("bash", "-n", "/usr/share/bash-completion/completions/forebay"),
    ("zsh", "-n", "/usr/share/zsh/vendor-completions/_forebay"),
    ("fish", "--no-execute", "/usr/share/fish/vendor_completions.d/forebay.fish"),
];
