//! All tests, after the Debian packages that some of them need.
//!
//! Where one is missing, the tests that need it skip themselves as visibly as it is named here.

use anyhow::Result;

use crate::apt::{self, Package};
use crate::fidelity;
use crate::process::{cargo, exit_code};

/// What was typed.
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
    tests.args(["test", "--workspace", "--no-fail-fast"]).args(&arguments.cargo_test);
    exit_code(&mut tests)
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
    Package { name: "libnbd-bin", program: "nbdinfo", needed_for: "clients of served disks" },
    Package { name: "qemu-utils", program: "qemu-io", needed_for: "clients of served disks" },
    Package { name: "zsh", program: "zsh", needed_for: "completions as zsh offers them" },
    Package { name: "fish", program: "fish", needed_for: "completions as fish offers them" },
];
