//! The kernel's account of a step: which folios were added, which windows were chosen.
//!
//! A private tracefs instance keeps the events apart from other tracing. Only the file system's
//! device is recorded, and only events of one file are used.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use forebay_core::readahead::Window;
use forebay_core::units::{PAGE_SIZE, PageIndex};

use crate::process::{run, text};

/// An instance that records events.
#[derive(Debug)]
pub(super) struct Tracer {
    instance: PathBuf,
    /// Reading it removes events from the buffer.
    pipe: File,
}

/// The recorded events, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Events {
    /// First page and order of each folio that was added.
    pub(super) added: Vec<(PageIndex, u8)>,
    /// Windows that were submitted.
    pub(super) windows: Vec<Window>,
    /// Folios that were taken away.
    pub(super) deleted: u64,
}

impl Tracer {
    /// Mounts tracefs at `place` and makes an instance, if the kernel has the events.
    pub(super) fn new(place: &Path) -> Result<Option<Self>> {
        run("mount", &["-t", "tracefs", "tracefs", &text(place)?])?;
        if !EVENTS.iter().all(|event| place.join("events").join(event).is_dir()) {
            return Ok(None);
        }
        let instance = place.join(INSTANCE);
        fs::create_dir(&instance).context("cannot make a tracefs instance")?;
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(instance.join("trace_pipe"))?;
        let tracer = Self { instance, pipe };
        // The default clock differs between processors by more than two events do.
        tracer.write("trace_clock", "mono")?;
        tracer.write("buffer_size_kb", BUFFER_KIB)?;
        Ok(Some(tracer))
    }

    /// Records events of the file system on `device`, given as st_dev has it.
    pub(super) fn watch(&self, device: u64) -> Result<()> {
        let device = libc::dev_t::from(device);
        // Inside the kernel a device is 12 bits of major and 20 bits of minor number.
        let number = (u64::from(libc::major(device)) << 20) | u64::from(libc::minor(device));
        for event in EVENTS {
            self.write(&format!("events/{event}/filter"), &format!("s_dev == {number}"))?;
            self.write(&format!("events/{event}/enable"), "1")?;
        }
        Ok(())
    }

    /// The events since the last call, of one file.
    pub(super) fn take(&self, inode: u64) -> Result<Events> {
        let mut trace = Vec::new();
        match (&self.pipe).read_to_end(&mut trace) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("cannot read the trace"),
        }
        let trace = String::from_utf8_lossy(&trace);
        ensure!(!trace.contains(LOST), "the trace buffer is too small");
        parse(&trace, inode)
    }

    fn write(&self, knob: &str, value: &str) -> Result<()> {
        let problem = || format!("cannot write '{value}' to {knob}");
        let mut file =
            OpenOptions::new().write(true).open(self.instance.join(knob)).with_context(problem)?;
        file.write_all(value.as_bytes()).with_context(problem)
    }
}

/// Removes the instance of a mounted tracefs, if there is one.
pub(super) fn remove_instance(place: &Path) {
    let instance = place.join(INSTANCE);
    if instance.is_dir()
        && let Err(error) = fs::remove_dir(&instance)
    {
        eprintln!("warning: left {} behind: {error}", instance.display());
    }
}

/// The events of `inode` in the text of a trace.
fn parse(trace: &str, inode: u64) -> Result<Events> {
    let mut events = Events::default();
    let inode = format!("{inode:x}");
    for line in trace.lines() {
        let Some((event, fields)) = split(line) else { continue };
        if field(fields, "ino") != Some(&inode) {
            continue;
        }
        let number = |name| -> Result<u64> {
            let value = field(fields, name).with_context(|| format!("no {name} in '{line}'"))?;
            value.parse().with_context(|| format!("{name} is no number in '{line}'"))
        };
        match event {
            "mm_filemap_add_to_page_cache" => {
                let order = u8::try_from(number("order")?)?;
                events.added.push((number("ofs")? / PAGE_SIZE, order));
            }
            "mm_filemap_delete_from_page_cache" => events.deleted += 1,
            "page_cache_ra_order" => events.windows.push(Window {
                start: number("index")?,
                size: number("size")?,
                tail: number("async_size")?,
            }),
            _ => {}
        }
    }
    Ok(events)
}

/// The event's name and its fields: `comm-pid [cpu] flags time: event: fields`. The name of the
/// command may hold anything, so the event is looked for by its own name.
fn split(line: &str) -> Option<(&'static str, &str)> {
    EVENTS.iter().find_map(|event| {
        let name = event.rsplit('/').next()?;
        let (_, fields) = line.split_once(&format!(": {name}: "))?;
        Some((name, fields))
    })
}

/// The value of `name=VALUE` or `name VALUE`.
fn field<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    let mut words = fields.split([' ', '=']);
    words.find(|word| *word == name)?;
    words.next()
}

/// Where the instance lies in tracefs.
const INSTANCE: &str = "instances/forebay-fidelity";

/// For a whole file of single pages in one step.
const BUFFER_KIB: &str = "16384";

/// Stands in the trace where the buffer was full.
const LOST: &str = " EVENTS]";

/// The events that are recorded.
const EVENTS: [&str; 3] = [
    "readahead/page_cache_ra_order",
    "filemap/mm_filemap_add_to_page_cache",
    "filemap/mm_filemap_delete_from_page_cache",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_trace_gives_the_events_of_one_file() {
        let trace = "\
   cat - [x]-77 [001] .....  12.000001: page_cache_ra_order: \
            dev=7:0 ino=c index=4 order=2 size=8 async_size=8 ra_pages=32
        cat-77  [001] .....  12.000002: mm_filemap_add_to_page_cache: \
            dev 7:0 ino c pfn=0x1f ofs=16384 order=2
        cat-77  [001] .....  12.000003: mm_filemap_add_to_page_cache: \
            dev 7:0 ino d pfn=0x2f ofs=0 order=0
        cat-77  [001]  12.000004: mm_filemap_delete_from_page_cache: \
            dev 7:0 ino c pfn=0x1f ofs=16384 order=2
";
        let expected = Events {
            added: vec![(4, 2)],
            windows: vec![Window { start: 4, size: 8, tail: 8 }],
            deleted: 1,
        };
        assert_eq!(parse(trace, 12).unwrap(), expected);
    }
}
