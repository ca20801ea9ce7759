//! The terminal: taken at the begin, given back at the end, on a panic, and on signals that end the
//! program.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::history::History;
use super::keys::{Choice, Wish};
use super::screen::Shown;
use super::serve::Page;
use super::source::Source;
use super::{End, TICK, metrics, screen};

/// Shows views until the user has seen enough.
pub(super) fn run(
    source: &mut Source,
    interval: Duration,
    page: Option<&Page>,
    end: &End,
) -> Result<()> {
    with_terminal(|terminal| show(terminal, source, interval, page, end))
}

/// Takes the terminal for as long as `body` runs. A panic gives it back before it says anything.
fn with_terminal<T>(body: impl FnOnce(&mut DefaultTerminal) -> Result<T>) -> Result<T> {
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let done = body(&mut terminal);
    ratatui::try_restore().context("cannot give the terminal back")?;
    done
}

fn show(
    terminal: &mut DefaultTerminal,
    source: &mut Source,
    interval: Duration,
    page: Option<&Page>,
    end: &End,
) -> Result<()> {
    let keyboard = keyboard().context("cannot read keys")?;
    let mut choice = Choice::default();
    let mut history = History::default();
    let mut shown: Option<Shown> = None;
    // https://no-color.org
    let is_coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut due = Instant::now() + interval;
    while !end.is_near() {
        if let Some(shown) = &mut shown
            && shown.files.as_ref().map(|files| files.process) != choice.process
        {
            shown.files = choice.process.map(|process| source.files_of(process));
        }
        terminal
            .draw(|frame| screen::draw(frame, shown.as_ref(), &mut choice))
            .context("cannot draw")?;
        if wait(&keyboard, &mut choice, due)? == Wish::Quit {
            break;
        }
        source.collect()?;
        if Instant::now() >= due {
            let view = source.view()?;
            if let Some(page) = page {
                page.set(metrics::text(&view));
            }
            history.record(&view);
            if !choice.paused || shown.is_none() {
                let files = choice.process.map(|process| source.files_of(process));
                shown = Some(Shown { view, history: history.clone(), files, is_coloured });
            }
            due = Instant::now() + interval;
        }
    }
    Ok(())
}

/// What the library reads keys from.
fn keyboard() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return stdin.as_fd().try_clone_to_owned();
    }
    File::open("/dev/tty").map(OwnedFd::from)
}

/// Waits briefly for keys, and processes them. Ends if the terminal is gone, from which the library
/// would read endlessly.
fn wait(keyboard: &OwnedFd, choice: &mut Choice, due: Instant) -> Result<Wish> {
    let patience = due.saturating_duration_since(Instant::now()).min(TICK);
    let patience = Timespec { tv_sec: 0, tv_nsec: patience.as_nanos().try_into().unwrap_or(0) };
    let mut polled = [PollFd::new(keyboard, PollFlags::IN)];
    match poll(&mut polled, Some(&patience)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error).context("cannot wait for keys"),
    }
    if polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Ok(Wish::Quit);
    }
    while event::poll(Duration::ZERO).context("cannot read keys")? {
        if let Event::Key(key) = event::read().context("cannot read keys")?
            && choice.key(key) == Wish::Quit
        {
            return Ok(Wish::Quit);
        }
    }
    Ok(Wish::Stay)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

    use super::*;

    /// How the terminal treats input and output.
    fn modes(terminal: impl AsFd) -> (u32, u32, u32) {
        let found = tcgetattr(terminal).unwrap();
        let bits = (found.input_modes.bits(), found.output_modes.bits(), found.local_modes.bits());
        (bits.0, bits.1, bits.2)
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_says_anything() {
        let (ours, theirs) = terminal();
        let before = modes(&theirs);
        let status = child_on(&theirs, "panic").status().unwrap();
        let after = modes(&theirs);
        drop(theirs);
        let mut said = Vec::new();
        // When the other side is closed, the end is an error.
        let _ = File::from(ours).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!status.success(), "{said}");
        let place = |what: &str| said.find(what).unwrap_or_else(|| panic!("no {what:?}: {said:?}"));
        let (taken, back) = (place("\x1b[?1049h"), place("\x1b[?1049l"));
        assert!(place(RAW) > taken && place(RAW) < back, "{said:?}");
        assert!(place("in the midst of a figure") > back && taken < back, "{said:?}");
        assert_eq!(after, before, "lines are edited and shown as before");
    }

    /// A terminal that was closed while a watch ran used a whole processor from then on.
    #[test]
    fn a_terminal_that_is_gone_ends_the_wait_for_keys() {
        let (ours, theirs) = terminal();
        let mut child = child_on(&theirs, "wait").spawn().unwrap();
        drop(theirs);
        let mut ours = File::from(ours);
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains(RAW) {
            let mut bytes = [0; 256];
            let len = ours.read(&mut bytes).unwrap();
            said.extend_from_slice(&bytes[..len]);
        }
        drop(ours);
        // What the child prints has no reader, so its exit says only that it has ended.
        child.wait().unwrap();
    }

    /// Our side of a new terminal, and the side of a program.
    fn terminal() -> (OwnedFd, OwnedFd) {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).unwrap();
        (ours, theirs)
    }

    /// This program again, as [`child`], on a terminal.
    fn child_on(terminal: &OwnedFd, what: &str) -> Command {
        let stream = || Stdio::from(terminal.try_clone().unwrap());
        let name = "cmd::watch::terminal::tests::child";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(TOLD, what);
        child.stdin(stream()).stdout(stream()).stderr(stream());
        child
    }

    /// The child: not a test, and without its argument it does nothing.
    #[test]
    fn child() {
        let Some(what) = std::env::var_os(TOLD) else { return };
        let before = modes(std::io::stdin());
        if what == "wait" {
            let keyboard = keyboard().unwrap();
            let _ = with_terminal(|_| {
                println!("{RAW}");
                let (mut choice, due) =
                    (Choice::default(), Instant::now() + Duration::from_secs(600));
                while wait(&keyboard, &mut choice, due)? == Wish::Stay {}
                Ok(())
            });
            return;
        }
        let done: Result<()> = with_terminal(|_| {
            if modes(std::io::stdin()) != before {
                println!("{RAW}");
            }
            panic!("in the midst of a figure");
        });
        done.unwrap();
    }

    const TOLD: &str = "FOREBAY_TERMINAL_CHILD";
    const RAW: &str = "the terminal is taken";
}
