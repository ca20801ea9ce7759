//! Random served disks, each named by one number, that try to break the rules of durability.
//!
//! A seed decides everything: the number of exports, connections and pages of memory, the policies,
//! how slow the stores are, when they fail, are full and lose power, when the server is killed,
//! which connections vanish, and the requests. Contents are symbols: each cell of 512 bytes holds
//! the number of the write that it comes from. Each scenario runs twice, and both runs must leave
//! the same trace.
//!
//! | file | what |
//! | --- | --- |
//! | `history` | which writes each cell may hold, and what may survive |
//! | `store` | what a store has, what survives a loss of power |
//! | `server` | the path between connections and stores, and what is checked |
//! | `random` | what is drawn |

#[cfg(feature = "seeded-bugs")]
use forebay_core::bugs::Bug;
use random::DiskScenario;
use server::Server;

mod history;
mod random;
mod server;
mod store;

/// What one scenario came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Requests that ended well.
    pub requests: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Flushes and durable writes that were acknowledged.
    pub promises: u64,
    /// Flushes that reported a failed write.
    pub reports: u64,
    /// Requests that were refused because a store was full.
    pub refusals: u64,
    /// Losses of power that were looked at.
    pub cuts: u64,
    /// Times that the server began again.
    pub restarts: u64,
    /// Connections that vanished.
    pub vanished: u64,
    /// Bytes of requests that were zeroed.
    pub zeroed: u64,
    /// The longest time that a request took, in nanoseconds.
    pub longest_ns: u64,
    /// Everything that happened, as one number.
    pub trace: u64,
}

impl DiskCounts {
    /// Adds what another scenario came to; of times the longer one stays.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.promises += other.promises;
        self.reports += other.reports;
        self.refusals += other.refusals;
        self.cuts += other.cuts;
        self.restarts += other.restarts;
        self.vanished += other.vanished;
        self.zeroed += other.zeroed;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.trace ^= other.trace;
    }
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenRule {
    /// D1 to D14.
    pub rule: &'static str,
    /// What happened.
    pub text: String,
    /// The last events before it.
    pub events: Vec<String>,
}

impl BrokenRule {
    fn new(rule: &'static str, text: String) -> Self {
        Self { rule, text, events: Vec::new() }
    }
}

/// Runs the served disks of a seed twice.
///
/// # Errors
/// A rule is broken, or the two runs differ.
///
/// # Panics
/// If an invariant of the core does not hold.
pub fn run_disks(seed: u64) -> Result<DiskCounts, BrokenRule> {
    let first = run_once(seed)?;
    if first != run_once(seed)? {
        let text = "two runs of one seed differ".to_owned();
        return Err(BrokenRule::new("determinism", text));
    }
    Ok(first)
}

fn run_once(seed: u64) -> Result<DiskCounts, BrokenRule> {
    Server::new(DiskScenario::draw(seed)).run()
}

/// Runs the served disks of a seed once, with a bug in the core.
///
/// # Errors
/// The bug was found: the rule that is broken.
///
/// # Panics
/// If an invariant of the core does not hold, which finds the bug as well.
#[cfg(feature = "seeded-bugs")]
pub fn run_disks_with(bug: Bug, seed: u64) -> Result<DiskCounts, BrokenRule> {
    let scenario = DiskScenario { bug: Some(bug), ..DiskScenario::draw(seed) };
    Server::new(scenario).run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_disks_keep_every_rule() {
        let mut sum = DiskCounts::default();
        for seed in 0..60 {
            let counts = run_disks(seed).unwrap_or_else(|broken| panic!("seed {seed}: {broken:?}"));
            sum.add(&counts);
        }
        assert!(sum.requests > 5_000, "requests end: {sum:?}");
        assert!(sum.promises > 500, "promises are made: {sum:?}");
        assert!(sum.reports > 20, "failed writes are reported: {sum:?}");
        assert!(sum.refusals > 20, "stores are full: {sum:?}");
        assert!(sum.cuts > 500, "power is lost: {sum:?}");
        assert!(sum.restarts > 20, "servers begin again: {sum:?}");
        assert!(sum.vanished > 20, "connections vanish: {sum:?}");
        assert!(sum.zeroed > 1 << 20, "bytes are zeroed: {sum:?}");
    }

    #[test]
    fn another_seed_is_another_served_disk() {
        assert_ne!(run_disks(1).unwrap().trace, run_disks(2).unwrap().trace);
    }
}
