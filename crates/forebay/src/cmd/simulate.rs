//! `forebay simulate`: a fio job in virtual time.

use std::io;

use anyhow::Result;
use forebay_core::readahead::Spec;
use forebay_core::workload::Finished;
use forebay_sim::fio::Compat;
use forebay_sim::machine::Machine;
use forebay_sim::scenario::{NewFile, PolicySet, Scenario};
use forebay_sim::workload::job::{Access, Group, groups};

use crate::args::Simulate;
use crate::choice;
use crate::jobs::{self, Tally};
use crate::messages::Complaint;

/// Runs the job once with each policy and prints one table.
pub(crate) fn run(arguments: &Simulate) -> Result<u8> {
    let machine = choice::machine(&arguments.machine, &arguments.set)?;
    let kernel = machine.kernel();
    let policies = choice::readahead(&arguments.policies, &kernel.readahead)?;
    let parsed = jobs::read(&arguments.job)?;
    let name = choice::name(&arguments.job);
    let groups = groups(&parsed.jobs, &name, Access::Write)?;
    let compat = arguments.job_options.fio_compat.into();
    let mut table = jobs::table(format!("{name} on {}", machine.name()));
    for policy in &policies {
        let tally = simulate(&groups, &machine, policy, arguments.seed, compat)?;
        tally.report(&policy.to_string(), &mut table);
    }
    table.notes.push(format!(
        "forebay {}, virtual time, machine {}{}, seed {}",
        env!("CARGO_PKG_VERSION"),
        machine.name(),
        arguments.set.iter().map(|set| format!(" ({set})")).collect::<String>(),
        arguments.seed,
    ));
    table.print(arguments.format, &mut io::stdout().lock())?;
    Ok(0)
}

fn simulate(
    groups: &[Group<'_>],
    machine: &Machine,
    policy: &Spec,
    seed: u64,
    compat: Compat,
) -> Result<Tally> {
    let mut tally = Tally::new();
    for group in groups {
        tally.begin(group);
        let tasks = group.task_count();
        let kernel = PolicySet::of(&machine.kernel());
        let kernel = kernel.map_err(|(key, error)| Complaint::new(format!("{key}: {error}")))?;
        let policies = PolicySet { readahead: policy.clone(), ..kernel };
        let sizes = group.sizes().iter().zip(group.rooms());
        // A file that grows changes its inode with every write.
        let file = |(bytes, room): (&u64, &u64)| NewFile {
            bytes: *bytes,
            room: *room,
            inode: bytes < room,
        };
        let files: Vec<NewFile> = sizes.map(file).collect();
        let scenario = Scenario::new(machine, &policies, seed, tasks, &files);
        let mut scenario = scenario.map_err(Complaint::from)?;
        let tasks = group.tasks(compat, |file| scenario.open(file));
        let mut count = |finished: &Finished| tally.count(finished);
        let (outcome, _) = scenario.run(tasks, &mut count);
        tally.end(outcome.elapsed, outcome.device_busy, outcome.stats);
    }
    Ok(tally)
}
