//! Readahead: random scripts, page by page.
//!
//! ```text
//!   seed -> script ---> kernel: a romfs on the lab's device, mincore after each step
//!                  '--> the policy in the engine            new pages of every step
//! ```

use anyhow::{Context, Result, ensure};
use forebay_core::readahead::{Settings, Spec};
use forebay_sim::plan::{Advice, Player, Step};

use super::super::boot;
use super::super::build::Lab;
use crate::fidelity::script::{FILES, Scenario};
use crate::process::say;

/// A rule of the kernel and the policy that models it.
struct Rule {
    kernel: &'static str,
    policy: &'static str,
}

const RULES: [Rule; 2] = [
    Rule { kernel: "on-demand", policy: "linux-6.12" },
    Rule { kernel: "request-size", policy: "request-size" },
];

/// Compares both rules over `steps` steps each; returns how many scripts differ.
pub(super) fn compare(lab: &Lab, seed: u64, steps: usize) -> Result<usize> {
    say("readahead     policy        scripts    steps  differences")?;
    let mut all = 0;
    for rule in RULES {
        let (mut scripts, mut done, mut differ) = (0, 0, 0);
        while done < steps {
            let scenarios: Vec<Scenario> =
                (0..BATCH).map(|at| rule.scenario(seed + scripts + at)).collect();
            let lines = perform(lab, &rule, &scenarios)?;
            let mut lines = lines.lines();
            for scenario in &scenarios {
                let real: Vec<&str> = lines.by_ref().take(scenario.steps.len()).collect();
                ensure!(real.len() == scenario.steps.len(), "the kernel skipped steps");
                done += real.len();
                if let Some(report) = rule.difference(scenario, &real)? {
                    differ += 1;
                    say(&report)?;
                }
            }
            scripts += BATCH;
        }
        say(&format!(
            "{:<12}  {:<12}  {scripts:>7}  {done:>7}  {differ:>11}",
            rule.kernel, rule.policy
        ))?;
        all += differ;
    }
    Ok(all)
}

/// Has the kernel perform the scripts in one boot.
fn perform(lab: &Lab, rule: &Rule, scenarios: &[Scenario]) -> Result<String> {
    let sizes = FILES.iter().map(|size| format!("size {size}\n"));
    let mut text: String = sizes.chain(["files\n".to_owned()]).collect();
    for scenario in scenarios {
        let Scenario { file, ra_pages, io_pages, steps, .. } = scenario;
        text.push_str(&format!("s {} {file} {ra_pages} {io_pages}\n", rule.kernel));
        text.extend(steps.iter().map(|step| format!("{step}\n")));
    }
    boot::boot_with(lab, &["referee"], &text)
}

impl Rule {
    /// A script that both sides understand. What 2.6.7 made of `POSIX_FADV_WILLNEED` (all of it, in
    /// pieces) and of `POSIX_FADV_NOREUSE` (the same) is no part of the proposal: the kernel of
    /// today keeps its own way of orders.
    fn scenario(&self, seed: u64) -> Scenario {
        let mut scenario = Scenario::new(seed);
        let orders = [Advice::WillNeed, Advice::NoReuse].map(Step::Advise);
        if self.kernel == "request-size" {
            scenario.steps.retain(|step| !orders.contains(step));
        }
        scenario
    }

    fn spec(&self, scenario: &Scenario) -> Result<Spec> {
        let Scenario { ra_pages, io_pages, .. } = *scenario;
        let spec = match self.policy {
            "request-size" => Spec::parse(&format!("request-size:max={ra_pages}"))?,
            policy => Spec::parse(policy)?.with(Settings {
                ra_pages: Some(ra_pages),
                io_pages: Some(io_pages),
                large_folios: Some(false),
            }),
        };
        Ok(spec)
    }

    /// The script up to the first step in which the two differ.
    fn difference(&self, scenario: &Scenario, real: &[&str]) -> Result<Option<String>> {
        let spec = self.spec(scenario)?;
        let mut player = Player::new(FILES[scenario.file], || spec.build());
        for (index, step) in scenario.steps.iter().enumerate() {
            let model = player.step(*step);
            if same(&model.line(*step), real[index]) {
                continue;
            }
            let first = index.saturating_sub(CONTEXT);
            let before = real.get(first..index).context("the script has these steps")?.join("\n  ");
            return Ok(Some(format!(
                "{} seed {}, file of {} bytes, ra {} io {} pages, step {index}:\n  {before}\n  \
                 kernel: {}\n  model:  {}",
                self.kernel,
                scenario.seed,
                FILES[scenario.file],
                scenario.ra_pages,
                scenario.io_pages,
                real[index],
                model.line(*step),
            )));
        }
        Ok(None)
    }
}

/// Blanks aside.
fn same(one: &str, two: &str) -> bool {
    one.split_whitespace().eq(two.split_whitespace())
}

/// Scripts of one boot.
const BATCH: u64 = 50;

/// Steps before the one that differs, in a report.
const CONTEXT: usize = 6;
