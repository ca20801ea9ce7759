//! A script performed by the running kernel.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use forebay_core::units::PAGE_SIZE;
use forebay_sim::plan::{Advice, Outcome, Step};

use super::seen::{Details, Windows};
use super::sys::{self, Mapping};
use super::trace::Tracer;

/// What the kernel did.
#[derive(Debug, Default)]
pub(super) struct Performance {
    /// What each step made resident.
    pub(super) outcomes: Vec<Outcome>,
    /// What each step did inside, if the kernel can be watched.
    pub(super) details: Option<Vec<Details>>,
    /// Whether pages left the cache that no step took away.
    pub(super) voided: bool,
}

/// Performs the script on the file at `path`, which becomes cold first.
pub(super) fn perform(
    path: &Path,
    script: &[Step],
    tracer: Option<&Tracer>,
) -> Result<Performance> {
    let mut kernel = Kernel::new(path)?;
    let mut performance =
        Performance { details: tracer.map(|_| Vec::new()), ..Performance::default() };
    if let Some(tracer) = tracer {
        tracer.take(kernel.inode)?;
    }
    for &step in script {
        let before = kernel.resident.clone();
        kernel.step(step).with_context(|| format!("cannot do '{step}'"))?;
        kernel.settle()?;
        let pages = before.iter().zip(&kernel.resident).zip(0..);
        let new = pages.filter(|((old, new), _)| !**old && **new).map(|(_, page)| page);
        let count = kernel.resident.iter().filter(|resident| **resident).count();
        performance.outcomes.push(Outcome::new(new, count as u64));

        let takes_away = matches!(step, Step::Drop | Step::Advise(Advice::DontNeed));
        let lost = before.iter().zip(&kernel.resident).any(|(old, new)| *old && !new);
        performance.voided |= lost && !takes_away;
        if let (Some(tracer), Some(details)) = (tracer, &mut performance.details) {
            let events = tracer.take(kernel.inode)?;
            performance.voided |= events.deleted > 0 && !takes_away;
            details.push(kernel.details(step, events));
        }
    }
    Ok(performance)
}

#[derive(Debug)]
struct Kernel {
    path: PathBuf,
    pages: u64,
    inode: u64,
    reading: File,
    /// The descriptor behind the touches and its mapping.
    touching: (File, Mapping),
    /// For looking only; it is never touched, so it maps nothing.
    watching: (File, Mapping),
    /// Which pages are in the page cache.
    resident: Vec<bool>,
    windows: Windows,
    buffer: Vec<u8>,
}

impl Kernel {
    fn new(path: &Path) -> Result<Self> {
        let reading =
            File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let found = reading.metadata()?;
        let pages = found.size().div_ceil(PAGE_SIZE);
        let mut kernel = Self {
            path: path.into(),
            pages,
            inode: found.ino(),
            reading,
            touching: mapped(path, pages)?,
            watching: mapped(path, pages)?,
            resident: Vec::new(),
            windows: Windows::default(),
            buffer: Vec::new(),
        };
        kernel.cool()?;
        Ok(kernel)
    }

    fn step(&mut self, step: Step) -> Result<()> {
        self.windows.begin(step);
        match step {
            Step::Read { offset, len } => self.read(offset, len)?,
            Step::Touch { page } => self.touching.1.touch(page),
            Step::Advise(advice) => sys::advise(&self.reading, advice)?,
            Step::Open => self.reading = File::open(&self.path)?,
            Step::Drop => {
                // Mapped pages cannot be dropped. The new mapping maps nothing until it is touched.
                self.touching = mapped(&self.path, self.pages)?;
                self.cool()?;
            }
        }
        Ok(())
    }

    fn read(&mut self, offset: u64, len: u64) -> Result<()> {
        let len = usize::try_from(len)?;
        if self.buffer.len() < len {
            // Not zeroes: memory that was never written is not there, and a copy to it may be cut.
            self.buffer = vec![1; len];
        }
        self.reading.read_at(&mut self.buffer[..len], offset)?;
        Ok(())
    }

    /// Drops the file's pages and waits until they are gone.
    fn cool(&mut self) -> Result<()> {
        for _ in 0..ATTEMPTS {
            sys::advise(&self.watching.0, Advice::DontNeed)?;
            if sys::cached_pages(&self.watching.0)? == 0 {
                return self.settle();
            }
            self.watching.0.sync_all()?;
            thread::sleep(PAUSE);
        }
        bail!("{} does not leave the page cache", self.path.display());
    }

    /// Waits until every cached page is up to date.
    fn settle(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            let cached = sys::cached_pages(&self.watching.0)?;
            let resident = self.watching.1.residency()?;
            if resident.iter().filter(|resident| **resident).count() as u64 == cached {
                self.resident = resident;
                return Ok(());
            }
            if start.elapsed() > SETTLE_MAX {
                bail!("pages of {} do not become up to date", self.path.display());
            }
            thread::sleep(PAUSE);
        }
    }

    fn details(&mut self, step: Step, events: super::trace::Events) -> Details {
        let windows = events.windows.into_iter();
        let windows = windows.filter(|window| self.windows.is_news(step, *window)).collect();
        Details { added: events.added, windows }
    }
}

fn mapped(path: &Path, pages: u64) -> Result<(File, Mapping)> {
    let file = File::open(path)?;
    let mapping = Mapping::new(&file, pages)?;
    Ok((file, mapping))
}

/// Between two looks at the page cache.
const PAUSE: Duration = Duration::from_micros(100);

/// How often pages that are still in use are dropped once more.
const ATTEMPTS: u32 = 1000;

/// The longest that a read may take.
const SETTLE_MAX: Duration = Duration::from_secs(20);
