//! The value of every option, before their combination is checked.
//!
//! Source:     fio 3.33, `options.c`, `thread_options.h`, `filesetup.c` (file lists)
//! Behaviour:  A job starts from the defaults as the global sections above it left them. The
//!             last value of an option wins, except that `filename` adds to the files that a
//!             global section named.
//! Differs:    `bssplit` entries are sorted by percentage, as fio does, not by size.
//! Not for:    questions about a job; those are answered by [`Job`](super::Job)

use std::collections::BTreeMap;

use super::error::{JobErrorKind, nearest};
use super::parse::Entry;
use super::skew::Distribution;
use super::value::{self, Amount};
use super::words::{Advice, Engine, Mode};

/// One size of `bssplit` and its share in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) bytes: u64,
    pub(super) percent: u64,
}

/// What happens between two new offsets of `rw=...:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sequencer {
    /// Go on after the last request.
    Sequential,
    /// Repeat the last request's offset.
    Identical,
}

/// How the next file is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    Random,
    RoundRobin,
    Sequential,
}

/// Bytes and percent of one option. Setting bytes leaves the percent as it was, as in fio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) bytes: u64,
    pub(super) percent: u64,
}

/// The values of all options of one section.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) kb_base: u64,
    pub(super) mode: Mode,
    pub(super) repeat: u32,
    pub(super) skip: i64,
    pub(super) sequencer: Sequencer,
    pub(super) ioengine: Engine,
    pub(super) iodepth: u32,
    pub(super) bs: [u64; 3],
    pub(super) bs_range: [Option<(u64, u64)>; 3],
    pub(super) splits: [Vec<Split>; 3],
    pub(super) bs_unaligned: bool,
    pub(super) bs_is_seq_rand: bool,
    pub(super) blockalign: [u64; 3],
    pub(super) size: Share,
    pub(super) io_size: Share,
    pub(super) filesize: (u64, u64),
    pub(super) offset: Share,
    pub(super) offset_increment: Share,
    pub(super) offset_align: Option<u64>,
    pub(super) number_ios: u64,
    pub(super) numjobs: u32,
    pub(super) nrfiles: u32,
    pub(super) openfiles: u32,
    pub(super) service: Service,
    pub(super) service_run: u32,
    pub(super) files: Vec<String>,
    pub(super) directories: Vec<String>,
    pub(super) filename_format: String,
    pub(super) distribution: Distribution,
    pub(super) norandommap: bool,
    pub(super) wide: Option<bool>,
    pub(super) randseed: Option<u64>,
    pub(super) randrepeat: bool,
    pub(super) percentage_random: [u64; 3],
    pub(super) rwmixread: u64,
    pub(super) loops: u32,
    pub(super) runtime_us: u64,
    pub(super) time_based: bool,
    pub(super) startdelay_us: (u64, u64),
    pub(super) thinktime_us: u64,
    pub(super) thinktime_blocks: u64,
    pub(super) direct: bool,
    pub(super) invalidate: bool,
    pub(super) advice: Option<Advice>,
    pub(super) stonewall: bool,
    pub(super) overwrite: bool,
    pub(super) create_on_open: bool,
    pub(super) durable: bool,
    pub(super) fsync: u64,
    pub(super) fdatasync: u64,
    pub(super) end_fsync: bool,
    pub(super) fsync_on_close: bool,
    pub(super) rate: [u64; 3],
    pub(super) rate_iops: [u64; 3],
    pub(super) rate_ignores_thinktime: bool,
    pub(super) fallocate_sizes: bool,
    pub(super) do_verify: bool,
    pub(super) lines: BTreeMap<&'static str, u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kb_base: 1024,
            mode: Mode::Read,
            repeat: 1,
            skip: 0,
            sequencer: Sequencer::Sequential,
            ioengine: Engine::Psync,
            iodepth: 1,
            bs: [4096; 3],
            bs_range: [None; 3],
            splits: [const { Vec::new() }; 3],
            bs_unaligned: false,
            bs_is_seq_rand: false,
            blockalign: [0; 3],
            size: Share::default(),
            io_size: Share::default(),
            filesize: (0, 0),
            offset: Share::default(),
            offset_increment: Share::default(),
            offset_align: None,
            number_ios: 0,
            numjobs: 1,
            nrfiles: 1,
            openfiles: 0,
            service: Service::RoundRobin,
            service_run: 1,
            files: Vec::new(),
            directories: Vec::new(),
            filename_format: String::from("$jobname.$jobnum.$filenum"),
            distribution: Distribution::Uniform,
            norandommap: false,
            wide: None,
            randseed: None,
            randrepeat: true,
            percentage_random: [100; 3],
            rwmixread: 50,
            loops: 1,
            runtime_us: 0,
            time_based: false,
            startdelay_us: (0, 0),
            thinktime_us: 0,
            thinktime_blocks: 1,
            direct: false,
            invalidate: true,
            advice: None,
            stonewall: false,
            overwrite: false,
            create_on_open: false,
            durable: false,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            fsync_on_close: false,
            rate: [0; 3],
            rate_iops: [0; 3],
            rate_ignores_thinktime: false,
            fallocate_sizes: true,
            do_verify: true,
            lines: BTreeMap::new(),
        }
    }
}

/// A setter of the option table.
pub(super) type Setter = fn(&mut Settings, &Given<'_>) -> Result<(), JobErrorKind>;

/// One option's value, with the context for error messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    pub(super) entry: Entry<'a>,
    pub(super) kb_base: u64,
}

impl<'a> Given<'a> {
    /// The value, which must be there.
    pub(super) fn text(&self) -> Result<&'a str, JobErrorKind> {
        let missing = || JobErrorKind::NoValue { option: self.entry.option.to_owned() };
        self.entry.value.filter(|value| !value.is_empty()).ok_or_else(missing)
    }

    /// The value as `parse` reads it.
    pub(super) fn read<T>(
        &self,
        expected: &'static str,
        parse: impl Fn(&'a str) -> Option<T>,
    ) -> Result<T, JobErrorKind> {
        let text = self.text()?;
        if text.starts_with('(') {
            return Err(self.not_supported("arithmetic in parentheses is not evaluated"));
        }
        if text.ends_with('z') && text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.not_supported("sizes in zones need a zoned device"));
        }
        parse(text).ok_or_else(|| self.bad(expected))
    }

    /// A number of bytes.
    pub(super) fn bytes(&self) -> Result<u64, JobErrorKind> {
        self.read("a number such as 64k", |text| value::bytes(text, self.kb_base))
    }

    /// A number of bytes above zero.
    pub(super) fn bytes_above_zero(&self) -> Result<u64, JobErrorKind> {
        let parse = |text: &str| value::bytes(text, self.kb_base).filter(|value| *value > 0);
        self.read("a number above zero", parse)
    }

    /// A count that fits 32 bits, `least` or more.
    pub(super) fn count(&self, least: u32) -> Result<u32, JobErrorKind> {
        let parse = |text: &str| {
            let count = u32::try_from(value::bytes(text, self.kb_base)?).ok()?;
            (least..=COUNT_MAX as u32).contains(&count).then_some(count)
        };
        let expected = match least {
            0 => "a count from 0 to 2147483647",
            _ => "a count from 1 to 2147483647",
        };
        self.read(expected, parse)
    }

    /// A whole number of percent.
    pub(super) fn percent(&self) -> Result<u64, JobErrorKind> {
        self.read(PERCENT, |text| value::digits(text).filter(|percent| *percent <= 100))
    }

    /// A time, counted in `unit_us` microseconds if no unit is given.
    pub(super) fn micros(&self, unit_us: u64) -> Result<u64, JobErrorKind> {
        self.read(TIME, |text| value::micros(text, unit_us))
    }

    /// 0 or 1.
    pub(super) fn switch(&self) -> Result<bool, JobErrorKind> {
        self.read("0 or 1", |text| match text {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        })
    }

    /// 0 or 1, or nothing at all for 1.
    pub(super) fn flag(&self) -> Result<bool, JobErrorKind> {
        if self.entry.value.is_none() { Ok(true) } else { self.switch() }
    }

    /// One of `choices`, up to the first `:`; with what follows it.
    pub(super) fn choice<T: Copy>(
        &self,
        choices: &[(&'static str, T)],
    ) -> Result<(T, Option<&'a str>), JobErrorKind> {
        let text = self.text()?;
        let (word, rest) = match text.split_once(':') {
            Some((word, rest)) => (word, Some(rest.trim())),
            None => (text, None),
        };
        let found = choices.iter().find(|(name, _)| *name == word);
        let words = || choices.iter().map(|(name, _)| name);
        found.map(|(_, choice)| (*choice, rest)).ok_or_else(|| JobErrorKind::UnknownValue {
            option: self.entry.option.to_owned(),
            value: text.to_owned(),
            nearest: nearest(word, words()),
            choices: words().copied().collect(),
        })
    }

    /// One of `choices` and nothing more.
    pub(super) fn word<T: Copy>(&self, choices: &[(&'static str, T)]) -> Result<T, JobErrorKind> {
        match self.choice(choices)? {
            (choice, None) => Ok(choice),
            (_, Some(_)) => Err(self.bad("one word without ':'")),
        }
    }

    /// The complaint that the value is not as `expected`.
    pub(super) fn bad(&self, expected: &'static str) -> JobErrorKind {
        JobErrorKind::BadValue {
            option: self.entry.option.to_owned(),
            value: self.entry.value.unwrap_or_default().to_owned(),
            expected,
        }
    }

    /// The complaint that this project does not do that.
    pub(super) fn not_supported(&self, why: &'static str) -> JobErrorKind {
        JobErrorKind::NotSupported {
            option: self.entry.option.to_owned(),
            value: self.entry.value.unwrap_or_default().to_owned(),
            why,
        }
    }
}

impl Settings {
    /// Whether the job writes from a file's start to its end without leaving anything out, so that
    /// it can begin with an empty file. fio lays other files out, or writes them with holes.
    pub(super) fn grows_files(&self) -> bool {
        self.mode == Mode::Write && !self.overwrite && self.skip == 0
    }

    /// Sets bytes or percent.
    pub(super) fn share(old: Share, given: &Given<'_>) -> Result<Share, JobErrorKind> {
        let amount =
            given.read("a size such as 64m or 20%", |text| value::amount(text, given.kb_base))?;
        Ok(match amount {
            Amount::Bytes(bytes) => Share { bytes, percent: old.percent },
            Amount::Percent(percent) => Share { bytes: 0, percent },
        })
    }

    /// Sets the direction and what follows the colon.
    pub(super) fn set_rw(&mut self, given: &Given<'_>) -> Result<(), JobErrorKind> {
        if let Some("trim" | "randtrim" | "trimwrite" | "randtrimwrite") =
            given.text()?.split(':').next()
        {
            return Err(given.not_supported("the simulator has no trim"));
        }
        let (mode, rest) = given.choice(MODES)?;
        (self.mode, self.repeat, self.skip) = (mode, 1, 0);
        let Some(rest) = rest else { return Ok(()) };
        if mode.is_random() {
            let count = value::digits(rest).and_then(|count| u32::try_from(count).ok());
            self.repeat = count.ok_or_else(|| given.bad("a count after ':'"))?;
        } else {
            let skip = value::signed_bytes(rest, given.kb_base);
            self.skip = skip.ok_or_else(|| given.bad("a number of bytes after ':'"))?;
        }
        Ok(())
    }

    /// Adds the files of `filename`.
    pub(super) fn add_files(&mut self, given: &Given<'_>) -> Result<(), JobErrorKind> {
        if self.files.is_empty() {
            self.nrfiles = 0;
        }
        let directory = self.directories.first().map_or(String::new(), |name| format!("{name}/"));
        for name in value::names(given.text()?) {
            self.files.push(format!("{directory}{name}"));
            self.nrfiles = self.nrfiles.saturating_add(1);
        }
        if self.files.is_empty() {
            return Err(given.bad("a file name"));
        }
        Ok(())
    }

    /// Sets the block ranges.
    pub(super) fn set_range(&mut self, given: &Given<'_>) -> Result<(), JobErrorKind> {
        let parse =
            |text: &str| value::range(text, given.kb_base).filter(|(low, _)| *low > 0).map(Some);
        self.bs_range = given.read("a range such as 4k-64k", |text| {
            value::by_direction(text, self.bs_range, parse)
        })?;
        Ok(())
    }

    /// Sets the weighted block sizes.
    pub(super) fn set_split(&mut self, given: &Given<'_>) -> Result<(), JobErrorKind> {
        let text = given.text()?.trim();
        let lists: Vec<&str> = text.split(',').collect();
        let list_of = |direction: usize| lists.get(direction.min(lists.len() - 1));
        if lists.len() > self.splits.len() {
            return Err(given.bad(SPLIT));
        }
        for direction in 0..self.splits.len() {
            let list = list_of(direction).copied().unwrap_or_default();
            let split = split(list, given)?;
            let sizes = || split.iter().map(|part| part.bytes);
            if let (Some(low), Some(high)) = (sizes().min(), sizes().max()) {
                self.bs_range[direction] = Some((low, high));
                self.splits[direction] = split;
            }
        }
        Ok(())
    }

    /// Sets the distribution of random offsets.
    pub(super) fn set_distribution(&mut self, given: &Given<'_>) -> Result<(), JobErrorKind> {
        if let Some("normal" | "gauss" | "zoned" | "zoned_abs") = given.text()?.split(':').next() {
            return Err(given.not_supported("only random, zipf and pareto are drawn"));
        }
        let (kind, rest) = given.choice(DISTRIBUTIONS)?;
        let (power, center) = rest.map_or((None, None), |rest| match rest.split_once(':') {
            Some((power, center)) => (Some(power), Some(center)),
            None => (Some(rest), None),
        });
        let read = |text: Option<&str>, expected| {
            text.map(|text| value::fraction(text).ok_or_else(|| given.bad(expected))).transpose()
        };
        let power = read(power, "a fraction after ':'")?;
        let center = read(center, "a center between 0 and 1")?;
        if center.is_some_and(|center| center > 1.0) {
            return Err(given.bad("a center between 0 and 1"));
        }
        self.distribution = match kind {
            Distribution::Uniform => Distribution::Uniform,
            Distribution::Zipf { theta, .. } => {
                let theta = power.unwrap_or(theta);
                if theta == 1.0 {
                    return Err(given.bad("a zipf theta other than 1"));
                }
                Distribution::Zipf { theta, center }
            }
            Distribution::Pareto { h, .. } => {
                let h = power.unwrap_or(h);
                if h <= 0.0 || h >= 1.0 {
                    return Err(given.bad("a pareto power between 0 and 1"));
                }
                Distribution::Pareto { h, center }
            }
        };
        Ok(())
    }
}

/// The entries of one direction of `bssplit`, shares filled in and sorted by share.
fn split(list: &str, given: &Given<'_>) -> Result<Vec<Split>, JobErrorKind> {
    let mut parts: Vec<(u64, Option<u64>)> = Vec::new();
    for item in list.split(':').take_while(|item| !item.is_empty()) {
        let (size, share) = item.split_once('/').unwrap_or((item, ""));
        let bytes = value::bytes(size, given.kb_base).filter(|bytes| *bytes > 0);
        let share = match share {
            "" => Some(None),
            // To fio a share of zero is a share not given.
            text => value::digits(text).map(|share| Some(share.min(100)).filter(|&s| s > 0)),
        };
        let (Some(bytes), Some(share)) = (bytes, share) else { return Err(given.bad(SPLIT)) };
        parts.push((bytes, share));
    }
    if parts.len() > SPLITS_MAX {
        return Err(given.bad("at most 64 entries a direction"));
    }
    let total: u64 = parts.iter().filter_map(|(_, share)| *share).sum();
    let missing = parts.iter().filter(|(_, share)| share.is_none()).count() as u64;
    if total > 100 && missing > 0 {
        return Err(given.bad("shares that add up to no more than 100"));
    }
    let rest = (100 - total.min(100)).checked_div(missing).unwrap_or(0);
    let fill = |(bytes, share): (u64, Option<u64>)| Split { bytes, percent: share.unwrap_or(rest) };
    let mut split: Vec<Split> = parts.into_iter().map(fill).collect();
    split.sort_by_key(|part| part.percent);
    Ok(split)
}

/// The directions of `rw`.
const MODES: &[(&str, Mode)] = &[
    ("read", Mode::Read),
    ("write", Mode::Write),
    ("randread", Mode::RandRead),
    ("randwrite", Mode::RandWrite),
    ("rw", Mode::ReadWrite),
    ("readwrite", Mode::ReadWrite),
    ("randrw", Mode::RandReadWrite),
];

/// The distributions, with fio's default powers.
const DISTRIBUTIONS: &[(&str, Distribution)] = &[
    ("random", Distribution::Uniform),
    ("zipf", Distribution::Zipf { theta: 1.1, center: None }),
    ("pareto", Distribution::Pareto { h: 0.2, center: None }),
];

/// The form of a percentage.
pub(super) const PERCENT: &str = "a percentage from 0 to 100";

/// The form of a time.
pub(super) const TIME: &str = "a time such as 10, 10s or 500ms";

/// The form of a split.
const SPLIT: &str = "sizes with shares such as 4k/60:64k/40";

/// fio's own limit on the entries of `bssplit`.
const SPLITS_MAX: usize = 64;

/// fio keeps counts as signed 32-bit numbers here and there.
pub(super) const COUNT_MAX: u64 = i32::MAX as u64;
