//! What one sample costs on this machine: `cargo run --release -p forebay-live --example sample`.

use std::time::Instant;

use forebay_live::machine::Machine;
use forebay_live::signal::{Sample, Sampler};
use forebay_live::tree::Tree;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tree = Tree::machine();
    let begin = Instant::now();
    let machine = Machine::read(&tree);
    println!("machine: {} devices in {} us", machine.devices.len(), begin.elapsed().as_micros());
    let mut sampler = Sampler::new(&tree)?;
    let mut sample = Sample::default();
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let begin = Instant::now();
        let at = forebay_core::time::Instant(0);
        sampler.take(at, &mut sample)?;
        times.push(begin.elapsed().as_nanos());
    }
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100] / 1000;
    println!(
        "sample: {} disks, {} bdis: median {} us, 99 % {} us, most {} us",
        sample.disks.len(),
        sample.bdis.len(),
        at(50),
        at(99),
        at(100)
    );
    for gap in sampler.gaps().iter().chain(&machine.gaps) {
        println!("gap: {gap}");
    }
    let status = tree.text("/proc/self/status")?;
    let memory =
        status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    memory.for_each(|line| println!("{line}"));
    Ok(())
}

const SAMPLES: usize = 2_000;
