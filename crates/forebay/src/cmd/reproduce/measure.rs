//! Measures the experiments on all processors, and shows what runs and how long it will take.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use forebay_sim::machine::MachineError;
use forebay_sim::paper::{Cell, Measured, Paper, RunSize};

use crate::progress::{self, Progress};

/// Announces the papers.
pub(super) fn announced(papers: &[&Paper], size: RunSize, draws: u32) -> Progress {
    let work: f64 = papers.iter().map(|paper| paper.processor_seconds(size, draws)).sum();
    let threads = processors();
    Progress::estimated(&estimate(papers, work, threads))
}

/// Measures all cells; the results do not depend on the number of processors.
pub(super) fn measure(cells: &[Cell], progress: &Progress) -> Result<Vec<Measured>, MachineError> {
    let done = AtomicUsize::new(0);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<_>>> = cells.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..processors().min(cells.len()).max(1) {
            scope.spawn(|| {
                while let Some(place) = claim(&next, cells.len()) {
                    progress.name(cells[place].to_string());
                    let measured = cells[place].measure();
                    *results[place].lock().expect("no thread panics with the lock") =
                        Some(measured);
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    progress.set(done as f64 / cells.len() as f64);
                }
            });
        }
    });
    let finished = results.into_iter().map(|result| {
        let result = result.into_inner().expect("no thread panics with the lock");
        result.expect("every cell was claimed")
    });
    finished.collect()
}

fn estimate(papers: &[&Paper], work: f64, threads: usize) -> String {
    let what = match papers {
        [one] => format!("the paper {}", one.name),
        _ => format!("{} papers", papers.len()),
    };
    let length = progress::length(work / threads as f64);
    let processors = if threads == 1 { "processor" } else { "processors" };
    format!("running {what}: about {length} on {threads} {processors}")
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn claim(next: &AtomicUsize, count: usize) -> Option<usize> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    (place < count).then_some(place)
}

#[cfg(test)]
mod tests {
    use forebay_sim::paper::PAPERS;

    use super::*;

    #[test]
    fn an_estimate_is_rounded_up_to_what_a_reader_can_use() {
        let all: Vec<&Paper> = PAPERS.iter().collect();
        let said = |papers: &[&Paper], work| estimate(papers, work, 2);
        assert_eq!(said(&all, 101.0), "running 5 papers: about 51 s on 2 processors");
        assert_eq!(said(&all[..1], 0.1), "running the paper readahead: about 1 s on 2 processors");
        assert!(said(&all, 1_000.0).contains("about 9 minutes"));
    }

    #[test]
    fn every_paper_says_what_it_costs_and_full_size_costs_no_less() {
        for paper in PAPERS {
            let cost = |size, draws| paper.processor_seconds(size, draws);
            assert!(cost(RunSize::Scaled, 1) > 0.0, "{}", paper.name);
            assert!(cost(RunSize::Scaled, 32) >= cost(RunSize::Scaled, 1), "{}", paper.name);
            assert!(cost(RunSize::Full, 32) >= cost(RunSize::Scaled, 32), "{}", paper.name);
        }
    }
}
