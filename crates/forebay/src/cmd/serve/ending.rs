//! What ends a server, or has it reload: signals, its command, the end of its folder.
//!
//! ```text
//!   signals --> one thread --> process group of the command
//!                   |                    | its end
//!                   v                    v
//!                  occurrences --> main thread: reloads, or stops the server
//! ```

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use forebay_report::messages::note;
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process, kill_process_group};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::ERROR;

/// What ends the server.
#[derive(Debug)]
pub(super) struct Ending {
    sender: Sender<Occurrence>,
    receiver: Receiver<Occurrence>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
enum Occurrence {
    Reload,
    End,
    CommandEnded(io::Result<ExitStatus>),
}

#[derive(Debug, Default)]
struct State {
    /// Since when the server is ending.
    since: Option<Instant>,
    command: Option<RunningCommand>,
}

/// A command that has not ended.
#[derive(Clone, Copy, Debug)]
struct RunningCommand {
    shell: Pid,
    /// Its process group, unless processes that are not its own are in it.
    group: Option<Pid>,
    /// A terminal sends its SIGINT to it and to the server.
    in_foreground: bool,
}

/// What a signal leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    Reload,
    Ignore,
    /// The server ends, with its command, which gets this signal.
    End(Signal),
    /// The process ends at once.
    Exit,
}

impl Ending {
    /// Catches signals from now on.
    pub(super) fn new() -> Result<Self> {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot wait for signals")?;
        let ((sender, receiver), state) = (channel(), Arc::<Mutex<State>>::default());
        let (occurs, shared) = (sender.clone(), Arc::clone(&state));
        let watch = move || watch(signals, &occurs, &shared);
        thread::Builder::new().name("signals".to_owned()).spawn(watch)?;
        Ok(Self { sender, receiver, state })
    }

    /// Ends the server when it is called.
    pub(super) fn end_call(&self) -> impl FnOnce() + Send + use<> {
        let sender = self.sender.clone();
        // A server that has ended does not listen.
        move || drop(sender.send(Occurrence::End))
    }

    /// Runs a shell command, whose end ends the server. It gets a process group of its own, and
    /// with it all that it starts, unless a terminal would then keep it from reading.
    pub(super) fn run(&self, shell: &mut Command) -> Result<()> {
        let mut state = lock(&self.state);
        let in_foreground = is_foreground();
        if !in_foreground {
            shell.process_group(0);
        }
        let mut child = shell.spawn().context("cannot run a shell")?;
        let shell = Pid::from_child(&child);
        let is_leader = getpgrp() == getpid();
        let group = if in_foreground { is_leader.then(getpgrp) } else { Some(shell) };
        let command = RunningCommand { shell, group, in_foreground };
        if state.since.is_some() {
            command.signal(Signal::TERM);
        }
        state.command = Some(command);
        drop(state);
        let (sender, state) = (self.sender.clone(), Arc::clone(&self.state));
        let wait = move || {
            let status = child.wait();
            lock(&state).command = None;
            let _ = sender.send(Occurrence::CommandEnded(status));
        };
        thread::Builder::new().name("command".to_owned()).spawn(wait)?;
        Ok(())
    }

    /// Waits until the server has to end, and calls `reload` at each SIGHUP. Returns the exit code
    /// of the command, if there is one. A later signal ends the process.
    pub(super) fn wait(&self, runs_command: bool, reload: impl Fn()) -> Result<u8> {
        let code = loop {
            match self.receiver.recv().context("the thread for signals has ended")? {
                Occurrence::Reload => reload(),
                // The command decides.
                Occurrence::End if runs_command => {}
                Occurrence::End => break 0,
                Occurrence::CommandEnded(status) => {
                    break code(status.context("cannot wait for the command")?);
                }
            }
        };
        lock(&self.state).since.get_or_insert_with(Instant::now);
        Ok(code)
    }
}

impl State {
    fn react(&mut self, signal: i32, now: Instant) -> Reaction {
        if signal == SIGHUP {
            return Reaction::Reload;
        }
        if signal == SIGINT && self.command.is_some_and(|command| command.in_foreground) {
            // The command got it, too. If it ends, so does the server.
            return Reaction::Ignore;
        }
        match self.since {
            None => {
                self.since = Some(now);
                Reaction::End(if signal == SIGINT { Signal::INT } else { Signal::TERM })
            }
            // timeout(1) sends each signal twice: to its child, and to the group of that.
            Some(since) if now.saturating_duration_since(since) < SECOND_SIGNAL => Reaction::Ignore,
            Some(_) => Reaction::Exit,
        }
    }
}

impl RunningCommand {
    fn signal(&self, signal: Signal) {
        // It may have ended by now.
        let _ = match self.group {
            Some(group) => kill_process_group(group, signal),
            None => kill_process(self.shell, signal),
        };
    }
}

fn watch(mut signals: Signals, occurs: &Sender<Occurrence>, state: &Mutex<State>) {
    for signal in signals.forever() {
        let mut state = lock(state);
        let occurrence = match state.react(signal, Instant::now()) {
            Reaction::Ignore => continue,
            Reaction::Reload => Occurrence::Reload,
            Reaction::End(signal) => {
                if let Some(command) = state.command {
                    command.signal(signal);
                }
                Occurrence::End
            }
            Reaction::Exit => {
                note("ended by a second signal: what was not flushed may be lost");
                if let Some(command) = state.command {
                    command.signal(Signal::KILL);
                }
                process::exit(i32::from(ERROR));
            }
        };
        let _ = occurs.send(occurrence);
    }
}

/// Whether this process is in the group that its terminal reads for.
fn is_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()))
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(ERROR)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A signal that comes earlier after the first one is the same one.
const SECOND_SIGNAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_signal_is_one_that_comes_a_second_after_the_first() {
        let (mut state, begin) = (State::default(), Instant::now());
        let mut react = |signal, millis| state.react(signal, begin + Duration::from_millis(millis));
        assert_eq!(react(SIGHUP, 0), Reaction::Reload);
        assert_eq!(react(SIGTERM, 5), Reaction::End(Signal::TERM));
        assert_eq!(react(SIGTERM, 6), Reaction::Ignore);
        assert_eq!(react(SIGINT, 1004), Reaction::Ignore);
        assert_eq!(react(SIGHUP, 1004), Reaction::Reload);
        assert_eq!(react(SIGINT, 1005), Reaction::Exit);
    }

    #[test]
    fn a_command_in_the_foreground_decides_what_an_interrupt_ends() {
        let (shell, now) = (getpid(), Instant::now());
        for (in_foreground, expected) in
            [(true, Reaction::Ignore), (false, Reaction::End(Signal::INT))]
        {
            let command = Some(RunningCommand { shell, group: None, in_foreground });
            let mut state = State { since: None, command };
            assert_eq!(state.react(SIGINT, now), expected);
        }
    }
}
