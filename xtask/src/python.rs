//! The Python package: its wheel is built, installed where nothing else is, and tested.
//!
//! ```text
//!   target/tools/venv      maturin, NumPy: installed by pip if they are missing
//!   target/wheels/*.whl    the wheel, installed there anew
//!   python/tests           its tests, which compare runs with those of target/debug/forebay
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::process::{command, exit_code, find_program, root, target};

/// Builds, installs and tests; says what is missing if that cannot be done.
pub(crate) fn test() -> Result<u8> {
    let tools = match tools()? {
        Ok(tools) => tools,
        Err(missing) => {
            eprintln!("test: skip: the Python package: {missing}");
            return Ok(0);
        }
    };
    let wheels = target().join("wheels");
    if wheels.is_dir() {
        fs::remove_dir_all(&wheels).with_context(|| wheels.display().to_string())?;
    }
    let mut build = command(&tools.program("maturin"));
    build.args(["build", "--quiet", "--manifest-path", "python/Cargo.toml", "--out"]).arg(&wheels);
    let code = exit_code(&mut build)?;
    if code != 0 {
        return Ok(code);
    }
    let mut install = tools.pip();
    install.args(["--force-reinstall", "--no-deps"]).args(built(&wheels)?);
    let code = exit_code(&mut install)?;
    if code != 0 {
        return Ok(code);
    }
    let mut tests = command(&tools.program("python"));
    tests.args(["-m", "unittest", "discover", "-s", "python/tests"]);
    let program = target().join("debug/forebay");
    if program.is_file() {
        tests.env("FOREBAY", root().join(program));
    }
    exit_code(&mut tests)
}

/// The wheels of a folder.
fn built(wheels: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(wheels).with_context(|| wheels.display().to_string())?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    Ok(paths.collect::<Result<_, _>>()?)
}

/// A Python of our own.
struct Tools(PathBuf);

/// The tools, installed if they are missing; or what is missing.
fn tools() -> Result<Result<Tools, String>> {
    if find_program("python3").is_none() {
        return Ok(Err("python3 is not installed".to_owned()));
    }
    let tools = Tools(root().join(target()).join("tools/venv"));
    if !tools.is_there() {
        eprintln!("test: installing {} into {}", PACKAGES.join(" and "), tools.0.display());
        let mut make = command("python3");
        make.args(["-m", "venv"]).arg(&tools.0).stdout(Stdio::null()).stderr(Stdio::null());
        if exit_code(&mut make)? != 0 {
            return Ok(Err("python3 has no module venv".to_owned()));
        }
        if exit_code(tools.pip().args(PACKAGES))? != 0 || !tools.is_there() {
            return Ok(Err(format!("pip cannot install {}", PACKAGES.join(" and "))));
        }
    }
    Ok(Ok(tools))
}

impl Tools {
    fn program(&self, name: &str) -> String {
        self.0.join("bin").join(name).display().to_string()
    }

    fn pip(&self) -> Command {
        let mut pip = command(&self.program("python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip
    }

    fn is_there(&self) -> bool {
        let mut python = Command::new(self.program("python"));
        python.args(["-c", "import numpy, maturin"]).stderr(Stdio::null());
        python.status().is_ok_and(|status| status.success())
    }
}

/// What pip is asked for.
const PACKAGES: [&str; 2] = ["maturin>=1.9,<2", "numpy>=1.24"];
