//! A scratch folder to run the program in, and its output as text.

use std::env;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::pty::{self, OpenptFlags};
use rustix::termios::{self, Winsize};
use snapbox::data::DataFormat;
use snapbox::{Assert, Data};
use tempfile::TempDir;

use crate::PROGRAM;

/// A folder with the files of a test; commands run in it and so name no path of this machine.
pub(crate) struct Scene {
    folder: TempDir,
    transcript: String,
}

impl Scene {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder can be made");
        Self { folder, transcript: String::new() }
    }

    /// With a file.
    pub(crate) fn file(self, name: &str, contents: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(name), contents).expect("a scratch file can be written");
        self
    }

    /// Where a file of the folder is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A call of the program, its words divided by blanks, without this process's environment.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(PROGRAM.1);
        command.args(line.split_whitespace());
        self.detached(command)
    }

    /// A call with at most `mebibytes` MiB of address space and a minute of processor time, so that
    /// neither waste nor an endless loop can pass.
    pub(crate) fn limited(&self, mebibytes: u64, line: &str) -> Command {
        let mut command = Command::new("sh");
        let script = format!("ulimit -v {} && ulimit -t 60 && exec \"$0\" \"$@\"", mebibytes << 10);
        command.args(["-c", &script, PROGRAM.1]).args(line.split_whitespace());
        self.detached(command)
    }

    fn detached(&self, mut command: Command) -> Command {
        command.current_dir(self.folder.path()).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program with empty input and records its output.
    pub(crate) fn forebay(&mut self, line: &str) -> &mut Self {
        let output = self.command(line).output().expect("the program runs");
        self.note(line, &output)
    }

    /// The same on a terminal of `columns` columns; no line is wider.
    pub(crate) fn forebay_at(&mut self, columns: u16, line: &str) -> &mut Self {
        let output = on_terminal(self.command(line), columns);
        for shown in stdout(&output).lines() {
            assert!(shown.chars().count() <= columns.into(), "{line}, {columns} columns:\n{shown}");
        }
        self.transcript += &format!("{columns} columns\n");
        self.note(line, &output)
    }

    /// The same with a text to read.
    pub(crate) fn forebay_reads(&mut self, text: &str, line: &str) -> &mut Self {
        let output = fed(self.command(line), text);
        let quoted = text.trim_end().replace('\n', "\\n");
        self.note(&format!("{line} <<< '{quoted}'"), &output)
    }

    /// A call that must be refused: a message, no table, exit code 2.
    pub(crate) fn refused(&mut self, line: &str) -> &mut Self {
        let output = self.command(line).output().expect("the program runs");
        assert_refused(line, &output);
        self.note(line, &output)
    }

    /// The same with a text to read.
    pub(crate) fn refused_reading(&mut self, text: &str, line: &str) -> &mut Self {
        assert_refused(line, &fed(self.command(line), text));
        self.forebay_reads(text, line)
    }

    /// Adds a call to the transcript: standard output unchanged, standard error behind `! `, the
    /// exit code behind `? ` unless it is 0.
    pub(crate) fn note(&mut self, line: &str, output: &Output) -> &mut Self {
        // Standard error without an error is help, or the first steps.
        if output.status.code() == Some(2) && stderr(output).contains("error: ") {
            assert_hinted(line, output);
        }
        self.transcript += &format!("$ {} {line}\n{}", PROGRAM.0, stdout(output));
        for line in stderr(output).lines() {
            self.transcript += &format!("! {line}\n");
        }
        match output.status.code() {
            Some(0) => {}
            Some(code) => self.transcript += &format!("? {code}\n"),
            None => self.transcript += &format!("? {}\n", output.status),
        }
        self.transcript.push('\n');
        self
    }

    /// Compares the transcript with its file; `change` takes out what differs from run to run.
    pub(crate) fn matches_after(&self, snapshot: &str, change: impl Fn(&str) -> String) {
        let version = |what| format!("{} {what}", PROGRAM.0);
        let (given, shown) = (version(env!("CARGO_PKG_VERSION")), version("VERSION"));
        let transcript = self.transcript.replace(&given, &shown);
        assert!(!transcript.contains("panicked"), "{transcript}");
        matches(&change(&transcript), snapshot);
    }

    /// Compares the transcript with its file.
    pub(crate) fn matches(&self, snapshot: &str) {
        self.matches_after(snapshot, str::to_owned);
    }
}

/// A copy of the program in the folder of a scene, where every user may run it. Another process
/// makes it: a child that is started in the meantime would inherit our descriptor, and a program
/// that is open for writing cannot run.
pub(crate) fn for_everybody(scene: &Scene) -> PathBuf {
    let program = scene.path("forebay");
    let mut copy = Command::new("cp");
    let copied = copy.arg(PROGRAM.1).arg(&program).status();
    assert!(copied.is_ok_and(|status| status.success()), "the program can be copied");
    // Only root may enter many scratch folders of tests and of builds.
    for path in [scene.path("."), program.clone()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    program
}

/// Compares a text with its file in `snapshots/`.
pub(crate) fn matches(text: &str, snapshot: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots").join(snapshot);
    let expected = Data::read_from(&path, Some(DataFormat::Text)).raw();
    Assert::new().action_env("SNAPSHOTS").eq(text.to_owned(), expected);
}

/// Runs a command whose standard output is a terminal of `columns` columns.
pub(crate) fn on_terminal(mut command: Command, columns: u16) -> Output {
    let master = pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal is free");
    pty::grantpt(&master).and_then(|()| pty::unlockpt(&master)).expect("the terminal is ours");
    let name = pty::ptsname(&master, Vec::new()).expect("a terminal has a name");
    let name = name.to_str().expect("its name is text");
    let terminal = File::options().write(true).open(name).expect("the terminal opens");
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    termios::tcsetwinsize(&terminal, size).expect("a terminal takes a size");
    let child = command.stdout(terminal).spawn().expect("the program runs");
    // The last descriptor of the terminal is the program's: reading ends with it.
    drop(command);
    let mut shown = Vec::new();
    // A terminal without a writer is an error to read.
    let _ = File::from(master).read_to_end(&mut shown);
    let output = child.wait_with_output().expect("the program ends");
    let text = String::from_utf8(shown).expect("what is shown is text");
    Output { stdout: text.replace("\r\n", "\n").into_bytes(), ..output }
}

/// Runs a command that reads a text.
pub(crate) fn fed(mut command: Command, text: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program runs");
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    // A program that has seen enough may be gone.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("the program ends")
}

/// The standard output.
pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("what is printed is text")
}

/// The standard error, without the estimate of what is left that a busy machine brings.
pub(crate) fn stderr(output: &Output) -> &str {
    let said = std::str::from_utf8(&output.stderr).expect("what is said is text");
    match said.split_once('\n') {
        Some((first, rest)) if is_estimate(first) => rest,
        Some(_) | None => said,
    }
}

/// Whether a line says how long a run will take; only a busy or slow machine prints it.
pub(crate) fn is_estimate(line: &str) -> bool {
    line.starts_with("note: ") && line.contains("; about ") && line.ends_with(" left")
}

/// A message with what to do next, no table, exit code 2.
pub(crate) fn assert_refused(line: &str, output: &Output) {
    let (out, said) = (stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(2), "{line}\n{out}{said}");
    assert_eq!(out, "", "{line}");
    assert!(said.lines().any(|line| line.starts_with("error: ")), "{line}\n{said}");
    assert_hinted(line, output);
}

/// Every error says what to do next.
fn assert_hinted(line: &str, output: &Output) {
    let said = stderr(output);
    let hints: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("hint: ")).collect();
    assert!(!hints.is_empty() && hints.iter().all(|hint| !hint.is_empty()), "{line}\n{said}");
}

/// Exit code 0 and empty standard error; returns the output.
pub(crate) fn printed(mut command: Command) -> String {
    let output = command.output().expect("the program runs");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{command:?}");
    stdout(&output).to_owned()
}

/// Whether a program is installed; if not, the skipped test is named.
pub(crate) fn has(program: &str, what: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        eprintln!("skip: {what}: {program} is not installed");
    }
    found
}
