//! The build: hooks and files into the tree, configuration, make, and the init.
//!
//! A file that would not change is not written, so that make rebuilds only changed ones.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::hooks::{self, Patch};
use super::source::{self, Source};
use crate::apt::{self, Package};
use crate::process::{command, find_program, finish, root, say};

/// A kernel that is built.
#[derive(Debug)]
pub(super) struct Lab {
    pub(super) version: String,
    /// Linux as a program.
    pub(super) program: PathBuf,
    /// The first process, linked statically.
    pub(super) init: PathBuf,
    /// A cramfs image with one file, `program`.
    pub(super) image: PathBuf,
    /// Where a run may leave files.
    pub(super) folder: PathBuf,
}

/// Installs what the build needs, where that is allowed. Why CI leaves the lab out here, if so.
pub(super) fn prepare() -> Result<Option<String>> {
    apt::provide("kernel", PACKAGES)?;
    if let Err(error) = programs(|name| find_program(name).is_some()) {
        return Ok(Some(error.to_string()));
    }
    let stated = source::stated_version()?;
    let is_unpacked = source::cached(&stated);
    if is_unpacked && source::folder_of(&stated).join("build/linux").is_file() {
        return Ok(None);
    }
    if std::env::var_os("FOREBAY_KERNEL_COLD").is_some_and(|value| value == "0") {
        let cache = source::cache();
        return Ok(Some(format!(
            "nothing is built in {}, and FOREBAY_KERNEL_COLD is 0",
            cache.display()
        )));
    }
    if is_unpacked {
        return Ok(None);
    }
    if source::available(&stated).is_err() {
        apt::update("kernel")?;
    }
    Ok(match source::available(&stated) {
        Err(error) => Some(error.to_string()),
        Ok(version) if version != stated => Some(format!(
            "apt has no {stated}, which the hooks were written for; to try {version}: cargo xtask \
             kernel build"
        )),
        Ok(_) => None,
    })
}

/// Builds everything that is not up to date.
pub(super) fn build() -> Result<Lab> {
    build_within(SECONDS_MAX)
}

/// As [`build`], within `seconds` seconds; [`Slow`] if they are not enough.
pub(super) fn build_within(seconds: u32) -> Result<Lab> {
    programs(|name| find_program(name).is_some())?;
    let _lock = lock()?;
    let source = source::provide()?;
    let patches = hooks::read_patches()?;
    let changed = update_tree(&source, &patches)?;
    configure(&source, seconds)?;
    let program = source.build().join("linux");
    if changed > 0 || !program.is_file() {
        say(&format!("building Linux {}: {changed} files changed", source.version))?;
    }
    make(&source, &["linux"], seconds)?;
    let init = source.folder.join("init");
    compile_init(&init)?;
    let image = source.folder.join("image");
    make_image(&source.folder, &image)?;
    Ok(Lab { version: source.version, program, init, image, folder: source.folder })
}

/// Fetches the source if it is not there.
pub(super) fn fetch() -> Result<()> {
    let _lock = lock()?;
    source::provide().map(drop)
}

/// Makes the cache and locks it: work trees share it, and one of them builds at a time.
fn lock() -> Result<File> {
    let cache = source::cache();
    fs::create_dir_all(&cache)
        .with_context(|| format!("cannot make the cache {}", cache.display()))?;
    let lock = File::create(cache.join("lock"))?;
    lock.lock().context("cannot lock the cache")?;
    Ok(lock)
}

/// Brings hooks and our files into the tree; how many files changed.
fn update_tree(source: &Source, patches: &[Patch]) -> Result<usize> {
    let (tree, orig) = (source.tree(), source.orig());
    let read = |file: &str| -> Result<String> {
        let kept = orig.join(file);
        if !kept.is_file() {
            fs::create_dir_all(kept.parent().context("a file lies in a folder")?)?;
            fs::copy(tree.join(file), &kept)
                .with_context(|| format!("this source has no {file}; is this another release?"))?;
        }
        fs::read_to_string(&kept).with_context(|| format!("cannot read {}", kept.display()))
    };
    let mut texts: Vec<(String, String)> = hooks::apply(patches, read)?.into_iter().collect();
    let hooked: BTreeSet<String> = texts.iter().map(|(file, _)| file.clone()).collect();
    let ours = patches.iter().flat_map(|patch| &patch.files);
    for file in ours.clone() {
        texts.push((file.clone(), ours_text(file)?));
    }
    // What an earlier state of the patches hooked or added is taken back.
    for file in files_below(&orig, &orig)?.into_iter().filter(|file| !hooked.contains(file)) {
        texts.push((file.clone(), fs::read_to_string(orig.join(&file))?));
    }
    let list = source.folder.join("added");
    let current: BTreeSet<&str> = ours.map(String::as_str).collect();
    for old in fs::read_to_string(&list).unwrap_or_default().lines() {
        if !current.contains(old) && tree.join(old).is_file() {
            fs::remove_file(tree.join(old))?;
        }
    }
    fs::write(&list, current.into_iter().collect::<Vec<_>>().join("\n"))?;
    let mut changed = 0;
    for (file, text) in texts {
        changed += usize::from(write_if_new(&tree.join(file), &text)?);
    }
    Ok(changed)
}

/// The text of a file of ours.
pub(super) fn ours_text(file: &str) -> Result<String> {
    let path = root().join("kernel/linux").join(file);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn write_if_new(path: &Path, text: &str) -> Result<bool> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}

/// All files below a folder, by their path from `top`.
fn files_below(folder: &Path, top: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path, top)?);
        } else {
            let name = path.strip_prefix(top).expect("the walk stays below its top");
            files.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(files)
}

/// `tinyconfig` and what the lab has beyond it.
fn configure(source: &Source, seconds: u32) -> Result<()> {
    let fragment = root().join("kernel/config");
    let text = fs::read_to_string(&fragment)?;
    let build = source.build();
    let stamp = build.join("lab-config");
    if build.join(".config").is_file() && fs::read_to_string(&stamp).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::create_dir_all(&build)?;
    make(source, &["tinyconfig"], seconds)?;
    let mut config = fs::read_to_string(build.join(".config"))?;
    config.push_str(&text);
    // The last of several lines for one option counts.
    fs::write(build.join(".config"), config)?;
    make(source, &["olddefconfig"], seconds)?;
    let config = fs::read_to_string(build.join(".config"))?;
    let dropped: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("CONFIG_"))
        .filter(|line| !config.lines().any(|set| set == *line))
        .collect();
    ensure!(dropped.is_empty(), "this source does not take {}", dropped.join(", "));
    fs::write(&stamp, text)?;
    Ok(())
}

fn make(source: &Source, targets: &[&str], seconds: u32) -> Result<()> {
    let log = source.folder.join("make.log");
    let output = File::create(&log)?;
    let jobs = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let mut make = command("timeout");
    make.current_dir(source.tree()).arg(seconds.to_string()).arg("make");
    make.args(["ARCH=um", "O=../build", &format!("-j{jobs}")]).args(targets);
    // One date and one name in the kernel's banner: builds differ in nothing else.
    make.env("KBUILD_BUILD_TIMESTAMP", "1970-01-01").env("KBUILD_BUILD_USER", "forebay");
    make.env("KBUILD_BUILD_HOST", "forebay").env("KBUILD_BUILD_VERSION", "1");
    let status = make.stdout(output.try_clone()?).stderr(output).status();
    let status = status.context("cannot run make")?;
    if status.code() == Some(TIMED_OUT) {
        return Err(Slow(seconds).into());
    }
    if !status.success() {
        let text = fs::read_to_string(&log)?;
        let lines: Vec<&str> = text.lines().collect();
        let errors = lines.iter().filter(|line| line.contains("error:") || line.contains("***"));
        let errors: Vec<&str> = errors.copied().take(20).collect();
        bail!("make {} failed:\n{}\nall of it: {}", targets[0], errors.join("\n"), log.display());
    }
    Ok(())
}

fn compile_init(init: &Path) -> Result<()> {
    let folder = root().join("kernel/init");
    let mut sources = files_below(&folder, &folder)?;
    sources.retain(|name| name.ends_with(".c"));
    sources.sort();
    let mut gcc = command("gcc");
    gcc.current_dir(folder).args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static"]);
    finish(gcc.arg("-o").arg(init).args(sources)).map(drop)
}

/// Packs a program-sized file of bytes that compress to about a half.
fn make_image(cache: &Path, image: &Path) -> Result<()> {
    if image.is_file() {
        return Ok(());
    }
    let folder = cache.join("image.d");
    fs::create_dir_all(&folder)?;
    let mut state = 1_u64;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Four bytes of chance and four that repeat.
        (state >> 32) & 0xffff_ffff
    });
    let bytes: Vec<u8> = words.take(IMAGE_BYTES / 8).flat_map(u64::to_le_bytes).collect();
    fs::write(folder.join("program"), bytes)?;
    let partial = cache.join("image.partial");
    finish(command("mkfs.cramfs").arg(&folder).arg(&partial))?;
    fs::remove_dir_all(&folder)?;
    fs::rename(partial, image)?;
    Ok(())
}

/// Of the file in the image: 2,930 pages, below the 16 MiB that cramfs can hold.
const IMAGE_BYTES: usize = 2930 * 4096;

/// Makes sure that the programs of the build are installed.
fn programs(is_there: impl Fn(&str) -> bool) -> Result<()> {
    let others = ["apt-get", "dpkg-deb", "tar", "timeout", "setarch", "mkfs.cramfs"];
    let needed = PACKAGES.iter().map(|package| package.program).chain(others);
    let missing: Vec<&str> = needed.filter(|name| !is_there(name)).collect();
    let names: Vec<&str> = PACKAGES.iter().map(|package| package.name).collect();
    ensure!(
        missing.is_empty(),
        "{} missing; as root: apt-get install libc6-dev util-linux {}",
        missing.join(", "),
        names.join(" ")
    );
    Ok(())
}

/// A build that took longer than it may.
#[derive(Debug)]
pub(super) struct Slow(u32);

impl std::error::Error for Slow {}

impl std::fmt::Display for Slow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(seconds) = self;
        write!(f, "the build was stopped after {seconds} s; the next one goes on where it was")
    }
}

/// What each call of make may take, by the wall clock: many times what a quiet machine needs.
const SECONDS_MAX: u32 = 3_600;

/// The exit code of `timeout` for a command that it ended.
const TIMED_OUT: i32 = 124;

/// The Debian packages of the programs that the build runs.
const PACKAGES: &[Package] = &[
    Package { name: "gcc", program: "gcc", needed_for: LAB },
    Package { name: "make", program: "make", needed_for: LAB },
    Package { name: "flex", program: "flex", needed_for: LAB },
    Package { name: "bison", program: "bison", needed_for: LAB },
    Package { name: "bc", program: "bc", needed_for: LAB },
    Package { name: "xz-utils", program: "xz", needed_for: LAB },
    Package { name: "git", program: "git", needed_for: LAB },
    Package { name: "perl", program: "perl", needed_for: LAB },
];

const LAB: &str = "building the kernel lab";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_is_named_with_its_package() {
        assert!(programs(|_| true).is_ok());
        let error = programs(|name| name != "gcc" && name != "bc").unwrap_err();
        assert_eq!(
            error.to_string(),
            "gcc, bc missing; as root: apt-get install libc6-dev util-linux gcc make flex bison bc \
             xz-utils git perl"
        );
    }
}
