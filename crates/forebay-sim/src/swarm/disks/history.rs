//! What each cell of an export may hold: the writes that touched it, and which of them are past.
//!
//! A cell is 512 bytes that hold the number of a write. Numbers are given in the order in which
//! writes begin. Two writes are ordered only if one had ended before the other began.
//!
//! ```text
//!   begin --> may be read, may survive
//!   a later write is acknowledged       --> is not read any more     (superseded)
//!   that is covered by a flush or FUA   --> does not survive a cut   (durably superseded)
//!   a write-back failed                 --> may be read again, unless durably superseded
//! ```

use std::collections::BTreeMap;

use super::BrokenRule;

/// The number of a write: zero for bytes that no write, and no device, has given.
pub(super) type Number = u64;

/// A moment, counted in events.
pub(super) type Moment = u64;

/// Later than all events.
pub(super) const NEVER: Moment = Moment::MAX;

/// A request that changes cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteRecord {
    /// The client, as a number that is never used again.
    pub(super) client: u64,
    pub(super) export: usize,
    pub(super) is_zero: bool,
    pub(super) begin: Moment,
    pub(super) end: Moment,
    /// Its cells, from the first to before the second.
    pub(super) cells: (usize, usize),
}

/// A write in the history of a cell.
#[derive(Clone, Copy, Debug)]
struct Version {
    number: Number,
    /// When a later write of the cell was acknowledged, and which.
    superseded: Option<(Moment, Number)>,
    /// The rule that forbids the version after a loss of power.
    forbidden: Option<&'static str>,
}

/// Everything written so far, in all exports.
#[derive(Debug, Default)]
pub(super) struct Histories {
    writes: BTreeMap<Number, WriteRecord>,
    cells: Vec<Vec<Vec<Version>>>,
    /// When each cell last lost a write in flight.
    lost: Vec<Vec<Moment>>,
}

/// A wrong content of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finding {
    pub(super) export: usize,
    pub(super) cell: usize,
    pub(super) number: Number,
}

impl Histories {
    /// Adds an export whose cells hold the initial writes.
    pub(super) fn add_export(&mut self, number: Number, cells: usize) {
        let export = self.cells.len();
        let record =
            WriteRecord { client: 0, export, is_zero: false, begin: 0, end: 0, cells: (0, cells) };
        self.writes.insert(number, record);
        let first = Version { number, superseded: None, forbidden: None };
        self.cells.push(vec![vec![first]; cells]);
        self.lost.push(vec![0; cells]);
    }

    pub(super) fn begin(&mut self, number: Number, record: WriteRecord) {
        let (first, end) = record.cells;
        for versions in &mut self.cells[record.export][first..end] {
            versions.push(Version { number, superseded: None, forbidden: None });
        }
        self.writes.insert(number, record);
    }

    /// A write has ended; if it was acknowledged, those that had ended before it are past, and if
    /// it is durable they do not come back.
    pub(super) fn end(&mut self, number: Number, now: Moment, is_ok: bool, is_durable: bool) {
        let Some(record) = self.writes.get_mut(&number) else { return };
        record.end = now;
        let WriteRecord { begin, export, is_zero, cells: (first, end), .. } = *record;
        if !is_ok {
            return;
        }
        let rule = if is_zero { "D7" } else { "D1" };
        let cells = self.cells[export][first..end].iter_mut().zip(&self.lost[export][first..end]);
        for (versions, lost) in cells {
            // Its write was lost before it ended.
            if *lost >= begin {
                continue;
            }
            for version in versions {
                if self.writes.get(&version.number).is_some_and(|other| other.end < begin) {
                    version.superseded.get_or_insert((now, number));
                    if is_durable {
                        version.forbidden.get_or_insert(rule);
                    }
                }
            }
        }
    }

    /// A flush of a client has succeeded that began at a moment.
    pub(super) fn flush(&mut self, export: usize, began: Moment, client: u64) {
        for version in self.cells[export].iter_mut().flatten() {
            let Some((moment, by)) = version.superseded else { continue };
            if moment > began || version.forbidden.is_some() {
                continue;
            }
            let by = self.writes.get(&by);
            let rule = match by {
                Some(by) if by.is_zero => "D7",
                Some(by) if by.client != client => "D8",
                Some(_) | None => "D1",
            };
            version.forbidden = Some(rule);
        }
    }

    /// Cells have lost writes in flight to the store: older versions may be read again.
    pub(super) fn lose(&mut self, export: usize, (first, end): (usize, usize), now: Moment) {
        self.lost[export][first..end].fill(now);
        for versions in &mut self.cells[export][first..end] {
            for version in versions.iter_mut().filter(|version| version.forbidden.is_none()) {
                version.superseded = None;
            }
        }
    }

    /// What a read that began at a moment may not have found.
    pub(super) fn judge_read(
        &self,
        found: Finding,
        began: Moment,
        page: &[Number],
    ) -> Result<(), BrokenRule> {
        let Finding { export, cell, number } = found;
        let versions = &self.cells[export][cell];
        let Some(version) = versions.iter().find(|version| version.number == number) else {
            return Err(self.stranger(found));
        };
        match version.superseded {
            Some((moment, by)) if moment < began => {
                let is_mixed = page.contains(&by);
                let by_zero = self.writes.get(&by).is_some_and(|by| by.is_zero);
                let rule = if is_mixed && !by_zero {
                    "D3"
                } else if by_zero {
                    "D7"
                } else {
                    "D2"
                };
                let text = format!("a read found write {number}, older than {by}, in {found}");
                Err(BrokenRule::new(rule, text))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What a store may not hold after a loss of power, or after the server was killed.
    pub(super) fn judge_survivor(&self, found: Finding, is_cut: bool) -> Result<(), BrokenRule> {
        let Finding { export, cell, number } = found;
        let versions = &self.cells[export][cell];
        let Some(version) = versions.iter().find(|version| version.number == number) else {
            return Err(self.stranger(found));
        };
        let Some(rule) = version.forbidden else { return Ok(()) };
        let rule = if is_cut { rule } else { "D14" };
        let text = format!("write {number} came back in {found}, and a newer one was durable");
        Err(BrokenRule::new(rule, text))
    }

    /// Whether the cells of a page hold each write as a whole or not at all.
    pub(super) fn judge_page(
        &self,
        export: usize,
        first: usize,
        page: &[Number],
    ) -> Result<(), BrokenRule> {
        for &number in page {
            let Some(record) = self.writes.get(&number) else { continue };
            let own = record.cells;
            for (cell, other) in (first..).zip(page) {
                let older = self.writes.get(other).is_some_and(|other| other.end < record.begin);
                if (own.0..own.1).contains(&cell) && older {
                    let found = Finding { export, cell, number: *other };
                    let text = format!("a page mixes write {number} with the older {found}");
                    return Err(BrokenRule::new("D3", text));
                }
            }
        }
        Ok(())
    }

    /// Whether a write had ended before another one began.
    pub(super) fn is_older(&self, number: Number, than: Number) -> bool {
        let (Some(one), Some(other)) = (self.writes.get(&number), self.writes.get(&than)) else {
            return false;
        };
        one.end < other.begin
    }

    /// The server has begun again: cells hold what survived, and nothing is in flight.
    pub(super) fn restart(&mut self, now: Moment, survivors: &[Vec<Number>]) {
        for record in self.writes.values_mut() {
            record.end = record.end.min(now);
        }
        for (cells, numbers) in self.cells.iter_mut().zip(survivors) {
            for (versions, number) in cells.iter_mut().zip(numbers) {
                *versions = vec![Version { number: *number, superseded: None, forbidden: None }];
            }
        }
    }

    /// A number that was never written to a cell.
    fn stranger(&self, found: Finding) -> BrokenRule {
        let (rule, from) = match self.writes.get(&found.number) {
            Some(record) if record.export != found.export => ("D13", "another export"),
            Some(_) => ("D2", "another place or another time"),
            None => ("D3", "nowhere"),
        };
        BrokenRule::new(rule, format!("the bytes of {found} are from {from}"))
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { export, cell, number } = self;
        write!(f, "export {export} cell {cell} ({number})")
    }
}
