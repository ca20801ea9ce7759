//! The source of Linux: Debian's package, fetched by apt-get and unpacked without root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{command, find_program, finish, output_of, root, say, target};

/// An unpacked source.
#[derive(Debug)]
pub(super) struct Source {
    /// Of the package, such as `6.12.117-1~deb12u1`.
    pub(super) version: String,
    /// Holds `tree`, `orig` and `build`.
    pub(super) folder: PathBuf,
}

impl Source {
    /// The tree that hooks go into.
    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// The files that hooks changed, as Debian has them.
    pub(super) fn orig(&self) -> PathBuf {
        self.folder.join("orig")
    }

    /// Where the kernel is built.
    pub(super) fn build(&self) -> PathBuf {
        self.folder.join("build")
    }
}

/// The version that the hooks were written for.
pub(super) fn stated_version() -> Result<String> {
    let path = root().join("kernel/version");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(str::trim);
    let version = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with('#'));
    version.map(Into::into).with_context(|| format!("{} names no version", path.display()))
}

/// Finds the source in the cache, or fetches and unpacks it.
pub(super) fn provide() -> Result<Source> {
    let stated = stated_version()?;
    let version = match cached(&stated) {
        true => stated,
        false => available(&stated)?,
    };
    let folder = folder_of(&version);
    let source = Source { version, folder };
    if !source.folder.join(UNPACKED).is_file() {
        unpack(&source)?;
    }
    Ok(source)
}

/// Whether a version is unpacked.
pub(super) fn cached(version: &str) -> bool {
    folder_of(version).join(UNPACKED).is_file()
}

/// The cache: outside of the tree that is tested, so that a clean clone finds it.
pub(super) fn cache() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || named("HOME").map(|home| home.join(".cache"));
    match named("FOREBAY_KERNEL_CACHE") {
        Some(path) => path,
        None => match named("XDG_CACHE_HOME").or_else(home) {
            Some(cache) => cache.join("forebay/kernel"),
            None => target().join("kernel"),
        },
    }
}

/// Where a version lies.
pub(super) fn folder_of(version: &str) -> PathBuf {
    cache().join(format!("{PACKAGE}_{version}"))
}

/// The version that apt can fetch: the stated one, else its candidate, which is named.
pub(super) fn available(stated: &str) -> Result<String> {
    ensure!(find_program("apt-get").is_some(), "no apt-get to fetch {PACKAGE} with");
    let known = output_of(command("apt-cache").args(["madison", PACKAGE]))?.unwrap_or_default();
    let version = choose(stated, &versions(&known).collect::<Vec<_>>())?;
    if version != stated {
        eprintln!("kernel: apt has {PACKAGE} {version}; the hooks were written for {stated}");
    }
    Ok(version)
}

/// The stated version if there is one, else the newest.
fn choose(stated: &str, versions: &[&str]) -> Result<String> {
    let Some(newest) = versions.first() else {
        bail!("apt knows no package {PACKAGE}; it is in Debian's bookworm-security and in trixie");
    };
    Ok(if versions.contains(&stated) { stated } else { newest }.to_owned())
}

/// The second column of `apt-cache madison`: newest first.
fn versions(madison: &str) -> impl Iterator<Item = &str> {
    madison.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim)
}

fn unpack(source: &Source) -> Result<()> {
    let Source { version, folder } = source;
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the cache {}", folder.display()))?;
    say(&format!("fetching {PACKAGE} {version} into {}", folder.display()))?;
    let mut fetch = command("timeout");
    fetch.args([FETCH_SECONDS, "apt-get", "-o", "DPkg::Lock::Timeout=300", "download"]);
    finish(fetch.arg(format!("{PACKAGE}={version}")).current_dir(folder))?;
    let package = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    let partial = folder.join("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir(&partial)?;
    unpack_to(&package, &partial)?;
    ensure!(partial.join("mm/readahead.c").is_file(), "{} holds no Linux", package.display());
    if source.tree().exists() {
        fs::remove_dir_all(source.tree())?;
    }
    fs::rename(&partial, source.tree())?;
    fs::remove_file(&package)?;
    fs::write(folder.join(UNPACKED), "")?;
    Ok(())
}

/// `dpkg-deb | tar | tar`, without the sources of architectures and drivers that are not built:
/// a third of the size and half of the time.
fn unpack_to(package: &Path, tree: &Path) -> Result<()> {
    let mut outer = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run dpkg-deb")?;
    let archive = outer.stdout.take().expect("it was asked for");
    let mut middle = Command::new("tar")
        .args(["-xO", "--wildcards", "./usr/src/linux-source-*.tar.xz"])
        .stdin(archive)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run tar")?;
    let source = middle.stdout.take().expect("it was asked for");
    let mut inner = Command::new("tar");
    inner.args(["-xJ", "--strip-components=1", "--wildcards", "-C"]).arg(tree).stdin(source);
    for (folder, names) in LEFT_OUT {
        for name in names.split(' ') {
            inner.arg(format!("--exclude=linux-source-*/{folder}/{name}/*.[chS]"));
        }
    }
    inner.args(["--exclude=*.dts", "--exclude=*.dtsi", "--exclude=*/Documentation/*/*.rst"]);
    finish(&mut inner)?;
    for (mut child, name) in [(middle, "tar"), (outer, "dpkg-deb")] {
        let status = child.wait()?;
        ensure!(status.success(), "{name} failed on {}", package.display());
    }
    Ok(())
}

/// What fetching the package may take, by the wall clock: 150 MB.
const FETCH_SECONDS: &str = "900";

const PACKAGE: &str = "linux-source-6.12";

/// Written last: the tree is whole.
const UNPACKED: &str = "unpacked";

/// Folders whose sources are left out. Their `Kconfig` files stay, which all configurations read.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "arch",
        "alpha arc arm arm64 csky hexagon loongarch m68k microblaze mips nios2 openrisc parisc \
         powerpc riscv s390 sh sparc xtensa",
    ),
    (
        "drivers",
        "accel bluetooth clk crypto gpu hwmon iio infiniband media mfd net pinctrl power \
         regulator scsi soc staging target usb video",
    ),
    ("tools", "perf testing"),
    (".", "sound samples"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_newest_first() {
        let text = "linux-source-6.12 | 6.12.117-1~deb12u1 | http://x bookworm-security/main\n\
                    linux-source-6.12 | 6.12.115-2~deb12u1 | http://x bookworm-security/main\n";
        let found: Vec<&str> = versions(text).collect();
        assert_eq!(found, ["6.12.117-1~deb12u1", "6.12.115-2~deb12u1"]);
        assert_eq!(versions("").count(), 0);
    }

    #[test]
    fn another_point_release_is_taken_only_without_the_stated_one() {
        let versions = ["6.12.118-1", "6.12.117-1"];
        assert_eq!(choose("6.12.117-1", &versions).unwrap(), "6.12.117-1");
        assert_eq!(choose("6.12.116-1", &versions).unwrap(), "6.12.118-1");
        let error = choose("6.12.117-1", &[]).unwrap_err().to_string();
        assert!(error.starts_with("apt knows no package linux-source-6.12;"), "{error}");
    }

    #[test]
    fn the_stated_version_is_one_of_6_12() {
        assert!(stated_version().unwrap().starts_with("6.12."));
    }
}
