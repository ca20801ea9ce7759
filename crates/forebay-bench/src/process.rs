//! Other programs: run with a time limit, ended when the user interrupts.

use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use forebay_report::messages::Complaint;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The `forebay` that is measured.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredProgram(PathBuf);

impl MeasuredProgram {
    /// The one at a path, or the one beside this program.
    pub(crate) fn find(named: Option<&Path>) -> Result<Self> {
        let path = match named {
            Some(named) => named.to_owned(),
            None => env::current_exe()?.with_file_name("forebay"),
        };
        if !path.is_file() {
            let what = format!("{} is not there to be measured", path.display());
            bail!(Complaint::new(what).hint(
                "`cargo xtask bench` builds it beside this program; --forebay names another one"
            ));
        }
        Ok(Self(path.canonicalize()?))
    }

    /// A call of it.
    pub(crate) fn command(&self) -> Command {
        Command::new(&self.0)
    }

    /// Its path, as text.
    pub(crate) fn text(&self) -> Result<&str> {
        self.0.to_str().with_context(|| format!("{}: not text", self.0.display()))
    }
}

/// Whether the user interrupts. The second signal ends the process at once; its mounts are in a
/// private namespace and end with it.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop))?;
            flag::register(signal, Arc::clone(&stop))?;
        }
        Ok(Self(stop))
    }

    /// Is never stopped.
    pub(crate) fn never() -> Self {
        Self(Arc::default())
    }

    /// Fails if it is time to end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

/// A program's standard output; its standard error is part of the error.
pub(crate) fn answer(mut command: Command, limit: Duration, stop: &Stop) -> Result<String> {
    let shown = shown(&command);
    let child = start(&mut command).with_context(|| format!("cannot run {shown}"))?;
    wait(child, limit, stop).with_context(|| shown)
}

/// Starts a program whose answer will be waited for.
pub(crate) fn start(command: &mut Command) -> Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().display().to_string();
    command.spawn().with_context(|| format!("cannot run {program}"))
}

/// Waits for a program, at most so long.
pub(crate) fn wait(mut child: Child, limit: Duration, stop: &Stop) -> Result<String> {
    let (out, said) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let stopped = stop.check();
        if stopped.is_err() || begin.elapsed() > limit {
            let _ = child.kill();
            // One that hangs in the kernel ends when its file system is gone; it is not waited for.
            stopped?;
            bail!("no answer within {} s", limit.as_secs());
        }
        thread::sleep(LOOK);
    };
    let text = |thread: thread::JoinHandle<String>| thread.join().unwrap_or_default();
    let (out, said) = (text(out), text(said));
    if !status.success() {
        bail!("{status}: {}", complaint(&said));
    }
    Ok(out)
}

/// Reads what a program says, so that it never waits for us.
fn drain(from: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            // The output before a failure is all there is.
            let _ = from.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Where a program is, looked for as a shell does, and where administrators have theirs.
pub(crate) fn find(program: &str) -> bool {
    let path = env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"]);
    folders.into_iter().any(|folder| Path::new(folder).join(program).is_file())
}

/// A program with the path that administrators have.
pub(crate) fn program(name: &str) -> Command {
    let path = env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.env("PATH", format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin")).env("LC_ALL", "C");
    command
}

/// A server that ends with this process, its words in a file.
pub(crate) fn serve(name: &str, arguments: &[String], log: &Path) -> Result<Child> {
    let mut command = if find("setpriv") {
        let mut command = program("setpriv");
        command.args(["--pdeathsig", "KILL", "--", name]);
        command
    } else {
        program(name)
    };
    let log = File::create(log).with_context(|| log.display().to_string())?;
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("cannot run {name}"))
}

/// What a server said about its end.
pub(crate) fn last_words(log: &Path) -> String {
    complaint(&fs::read_to_string(log).unwrap_or_default())
}

/// The beginning of a command, which says enough.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.take(4).map(|word| word.display().to_string()).collect();
    words.join(" ")
}

/// The line of a program's output that describes the error.
fn complaint(said: &str) -> String {
    let line = said.lines().find(|line| line.starts_with("error")).or(said.lines().next_back());
    line.unwrap_or("it said nothing").trim().to_owned()
}

/// What a shell reports for a program that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// Short compared with any limit. Parts measure their own times, so this wait does not count.
const LOOK: Duration = Duration::from_millis(1);
