//! Chunks as array jobs of a scheduler: HyperQueue, Slurm.
//!
//! ```text
//!   missing 0-9,12     hq submit --array 0-9,12 ... '... --chunk $((0 + $HQ_TASK_ID))'
//!   missing 2000-2007  sbatch --array 0-7 --wrap '... --chunk $((2000 + $SLURM_ARRAY_TASK_ID))'
//! ```
//!
//! The scheduler waits for the tasks; chunks that have a result afterwards were run.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use forebay_report::messages::{Complaint, shown};

use super::{Plan, say_run};
use crate::args::sweep::SweepSubmit;

/// A scheduler of array jobs.
pub(super) struct Scheduler {
    program: &'static str,
    /// Its name.
    name: &'static str,
    /// The words before the list of tasks, and those behind it.
    before: &'static [&'static str],
    behind: &'static [&'static str],
    /// The variable that holds a task's number.
    variable: &'static str,
    /// Tasks of one array are numbered below it.
    tasks_max: usize,
    /// Whether the command is one word that a shell takes apart.
    is_wrapped: bool,
}

pub(super) const HYPERQUEUE: Scheduler = Scheduler {
    program: "hq",
    name: "HyperQueue",
    before: &["submit", "--name", "forebay", "--stdout", "none", "--stderr", "none", "--array"],
    behind: &["--wait", "--", "sh", "-c"],
    variable: "HQ_TASK_ID",
    tasks_max: usize::MAX,
    is_wrapped: false,
};

/// Slurm numbers tasks below its `MaxArraySize`, which is 1001 unless it is configured.
pub(super) const SLURM: Scheduler = Scheduler {
    program: "sbatch",
    name: "Slurm",
    before: &["--job-name", "forebay", "--output", "/dev/null", "--array"],
    behind: &["--wait", "--wrap"],
    variable: "SLURM_ARRAY_TASK_ID",
    tasks_max: 1_000,
    is_wrapped: true,
};

/// Runs the missing chunks as tasks, and returns how many have a result.
pub(super) fn submit(
    arguments: &SweepSubmit,
    program: &Path,
    missing: &[usize],
    scheduler: &Scheduler,
) -> Result<u8> {
    let folder = fs::canonicalize(&arguments.folder).with_context(|| shown(&arguments.folder))?;
    let (Some(program), Some(folder)) = (program.to_str(), folder.to_str()) else {
        bail!(Complaint::new("a scheduler takes paths that are UTF-8"));
    };
    let mut rest = missing;
    while let Some(&first) = rest.first() {
        let base = first - first % scheduler.tasks_max;
        let here = rest.partition_point(|chunk| chunk - base < scheduler.tasks_max);
        let tasks: Vec<usize> = rest[..here].iter().map(|chunk| chunk - base).collect();
        rest = &rest[here..];
        let mut command = scheduler.command(program, folder, base, &tasks);
        let status = command.status().map_err(|error| {
            let what = format!("cannot start {}: {error}", scheduler.program);
            if error.kind() == ErrorKind::NotFound {
                return Complaint::new(what)
                    .hint(format!("{} has to be installed", scheduler.name));
            }
            Complaint::new(what)
        })?;
        let plan = Plan::read(&arguments.folder)?;
        let left = plan.missing(&arguments.folder);
        if !status.success() && tasks.iter().all(|task| left.contains(&(base + task))) {
            let what = format!("{} ran no chunk: {status}", scheduler.name);
            bail!(Complaint::new(what).hint("its own words are above; does its server run?"));
        }
    }
    let failed = Plan::read(&arguments.folder)?.missing(&arguments.folder).len();
    say_run(missing.len(), failed)?;
    Ok(if failed == 0 { 0 } else { crate::NO })
}

impl Scheduler {
    /// Whether its program can be started.
    pub(super) fn is_installed(&self) -> bool {
        let mut asks = Command::new(self.program);
        asks.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        asks.status().is_ok()
    }

    fn command(&self, program: &str, folder: &str, base: usize, tasks: &[usize]) -> Command {
        let mut command = Command::new(self.program);
        command.args(self.before).arg(ranges(tasks)).args(self.behind);
        let run = format!(
            "exec {} sweep run {} --chunk $(({base} + ${}))",
            quoted(program),
            quoted(folder),
            self.variable
        );
        command.arg(run);
        if self.is_wrapped {
            // Slurm runs tasks where it was called, which other nodes may not have.
            command.args(["--chdir", "/"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

/// Ascending numbers as `0-3,7`.
fn ranges(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            Some(_) | None => runs.push((number, number)),
        }
    }
    let text = |&(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

/// One word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_a_range() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
        assert_eq!(ranges(&[5]), "5");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn a_command_names_the_tasks_and_quotes_its_paths() {
        let words = |scheduler: &Scheduler| {
            let command = scheduler.command("/bin/forebay", "/a b/it's", 2_000, &[0, 1, 5]);
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        let run = "exec '/bin/forebay' sweep run '/a b/it'\\''s' --chunk $((2000 + $";
        let hq = format!(
            "submit --name forebay --stdout none --stderr none --array 0-1,5 --wait -- sh -c \
             {run}HQ_TASK_ID))"
        );
        assert_eq!(words(&HYPERQUEUE), hq);
        let slurm = format!(
            "--job-name forebay --output /dev/null --array 0-1,5 --wait --wrap \
             {run}SLURM_ARRAY_TASK_ID)) --chdir /"
        );
        assert_eq!(words(&SLURM), slurm);
    }
}
