//! Jobs of fio, read from its job files and run request by request.
//!
//! A job file is text: sections of options. [`JobFile::parse`] returns the options and their
//! meaning, or names the line that it refuses. [`Job::stream`] then generates the requests, and
//! they are the requests of the real tool: same file, offset, length and direction, in the same
//! order, with syncs at the same positions. Time only matters for the rates of a job, which
//! [`Stream::step`] keeps. A driver issues the requests, waits for them as [`Job::depth`] allows,
//! pauses by [`Job::thinktime`] and stops by [`Job::runtime`].
//!
//! ```text
//!  text ──parse.rs──► sections ──options.rs──► settings ──run.rs──► jobs ──stream.rs──► requests
//!                                   │ value.rs: units        │ plan.rs:   random.rs, offsets.rs,
//!                                   │ words.rs: choices      └ resolved   map.rs, skew.rs,
//!                                   └ error.rs: file and line             sync.rs, rate.rs
//! ```
//!
//! Source:     fio 3.33, by running it and by reading its public source: `init.c`, `options.c`,
//!             `parse.c`, `io_u.c`, `backend.c`, `filesetup.c`, `lib/rand.c`; 3.35 only by reading
//! Behaviour:  The stream of every job equals what the installed fio logs with `write_iolog`.
//! Differs:    Options that are not reproduced are refused. `bssplit` is sorted by share, as
//!             fio sorts it, and not by size. All directions take the seed of place 10 to choose
//!             between sequential and random. With `randseed` given, the first job of a section
//!             still takes the fixed seed for its offsets up to 3.34; only its clones take the
//!             table's.
//! Not for:    trim, verify, zones, logs to replay

mod error;
mod job;
mod known;
mod map;
mod offsets;
mod options;
mod parse;
mod plan;
mod random;
mod rate;
mod run;
mod settings;
mod skew;
mod stream;
mod sync;
mod value;
mod words;

pub use error::{JobError, JobErrorKind, Note};
pub use job::{FileSpec, Job};
pub use known::{KnownOption, Treatment, known_options};
pub use skew::Distribution;
pub use stream::{Action, Io, Stream};
pub use sync::{Sync, SyncKind};
pub use value::{SIZE_LETTERS, TIME_UNITS};
pub use words::{Advice, Engine, Mode};

use run::Run;
use settings::Settings;

/// The jobs of one file, clones counted singly.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// The jobs in the order of their numbers.
    pub jobs: Vec<Job>,
    /// The options that were accepted and have no effect.
    pub notes: Vec<Note>,
}

impl JobFile {
    /// Reads `text`; errors call it `name`.
    pub fn parse(text: &str, name: &str) -> Result<Self, JobError> {
        let mut run = Run::new(name);
        let mut defaults = Settings::default();
        for section in parse::sections(text, name)? {
            let mut settings = defaults.clone();
            options::apply(&mut settings, &section.entries, &mut run.notes).map_err(
                |(line, option, kind)| {
                    let (file, kind) = (name.to_owned(), Box::new(kind));
                    JobError { file, line, option, kind }
                },
            )?;
            if section.is_global() {
                defaults = settings;
            } else {
                run.add(&section, settings)?;
            }
        }
        if run.jobs.is_empty() {
            let (file, kind) = (name.to_owned(), Box::new(JobErrorKind::NoJob));
            return Err(JobError { file, line: 1, option: String::new(), kind });
        }
        Ok(Self { jobs: run.jobs, notes: run.notes })
    }
}

/// Which fio the requests are compared with.
///
/// Version 3.35 changed the seeds of random offsets; everything else is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// fio up to 3.34.
    V3_34,
    /// fio from 3.35 on.
    #[default]
    V3_35,
}

impl Compat {
    /// The variant for a version as `fio --version` prints it; the newest if it is not understood.
    pub fn for_version(version: &str) -> Self {
        let mut parts = version.trim().trim_start_matches("fio-").split(['.', '-']);
        let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok());
        match (number(), number()) {
            (Some(major), Some(minor)) if (major, minor) < (3, 35) => Self::V3_34,
            (Some(_) | None, Some(_) | None) => Self::V3_35,
        }
    }
}

#[cfg(test)]
mod tests;
