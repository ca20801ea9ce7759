//! A million pushes: pages that our mount puts into the page cache unasked, without a hang.
//!
//! A push waits for the locks of its pages, and a read in flight holds the locks of its pages. A
//! server that gets this wrong deadlocks. Two processes therefore read one file, mostly from
//! beginning to end, at times a page here and there, while its pages are dropped repeatedly, until
//! enough pages have been pushed. Each reads where pages are being pushed for the other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;

use super::counted::pushed;
use super::mounted::Mounted;
use super::rounds::{Lane, drop_caches};
use super::ways::Way;
use crate::args::MountWorkload as Workload;

/// The number of pushes, and their duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pushes {
    pub(super) pages: u64,
    pub(super) seconds: f64,
}

/// Makes our mount push `pages` pages.
pub(super) fn drive(lane: &Lane<'_>, way: &Way, pages: u64, bar: &ProgressBar) -> Result<Pushes> {
    let image = lane.set.image(way.format);
    let folder = lane.folder.join("at");
    let mounted = Mounted::new(way, &image, &folder, &lane.set.forebay, lane.stop)?;
    bar.set_length(pages);
    let begin = Instant::now();
    let (mut done, mut progress) = (0, begin);
    for turn in 0_u64.. {
        drop_caches(&image, lane.stop)?;
        let work = if turn % 4 == 3 { Workload::Faults } else { Workload::Sequential };
        lane.beside(work, &folder.join("bulk"), turn, 2)
            .with_context(|| format!("after {done} pushed pages"))?;
        let now = pushed(&mounted.counted()?).context("our mount does not count its pushes")?;
        if now > done {
            (done, progress) = (now, Instant::now());
        }
        bar.set_position(done.min(pages));
        if done >= pages {
            break;
        }
        if progress.elapsed() > PATIENCE {
            bail!("no page was pushed for {} s, after {done}", PATIENCE.as_secs());
        }
    }
    mounted.end()?;
    Ok(Pushes { pages: done, seconds: begin.elapsed().as_secs_f64() })
}

/// Faults without a push for so long are a policy that does not push, or a queue that is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
