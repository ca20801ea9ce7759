//! Dispatch: the same random reads under each mode, switches and time.

use anyhow::{Context, Result, ensure};
use forebay_core::dispatch;
use forebay_core::io::Op;
use forebay_core::readahead;
use forebay_core::time::Instant;
use forebay_core::units::{HandleId, PAGE_SIZE};
use forebay_core::workload::{Step, Workload};
use forebay_sim::scenario::{NewFile, Scenario};

use super::super::boot;
use super::super::build::Lab;
use super::machine::{DEVICE_BYTES, machine, number, percent, policies};
use crate::process::say;

/// Modes of the kernel and the rules that model them. The kernel's adaptive mode takes latencies
/// below two switches, as the core's does where an idle processor is worth half of a busy one.
const MODES: [(&str, &str); 3] =
    [("sleep", "deferred"), ("spin", "inline"), ("adaptive", "adaptive:idle=50,explore=0")];

/// Times may differ by so much.
const PERCENT_MAX: f64 = 2.0;

/// Compares switches and time; how many rows differ.
pub(super) fn compare(lab: &Lab) -> Result<usize> {
    let records = boot::boot(lab, &["dispatch"])?;
    say("\ndispatch  device us  switches kernel  simulator  ms kernel  simulator  percent")?;
    let mut differ = 0;
    let records: Vec<&str> = records.lines().filter(|line| line.contains("way=read")).collect();
    ensure!(records.len() >= MODES.len(), "the init printed {} reads", records.len());
    for record in records {
        let mode = MODES.iter().find(|(mode, _)| record.contains(&format!("mode={mode} ")));
        let &(mode, rule) = mode.with_context(|| format!("no mode: {record}"))?;
        let delay = number(record, "device_us")?;
        let (switches, ms) = simulate(delay, rule)?;
        let (real_switches, real_ms) = (number(record, "switches")?, number(record, "ms")?);
        let apart = percent(real_ms, ms);
        // A spin's end that the clock cannot tell from its limit may cost a switch.
        let same = apart.abs() <= PERCENT_MAX && (real_switches - switches).abs() <= 2.0;
        differ += usize::from(!same);
        let mark = if same { "" } else { "  DIFFERS" };
        say(&format!(
            "{mode:<8}  {delay:>9}  {real_switches:>15}  {switches:>9}  {real_ms:>9.2}  {ms:>9.2}  \
             {apart:>+7.2}{mark}"
        ))?;
    }
    Ok(differ)
}

/// The reads in the simulator: how often the reader slept, and the time in milliseconds.
fn simulate(delay_us: f64, rule: &str) -> Result<(f64, f64)> {
    let machine =
        machine(&[("device.delay", &format!("{delay_us}us")), ("cpu.context_switch", "3us")])?;
    let policies = policies(&machine, |policies| {
        policies.dispatch = dispatch::Spec::parse(rule)?;
        policies.readahead = readahead::Spec::parse("off")?;
        Ok(())
    })?;
    let file = NewFile::fixed(DEVICE_BYTES);
    let mut scenario = Scenario::new(&machine, &policies, 1, 1, &[file])?;
    let handle = scenario.open(0);
    let reader = Reader { handle, random: Random(3), left: READS };
    let mut observer = |_: &forebay_core::workload::Finished| {};
    let (outcome, record) = scenario.run(vec![Box::new(reader)], &mut observer);
    Ok((record.dispatches as f64, outcome.elapsed.as_nanos() as f64 / 1e6))
}

/// The reader of `kernel/init/dispatch.c`.
struct Reader {
    handle: HandleId,
    random: Random,
    left: u32,
}

impl Workload for Reader {
    fn next(&mut self, _now: Instant) -> Step {
        if self.left == 0 {
            return Step::Exit;
        }
        self.left -= 1;
        let offset = self.random.below(PAGES) * PAGE_SIZE;
        Step::Call(Op::Read { handle: self.handle, offset, len: PAGE_SIZE })
    }
}

/// Random numbers as the init draws them: splitmix64.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// As in `kernel/init/dispatch.c`.
const READS: u32 = 2000;
const PAGES: u64 = 128 << 8;
