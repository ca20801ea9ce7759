//! From a source to a program and its package, the same bytes wherever that lies.
//!
//! Varying values are fixed: paths of source, target and registry by `--remap-path-prefix` and, for
//! C, `-ffile-prefix-map`; times of the package's files by `SOURCE_DATE_EPOCH`, which is the time
//! of the last commit.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::process::{cargo, exit_code, finish, root, run};
use crate::tool::{CYCLONEDX, DEB};

use super::Made;

/// A source, and where it is built.
#[derive(Debug)]
pub(super) struct Build {
    source: PathBuf,
    folder: PathBuf,
}

impl Build {
    /// Builds `source`; all output lies in `folder`.
    pub(super) fn new(source: &Path, folder: &Path) -> Self {
        Self { source: source.to_owned(), folder: folder.to_owned() }
    }

    /// The program, then its package.
    pub(super) fn make(&self) -> Result<Made> {
        let mut build = self.cargo()?;
        build.args(["build", "--release", "--locked", "--package", "forebay"]);
        ensure!(exit_code(&mut build)? == 0, "forebay does not build");
        let program = self.release().join("forebay");
        self.pages(&program)?;
        self.completions(&program)?;
        Ok(Made { package: self.package()?, program })
    }

    /// A page of the manual for each command and each topic, compressed.
    fn pages(&self, program: &Path) -> Result<()> {
        let folder = emptied(&self.release().join("man"))?;
        finish(Command::new(program).arg("man").arg(&folder))?;
        let mut pages = files(&folder)?;
        let is_in = |path: &Path, section: &str| path.extension().is_some_and(|it| it == section);
        pages.retain(|path| is_in(path, "1") || is_in(path, "7"));
        for section in ["1", "7"] {
            let is_there = pages.iter().any(|path| is_in(path, section));
            ensure!(is_there, "forebay man wrote no page of section {section}");
        }
        // Without names and times, which differ.
        finish(Command::new("gzip").args(["--no-name", "--best"]).args(&pages))?;
        Ok(())
    }

    /// A file for each shell, named as the shell looks for it.
    fn completions(&self, program: &Path) -> Result<()> {
        let folder = emptied(&self.release().join("completions"))?;
        for (shell, name) in [("bash", "forebay"), ("zsh", "_forebay"), ("fish", "forebay.fish")] {
            let text = finish(Command::new(program).args(["completions", shell]))?;
            fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        Ok(())
    }

    fn package(&self) -> Result<PathBuf> {
        let folder = emptied(&self.folder.join("debian"))?;
        let mut deb = Command::new(DEB.path()?);
        self.dress(&mut deb)?;
        // Not for the compiler, which puts no time into a program, and would compile all C anew.
        deb.env("SOURCE_DATE_EPOCH", epoch()?);
        deb.args(["--no-build", "--locked", "--package", "forebay", "--output"]).arg(&folder);
        // The path of the package; it is found by its folder.
        deb.stdout(Stdio::null());
        ensure!(exit_code(&mut deb)? == 0, "the package cannot be made");
        let made = files(&folder)?;
        ensure!(made.len() == 1, "cargo-deb made {} files", made.len());
        Ok(made.into_iter().next().expect("there is one"))
    }

    fn cargo(&self) -> Result<Command> {
        let mut cargo = cargo();
        self.dress(&mut cargo)?;
        Ok(cargo)
    }

    /// Makes a command work on this source, without knowledge of its path.
    fn dress(&self, command: &mut Command) -> Result<()> {
        let maps = [
            (self.source.clone(), "/forebay"),
            (self.target(), "/target"),
            (registry()?, "/cargo"),
        ];
        let remap: Vec<String> = maps
            .iter()
            .map(|(path, name)| format!("--remap-path-prefix={}={name}", path.display()))
            .collect();
        let c: Vec<String> = maps
            .iter()
            .map(|(path, name)| format!("-ffile-prefix-map={}={name}", path.display()))
            .collect();
        command
            .current_dir(&self.source)
            .env("CARGO_TARGET_DIR", self.target())
            .env("CARGO_ENCODED_RUSTFLAGS", remap.join("\x1f"))
            .env("CFLAGS", c.join(" "));
        Ok(())
    }

    fn target(&self) -> PathBuf {
        self.folder.join("build")
    }

    fn release(&self) -> PathBuf {
        self.target().join("release")
    }
}

/// Writes the bill of materials of the program: each crate with version, licence and checksum.
pub(super) fn bill(folder: &Path) -> Result<PathBuf> {
    // The tool writes beside each manifest, so it gets a copy of the manifests.
    let source = folder.join("bill/source");
    copy(&source)?;
    let manifest = source.join("crates/forebay/Cargo.toml");
    let mut tool = Command::new(CYCLONEDX.path()?);
    tool.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5"])
        .args(["--override-filename", "forebay.cdx", "--manifest-path"])
        .arg(&manifest)
        .env("SOURCE_DATE_EPOCH", epoch()?);
    finish(&mut tool)?;
    let written = manifest.with_file_name("forebay.cdx.json");
    let text = fs::read_to_string(&written)
        .with_context(|| format!("cannot read {}", written.display()))?;
    // Where it was written is private.
    let text = text.replace(&source.display().to_string(), "/forebay");
    ensure!(text.contains("\"CycloneDX\""), "cargo-cyclonedx wrote something else");
    let bill = folder.join("forebay.cdx.json");
    fs::write(&bill, text).with_context(|| format!("cannot write {}", bill.display()))?;
    fs::remove_dir_all(&source)?;
    Ok(bill)
}

/// Copies tracked and untracked files, but not ignored ones, to a new path.
pub(super) fn copy(to: &Path) -> Result<()> {
    emptied(to)?;
    let names = run("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let from = root().join(name);
        // Git still lists files whose deletion is not committed.
        let Ok(found) = from.symlink_metadata() else { continue };
        let place = to.join(name);
        fs::create_dir_all(place.parent().expect("a file lies in a folder"))?;
        let copied = match found.is_symlink() {
            true => fs::read_link(&from).and_then(|leads| symlink(leads, &place)),
            false => fs::copy(&from, &place).map(drop),
        };
        copied.with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

/// The time that everything has: that of the last commit, or what the environment says.
fn epoch() -> Result<String> {
    match env::var("SOURCE_DATE_EPOCH") {
        Ok(epoch) => Ok(epoch),
        Err(_) => Ok(run("git", &["log", "-1", "--format=%ct"])?.trim().to_owned()),
    }
}

/// Where cargo keeps the sources of the dependencies.
fn registry() -> Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    home.context("neither CARGO_HOME nor HOME is set")
}

/// A folder without its old contents.
fn emptied(folder: &Path) -> Result<PathBuf> {
    let problem = || format!("cannot empty {}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(problem)?;
    }
    fs::create_dir_all(folder).with_context(problem)?;
    Ok(folder.to_owned())
}

/// What lies in a folder, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    Ok(files)
}
