//! The terminal: taken at the begin, given back at the end, on a panic, and on signals.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

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
        if wait(&mut choice, due)? == Wish::Quit {
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

/// Waits a little while for keys, and takes in those that there are.
fn wait(choice: &mut Choice, due: Instant) -> Result<Wish> {
    let mut patience = due.saturating_duration_since(Instant::now()).min(TICK);
    // A signal ends the wait without an event.
    while event::poll(patience).context("cannot read keys")? {
        if let Event::Key(key) = event::read().context("cannot read keys")?
            && choice.key(key) == Wish::Quit
        {
            return Ok(Wish::Quit);
        }
        patience = Duration::ZERO;
    }
    Ok(Wish::Stay)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

    use super::*;

    /// How the terminal treats what is typed and printed.
    fn modes(terminal: impl AsFd) -> (u32, u32, u32) {
        let found = tcgetattr(terminal).unwrap();
        let bits = (found.input_modes.bits(), found.output_modes.bits(), found.local_modes.bits());
        (bits.0, bits.1, bits.2)
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_says_anything() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).unwrap();
        let before = modes(&theirs);
        let stream = || Stdio::from(theirs.try_clone().unwrap());
        let name = "cmd::watch::terminal::tests::child";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(TOLD, "panic");
        let status = child.stdin(stream()).stdout(stream()).stderr(stream()).status().unwrap();
        let after = modes(&theirs);
        drop((theirs, child));
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

    /// The child: not a test, and without its argument it does nothing.
    #[test]
    fn child() {
        if std::env::var_os(TOLD).is_none() {
            return;
        }
        let before = modes(std::io::stdin());
        let done: Result<()> = with_terminal(|_| {
            if modes(std::io::stdin()) != before {
                println!("{RAW}");
            }
            panic!("in the midst of a figure");
        });
        done.unwrap();
    }

    const TOLD: &str = "FOREBAY_CHILD_PANICS";
    const RAW: &str = "the terminal is taken";
}
