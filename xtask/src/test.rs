//! All tests, after the Debian packages that some of them need.
//!
//! Packages are installed only by root and only on a machine with apt-get. Elsewhere each missing
//! one is named, and the tests that need it skip themselves as visibly.

use std::io;
use std::process::Command;

use anyhow::Result;

use crate::fidelity;
use crate::process::{cargo, command, exit_code, find_program, output_of};

/// What was typed.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Arguments of `cargo test`, such as a part of a test's name
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) cargo_test: Vec<String>,
}

/// Installs and tests.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let absent = missing(|name| find_program(name).is_some());
    if !absent.is_empty() && may_install()? {
        install(&absent)?;
    }
    for package in missing(|name| find_program(name).is_some()) {
        eprintln!("{}", package.skip());
    }
    if let Some(reason) = fidelity::skip()? {
        eprintln!("test: skip: the running kernel against its policy: {reason}");
    }
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--no-fail-fast"]).args(&arguments.cargo_test);
    exit_code(&mut tests)
}

/// A Debian package that tests need.
#[derive(Debug)]
struct Package {
    name: &'static str,
    /// A program of it; if it is there, so is the package.
    program: &'static str,
    /// What the tests do with it.
    needed_for: &'static str,
}

impl Package {
    fn skip(&self) -> String {
        let Self { name, program, needed_for } = self;
        format!("test: skip: {needed_for}: no {program}; as root: apt-get install {name}")
    }
}

/// The packages whose program is not there.
fn missing(is_there: impl Fn(&str) -> bool) -> Vec<&'static Package> {
    PACKAGES.iter().filter(|package| !is_there(package.program)).collect()
}

fn may_install() -> Result<bool> {
    Ok(find_program("apt-get").is_some()
        && output_of(command("id").arg("-u"))?.is_some_and(|user| user == "0"))
}

/// Asks apt-get for the packages. Its failure is not the tests': what is still missing is named.
fn install(packages: &[&Package]) -> Result<()> {
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    eprintln!("test: installing {}", names.join(", "));
    if exit_code(apt_get().arg("update"))? != 0 {
        eprintln!("test: apt-get update failed; trying with the lists that are there");
    }
    if exit_code(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(names))? != 0
    {
        eprintln!("test: apt-get install failed");
    }
    Ok(())
}

/// apt-get that asks nothing and talks on stderr.
fn apt_get() -> Command {
    let mut apt_get = command("apt-get");
    apt_get.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet").stdout(io::stderr());
    apt_get
}

/// Every package that a test needs.
const PACKAGES: &[Package] = &[
    Package { name: "fio", program: "fio", needed_for: "comparing job files and logs with fio" },
    Package {
        name: "e2fsprogs",
        program: "mkfs.ext4",
        needed_for: "file systems of known layout for live readahead",
    },
    Package {
        name: "squashfs-tools",
        program: "mksquashfs",
        needed_for: "images of squashfs: compared with their source, measured mounted",
    },
    Package {
        name: "erofs-utils",
        program: "mkfs.erofs",
        needed_for: "images of erofs to compare with their source",
    },
    Package {
        name: "chromium",
        program: "chromium",
        needed_for: "pages of results as a browser shows them",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_whose_program_is_missing_are_wanted() {
        let names = |packages: Vec<&Package>| -> Vec<&str> {
            packages.iter().map(|package| package.name).collect()
        };
        assert_eq!(names(missing(|_| true)), [""; 0]);
        assert_eq!(names(missing(|program| program != "mkfs.ext4")), ["e2fsprogs"]);
        assert_eq!(names(missing(|_| false)).len(), PACKAGES.len());
    }

    #[test]
    fn a_skip_names_the_reason_and_the_way_out() {
        assert_eq!(
            PACKAGES[0].skip(),
            "test: skip: comparing job files and logs with fio: no fio; \
             as root: apt-get install fio"
        );
    }
}
