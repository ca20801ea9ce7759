//! Is the policy of this kernel the kernel's? Random scripts on both, page by page.
//!
//! ```text
//!            seed -> script
//!            /             \
//!   ext4 on a loop device   the policy in the engine,
//!   mincore, tracepoints    watched from outside
//!            \             /
//!    new pages, folios, windows of every step
//! ```
//!
//! Other activity on the machine may take pages away; such a script is void. A difference counts
//! if it is there again when the script is repeated.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Args;
use forebay_core::readahead::{Settings, Spec};
use forebay_sim::plan::Step;

use kernel::Performance;
use scratch::{Mount, Scratch};
use script::{FILES, Scenario};
use trace::Tracer;

use crate::process::{interruption, say};

mod kernel;
mod model;
mod scratch;
pub(crate) mod script;
mod seen;
mod sys;
mod trace;

/// Compare the running kernel's readahead with its policy, page by page.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Random scripts, each of which runs on both kinds of mount.
    #[arg(long, default_value_t = 100)]
    scripts: u64,
    /// The first script's seed; the others count up from it [default: the time].
    #[arg(long)]
    seed: Option<u64>,
    /// Keep the scratch file system until the next run.
    #[arg(long)]
    keep: bool,
}

/// Runs the comparison. The exit code is 1 if kernel and policy differ.
pub(crate) fn run(options: &Options) -> Result<u8> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let release = release.trim();
    let policy = match modelled(release) {
        Ok(policy) => policy,
        Err(reason) => {
            say(&format!("skipped: {reason}"))?;
            return Ok(0);
        }
    };
    let interrupted = interruption()?;
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let seed = options.seed.unwrap_or(since_epoch.as_secs());
    say(&format!("Linux {release}, {policy}, seed {seed}"))?;

    let scratch = Scratch::new(options.keep)?;
    let tracer = Tracer::new(&scratch.tracing())?;
    if tracer.is_none() {
        say("this kernel has no readahead tracepoints: pages only")?;
    }
    let mut machine = Machine { scratch, tracer, policy, folios: false };
    say("mount         scripts    steps    reads  touches  voided  differences")?;
    let (mut differences, mut compared) = (0, 0);
    for mount in Mount::ALL {
        machine.mount(mount)?;
        let mut tally = Tally::default();
        for script in 0..options.scripts {
            ensure!(!interrupted.load(Ordering::Relaxed), "interrupted; everything is put back");
            let scenario = Scenario::new(seed.wrapping_add(script));
            let verdict = machine.judge(&scenario)?;
            tally.count(&scenario, &verdict);
            if let Verdict::Differs(report) = verdict {
                say(&format!("{} seed {}:\n{report}", mount.option(), scenario.seed))?;
            }
        }
        say(&tally.line(mount.option()))?;
        differences += tally.differences;
        compared += tally.scripts - tally.voided;
    }
    say(&format!("seed {seed}"))?;
    ensure!(compared > 0 || options.scripts == 0, "every script was void: nothing was compared");
    Ok(u8::from(differences > 0))
}

/// Why nothing can be compared here, if so.
pub(crate) fn skip() -> Result<Option<String>> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(modelled(release.trim()).err())
}

/// The policy of this kernel, or why nothing can be compared here.
fn modelled(release: &str) -> Result<&'static str, String> {
    let policies = [("6.12.", "linux-6.12"), ("6.18.", "linux-6.18")];
    let Some((_, policy)) = policies.iter().find(|(prefix, _)| release.starts_with(prefix)) else {
        return Err(format!("Linux {release} has no policy, only 6.12 and 6.18 have"));
    };
    if !sys::is_root() {
        return Err("a loop device and tracepoints need root".into());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Err("this machine has no loop devices".into());
    }
    let missing = scratch::missing_programs();
    if !missing.is_empty() {
        return Err(format!("{} missing", missing.join(", ")));
    }
    Ok(policy)
}

/// The running kernel and its model.
#[derive(Debug)]
struct Machine {
    // Dropped before the scratch directory, because the trace lies in it.
    tracer: Option<Tracer>,
    scratch: Scratch,
    policy: &'static str,
    /// Whether the mount caches in large folios.
    folios: bool,
}

/// The result of a script.
#[derive(Debug)]
enum Verdict {
    Same,
    Void,
    Differs(String),
}

impl Machine {
    fn mount(&mut self, mount: Mount) -> Result<()> {
        self.scratch.mount(mount)?;
        // ext4 has large folios since 6.16, but not for journaled data.
        self.folios = self.policy == "linux-6.18" && mount == Mount::Ordered;
        if let Some(tracer) = &self.tracer {
            tracer.watch(device_of(&self.scratch)?)?;
        }
        Ok(())
    }

    /// Performs the script until it is the same once or differs twice.
    fn judge(&self, scenario: &Scenario) -> Result<Verdict> {
        let mut differed = false;
        for _ in 0..ATTEMPTS {
            match self.compare(scenario)? {
                Verdict::Same => return Ok(Verdict::Same),
                Verdict::Differs(report) if differed => return Ok(Verdict::Differs(report)),
                Verdict::Differs(_) => differed = true,
                Verdict::Void => {}
            }
        }
        Ok(Verdict::Void)
    }

    fn compare(&self, scenario: &Scenario) -> Result<Verdict> {
        let Scenario { file, ra_pages, io_pages, ref steps, .. } = *scenario;
        self.scratch.set_limits(ra_pages, io_pages)?;
        let path = self.scratch.file(file);
        let real = kernel::perform(&path, steps, self.tracer.as_ref())?;
        if real.voided {
            return Ok(Verdict::Void);
        }
        let spec = Spec::parse(self.policy)?.with(Settings {
            ra_pages: Some(ra_pages),
            io_pages: Some(io_pages),
            large_folios: Some(self.folios),
        });
        let Some(step) = first_difference(&spec, FILES[file], steps, &real) else {
            return Ok(Verdict::Same);
        };
        Ok(Verdict::Differs(report(&spec, scenario, &real, step)))
    }
}

/// The first step that differs.
fn first_difference(
    spec: &Spec,
    file_bytes: u64,
    script: &[Step],
    real: &Performance,
) -> Option<usize> {
    let (outcomes, inside) = model::perform(spec, file_bytes, script);
    let outcomes = outcomes.iter().zip(&real.outcomes).position(|(model, real)| model != real);
    let details = real
        .details
        .as_ref()
        .and_then(|real| inside.iter().zip(real).position(|(model, real)| model != real));
    outcomes.into_iter().chain(details).min()
}

/// The script up to the step that differs, and both sides of it.
fn report(spec: &Spec, scenario: &Scenario, real: &Performance, step: usize) -> String {
    let bytes = FILES[scenario.file];
    let (model, inside) = model::perform(spec, bytes, &scenario.steps);
    let mut lines = vec![format!(
        "  file of {bytes} bytes, ra {} pages, io {} pages",
        scenario.ra_pages, scenario.io_pages
    )];
    for (index, done) in scenario.steps[..=step].iter().enumerate() {
        lines.push(format!("  {}", real.outcomes[index].line(*done)));
        if let Some(details) = &real.details {
            lines.push(format!("      {}", details[index]));
        }
    }
    lines.push(format!("  model: {}", model[step].line(scenario.steps[step])));
    lines.push(format!("      {}", inside[step]));
    lines.join("\n")
}

/// What the scripts on one mount came to.
#[derive(Debug, Default)]
struct Tally {
    scripts: u64,
    steps: u64,
    reads: u64,
    touches: u64,
    voided: u64,
    differences: u64,
}

impl Tally {
    fn count(&mut self, scenario: &Scenario, verdict: &Verdict) {
        self.scripts += 1;
        match verdict {
            Verdict::Same => {}
            Verdict::Void => {
                self.voided += 1;
                return;
            }
            Verdict::Differs(_) => self.differences += 1,
        }
        for step in &scenario.steps {
            self.steps += 1;
            match step {
                Step::Read { .. } => self.reads += 1,
                Step::Touch { .. } => self.touches += 1,
                Step::Advise(_) | Step::Open | Step::Drop => {}
            }
        }
    }

    fn line(&self, mount: &str) -> String {
        let Self { scripts, steps, reads, touches, voided, differences } = self;
        format!(
            "{mount}  {scripts:>7}  {steps:>7}  {reads:>7}  {touches:>7}  {voided:>6}  \
             {differences:>11}"
        )
    }
}

/// The device of the mounted files.
fn device_of(scratch: &Scratch) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;

    let path = scratch.file(0);
    let found = fs::metadata(&path).with_context(|| format!("cannot see {}", path.display()))?;
    Ok(found.dev())
}

/// How often a script is performed until it is void.
const ATTEMPTS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_does_what_its_policy_says() {
        let options = Options { scripts: 12, seed: Some(618), keep: false };
        assert_eq!(run(&options).unwrap(), 0, "kernel and policy differ, see above");
    }
}
