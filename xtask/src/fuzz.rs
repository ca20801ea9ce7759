//! Fuzzing of one parser, for a stated time.
//!
//! Needs `cargo install cargo-fuzz`. The committed `fuzz/corpus` is the start; new inputs are kept
//! in `fuzz/found` and failing inputs in `fuzz/artifacts`.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::process::{cargo, exit_code, root};

/// The arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The parser: a file of fuzz/fuzz_targets
    pub(crate) target: String,
    /// How long, in minutes
    #[arg(long, default_value_t = 30)]
    pub(crate) minutes: u64,
}

/// Fuzzes until the time is over or an input fails.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let Arguments { target, minutes } = arguments;
    let source = root().join(format!("fuzz/fuzz_targets/{target}.rs"));
    ensure!(source.is_file(), "'{target}' is no file of fuzz/fuzz_targets");
    ensure!(*minutes > 0, "--minutes takes a number from 1 on");
    let found = root().join("fuzz/found").join(target);
    fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
    let mut fuzz = cargo();
    // Sanitizers are part of every compiler, but their option is unstable.
    fuzz.env("RUSTC_BOOTSTRAP", "1");
    // Two of libdeflate's decoders come from one source, which looks like a doubled definition.
    fuzz.env("ASAN_OPTIONS", "detect_odr_violation=0");
    fuzz.args(["fuzz", "run", "-O", target]);
    fuzz.args([format!("fuzz/found/{target}"), format!("fuzz/corpus/{target}")]);
    fuzz.args(["--", "-timeout=60", &format!("-max_len={LEN_MAX}")]);
    fuzz.arg(format!("-max_total_time={}", minutes.saturating_mul(60)));
    exit_code(&mut fuzz)
}

/// Inputs are no longer than this, in bytes.
const LEN_MAX: u32 = 64 << 10;
