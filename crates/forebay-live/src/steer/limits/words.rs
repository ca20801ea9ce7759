//! A limit in sentences: what it is expected to bring, and why it is set.

use forebay_core::units::PAGE_SIZE;

use super::{Device, Seen};

impl Device {
    pub(super) fn words(&self, seen: &Seen<'_>, bytes: u64, wanted: u64) -> (String, String) {
        let name = seen.name;
        let why = match seen.waits {
            Some(wait) => wait.to_string(),
            None => "it can be pulled out".to_owned(),
        };
        let Some(drain) = self.drain.pages_per_second() else {
            let expected = "a burst waits in its writer instead of in memory".to_owned();
            let reason = format!("{why}, and the write rate of {name} is not measured yet");
            return (expected, reason);
        };
        let drain = drain.saturating_mul(PAGE_SIZE).max(1);
        let global = seen.threshold.saturating_mul(PAGE_SIZE);
        let tenths = |bytes: u64| {
            let tenths = u128::from(bytes) * 10 / u128::from(drain);
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        let stage = if bytes > wanted { ", on the way down with what is dirty" } else { "" };
        let expected = format!("at most {} s of unwritten data{stage}", tenths(bytes));
        let reason = format!(
            "{why}, {name} writes {} MiB/s, and the machine's limit is {} s of that",
            mib(drain),
            tenths(global)
        );
        (expected, reason)
    }
}

/// MiB with a digit where that says more.
pub(super) fn mib(bytes: u64) -> String {
    let tenths = bytes / ((1 << 20) / 10);
    if tenths < 100 {
        format!("{}.{}", tenths / 10, tenths % 10)
    } else {
        (tenths / 10).to_string()
    }
}
