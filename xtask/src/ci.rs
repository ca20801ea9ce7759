//! Every check that a change must pass, up to the first that fails.
//!
//! A stage is a cargo command that a developer can type; nothing happens here that cannot be
//! repeated from the line that was printed.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use crate::process::{cargo, command, exit_code, output_of};
use crate::{kernel, package};

/// Runs the stages.
pub(crate) fn run() -> Result<u8> {
    let start = Instant::now();
    let target = target_without_std()?;
    if target.is_none() {
        eprintln!(
            "ci: purity: skipped: none of the targets {} is installed, so `no_std` and \
             `forbid(unsafe_code)` on the host, which tidy looks for, are the proof",
            TARGETS_WITHOUT_STD.join(", ")
        );
    }
    let package = package::skip()?;
    if let Some(reason) = &package {
        eprintln!("ci: package: skipped: {reason}; where it can be done: cargo {PACKAGE}");
    }
    let lab = kernel::prepare()?;
    if let Some(reason) = &lab {
        eprintln!("ci: kernel: skipped: {reason}; where it can be done: cargo {KERNEL}");
    }
    for stage in stages(target, lab.is_none(), package.is_none()) {
        let code = stage.run()?;
        if code != 0 {
            return Ok(code);
        }
    }
    eprintln!("ci: left out, because it takes minutes: the package built twice: cargo {TWICE}");
    eprintln!("ci: passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(0)
}

/// One check.
#[derive(Debug)]
struct Stage {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// Behind `cargo`, separated by blanks.
    arguments: String,
}

impl Stage {
    fn new(name: &'static str, arguments: impl Into<String>) -> Self {
        Self { name, environment: &[], arguments: arguments.into() }
    }

    fn run(&self) -> Result<u8> {
        let Self { name, environment, arguments } = self;
        eprintln!("ci: {name}: {self}");
        let start = Instant::now();
        let cargo = cargo();
        let mut command = command("timeout");
        command.args(["--kill-after=10", SECONDS_MAX]).arg(cargo.get_program());
        command.envs(environment.iter().copied()).args(arguments.split(' '));
        let code = exit_code(&mut command)?;
        let seconds = start.elapsed().as_secs_f64();
        if code == 0 {
            eprintln!("ci: {name}: passed in {seconds:.1} s");
        } else if code == TIMED_OUT {
            eprintln!("ci: {name}: stopped after {SECONDS_MAX} s: it hangs; to repeat it: {self}");
        } else {
            eprintln!("ci: {name}: failed after {seconds:.1} s; to repeat it: {self}");
        }
        Ok(code)
    }
}

impl fmt::Display for Stage {
    /// The line that repeats the stage in a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.environment {
            write!(f, "{name}={value} ")?;
        }
        write!(f, "cargo {}", self.arguments)
    }
}

/// The stages in their order: the quick ones first.
fn stages(target: Option<&str>, has_lab: bool, has_package: bool) -> Vec<Stage> {
    let mut stages = vec![
        Stage::new("fmt", "fmt --all --check"),
        Stage::new("tidy", "xtask tidy"),
        Stage::new("clippy", "clippy --workspace --all-targets -- -D warnings"),
        Stage {
            environment: &[("RUSTDOCFLAGS", "-Dwarnings")],
            ..Stage::new("doc", "doc --workspace --no-deps")
        },
    ];
    if let Some(target) = target {
        let build = format!("build --package forebay-core --target {target}");
        stages.push(Stage::new("purity", build));
    }
    stages.push(Stage::new("build", "test --workspace --no-run"));
    stages.push(Stage::new("test", "xtask test"));
    stages.push(Stage::new("interleavings", INTERLEAVINGS));
    stages.push(Stage::new("disks", DISKS));
    stages.push(Stage::new("bugs", BUGS));
    let with_tools = |name, arguments| Stage { environment: QUICK, ..Stage::new(name, arguments) };
    stages.push(with_tools("book", "xtask docs"));
    stages.push(with_tools("deny", "xtask deny"));
    if has_lab {
        stages.push(Stage::new("kernel", KERNEL));
    }
    if has_package {
        stages.push(with_tools("package", PACKAGE));
    }
    stages
}

/// The first installed target on which the core cannot reach an operating system.
fn target_without_std() -> Result<Option<&'static str>> {
    for target in TARGETS_WITHOUT_STD {
        let ask = ["--print", "target-libdir", "--target", target];
        let directory = output_of(command("rustc").args(ask))?;
        if directory.is_some_and(|directory| Path::new(&directory).is_dir()) {
            return Ok(Some(target));
        }
    }
    Ok(None)
}

/// What a stage may take: several times what the longest one needs on two processors.
const SECONDS_MAX: &str = "1500";

/// The exit code of `timeout` for a command that it ended.
const TIMED_OUT: u8 = 124;

/// For stages that build programs for release, whose speed is not tested: optimization would take
/// most of the time.
const QUICK: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "256"),
];

/// Behind `cargo`: the kernel lab.
const KERNEL: &str = "xtask kernel check";

/// Behind `cargo`: threads on the I/O path of an image, under interleavings that a test chooses.
const INTERLEAVINGS: &str = "test --workspace --exclude forebay-python --features \
     forebay-host/shuttle --lib interleavings";

/// Behind `cargo`: random served disks, a few seconds of them.
const DISKS: &str = "xtask swarm --disks 600";

/// Behind `cargo`: bugs in the core of served disks, each of which has to be found.
const BUGS: &str = "xtask swarm --bugs --seed 1";

/// Behind `cargo`: the package and its life.
const PACKAGE: &str = "xtask package --check";

/// Behind `cargo`: a second release build from nothing.
const TWICE: &str = "xtask package --twice";

/// The strictest first: the bare ones have no std at all; wasm's has one, but every call to an
/// operating system in it fails.
const TARGETS_WITHOUT_STD: &[&str] =
    &["x86_64-unknown-none", "aarch64-unknown-none", "wasm32-unknown-unknown"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_prints_the_line_that_repeats_it() {
        let quick = "CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
                     CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256";
        let line = |stage: &Stage| stage.to_string().replace(quick, "QUICK");
        let lines: Vec<String> = stages(Some("bare"), true, true).iter().map(line).collect();
        assert_eq!(
            lines,
            [
                "cargo fmt --all --check",
                "cargo xtask tidy",
                "cargo clippy --workspace --all-targets -- -D warnings",
                "RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps",
                "cargo build --package forebay-core --target bare",
                "cargo test --workspace --no-run",
                "cargo xtask test",
                "cargo test --workspace --exclude forebay-python --features forebay-host/shuttle \
                 --lib interleavings",
                "cargo xtask swarm --disks 600",
                "cargo xtask swarm --bugs --seed 1",
                "QUICK cargo xtask docs",
                "QUICK cargo xtask deny",
                "cargo xtask kernel check",
                "QUICK cargo xtask package --check",
            ]
        );
    }

    #[test]
    fn the_lab_is_no_stage_where_it_cannot_be_built_in_time() {
        assert!(stages(None, false, true).iter().all(|stage| stage.name != "kernel"));
    }

    #[test]
    fn purity_is_no_stage_without_its_target() {
        assert!(stages(None, true, true).iter().all(|stage| stage.name != "purity"));
    }
}
