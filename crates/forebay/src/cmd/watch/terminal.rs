//! The terminal: taken at the begin, given back at the end, on a panic, and on signals.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use super::keys::{Choice, Wish};
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
    // A panic gives the terminal back before it says anything.
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let done = show(&mut terminal, source, interval, page, end);
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
    let mut shown = None;
    let mut due = Instant::now() + interval;
    while !end.is_near() {
        terminal
            .draw(|frame| screen::draw(frame, shown.as_ref(), &choice))
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
            if !choice.paused || shown.is_none() {
                shown = Some(view);
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
