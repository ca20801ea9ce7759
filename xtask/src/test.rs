//! All tests, after the Debian packages that some of them need.
//!
//! If one is missing, the tests that need it are skipped and named.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::Result;

use crate::apt::{self, Package};
use crate::fidelity;
use crate::process::{cargo, command, exit_code, find_program, target};
use crate::python;

/// The arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Arguments of `cargo test`, such as a part of a test's name
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) cargo_test: Vec<String>,
}

/// Installs and tests.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    apt::provide("test", PACKAGES)?;
    if let Some(reason) = fidelity::skip()? {
        eprintln!("test: skip: the running kernel against its policy: {reason}");
    }
    let mut tests = cargo();
    if let Some(folder) = python_packages()? {
        tests.env("PYTHONPATH", folder);
    }
    tests.args(["test", "--workspace", "--no-fail-fast"]).args(&arguments.cargo_test);
    let code = exit_code(&mut tests)?;
    // What was chosen by name is a test of Rust.
    if code != 0 || !arguments.cargo_test.is_empty() {
        return Ok(code);
    }
    python::test()
}

/// The folder of the Python packages that tests need, installed below the target directory if they
/// are missing. Tests whose package cannot be installed are skipped by name.
fn python_packages() -> Result<Option<PathBuf>> {
    if find_program("python3").is_none() {
        return Ok(None);
    }
    let folder = target().join("tools/python");
    for (packages, import, needed_for) in PYTHON_PACKAGES {
        let is_there = || {
            let mut python = command("python3");
            python.env("PYTHONPATH", &folder).args(["-c", &format!("import {import}")]);
            python.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        if is_there() {
            continue;
        }
        let named = packages.join(" and ");
        eprintln!("test: installing {named} into {}", folder.display());
        let mut pip = command("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
        let code = exit_code(pip.arg(&folder).args(packages).stdout(io::stderr()))?;
        if code != 0 || !is_there() {
            eprintln!("test: skip: {needed_for}: pip cannot install {named}");
        }
    }
    Ok(Some(folder))
}

/// Packages for pip, what shows that they are there, and what needs them.
const PYTHON_PACKAGES: [(&[&str], &str, &str); 3] = [
    (&["moto[server]==5.1.*", "boto3"], "moto.server, boto3", "objects of S3"),
    (&["distributed>=2024.1"], "distributed", "sweeps on Dask"),
    (&["hyperqueue>=0.20"], "hyperqueue.cluster", "sweeps on HyperQueue"),
];

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
    Package { name: "libnbd-bin", program: "nbdinfo", needed_for: "clients of served disks" },
    Package { name: "qemu-utils", program: "qemu-io", needed_for: "clients of served disks" },
    Package { name: "nbdkit", program: "nbdkit", needed_for: "sources of NBD" },
    Package { name: "openssl", program: "openssl", needed_for: "TLS of served disks" },
    Package {
        name: "xfsprogs",
        program: "mkfs.xfs",
        needed_for: "XFS on a loop device over a served disk",
    },
    Package { name: "zsh", program: "zsh", needed_for: "completions as zsh offers them" },
    Package { name: "fish", program: "fish", needed_for: "completions as fish offers them" },
];
