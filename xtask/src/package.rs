//! The Debian package: its build, its bill of materials, and a test of its life cycle on this
//! machine.
//!
//! ```text
//!   source --> release build --> man pages, completions --> .deb
//!      |        (no path of this machine in it)              |
//!      +--> bill of materials                                +--> --check: installed, started,
//!      |                                                           killed, removed, purged
//!      +--> --twice: a copy elsewhere, built elsewhere: the same bytes
//! ```
//!
//! Everything lies in `package` below the target directory. The build has a separate directory
//! there, because flags other than those of `cargo build` would rebuild everything.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::apt::{self, Package};
use crate::process::{root, say, target};

use build::Build;

mod build;
mod disk;
mod installed;
mod life;
mod manager;
mod traces;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Install, start, kill, remove and purge it here; root on Debian
    #[arg(long)]
    check: bool,
    /// Build it a second time, from a copy elsewhere, and compare
    #[arg(long)]
    twice: bool,
}

/// Makes the package, and runs the requested checks.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    apt::provide("package", PACKAGES)?;
    if arguments.check
        && let Some(reason) = life::skip()?
    {
        bail!("the package's life is not tried: {reason}");
    }
    let folder = target().join("package");
    let build = Build::new(root(), &folder);
    let made = build.make()?;
    let bill = build::bill(&folder)?;
    for path in [&made.program, &made.package, &bill] {
        say(&format!("package: {}, {}", path.display(), size(path)?))?;
    }
    if arguments.check {
        life::run(&made.package, &folder.join("check"))?;
    }
    if arguments.twice {
        return twice(&folder, &made);
    }
    Ok(0)
}

/// Why the package's life cannot be tried here, if so.
pub(crate) fn skip() -> Result<Option<String>> {
    life::skip()
}

/// What a build leaves.
#[derive(Debug)]
struct Made {
    program: PathBuf,
    package: PathBuf,
}

/// Builds a copy of the source somewhere else; the exit code is 1 if a byte differs.
fn twice(folder: &Path, first: &Made) -> Result<u8> {
    let started = Instant::now();
    let again = folder.join("again");
    let source = again.join("elsewhere/source");
    build::copy(&source)?;
    let second = Build::new(&source, &again).make()?;
    let mut differ = 0;
    for (one, other) in [(&first.program, &second.program), (&first.package, &second.package)] {
        let name = one.file_name().unwrap_or_default().display();
        match difference(&read(one)?, &read(other)?) {
            None => say(&format!("package: {name} is the same, byte for byte"))?,
            Some(at) => {
                differ += 1;
                say(&format!("package: {name} differs from byte {at} on"))?;
                say(&format!("  compare {} with {}", one.display(), other.display()))?;
            }
        }
    }
    say(&format!("package: the second build took {:.0} s", started.elapsed().as_secs_f64()))?;
    if differ == 0 {
        fs::remove_dir_all(&again).with_context(|| format!("cannot remove {}", again.display()))?;
    }
    Ok(u8::from(differ > 0))
}

/// The first byte that differs.
fn difference(one: &[u8], other: &[u8]) -> Option<usize> {
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    differs.or_else(|| (one.len() != other.len()).then(|| one.len().min(other.len())))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The size of a file that is not empty.
fn size(path: &Path) -> Result<String> {
    let bytes = fs::metadata(path).with_context(|| format!("no {}", path.display()))?.len();
    ensure!(bytes > 0, "{} is empty", path.display());
    Ok(format!("{bytes} bytes"))
}

/// Requirements for making it and testing it besides Rust.
const PACKAGES: &[Package] = &[
    Package { name: "dpkg-dev", program: "dpkg-shlibdeps", needed_for: "what the package needs" },
    Package { name: "e2fsprogs", program: "mkfs.ext4", needed_for: "a disk to steer" },
    Package { name: "groff-base", program: "nroff", needed_for: "pages of the manual" },
    Package { name: "man-db", program: "man", needed_for: "pages of the manual" },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_that_differs_is_found() {
        assert_eq!(difference(b"", b""), None);
        assert_eq!(difference(b"abc", b"abc"), None);
        assert_eq!(difference(b"abc", b"abd"), Some(2));
        assert_eq!(difference(b"abc", b"ab"), Some(2));
        assert_eq!(difference(b"", b"a"), Some(0));
    }
}
