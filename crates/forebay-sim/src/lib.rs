//! Virtual time: modelled machines, devices and workloads around the one I/O path.
//!
//! ```text
//!   machine file --> Machine --> Device, prices --+
//!   job file ------> Job -----> tasks ------------+--> Scenario --> drive(engine, SimWorld)
//!   typed policies ----------> PolicySet ---------+                        |
//!                                                        calls, as they end, and an Outcome
//! ```
//!
//! A [`Scenario`](scenario::Scenario) is one run. A [`paper`] is many of them as data, and a
//! [`report`] holds published and measured figures. [`checked`] and [`swarm`] try to break the
//! path. Nothing here reads a clock or draws a number without a seed.
//!
//! ```
//! use forebay_core::readahead::Spec;
//! use forebay_sim::fio::{Compat, JobFile};
//! use forebay_sim::machine::Machine;
//! use forebay_sim::scenario::{NewFile, PolicySet, Scenario};
//! use forebay_sim::workload::job::{Access, groups};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "
//! [random]
//! rw=randread
//! bs=128k
//! nrfiles=128
//! size=4g
//! number_ios=1000
//! fadvise_hint=0
//! ";
//! let job_file = JobFile::parse(text, "mine.fio")?;
//! let mut machine = Machine::builtin("desktop-2004")?;
//! machine.set("device.rate_outer", "40MB/s")?;
//!
//! let mut elapsed = Vec::new();
//! for readahead in ["linux-2.6.7", "request-size"] {
//!     let own = PolicySet::of(&machine.kernel()).expect("machines name policies that exist");
//!     let policies = PolicySet { readahead: Spec::parse(readahead)?, ..own };
//!     let group = &groups(&job_file.jobs, "mine.fio", Access::Write)?[0];
//!     let files: Vec<_> = group.sizes().iter().map(|bytes| NewFile::fixed(*bytes)).collect();
//!     let mut scenario = Scenario::new(&machine, &policies, 1, group.task_count(), &files)?;
//!     let tasks = group.tasks(Compat::V3_35, |file| scenario.open(file));
//!     let mut reads = 0;
//!     let (outcome, _) = scenario.run(tasks, &mut |finished| {
//!         reads += u32::from(finished.result == Ok(128 << 10));
//!     });
//!     assert_eq!(reads, 1000);
//!     elapsed.push(outcome.elapsed);
//! }
//! assert!(elapsed[1] < elapsed[0], "the request says how much is wanted");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod checked;
mod cpu;
pub mod device;
pub mod fio;
pub mod machine;
pub mod mounted;
pub mod packed;
pub mod paper;
pub mod plan;
pub mod price;
pub mod probe;
pub mod replay;
pub mod report;
pub mod rng;
pub mod scenario;
pub mod span;
pub mod stats;
pub mod swarm;
pub mod tally;
pub mod workload;
pub mod world;
