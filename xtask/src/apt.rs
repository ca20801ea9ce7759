//! Debian packages that a command of the project works with.
//!
//! They are installed only by root and only on a machine with apt-get. Elsewhere each missing one
//! is named, with the tests that need it.

use std::io;
use std::process::Command;

use anyhow::Result;

use crate::process::{command, exit_code, find_program, output_of};

/// A Debian package.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    /// A program of it; if it is installed, so is the package.
    pub(crate) program: &'static str,
    /// Its use.
    pub(crate) needed_for: &'static str,
}

/// Installs missing packages, where that is allowed, and names those that are still missing, for
/// the task `task`.
pub(crate) fn provide(task: &str, packages: &'static [Package]) -> Result<()> {
    let is_there = |name: &str| find_program(name).is_some();
    let absent = missing(packages, is_there);
    if !absent.is_empty() && may_install()? {
        install(task, &absent)?;
    }
    for package in missing(packages, is_there) {
        eprintln!("{task}: {}", package.skip());
    }
    Ok(())
}

impl Package {
    fn skip(&self) -> String {
        let Self { name, program, needed_for } = self;
        format!("skip: {needed_for}: no {program}; as root: apt-get install {name}")
    }
}

/// The packages whose program is not there.
fn missing(packages: &[Package], is_there: impl Fn(&str) -> bool) -> Vec<&Package> {
    packages.iter().filter(|package| !is_there(package.program)).collect()
}

fn may_install() -> Result<bool> {
    Ok(find_program("apt-get").is_some()
        && output_of(command("id").arg("-u"))?.is_some_and(|user| user == "0"))
}

/// Brings the lists of packages up to date, where that is allowed.
pub(crate) fn update(task: &str) -> Result<()> {
    if may_install()? && exit_code(apt_get().arg("update"))? != 0 {
        eprintln!("{task}: apt-get update failed; going on with the lists that are there");
    }
    Ok(())
}

/// Runs apt-get for the packages. Its failure is no error here: packages that are still missing are
/// named.
fn install(task: &str, packages: &[&Package]) -> Result<()> {
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    update(task)?;
    eprintln!("{task}: installing {}", names.join(", "));
    if exit_code(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(names))? != 0
    {
        eprintln!("{task}: apt-get install failed");
    }
    Ok(())
}

/// apt-get that asks nothing and talks on stderr.
fn apt_get() -> Command {
    let mut apt_get = command("apt-get");
    apt_get.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet").stdout(io::stderr());
    apt_get
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGES: &[Package] = &[
        Package { name: "fio", program: "fio", needed_for: "comparing with fio" },
        Package { name: "e2fsprogs", program: "mkfs.ext4", needed_for: "file systems" },
    ];

    #[test]
    fn only_packages_whose_program_is_missing_are_wanted() {
        let names = |packages: Vec<&Package>| -> Vec<&str> {
            packages.iter().map(|package| package.name).collect()
        };
        assert_eq!(names(missing(PACKAGES, |_| true)), [""; 0]);
        assert_eq!(names(missing(PACKAGES, |program| program != "mkfs.ext4")), ["e2fsprogs"]);
        assert_eq!(names(missing(PACKAGES, |_| false)), ["fio", "e2fsprogs"]);
    }

    #[test]
    fn a_skip_names_the_reason_and_the_way_out() {
        let line = "skip: comparing with fio: no fio; as root: apt-get install fio";
        assert_eq!(PACKAGES[0].skip(), line);
    }
}
