//! `forebay record`: a trace of this machine's block requests, from our own instance of tracefs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use forebay_live::number::DevNumber;
use forebay_live::trace::{BlockRecorder, Scope, threads_of};
use forebay_report::messages::{self, Complaint, shown};
use forebay_report::whole::Draft;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::record::Record;

/// Records until the time is over or a signal comes.
pub(crate) fn run(arguments: &Record) -> Result<u8> {
    let scope = scope(&arguments.of)?;
    let path = &arguments.output;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut out = Draft::of_new(path).with_context(|| format!("cannot make '{}'", shown(path)))?;
    let mut recorder = BlockRecorder::new(&scope).map_err(|error| {
        let complaint = Complaint::new(error.to_string());
        match error.is_denied() {
            true => complaint.hint("tracefs is for root"),
            false => complaint.hint("`forebay doctor` says what this machine allows"),
        }
    })?;
    let begin = Instant::now();
    let mut count = 0;
    loop {
        let is_over = stop.load(Ordering::Relaxed)
            || arguments.time.is_some_and(|time| begin.elapsed() >= time);
        let mut written = Ok(());
        count += recorder.drain(&mut |line| {
            if written.is_ok() {
                written = out.write_all(line);
            }
        })?;
        written.with_context(|| format!("cannot write '{}'", shown(path)))?;
        if is_over {
            break;
        }
        let left = arguments.time.map_or(TICK, |time| time.saturating_sub(begin.elapsed()));
        thread::sleep(left.min(TICK));
    }
    let lost = recorder.lost();
    drop(recorder);
    if count == 0 {
        let what = "no request was seen in this time, and nothing is written".to_owned();
        let hint = "a read that the page cache answers makes none: `dd iflag=direct` makes some";
        bail!(Complaint::new(what).hint(hint));
    }
    out.finish().with_context(|| format!("cannot write '{}'", shown(path)))?;
    messages::note(&format!("{count} requests in '{}'", shown(path)));
    if lost > 0 {
        messages::note(&format!("{lost} events were lost: they came faster than they were read"));
    }
    Ok(0)
}

/// The recorded scope: a process by its number, or a block device with its partitions.
fn scope(of: &str) -> Result<Scope> {
    if let Ok(pid) = of.parse::<u32>() {
        let threads = threads_of(pid).map_err(|error| {
            Complaint::new(format!("process {pid}: {error}"))
                .hint("a process is named by its number, as `ps` lists it")
        })?;
        return Ok(Scope { threads, devices: Vec::new() });
    }
    let name = if of.contains('/') { of.to_owned() } else { format!("/dev/{of}") };
    let found = fs::metadata(&name).with_context(|| format!("cannot look at '{name}'"))?;
    if !found.file_type().is_block_device() {
        bail!(
            Complaint::new(format!("'{of}' is no block device"))
                .hint("a device is named as /dev/vda or vda, a process by its number")
        );
    }
    let device = DevNumber::from_stat(found.rdev());
    let mut devices = vec![device];
    let folder = format!("/sys/dev/block/{device}");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.join("partition").exists() {
            let number = fs::read_to_string(path.join("dev")).unwrap_or_default();
            devices.extend(number.parse::<DevNumber>().ok());
        }
    }
    Ok(Scope { devices, threads: Vec::new() })
}

/// How often the buffer is emptied and signals are noticed.
const TICK: Duration = Duration::from_millis(100);
