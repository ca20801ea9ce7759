//! The table of fio's options, and how each is treated.
//!
//! Source:     fio 3.33, `options.c`; the engines' own options from `engines/*.c`
//! Behaviour:  Every option of fio is listed. It is set, ignored with a note, taken only at the
//!             values that change nothing, or refused. An option not listed is unknown.
//! Differs:    An option that would change the requests or their order and is not reproduced is
//!             refused, never ignored.
//! Not for:    the meaning of the values, see `settings.rs` and `job.rs`

use super::error::{JobErrorKind, Note, nearest};
use super::parse::Entry;
use super::settings::{COUNT_MAX, Given, PERCENT, Sequencer, Service, Setter, Settings, TIME};
use super::value::{self, SECOND_US};
use super::words::{Advice, Engine};

/// How an option is treated.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// It is set.
    Set(Setter),
    /// It changes neither the requests nor their environment.
    Ignored(&'static str),
    /// Only these values are taken, since they change nothing.
    Only(&'static [&'static str], &'static str),
    /// It is refused.
    Refused(&'static str),
}

/// Applies the options of one section in fio's order.
pub(super) fn apply(
    settings: &mut Settings,
    entries: &[Entry<'_>],
    notes: &mut Vec<Note>,
) -> Result<(), (u32, String, JobErrorKind)> {
    // fio reads some options before the others: units must be known before numbers are read,
    // and the directory before the file names that it precedes.
    let mut ordered: Vec<&Entry<'_>> = entries.iter().collect();
    ordered.sort_by_key(|entry| match entry.option {
        "kb_base" => 0,
        "filename" => 2,
        _ => 1,
    });
    for entry in ordered {
        let given = Given { entry: *entry, kb_base: settings.kb_base };
        set(settings, &given, notes).map_err(|kind| (entry.line, entry.option.to_owned(), kind))?;
    }
    Ok(())
}

fn set(
    settings: &mut Settings,
    given: &Given<'_>,
    notes: &mut Vec<Note>,
) -> Result<(), JobErrorKind> {
    let entry = given.entry;
    let known = |names: &[&'static str]| names.contains(&entry.option);
    let Some((names, rule)) = tables().find(|(names, _)| known(names)) else {
        let names = tables().flat_map(|(names, _)| names.iter());
        return Err(JobErrorKind::UnknownOption {
            option: entry.option.to_owned(),
            nearest: nearest(entry.option, names),
        });
    };
    match *rule {
        Rule::Set(setter) => {
            setter(settings, given)?;
            settings.lines.insert(names[0], entry.line);
        }
        Rule::Ignored(why) => {
            notes.push(Note { line: entry.line, option: entry.option.to_owned(), why });
        }
        Rule::Only(values, why) => {
            if !values.contains(&entry.value.unwrap_or_default()) {
                return Err(given.not_supported(why));
            }
        }
        Rule::Refused(why) => return Err(given.not_supported(why)),
    }
    Ok(())
}

/// Names of an option, and how it is treated.
pub(super) type Row = (&'static [&'static str], Rule);

fn tables() -> impl Iterator<Item = &'static Row> {
    [REQUESTS, FILES, WRITES, TIMING, LIMITED].into_iter().flatten().chain(lists())
}

fn lists() -> impl Iterator<Item = &'static Row> {
    IGNORED.iter().chain(REFUSED)
}

/// Which requests are made.
pub(super) const REQUESTS: &[Row] = &[
    (&["rw", "readwrite"], Rule::Set(Settings::set_rw)),
    (
        &["rw_sequencer"],
        Rule::Set(|to, given| {
            to.sequencer = given.word(&[
                ("sequential", Sequencer::Sequential),
                ("identical", Sequencer::Identical),
            ])?;
            Ok(())
        }),
    ),
    (
        &["bs", "blocksize"],
        Rule::Set(|to, given| {
            to.bs = given.read("one to three sizes such as 4k,64k", |text| {
                value::by_direction(text, to.bs, |item| {
                    value::bytes(item, given.kb_base).filter(|bytes| *bytes > 0)
                })
            })?;
            Ok(())
        }),
    ),
    (&["bsrange", "blocksize_range"], Rule::Set(Settings::set_range)),
    (&["bssplit"], Rule::Set(Settings::set_split)),
    (
        &["bs_unaligned", "blocksize_unaligned"],
        Rule::Set(|to, given| given.flag().map(|on| to.bs_unaligned = on)),
    ),
    (&["bs_is_seq_rand"], Rule::Set(|to, given| given.switch().map(|on| to.bs_is_seq_rand = on))),
    (
        &["blockalign", "ba"],
        Rule::Set(|to, given| {
            to.blockalign = given.read("one to three sizes such as 512,4k", |text| {
                value::by_direction(text, to.blockalign, |item| {
                    value::bytes(item, given.kb_base).filter(|bytes| *bytes > 0)
                })
            })?;
            Ok(())
        }),
    ),
    (&["number_ios"], Rule::Set(|to, given| given.bytes().map(|count| to.number_ios = count))),
    (&["rwmixread"], Rule::Set(|to, given| given.percent().map(|share| to.rwmixread = share))),
    (
        &["rwmixwrite"],
        Rule::Set(|to, given| given.percent().map(|share| to.rwmixread = 100 - share)),
    ),
    (&["random_distribution"], Rule::Set(Settings::set_distribution)),
    (
        &["percentage_random"],
        Rule::Set(|to, given| {
            to.percentage_random = given.read(PERCENT, |text| {
                value::by_direction(text, to.percentage_random, |item| {
                    value::digits(item).filter(|share| *share <= 100)
                })
            })?;
            Ok(())
        }),
    ),
    (&["norandommap"], Rule::Set(|to, given| given.flag().map(|on| to.norandommap = on))),
    (
        &["random_generator"],
        Rule::Set(|to, given| {
            if given.text()? == "lfsr" {
                return Err(given.not_supported("only the tausworthe generators are supported"));
            }
            to.wide = Some(given.word(&[("tausworthe", false), ("tausworthe64", true)])?);
            Ok(())
        }),
    ),
    (&["randseed"], Rule::Set(|to, given| given.bytes().map(|seed| to.randseed = Some(seed)))),
    (&["randrepeat"], Rule::Set(|to, given| given.switch().map(|on| to.randrepeat = on))),
    (&["do_verify"], Rule::Set(|to, given| given.switch().map(|on| to.do_verify = on))),
];

/// Which files they go to.
pub(super) const FILES: &[Row] = &[
    (&["filename"], Rule::Set(Settings::add_files)),
    (
        &["directory"],
        Rule::Set(|to, given| {
            to.directories = value::names(given.text()?);
            if to.directories.is_empty() { Err(given.bad("a directory")) } else { Ok(()) }
        }),
    ),
    (
        &["filename_format"],
        Rule::Set(|to, given| given.text().map(|text| text.clone_into(&mut to.filename_format))),
    ),
    (&["nrfiles", "nr_files"], Rule::Set(|to, given| given.count(1).map(|n| to.nrfiles = n))),
    (&["openfiles"], Rule::Set(|to, given| given.count(0).map(|n| to.openfiles = n))),
    (
        &["file_service_type"],
        Rule::Set(|to, given| {
            let word = given.text()?.split(':').next();
            if let Some("zipf" | "pareto" | "normal" | "gauss") = word {
                return Err(given.not_supported("files are chosen evenly"));
            }
            let (service, run) = given.choice(&[
                ("random", Service::Random),
                ("roundrobin", Service::RoundRobin),
                ("sequential", Service::Sequential),
            ])?;
            let run = run.map_or(Some(1), |run| u32::try_from(value::digits(run)?).ok());
            to.service = service;
            to.service_run = run.ok_or_else(|| given.bad("a count after ':'"))?;
            Ok(())
        }),
    ),
    (
        &["size"],
        Rule::Set(|to, given| Settings::share(to.size, given).map(|share| to.size = share)),
    ),
    (
        &["io_size", "io_limit"],
        Rule::Set(|to, given| Settings::share(to.io_size, given).map(|share| to.io_size = share)),
    ),
    (
        &["filesize"],
        Rule::Set(|to, given| {
            let parse = |text| match value::range(text, given.kb_base) {
                Some(range) => Some(range),
                None => value::bytes(text, given.kb_base).map(|size| (size, size)),
            };
            to.filesize = given.read("a size or a range above zero", |text| {
                parse(text).filter(|(low, _)| *low > 0)
            })?;
            Ok(())
        }),
    ),
    (
        &["offset", "fileoffset"],
        Rule::Set(|to, given| Settings::share(to.offset, given).map(|share| to.offset = share)),
    ),
    (
        &["offset_increment"],
        Rule::Set(|to, given| {
            Settings::share(to.offset_increment, given).map(|share| to.offset_increment = share)
        }),
    ),
    (
        &["offset_align"],
        Rule::Set(|to, given| given.bytes_above_zero().map(|bytes| to.offset_align = Some(bytes))),
    ),
    (&["overwrite"], Rule::Set(|to, given| given.switch().map(|on| to.overwrite = on))),
    (
        &["fallocate"],
        Rule::Set(|to, given| {
            to.fallocate_sizes = given.word(&[
                ("none", false),
                ("native", true),
                ("posix", true),
                ("keep", false),
                ("truncate", true),
                ("0", false),
                ("1", true),
            ])?;
            Ok(())
        }),
    ),
];

/// Options of writes.
pub(super) const WRITES: &[Row] = &[
    (
        &["sync"],
        Rule::Set(|to, given| {
            to.durable = given.word(&[
                ("none", false),
                ("0", false),
                ("sync", true),
                ("1", true),
                ("dsync", true),
            ])?;
            Ok(())
        }),
    ),
    (&["fsync"], Rule::Set(|to, given| given.count(0).map(|count| to.fsync = count.into()))),
    (
        &["fdatasync"],
        Rule::Set(|to, given| given.count(0).map(|count| to.fdatasync = count.into())),
    ),
    (&["end_fsync"], Rule::Set(|to, given| given.switch().map(|on| to.end_fsync = on))),
    (&["fsync_on_close"], Rule::Set(|to, given| given.switch().map(|on| to.fsync_on_close = on))),
    (&["create_on_open"], Rule::Set(|to, given| given.switch().map(|on| to.create_on_open = on))),
];

/// When and how they are made.
pub(super) const TIMING: &[Row] = &[
    (
        &["ioengine"],
        Rule::Set(|to, given| {
            let word = given.text()?.split(':').next().unwrap_or_default();
            if OTHER_ENGINES.contains(&word) {
                return Err(given.not_supported("only engines that read and write files are"));
            }
            to.ioengine = given.word(Engine::WORDS)?;
            Ok(())
        }),
    ),
    (&["iodepth"], Rule::Set(|to, given| given.count(1).map(|depth| to.iodepth = depth))),
    (&["numjobs"], Rule::Set(|to, given| given.count(1).map(|count| to.numjobs = count))),
    (&["loops"], Rule::Set(|to, given| given.count(0).map(|count| to.loops = count))),
    (
        &["runtime", "timeout"],
        Rule::Set(|to, given| given.micros(SECOND_US).map(|time| to.runtime_us = time)),
    ),
    (&["time_based"], Rule::Set(|to, given| given.flag().map(|on| to.time_based = on))),
    (
        &["startdelay"],
        Rule::Set(|to, given| {
            let read = |text| value::micros(text, SECOND_US);
            to.startdelay_us = given.read(TIME, |text| match text.split_once('-') {
                Some((low, high)) => Some((read(low)?, read(high)?)),
                None => read(text).map(|time| (time, time)),
            })?;
            let (low, high) = to.startdelay_us;
            let fits = high.checked_sub(low).is_some_and(|span| span < u64::from(u32::MAX) / 2);
            if fits { Ok(()) } else { Err(given.bad("a range of at most 35 minutes")) }
        }),
    ),
    (&["thinktime"], Rule::Set(|to, given| given.micros(1).map(|time| to.thinktime_us = time))),
    (
        &["thinktime_blocks"],
        Rule::Set(|to, given| given.count(1).map(|count| to.thinktime_blocks = u64::from(count))),
    ),
    (
        &["rate"],
        Rule::Set(|to, given| {
            to.rate = given.read("one to three rates such as 1m,500k", |text| {
                value::by_direction(text, to.rate, |item| value::bytes(item, given.kb_base))
            })?;
            Ok(())
        }),
    ),
    (
        &["rate_iops"],
        Rule::Set(|to, given| {
            to.rate_iops = given.read("one to three counts such as 100,50", |text| {
                value::by_direction(text, to.rate_iops, |item| {
                    value::bytes(item, given.kb_base).filter(|count| *count <= COUNT_MAX)
                })
            })?;
            Ok(())
        }),
    ),
    (
        &["rate_ignore_thinktime"],
        Rule::Set(|to, given| given.switch().map(|on| to.rate_ignores_thinktime = on)),
    ),
    (&["direct"], Rule::Set(|to, given| given.switch().map(|on| to.direct = on))),
    (&["buffered"], Rule::Set(|to, given| given.switch().map(|on| to.direct = !on))),
    (&["invalidate"], Rule::Set(|to, given| given.switch().map(|on| to.invalidate = on))),
    (
        &["fadvise_hint"],
        Rule::Set(|to, given| {
            to.advice = given.word(&[
                ("0", Some(Advice::Normal)),
                ("1", None),
                ("random", Some(Advice::Random)),
                ("sequential", Some(Advice::Sequential)),
            ])?;
            Ok(())
        }),
    ),
    (
        &["stonewall", "wait_for_previous"],
        Rule::Set(|to, given| given.flag().map(|on| to.stonewall = on)),
    ),
    (
        &["kb_base"],
        Rule::Set(|to, given| {
            to.kb_base = given.word(&[("1024", 1024), ("1000", 1000)])?;
            Ok(())
        }),
    ),
];

/// Options taken only at the values that change nothing.
pub(super) const LIMITED: &[Row] = &[
    (&["atomic"], Rule::Only(&["0"], "requests go through the page cache")),
    (&["write_barrier"], Rule::Only(&["0"], NO_SYNC)),
    (&["verify"], Rule::Only(&["0"], "verifying adds reads and changes seeds")),
    (&["verify_only"], Rule::Only(&["0"], "verifying adds reads and changes seeds")),
    (&["experimental_verify"], Rule::Only(&["0"], "verifying adds reads and changes seeds")),
    (&["allrandrepeat"], Rule::Only(&["0"], "its meaning changed with fio 3.35")),
    (&["zonemode"], Rule::Only(&["none"], "there are no zones")),
    (&["create_serialize"], Rule::Only(&["1"], "files are laid out one job after another")),
    (&["create_only"], Rule::Only(&["0"], "there would be nothing to run")),
    (&["allow_file_create"], Rule::Only(&["1"], "every file is created")),
    (&["file_append"], Rule::Only(&["0"], "files do not grow")),
    (&["fill_device", "fill_fs"], Rule::Only(&["0"], "there is no device to fill")),
    (&["pre_read"], Rule::Only(&["0"], "files are not read before the run")),
    (&["io_submit_mode"], Rule::Only(&["inline"], "one context makes all requests of a job")),
    (&["serialize_overlap"], Rule::Only(&["0"], "requests in flight are not compared")),
    (&["iodepth_batch", "iodepth_batch_submit"], Rule::Only(&["1"], NO_BATCH)),
    (&["iodepth_batch_complete_min", "iodepth_batch_complete"], Rule::Only(&["1"], NO_BATCH)),
    (&["unlink_each_loop"], Rule::Only(&["0"], "files stay between loops")),
    (&["lockfile"], Rule::Only(&["none"], "files are not locked")),
    (&["rate_process"], Rule::Only(&["linear"], "requests are spaced evenly, not drawn")),
    (&["ramp_time"], Rule::Only(&["0"], "a job is measured from its first request on")),
    (&["thinktime_blocks_type"], Rule::Only(&["complete"], NO_THINKING)),
    (&["thinktime_spin"], Rule::Only(&["0"], NO_THINKING)),
    (&["thinktime_iotime"], Rule::Only(&["0"], NO_THINKING)),
    (&["replay_no_stall"], Rule::Only(&["0"], NO_REPLAY)),
    (&["flow"], Rule::Only(&["0"], "jobs do not control each other")),
];

/// Options that change nothing here.
pub(super) const IGNORED: &[Row] = &[
    (&["name", "description"], Rule::Ignored("it names the job in reports")),
    (
        &["group_reporting", "new_group", "unified_rw_reporting", "stats", "per_job_logs"],
        Rule::Ignored(REPORT),
    ),
    (
        &[
            "clat_percentiles",
            "lat_percentiles",
            "slat_percentiles",
            "percentile_list",
            "significant_figures",
            "block_error_percentiles",
            "disk_util",
            "bwavgtime",
            "iopsavgtime",
            "unit_base",
        ],
        Rule::Ignored(REPORT),
    ),
    (
        &[
            "write_iolog",
            "write_bw_log",
            "write_lat_log",
            "write_iops_log",
            "write_hist_log",
            "log_entries",
            "log_avg_msec",
            "log_hist_msec",
            "log_hist_coarseness",
            "log_max_value",
            "log_offset",
            "log_prio",
            "log_compression",
            "log_compression_cpus",
            "log_store_compressed",
            "log_unix_epoch",
            "log_alternate_epoch",
            "log_alternate_epoch_clock_id",
        ],
        Rule::Ignored("no log is written"),
    ),
    (
        &[
            "gtod_reduce",
            "gtod_cpu",
            "clocksource",
            "disable_lat",
            "disable_clat",
            "disable_slat",
            "disable_bw_measurement",
            "disable_bw",
        ],
        Rule::Ignored("time is virtual"),
    ),
    (
        &[
            "thread",
            "nice",
            "prio",
            "prioclass",
            "cpumask",
            "cpus_allowed",
            "cpus_allowed_policy",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "uid",
            "gid",
            "cgroup",
            "cgroup_weight",
            "cgroup_nodelete",
        ],
        Rule::Ignored("processors and their sharing are not modelled"),
    ),
    (
        &["mem", "iomem", "iomem_align", "mem_align", "hugepage-size", "lockmem", "gpu_dev_id"],
        Rule::Ignored("the job's own memory is not modelled"),
    ),
    (
        &[
            "zero_buffers",
            "refill_buffers",
            "scramble_buffers",
            "buffer_pattern",
            "buffer_compress_percentage",
            "buffer_compress_chunk",
            "dedupe_percentage",
            "dedupe_global",
            "dedupe_mode",
            "dedupe_working_set_percentage",
            "write_hint",
        ],
        Rule::Ignored("requests carry no data"),
    ),
    (
        &[
            "verify_interval",
            "verify_offset",
            "verify_fatal",
            "verify_dump",
            "verify_async",
            "verify_async_cpus",
            "verify_state_save",
            "verifysort",
            "verifysort_nr",
        ],
        Rule::Ignored("without verify= it does nothing"),
    ),
    (
        &["exec_prerun", "exec_postrun", "create_fsync", "unlink", "allow_mounted_write"],
        Rule::Ignored("it acts before or after the run"),
    ),
    (
        &["continue_on_error", "ignore_error", "error_dump", "unique_filename", "softrandommap"],
        Rule::Ignored("the problem that it prevents does not occur"),
    ),
    (&["rate_cycle", "ratecycle"], Rule::Ignored("without rate_min= it does nothing")),
    (&["flow_id", "flow_sleep", "flow_watermark"], Rule::Ignored("without flow= it does nothing")),
    (
        &["replay_redirect", "replay_scale", "replay_align", "replay_time_scale", "replay_skip"],
        Rule::Ignored("without read_iolog= it does nothing"),
    ),
];

/// Options that are not reproduced.
pub(super) const REFUSED: &[Row] = &[
    (&["read_iolog", "read_iolog_chunked"], Rule::Refused(NO_REPLAY)),
    (
        &["merge_blktrace_file", "merge_blktrace_scalars", "merge_blktrace_iters"],
        Rule::Refused(NO_REPLAY),
    ),
    (
        &["rate_min", "ratemin", "rate_iops_min"],
        Rule::Refused("a job that is too slow is not shut down"),
    ),
    (
        &["max_latency", "latency_target", "latency_window", "latency_percentile", "latency_run"],
        Rule::Refused("a run does not end or slow down by its latencies"),
    ),
    (
        &[
            "steadystate",
            "ss",
            "steadystate_duration",
            "ss_dur",
            "steadystate_ramp_time",
            "ss_ramp",
        ],
        Rule::Refused("a run does not end by its rates"),
    ),
    (&["sync_file_range"], Rule::Refused(NO_SYNC)),
    (
        &[
            "zonesize",
            "zonecapacity",
            "zonerange",
            "zoneskip",
            "read_beyond_wp",
            "max_open_zones",
            "job_max_open_zones",
            "ignore_zone_limits",
            "zone_reset_threshold",
            "zone_reset_frequency",
        ],
        Rule::Refused("there are no zones"),
    ),
    (
        &["trim_percentage", "trim_verify_zero", "trim_backlog", "trim_backlog_batch"],
        Rule::Refused("the simulator has no trim"),
    ),
    (
        &["verify_pattern", "verify_backlog", "verify_backlog_batch", "verify_state_load"],
        Rule::Refused("verifying adds reads and changes seeds"),
    ),
    (&["opendir"], Rule::Refused("directories are not listed; name the files")),
    (&["wait_for"], Rule::Refused("jobs wait for each other only by stonewall")),
    (&["exitall", "exit_what", "exitall_on_error"], Rule::Refused("jobs end on their own")),
    (&["iodepth_low", "iodepth_batch_complete_max"], Rule::Refused(NO_BATCH)),
    (&["ioscheduler"], Rule::Refused("the scheduler belongs to the simulated device")),
    (&["profile"], Rule::Refused("profiles replace the job by a program")),
    (&["percentage_sequential", "rwmixcycle"], Rule::Refused("fio itself has dropped it")),
    (
        &[
            "userspace_reap",
            "nowait",
            "hipri",
            "hipri_percentage",
            "cmdprio_percentage",
            "cmdprio_class",
            "cmdprio",
            "cmdprio_bssplit",
            "fixedbufs",
            "registerfiles",
            "sqthread_poll",
            "sqthread_poll_cpu",
            "force_async",
            "nonvectored",
            "uncached",
            "thp",
        ],
        Rule::Refused("options of single engines are not modelled"),
    ),
];

/// Engines that fio has besides those reproduced.
const OTHER_ENGINES: &[&str] = &[
    "posixaio",
    "solarisaio",
    "windowsaio",
    "io_uring_cmd",
    "splice",
    "netsplice",
    "sg",
    "null",
    "net",
    "syslet-rw",
    "cpuio",
    "rbd",
    "rdma",
    "fusion-aw-sync",
    "e4defrag",
    "falloc",
    "gfapi",
    "gfapi_async",
    "libhdfs",
    "mtd",
    "pmemblk",
    "dev-dax",
    "filecreate",
    "filestat",
    "filedelete",
    "libpmem",
    "libiscsi",
    "nbd",
    "http",
    "ime_psync",
    "ime_psyncv",
    "ime_aio",
    "exec",
    "xnvme",
    "libblkio",
    "external",
    "guasi",
    "binject",
    "zbc",
    "dfs",
    "nfs",
    "ftruncate",
    "copyfs",
];

const REPORT: &str = "it shapes fio's report";
const NO_SYNC: &str = "only whole files are synced";
const NO_BATCH: &str = "requests are submitted and reaped one by one";
const NO_THINKING: &str = "a pause is a sleep after a number of requests";
const NO_REPLAY: &str = "logs are replayed by the trace reader, not by a job";
