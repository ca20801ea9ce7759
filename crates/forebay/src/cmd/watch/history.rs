//! What the last views said, for trends.

use std::collections::{BTreeMap, VecDeque};

use forebay_live::number::{DevNumber, FileKey};
use forebay_live::view::View;

use super::cell::trend;

/// Bytes of each row in the last views, and the share of time that tasks stalled.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    bytes: BTreeMap<Key, VecDeque<f64>>,
    stall: VecDeque<f64>,
}

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Device(DevNumber),
    File(FileKey),
    Process(u32),
}

impl History {
    /// Takes in the next view. Rows that were idle in all views are forgotten.
    pub(super) fn record(&mut self, view: &View) {
        let devices = view.devices.iter().map(|device| {
            let bytes = device.read.bandwidth + device.write.bandwidth;
            (Key::Device(device.number), bytes)
        });
        let files = view.files.iter().map(|file| (Key::File(file.file), file.brought as f64));
        let processes = view.processes.iter().map(|process| {
            let bytes = process.brought.saturating_add(process.written.unwrap_or(0));
            (Key::Process(process.pid), bytes as f64)
        });
        let mut now: BTreeMap<Key, f64> = devices.chain(files).chain(processes).collect();
        for (key, values) in &mut self.bytes {
            push(values, now.remove(key).unwrap_or(0.0));
        }
        for (key, value) in now.into_iter().filter(|(_, value)| *value > 0.0) {
            self.bytes.insert(key, VecDeque::from([value]));
        }
        self.bytes.retain(|_, values| values.iter().any(|value| *value > 0.0));
        push(&mut self.stall, view.stall.map_or(0.0, |stall| stall.some));
    }

    /// The bytes of a row, the last view to the right.
    pub(super) fn trend(&self, key: Key) -> String {
        self.bytes.get(&key).map(|values| trend(values.iter())).unwrap_or_default()
    }

    /// The share of time in which tasks stalled. A full column is the largest of late.
    pub(super) fn stall(&self) -> String {
        trend(self.stall.iter())
    }
}

fn push(values: &mut VecDeque<f64>, value: f64) {
    if values.len() >= VIEWS {
        values.pop_front();
    }
    values.push_back(value);
}

/// Views that a trend shows.
const VIEWS: usize = 10;

#[cfg(test)]
mod tests {
    use forebay_live::view::ProcessView;

    use super::*;

    #[test]
    fn a_row_is_remembered_for_ten_views_and_then_forgotten() {
        let mut history = History::default();
        let process = ProcessView { pid: 7, brought: 1 << 20, ..ProcessView::default() };
        let busy = View { processes: vec![process], ..View::default() };
        for _ in 0..2 {
            history.record(&busy);
        }
        history.record(&View::default());
        assert_eq!(history.trend(Key::Process(7)), "██ ");
        for _ in 0..8 {
            history.record(&View::default());
        }
        assert_eq!(history.trend(Key::Process(7)), "█         ");
        history.record(&View::default());
        assert_eq!(history.trend(Key::Process(7)), "");
        assert!(history.bytes.is_empty());
    }
}
