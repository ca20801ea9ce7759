//! `forebay watch`: what the running kernel's I/O path does, live.
//!
//! ```text
//!   source ---> View ---> panes ---> screen   a terminal, with keys
//!                   \           \--> text     --once
//!                    \---> json               --json
//!                     \--> serve              --prometheus
//! ```
//!
//! Only the settings of a private trace instance are written to the kernel. The instance is removed
//! at the end; one that a killed program has left, at the next start.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use forebay_live::view::View;
use forebay_report::messages::Complaint;
use forebay_report::screen::is_dumb;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use self::serve::Endpoint;
use self::source::Source;
use crate::args::watch::Watch;

mod cell;
mod format;
mod history;
mod json;
mod keys;
mod metrics;
mod names;
mod panes;
mod screen;
pub(in crate::cmd) mod serve;
mod source;
mod terminal;
mod text;

/// Shows, prints or serves.
pub(crate) fn run(arguments: &Watch) -> Result<u8> {
    let endpoint = arguments.prometheus.as_deref().map(Endpoint::bind).transpose()?;
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let has_screen = is_terminal && !is_dumb();
    let is_shown = !arguments.once && !arguments.json;
    if is_shown && !has_screen && endpoint.is_none() {
        let what = match is_terminal {
            true => "the terminal cannot place text: TERM is dumb or not set",
            false => "standard input and output are not a terminal",
        };
        let hint = "--once prints tables, --json an object an interval";
        bail!(Complaint::new(what).hint(hint));
    }
    let end = End::on_signals()?;
    let mut source = Source::new(!arguments.no_trace)?;
    let interval = arguments.interval;
    let page = endpoint.map(Endpoint::start).transpose()?;
    if is_shown && has_screen {
        terminal::run(&mut source, interval, page.as_ref(), &end)?;
    } else {
        print(arguments, &mut source, interval, page.as_ref(), &end)?;
    }
    Ok(0)
}

/// Without a terminal: one view after the other.
fn print(
    arguments: &Watch,
    source: &mut Source,
    interval: Duration,
    page: Option<&serve::Page>,
    end: &End,
) -> Result<()> {
    while let Some(view) = wait_for_view(source, interval, end)? {
        if let Some(page) = page {
            page.set(metrics::text(&view));
        } else {
            let text = match (arguments.json, arguments.once) {
                (true, true) => format!("{:#}\n", json::object(&view)),
                (true, false) => format!("{}\n", json::object(&view)),
                (false, _) => text::tables(&view),
            };
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write")?;
        }
        if arguments.once {
            break;
        }
    }
    Ok(())
}

/// The next view; none if it is to end.
fn wait_for_view(source: &mut Source, interval: Duration, end: &End) -> Result<Option<View>> {
    let due = Instant::now() + interval;
    while let Some(left) = due.checked_duration_since(Instant::now()).filter(|it| !it.is_zero()) {
        thread::sleep(left.min(TICK));
        if end.is_near() {
            return Ok(None);
        }
        source.collect()?;
    }
    source.view().map(Some)
}

/// Whether a signal requests the end of the program.
#[derive(Debug)]
struct End(Arc<AtomicBool>);

impl End {
    fn on_signals() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2] {
            // The second one ends the program at once, whatever it does.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
                .context("cannot wait for signals")?;
        }
        Ok(Self(flag))
    }

    fn is_near(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// How often events are taken from the trace buffer, and keys and signals are noticed.
const TICK: Duration = Duration::from_millis(200);
