//! Commands run at the root of the workspace.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Prints a line on standard output, which may be full or closed.
pub(crate) fn say(line: &str) -> Result<()> {
    writeln!(io::stdout(), "{line}").context("cannot write to standard output")
}

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's root")
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
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

/// Runs a program to its end and returns its output.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String> {
    finish(command(program).args(arguments))
}

/// Runs a command to its end and returns its output.
pub(crate) fn finish(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| cannot_run(command))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("'{}' failed: {}", line_of(command), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is no text", path.display()))?;
    Ok(text.into())
}

/// What a command prints, without the line end; nothing if it failed.
pub(crate) fn output_of(command: &mut Command) -> Result<Option<String>> {
    let output = command.output().with_context(|| cannot_run(command))?;
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    Ok(output.status.success().then_some(text))
}

/// Becomes true when a signal requests the end, so that guards still restore everything.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// Where a program lies. Debian keeps some in directories that only root's `PATH` names.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

/// Program and arguments as they are typed.
fn line_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
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
    fn a_program_that_fails_is_quoted() {
        let error = run("sh", &["-c", "echo no >&2; exit 3"]).unwrap_err();
        assert_eq!(error.to_string(), "'sh -c echo no >&2; exit 3' failed: no");
        assert_eq!(run("echo", &["yes"]).unwrap(), "yes\n");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = exit_code(&mut command("no-such-program")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run no-such-program");
        assert_eq!(find_program("no-such-program"), None);
    }
}
