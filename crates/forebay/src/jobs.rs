//! What `simulate` and `run` have in common: a job file in, a row for each of its jobs out.

use std::path::Path;

use anyhow::Result;
use forebay_core::io::Op;
use forebay_core::time::{Duration, Instant};
use forebay_core::units::PAGE_SIZE;
use forebay_core::workload::Finished;
use forebay_sim::fio::{Compat, JobFile};
use forebay_sim::stats::{Latencies, Summary};
use forebay_sim::workload::job::Group;
use forebay_sim::world::Pauses;
use indicatif::ProgressBar;

use crate::args::FioCompat;
use crate::choice;
use crate::messages::{self, Complaint};
use crate::results::{ALL, Results, Row, Run};
use crate::slots::PerSlot;

/// Reads a job file; ignored options are reported on standard error.
pub(crate) fn read(path: &Path) -> Result<JobFile> {
    let name = choice::name(path);
    let mut parsed = JobFile::parse(&choice::read(path)?, &name).map_err(Complaint::from)?;
    parsed.notes.sort_by_key(|note| note.line);
    for note in &parsed.notes {
        messages::note(&format!("{name}: {note}"));
    }
    Ok(parsed)
}

impl From<FioCompat> for Compat {
    fn from(typed: FioCompat) -> Self {
        match typed {
            FioCompat::Older => Self::V3_34,
            FioCompat::Newer => Self::V3_35,
        }
    }
}

/// The calls of one run, job by job.
pub(crate) struct Tally {
    jobs: Vec<(String, Share)>,
    /// The tasks of the present group.
    tasks: Vec<Member>,
    elapsed: Duration,
    run: Run,
    /// The lengths of all pauses.
    pause_lengths: Counted,
    calls: u64,
    progress: ProgressBar,
}

/// A task of the present group.
struct Member {
    /// Its job, by the place in the list.
    job: usize,
    /// When its first call was issued, and when its last one ended.
    span: Option<(Instant, Instant)>,
}

/// What one job came to.
#[derive(Default)]
struct Share {
    reads: Counted,
    writes: Counted,
    syncs: Counted,
    pauses: Pauses,
    bytes: u64,
    errors: u64,
    /// From its first call to the end of its last, summed over its groups.
    elapsed: Duration,
    /// The same for each of its tasks, summed.
    alive: Duration,
    /// When its first call of the present group was issued, and when its last one ended.
    span: Option<(Instant, Instant)>,
}

/// Latencies, which take memory, of jobs that have some.
#[derive(Default)]
struct Counted(Option<Box<Latencies>>);

/// How a group ended.
#[derive(Default)]
pub(crate) struct Ended<'a> {
    pub(crate) elapsed: Duration,
    pub(crate) run: Run,
    /// What each task slept because a throttle told it to, up to the last one that did.
    pub(crate) pauses: &'a [Pauses],
    /// The lengths of all pauses.
    pub(crate) pause_lengths: Option<&'a Latencies>,
}

impl Tally {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        let progress = messages::spinner();
        let (jobs, tasks, run) = (Vec::new(), Vec::new(), Run::default());
        let (elapsed, pause_lengths, calls) = (Duration::ZERO, Counted::default(), 0);
        Self { jobs, tasks, elapsed, run, pause_lengths, calls, progress }
    }

    /// The next group is about to run.
    pub(crate) fn begin(&mut self, group: &Group<'_>) {
        self.tasks.clear();
        for name in group.names() {
            let known = self.jobs.iter().position(|(known, _)| known == name);
            let job = known.unwrap_or_else(|| {
                self.jobs.push((name.to_owned(), Share::default()));
                self.jobs.len() - 1
            });
            self.tasks.push(Member { job, span: None });
        }
    }

    /// A call has ended. Advice is not counted: it takes no time worth telling.
    pub(crate) fn count(&mut self, finished: &Finished) {
        // What makes all safe after the last task belongs to no job.
        let Some(member) = self.tasks.get_mut(finished.task.index()) else { return };
        let share = &mut self.jobs[member.job].1;
        let latencies = match finished.op {
            Op::Read { .. } | Op::Fault { .. } => &mut share.reads,
            Op::Write { .. } => &mut share.writes,
            Op::Sync { .. } => &mut share.syncs,
            Op::Truncate { .. } | Op::Discard { .. } | Op::Direct { .. } | Op::Advise { .. } => {
                return;
            }
        };
        latencies.all().record(finished.latency());
        for span in [&mut share.span, &mut member.span] {
            let first = span.map_or(finished.issued, |(first, _)| first);
            *span = Some((first, finished.done));
        }
        match (finished.result, finished.op) {
            // A sync transfers no bytes itself.
            (Ok(_), Op::Sync { .. }) => {}
            // A touch of a mapped page gives the caller the page.
            (Ok(_), Op::Fault { .. }) => share.bytes += PAGE_SIZE,
            (Ok(bytes), _) => share.bytes += bytes,
            (Err(_), _) => share.errors += 1,
        }
        // Often enough for a slow device, seldom enough for a simulated one.
        const EVERY: u64 = 64;
        self.calls += 1;
        if self.calls.is_multiple_of(EVERY) {
            self.progress.inc(EVERY);
        }
    }

    /// The group has run.
    pub(crate) fn end(&mut self, ended: &Ended<'_>) {
        self.elapsed += ended.elapsed;
        self.run.add(&ended.run);
        if let Some(lengths) = ended.pause_lengths.filter(|lengths| lengths.count() > 0) {
            self.pause_lengths.all().merge(lengths);
        }
        for (_, share) in &mut self.jobs {
            share.elapsed += length(share.span.take());
        }
        for (place, member) in self.tasks.iter_mut().enumerate() {
            let share = &mut self.jobs[member.job].1;
            share.alive += length(member.span.take());
            share.pauses += ended.pauses.get(place).copied().unwrap_or_default();
        }
    }

    /// Adds a line for each job, if there are several, and one for all.
    pub(crate) fn report(self, labels: &PerSlot<Option<String>>, results: &mut Results) {
        self.progress.finish_and_clear();
        let run = results.run_name(labels);
        let Results { rows, drawn, .. } = results;
        let mut draw = |name: &str, share: &Share| {
            if let Some(drawn) = drawn {
                drawn.add(&run, name, share.latencies());
            }
        };
        if let [(name, share)] = &self.jobs[..] {
            let pause_lengths = self.pause_lengths.summary();
            draw(name, share);
            rows.push(Row { run: Some(self.run), pause_lengths, ..share.row(labels, name) });
            return;
        }
        let mut all = Share::default();
        for (name, share) in &self.jobs {
            draw(name, share);
            rows.push(share.row(labels, name));
            all.merge(share);
        }
        all.elapsed = self.elapsed;
        draw(ALL, &all);
        let pause_lengths = self.pause_lengths.summary();
        rows.push(Row { run: Some(self.run), pause_lengths, ..all.row(labels, ALL) });
    }
}

impl Share {
    fn merge(&mut self, other: &Self) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.syncs.merge(&other.syncs);
        self.pauses += other.pauses;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.alive += other.alive;
    }

    /// How long its calls took, by kind.
    fn latencies(&self) -> [(&'static str, Option<&Latencies>); 3] {
        [("read", &self.reads), ("write", &self.writes), ("sync", &self.syncs)]
            .map(|(kind, counted)| (kind, counted.0.as_deref()))
    }

    fn row(&self, labels: &PerSlot<Option<String>>, job: &str) -> Row {
        Row {
            labels: labels.clone(),
            job: job.to_owned(),
            bytes: self.bytes,
            errors: self.errors,
            elapsed: self.elapsed,
            reads: self.reads.summary(),
            writes: self.writes.summary(),
            syncs: self.syncs.summary(),
            pauses: self.pauses,
            alive: self.alive,
            run: None,
            pause_lengths: Summary::default(),
        }
    }
}

impl Counted {
    fn all(&mut self) -> &mut Latencies {
        self.0.get_or_insert_default()
    }

    fn merge(&mut self, other: &Self) {
        if let Some(other) = &other.0 {
            self.all().merge(other);
        }
    }

    fn summary(&self) -> Summary {
        self.0.as_ref().map_or_else(Summary::default, |latencies| latencies.summary())
    }
}

fn length(span: Option<(Instant, Instant)>) -> Duration {
    span.map_or(Duration::ZERO, |(first, last)| last.since(first))
}
