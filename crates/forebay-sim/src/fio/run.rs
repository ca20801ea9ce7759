//! From settings to jobs: clones, files, sizes, and the checks that fio makes on the way.
//!
//! Source:     fio 3.33, `init.c` (clones, fix-ups), `filesetup.c` (sizes, file names)
//! Behaviour:  Clones are made in falling order after the first. `size` is divided by the number
//!             of files and the first files take the rest. All files are laid out before the run,
//!             job after job, so that a later job sees the sizes its predecessors left.
//! Differs:    No file exists before the run. A job that would move no byte is refused; fio runs
//!             it and says so afterwards. `time_based` without a runtime is dropped, as in fio,
//!             and a note says so.
//! Not for:    block devices, whose size the text does not tell

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::time::Duration;
use forebay_core::units::SECTOR_SIZE;

use super::error::{JobError, JobErrorKind, Note};
use super::job::{FileSpec, Job};
use super::parse::Section;
use super::plan::{Plan, PlanFile, RANDSEED, Region};
use super::random::{Purpose, Random, Seeds};
use super::settings::{Settings, Share};
use super::skew::Distribution;
use super::words::{Advice, Engine};

/// The jobs made so far and the files they left.
pub(super) struct Run<'a> {
    file: &'a str,
    pub(super) jobs: Vec<Job>,
    pub(super) notes: Vec<Note>,
    sizes: BTreeMap<String, u64>,
    files_total: usize,
    name_bytes: usize,
    /// Blocks in the random maps of the jobs that run side by side.
    map_blocks: u64,
}

impl<'a> Run<'a> {
    /// A run without jobs, read from `file`.
    pub(super) fn new(file: &'a str) -> Self {
        let (jobs, notes, sizes) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { file, jobs, notes, sizes, files_total: 0, name_bytes: 0, map_blocks: 0 }
    }

    /// Adds the clones of one section.
    pub(super) fn add(
        &mut self,
        section: &Section<'_>,
        settings: Settings,
    ) -> Result<(), JobError> {
        let settings = &Arc::new(settings);
        let part = Part { file: self.file, section, settings };
        let total = self.jobs.len() as u64 + u64::from(settings.numjobs);
        if total > JOBS_MAX {
            return Err(part.too_many("numjobs", "the number of jobs", total, JOBS_MAX));
        }
        let queues = settings.ioengine == Engine::IoUring
            || settings.ioengine == Engine::Libaio && settings.direct;
        if settings.iodepth > 1 && !queues {
            let note = Note {
                line: settings.lines.get("iodepth").copied().unwrap_or(section.line),
                option: String::from("iodepth"),
                why: "this ioengine has one request in flight; io_uring, and libaio with direct=1, \
                      have more",
            };
            // Sections may have it from one line of [global].
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        if settings.time_based && settings.runtime_us == 0 {
            self.notes.push(Note {
                line: settings.lines.get("time_based").copied().unwrap_or(section.line),
                option: String::from("time_based"),
                why: "there is no runtime to fill",
            });
        }
        for clone in std::iter::once(0).chain((1..settings.numjobs).rev()) {
            self.add_clone(&part, clone)?;
        }
        Ok(())
    }

    fn add_clone(&mut self, part: &Part<'_>, clone: u32) -> Result<(), JobError> {
        let settings = part.settings;
        let job_number = u32::try_from(self.jobs.len() + 1).expect("JOBS_MAX fits 32 bits");
        let mut plan = part.plan(clone, job_number);
        let names = part.file_names(clone)?;
        self.files_total += names.len();
        if self.files_total > FILES_MAX {
            let most = FILES_MAX as u64;
            return Err(part.too_many("nrfiles", "the number of files", most + 1, most));
        }
        self.name_bytes += names.iter().map(String::len).sum::<usize>();
        if self.name_bytes > NAME_BYTES_MAX {
            let (what, found) = ("the bytes of all names of files", self.name_bytes as u64);
            return Err(part.too_many("nrfiles", what, found, NAME_BYTES_MAX as u64));
        }
        part.check(&plan)?;
        self.lay_out(part, &mut plan, names, clone)?;
        part.check_sizes(&plan)?;
        if settings.stonewall && clone == 0 {
            self.map_blocks = 0;
        }
        if plan.use_map {
            self.map_blocks += plan.files.iter().map(|file| plan.map_blocks(file)).sum::<u64>();
        }
        if self.map_blocks > MAP_BLOCKS_MAX {
            let what = "the number of blocks in all random maps";
            return Err(part.too_many("size", what, self.map_blocks, MAP_BLOCKS_MAX));
        }
        let job = Job {
            name: part.section.name.to_owned(),
            line: part.section.line,
            job_number,
            clone_number: clone,
            mode: settings.mode,
            files: plan.files.iter().map(FileSpec::from).collect(),
            ioengine: settings.ioengine,
            iodepth: settings.iodepth,
            advice: settings.advice.unwrap_or(if settings.mode.is_random() {
                Advice::Random
            } else {
                Advice::Sequential
            }),
            thinktime: Duration::from_micros(settings.thinktime_us),
            thinktime_blocks: settings.thinktime_blocks,
            runtime: (settings.runtime_us > 0).then(|| Duration::from_micros(settings.runtime_us)),
            time_based: plan.time_based,
            io_size: if settings.io_size.bytes > 0 { settings.io_size.bytes } else { plan.size },
            number_ios: settings.number_ios,
            loops: settings.loops.max(1),
            startdelay: Duration::from_micros(part.startdelay_us(job_number)),
            direct: settings.direct,
            invalidate: settings.invalidate,
            stonewall: settings.stonewall && clone == 0,
            durable: settings.durable,
            distribution: settings.distribution,
            plan: Arc::new(plan),
        };
        self.jobs.push(job);
        Ok(())
    }

    /// Gives every file its size and region, and remembers the sizes for the jobs to come.
    fn lay_out(
        &mut self,
        part: &Part<'_>,
        plan: &mut Plan,
        names: Vec<String>,
        clone: u32,
    ) -> Result<(), JobError> {
        let settings = part.settings;
        let count = names.len() as u64;
        let on_disk = |name: &String| self.sizes.get(name).copied().unwrap_or(0);
        let unbounded = settings.size.bytes == 0 && settings.filesize.0 == 0;
        if unbounded && names.iter().all(|name| on_disk(name) == 0) {
            let what = match settings.size.percent {
                0 | 100 => "it needs size= or filesize=",
                _ => "size= in percent is of a file, and needs filesize=",
            };
            return Err(part.refused("size", String::from(what)));
        }
        let each = settings.size.bytes / count;
        let block_min = plan.block_min();
        let mut extra = if settings.filesize.0 == 0 {
            (settings.size.bytes - each * count) / block_min
        } else {
            0
        };
        let mut sizes = Random::new(part.seeds(plan.job_number).of(Purpose::FileSize), part.wide());
        let mut total: u64 = 0;
        for name in names {
            let on_disk = self.sizes.get(&name).copied().unwrap_or(0);
            let offset = part.start_offset(on_disk, clone, block_min)?;
            let mut share = each;
            if extra > 0 {
                extra -= 1;
                share += block_min;
            }
            let whole = part.region(on_disk, offset, share, &mut sizes, block_min)?;
            let io_size = part.scaled(whole, offset, block_min);
            total = total.saturating_add(match settings.io_size.percent {
                0 | 100 => io_size,
                percent => hundredths(io_size, percent),
            });
            let end = part.within_limit(io_size.saturating_add(offset))?;
            let real_size = on_disk.max(end);
            if end > on_disk && !settings.create_on_open {
                let filled =
                    settings.mode.reads() || settings.overwrite || settings.fallocate_sizes;
                self.sizes.insert(name.clone(), if filled { real_size } else { 0 });
            }
            let later_offset = part.start_offset(real_size, clone, block_min)?;
            let from_start = offset == 0 && later_offset == 0;
            let first_bytes =
                if end > on_disk && from_start && settings.grows_files() { 0 } else { real_size };
            let region =
                Region { real_size, first_bytes, io_size, first_offset: offset, later_offset };
            plan.files.push(PlanFile { name, region });
        }
        if plan.size == 0 || (total > 0 && plan.size > total) {
            plan.size = total;
        }
        Ok(())
    }
}

impl From<&PlanFile> for FileSpec {
    fn from(file: &PlanFile) -> Self {
        Self {
            name: file.name.clone(),
            bytes: file.region.first_bytes,
            room: file.region.real_size,
            region_offset: file.region.first_offset,
            region_len: file.region.io_size,
        }
    }
}

/// One section under work.
struct Part<'a> {
    file: &'a str,
    section: &'a Section<'a>,
    settings: &'a Arc<Settings>,
}

impl Part<'_> {
    fn plan(&self, clone: u32, job_number: u32) -> Plan {
        let settings = self.settings;
        let mut block = [(0, 0); 3];
        let mut align = [0; 3];
        for direction in 0..block.len() {
            let size = settings.bs[direction];
            block[direction] = settings.bs_range[direction].unwrap_or((size, size));
            let given = settings.blockalign[direction];
            let aligned = given > 0 && settings.mode.is_random();
            align[direction] = if aligned { given } else { block[direction].0 };
        }
        let at_blocks = block.iter().zip(align).all(|((low, _), align)| *low == align);
        let seeded = settings.randseed.is_some();
        Plan {
            settings: Arc::clone(settings),
            job_number,
            files: Vec::new(),
            block,
            align,
            use_map: settings.mode.is_random()
                && !settings.norandommap
                && at_blocks
                && settings.distribution == Distribution::Uniform,
            // Clones are copied from the first job after `randseed` has cleared its
            // repeatability; the first job itself fills its seeds before that.
            repeatable_at_first: settings.randrepeat && !(seeded && clone > 0),
            repeatable: settings.randrepeat && !seeded,
            size: settings.size.bytes,
            time_based: settings.time_based && settings.runtime_us > 0,
        }
    }

    fn check(&self, plan: &Plan) -> Result<(), JobError> {
        let settings = self.settings;
        let block_min = plan.block_min();
        if settings.size.bytes > 0 && settings.size.bytes < block_min {
            let why =
                format!("size {} is less than the smallest block {block_min}", settings.size.bytes);
            return Err(self.refused("size", why));
        }
        for (low, high) in plan.block {
            let draws = if settings.bs_unaligned { high } else { high / low };
            if low != high && draws > DRAWS_MAX {
                let what = "the ratio of the largest block to the smallest";
                return Err(self.too_many("bsrange", what, draws, DRAWS_MAX));
            }
        }
        let unrepeatable = !settings.randrepeat && settings.randseed.is_none();
        if unrepeatable && plan.draws() {
            return Err(self.not_supported(
                "randrepeat",
                "0",
                "seeds from the system's entropy cannot be repeated, set randseed",
            ));
        }
        if settings.iodepth > 1 && settings.ioengine == Engine::Vsync {
            let why = "merging requests into vectors is not reproduced";
            return Err(self.not_supported("iodepth", &settings.iodepth.to_string(), why));
        }
        let unmarked = settings.repeat != 1 || settings.percentage_random != [100; 3];
        let again = settings.loops != 1 || settings.io_size != Share::default();
        let queued = settings.iodepth > 1 && settings.ioengine.queues();
        if plan.use_map && unmarked && again && queued {
            let why = "which requests the random map forgets would depend on completions";
            return Err(self.not_supported("iodepth", &settings.iodepth.to_string(), why));
        }
        self.check_writes(queued)?;
        let partly_open = settings.openfiles > 0 && settings.openfiles < settings.nrfiles;
        if partly_open && queued {
            let why = "which files are open would depend on completions";
            return Err(self.not_supported("openfiles", &settings.openfiles.to_string(), why));
        }
        Ok(())
    }

    fn check_writes(&self, queued: bool) -> Result<(), JobError> {
        let settings = self.settings;
        for (option, every) in [("fsync", settings.fsync), ("fdatasync", settings.fdatasync)] {
            if every > 0 && queued && settings.mode.writes() {
                let why = "how often fio syncs would depend on completions";
                return Err(self.not_supported(option, &every.to_string(), why));
            }
        }
        let given = |rates: &[u64; 3]| rates.iter().any(|rate| *rate > 0);
        if given(&settings.rate) && given(&settings.rate_iops) {
            let why = String::from("rate and rate_iops exclude each other");
            return Err(self.refused("rate_iops", why));
        }
        if settings.create_on_open && settings.mode.reads() {
            let why = "a file that is not laid out cannot be read";
            return Err(self.not_supported("create_on_open", "1", why));
        }
        Ok(())
    }

    fn check_sizes(&self, plan: &Plan) -> Result<(), JobError> {
        if plan.size < plan.block_min() {
            let why = format!(
                "the files hold {} bytes, less than the smallest block {}",
                plan.size,
                plan.block_min()
            );
            return Err(self.refused("bs", why));
        }
        let mode = self.settings.mode;
        let reads = mode.reads().then_some(plan.block[0].0);
        let writes = mode.writes().then_some(plan.block[1].0);
        let least = reads.into_iter().chain(writes).min().expect("a job reads or writes");
        let most = plan.files.iter().map(|file| file.region.io_size).max().unwrap_or(0);
        if most < least {
            let why = format!("no file holds a block of {least} bytes, the largest has {most}");
            return Err(self.refused("bs", why));
        }
        self.check_direct(plan)?;
        for file in &plan.files {
            let blocks = plan.map_blocks(file);
            if plan.use_map && blocks > MAP_BLOCKS_MAX {
                let what = "the number of blocks in the random map";
                return Err(self.too_many("size", what, blocks, MAP_BLOCKS_MAX));
            }
        }
        Ok(())
    }

    /// Direct requests name whole sectors, and an engine that has them.
    fn check_direct(&self, plan: &Plan) -> Result<(), JobError> {
        let settings = self.settings;
        if !settings.direct {
            return Ok(());
        }
        if settings.ioengine == Engine::Mmap {
            return Err(self.not_supported("direct", "1", "ioengine=mmap maps the page cache"));
        }
        let is_whole = |bytes: &u64| bytes.is_multiple_of(SECTOR_SIZE);
        let blocks = plan.block.iter().flat_map(|(low, high)| [*low, *high]).chain(plan.align);
        let splits = settings.splits.iter().flatten().map(|split| split.bytes);
        let mut offsets = plan.files.iter().map(|file| file.region.first_offset);
        if settings.bs_unaligned || !blocks.chain(splits).all(|bytes| is_whole(&bytes)) {
            let why = String::from("direct=1 takes blocks of whole sectors of 512 bytes");
            return Err(self.refused("bs", why));
        }
        if !offsets.all(|bytes| is_whole(&bytes)) {
            let why = String::from("direct=1 takes offsets in whole sectors of 512 bytes");
            return Err(self.refused("offset", why));
        }
        Ok(())
    }

    fn file_names(&self, clone: u32) -> Result<Vec<String>, JobError> {
        let settings = self.settings;
        let count = settings.nrfiles as usize;
        if !settings.files.is_empty() {
            return Ok(settings.files.iter().take(count).cloned().collect());
        }
        if count > FILES_MAX {
            let most = FILES_MAX as u64;
            return Err(self.too_many("nrfiles", "the number of files", count as u64, most));
        }
        let format = &settings.filename_format;
        if settings.numjobs > 1 && !format.to_ascii_lowercase().contains("$jobnum") {
            let why = String::from("its clones need $jobnum in filename_format, or filename=");
            return Err(self.refused("filename_format", why));
        }
        let directories = &settings.directories;
        let directory = directories.get(clone as usize % directories.len().max(1));
        let directory = directory.map_or(String::new(), |name| format!("{name}/"));
        let name = |number: u32| {
            let words = [
                ("$jobname", self.section.name.to_owned()),
                ("$jobnum", clone.to_string()),
                ("$filenum", number.to_string()),
                ("$clientuid", String::new()),
            ];
            format!("{directory}{}", filled(format, &words))
        };
        let mut names = Vec::new();
        let mut bytes = 0;
        for number in 0..settings.nrfiles {
            let name = name(number);
            if name.len() > PATH_BYTES_MAX {
                let (what, found) = ("the bytes of a file's name", name.len() as u64);
                return Err(self.too_many("filename_format", what, found, PATH_BYTES_MAX as u64));
            }
            bytes += name.len();
            names.push(name);
            // The caller refuses them: no more are needed for that.
            if bytes > NAME_BYTES_MAX {
                break;
            }
        }
        Ok(names)
    }

    /// Where a file's region starts, given the size of the file.
    fn start_offset(&self, real_size: u64, clone: u32, block_min: u64) -> Result<u64, JobError> {
        let settings = self.settings;
        let increment = match settings.offset_increment {
            share if share.percent > 0 => hundredths(real_size, share.percent),
            share => share.bytes,
        };
        let steps = increment.saturating_mul(u64::from(clone));
        let base = match settings.offset {
            share if share.percent > 0 => hundredths(real_size, share.percent),
            share => share.bytes,
        };
        let offset = base.saturating_add(steps);
        let by_percent = settings.offset.percent > 0 || settings.offset_increment.percent > 0;
        if !by_percent {
            return self.within_limit(offset);
        }
        let align = settings.offset_align.unwrap_or(block_min);
        self.within_limit(offset.div_ceil(align).saturating_mul(align))
    }

    /// The bytes of one file from its offset on, before `size=N%` cuts them.
    fn region(
        &self,
        on_disk: u64,
        offset: u64,
        share: u64,
        sizes: &mut Random,
        block_min: u64,
    ) -> Result<u64, JobError> {
        let beyond = |end: u64| {
            self.refused("offset", format!("offset {offset} lies beyond the file's end at {end}"))
        };
        let (low, high) = self.settings.filesize;
        if low == 0 {
            if share > 0 {
                return Ok(share);
            }
            return on_disk.checked_sub(offset).ok_or_else(|| beyond(on_disk));
        }
        if (low..=high).contains(&on_disk) {
            return on_disk.checked_sub(offset).ok_or_else(|| beyond(on_disk));
        }
        let end = if low == high {
            low
        } else {
            let drawn = low + sizes.below(high - low);
            drawn - drawn % block_min
        };
        end.min(low).checked_sub(offset).ok_or_else(|| beyond(end.min(low)))?;
        Ok(end - offset)
    }

    fn scaled(&self, io_size: u64, offset: u64, block_min: u64) -> u64 {
        let percent = self.settings.size.percent;
        if percent == 0 || percent == 100 {
            return io_size;
        }
        let scaled = hundredths(io_size.saturating_add(offset), percent).min(io_size);
        scaled - scaled % block_min
    }

    fn startdelay_us(&self, job_number: u32) -> u64 {
        let (low, high) = self.settings.startdelay_us;
        if low == high {
            return low;
        }
        let seed = self.seeds(job_number).of(Purpose::StartDelay);
        low + Random::new(seed, self.wide()).below(high - low + 1)
    }

    fn seeds(&self, job_number: u32) -> Seeds {
        Seeds::new(self.settings.randseed.unwrap_or(RANDSEED), job_number)
    }

    fn wide(&self) -> bool {
        self.settings.wide.unwrap_or(false)
    }

    fn within_limit(&self, bytes: u64) -> Result<u64, JobError> {
        if bytes <= FILE_BYTES_MAX {
            return Ok(bytes);
        }
        Err(self.too_many("size", "the end of a file", bytes, FILE_BYTES_MAX))
    }

    fn refused(&self, option: &str, why: String) -> JobError {
        self.error(option, JobErrorKind::Refused { job: self.section.name.to_owned(), why })
    }

    fn too_many(&self, option: &str, what: &'static str, found: u64, most: u64) -> JobError {
        let job = self.section.name.to_owned();
        self.error(option, JobErrorKind::TooMany { job, what, found, most })
    }

    fn not_supported(&self, option: &str, value: &str, why: &'static str) -> JobError {
        let (option_text, value) = (option.to_owned(), value.to_owned());
        self.error(option, JobErrorKind::NotSupported { option: option_text, value, why })
    }

    fn error(&self, option: &str, kind: JobErrorKind) -> JobError {
        let line = self.settings.lines.get(option).copied().unwrap_or(self.section.line);
        JobError {
            file: self.file.to_owned(),
            line,
            option: option.to_owned(),
            kind: Box::new(kind),
        }
    }
}

fn hundredths(whole: u64, percent: u64) -> u64 {
    let share = u128::from(whole) * u128::from(percent) / 100;
    u64::try_from(share).expect("no share above the whole is accepted")
}

fn filled(format: &str, words: &[(&str, String)]) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some(letter) = rest.chars().next() {
        let begins = |word: &str| {
            rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        let found = words.iter().find(|(word, _)| begins(word));
        if let Some((word, value)) = found {
            out.push_str(value);
            rest = &rest[word.len()..];
        } else {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    out
}

/// As many jobs as fio has room for.
const JOBS_MAX: u64 = 4096;

/// Files over all jobs; each costs a few hundred bytes.
const FILES_MAX: usize = 1 << 20;

/// Bytes of the names of all files.
const NAME_BYTES_MAX: usize = 128 << 20;

/// Bytes of a path of the kernel (`PATH_MAX`), without its end.
const PATH_BYTES_MAX: usize = 4095;

/// Blocks of the random maps of jobs side by side; each costs a bit, that is 512 MiB at most.
const MAP_BLOCKS_MAX: u64 = u32::MAX as u64;

/// At the end of a file the smallest block may be the only one that fits, and it takes about this
/// many draws until it comes; fio draws as long.
const DRAWS_MAX: u64 = 1 << 26;

/// The largest file offset of the kernel.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;
