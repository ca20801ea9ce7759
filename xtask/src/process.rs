//! Commands run at the root of the workspace.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};

/// Prints a line on standard output, which may be full or closed.
pub(crate) fn say(line: &str) -> Result<()> {
    writeln!(io::stdout(), "{line}").context("cannot write to standard output")
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's root")
}

/// A command that will run at the root.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    command(&env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
}

/// Runs a command to its end and returns its exit code.
pub(crate) fn exit_code(command: &mut Command) -> Result<u8> {
    Ok(code_of(command.status().with_context(|| cannot_run(command))?))
}

/// What a command prints, without the line end; nothing if it failed.
pub(crate) fn output_of(command: &mut Command) -> Result<Option<String>> {
    let output = command.output().with_context(|| cannot_run(command))?;
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    Ok(output.status.success().then_some(text))
}

/// Where a program lies. Debian keeps some in directories that only root's `PATH` names.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

fn cannot_run(command: &Command) -> String {
    format!("cannot run {}", command.get_program().display())
}

/// The exit code; a command that a signal ended did not answer, which is an error.
fn code_of(status: ExitStatus) -> u8 {
    status.code().map_or(2, |code| u8::try_from(code).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("xtask/src/process.rs").is_file());
    }

    #[test]
    fn an_exit_code_is_handed_through() {
        let script = |text| exit_code(command("sh").args(["-c", text])).unwrap();
        assert_eq!((script("exit 0"), script("exit 101"), script("kill -9 $$")), (0, 101, 2));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = exit_code(&mut command("no-such-program")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run no-such-program");
        assert_eq!(find_program("no-such-program"), None);
    }
}
