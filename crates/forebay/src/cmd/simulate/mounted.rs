//! `forebay simulate --mount`: what a kernel asked of a mounted image, in virtual time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use forebay_core::packed::{RawBytes, Spec};
use forebay_core::serving::work::HEADER_BYTES;
use forebay_core::serving::{PackedBlock, Part, PartSource, ProgramPages, Recording};
use forebay_core::time::Duration;
use forebay_host::mount::{self, Options, Window};
use forebay_image::profile::Fingerprint;
use forebay_image::{self as images, Coding, Image, Kind, NodeId, Source};
use forebay_report::messages::{self, Complaint, shown};
use forebay_report::table::{Cell, Table};
use forebay_report::units;
use forebay_sim::mounted::{
    self, Codec, Disturbances, MountOutcome, MountSetup, PackedImage, decode_time,
};

use crate::args::MountWindow;
use crate::args::simulate::Simulate;
use crate::choice;
use crate::cmd::image::{no_image, source};
use crate::cmd::mount::page_memory;

/// Replays the recording once with each fill rule and prints the results.
pub(crate) fn run(arguments: &Simulate, path: &Path) -> Result<u8> {
    let machine = arguments.one_machine()?;
    let policies = policies(&arguments.policies.policy)?;
    let replay = &arguments.replay;
    let Some(image_path) = &replay.image else { bail!("simulate --mount takes an --image") };
    let text = choice::read(path)?;
    let name = choice::name(path);
    let recording = Recording::parse(&text).map_err(|error| {
        Complaint::new(format!("{name}: {error}"))
            .hint("a recording is what `forebay mount --record FILE` writes")
    })?;
    let offset = units::bytes("--image-offset", &replay.image_offset)?;
    let image = open(image_path, offset)?;
    if Fingerprint::of(&*image).map(|of| (of.bytes, of.hash))? != recording.image {
        let (what, hint) = (
            format!("{name} is a recording of another image than '{}'", shown(image_path)),
            "--image is the very file that was mounted with --record",
        );
        bail!(Complaint::new(what).hint(hint));
    }
    let mut options = Options {
        cache: page_memory(&replay.cache)?,
        threads: replay.threads as usize,
        window: window(replay.window),
        ..Options::default()
    };
    let image_bytes = image.summary().bytes.min(image.source().len());
    let files = FilesOfImage::new(image);
    let mut table = Table::new(format!("{name} on {}", machine.name()), COLUMNS);
    table.dense = true;
    for (typed, policy) in policies {
        options.policy = policy;
        let config = mount::config(&options, image_bytes);
        let setup = MountSetup::on(&machine, config, options.threads, arguments.seed);
        let setup = setup.map_err(Complaint::from)?;
        let outcome = mounted::run(setup, &files, &recording, &Disturbances::default());
        let outcome = outcome.map_err(|error| {
            let line = line_of(&text, error.request);
            Complaint::new(format!("{name}: line {line}: {}", error.reason))
        })?;
        table.rows.push(row(&typed, &outcome));
    }
    table.notes.push(format!(
        "forebay {}, virtual time, machine {}{}, window {}, cache {}, threads {}, seed {}",
        env!("CARGO_PKG_VERSION"),
        machine.name(),
        arguments.set.iter().map(|set| format!(" ({set})")).collect::<String>(),
        replay.window.name(),
        replay.cache,
        replay.threads,
        arguments.seed,
    ));
    if !recording.is_whole {
        let why = "the mount that wrote it was killed, or is still there";
        messages::note(&format!("{name} has no end: {why}; it is replayed as far as it goes"));
    }
    table.print(arguments.output.format(), &mut io::stdout().lock())?;
    Ok(0)
}

/// The fill rules that were typed, or the default one.
fn policies(typed: &[String]) -> Result<Vec<(String, Spec)>> {
    let default = [Options::default().policy.to_string()];
    let typed = if typed.is_empty() { &default } else { typed };
    typed
        .iter()
        .map(|typed| {
            let name = typed.strip_prefix("fill=").unwrap_or(typed);
            let spec = Spec::parse(name).map_err(Complaint::from)?;
            Ok((name.to_owned(), spec))
        })
        .collect()
}

fn open(path: &Path, offset: u64) -> Result<Arc<dyn Image>> {
    let file = source(path, "--image-offset", offset)?;
    let file: Arc<dyn Source> = Arc::new(images::Window::new(file, offset));
    let opened = images::open(&file, images::Options::default());
    opened.map_err(|error| no_image(path, offset, &error).into())
}

const fn window(typed: MountWindow) -> Window {
    match typed {
        MountWindow::Rule => Window::Rule,
        MountWindow::Ours => Window::Ours,
        MountWindow::Kernel => Window::Kernel,
    }
}

/// The line of a request of a recording.
fn line_of(text: &str, request: usize) -> usize {
    let lines = (1..).zip(text.lines()).skip(2).filter(|(_, line)| !line.is_empty());
    lines.map(|(number, _)| number).nth(request).unwrap_or(0)
}

fn row(policy: &str, outcome: &MountOutcome) -> Vec<Cell> {
    let MountOutcome { elapsed, waits, counts, .. } = outcome;
    let micros = |time: Duration| Cell::Number(time.as_nanos() as f64 / 1e3, 1);
    let mut row = vec![Cell::Text(policy.to_owned())];
    row.push(Cell::Number(elapsed.as_nanos() as f64 / 1e6, 2));
    row.extend([micros(waits.p50), micros(waits.p99)]);
    row.extend(
        [
            counts.touches,
            counts.hits,
            counts.errors,
            counts.reads,
            counts.refusals,
            counts.pages_decoded,
            counts.pages_useless,
            counts.pushes,
            counts.pages_pushed,
            counts.image_requests,
            counts.image_bytes,
        ]
        .map(Cell::Count),
    );
    row
}

/// The files of an image, as a replay asks about them. It asks the same again and again.
#[derive(Debug)]
struct FilesOfImage {
    image: Arc<dyn Image>,
    /// The slowest codec of the image: a block does not say which one it has.
    codec: Codec,
    files: RefCell<HashMap<u64, Option<FileOfImage>>>,
}

#[derive(Clone, Debug)]
struct FileOfImage {
    bytes: u64,
    program: Option<ProgramPages>,
}

impl FilesOfImage {
    fn new(image: Arc<dyn Image>) -> Self {
        let codecs = image.summary().codecs.iter().map(|name| Codec::from_name(name));
        let codec = codecs.max_by_key(|codec| decode_time(*codec, 1 << 20));
        Self { codec: codec.unwrap_or(Codec::Zlib), files: RefCell::default(), image }
    }

    fn file(&self, file: u64) -> Option<FileOfImage> {
        self.files.borrow_mut().entry(file).or_insert_with(|| self.find(NodeId(file))).clone()
    }

    fn find(&self, id: NodeId) -> Option<FileOfImage> {
        let node = self.image.node(id).ok()?;
        if node.kind != Kind::File {
            return None;
        }
        let mut begin = vec![0; usize::try_from(node.size.min(HEADER_BYTES)).ok()?];
        let read = images::read_at(&*self.image, id, 0, &mut begin);
        let program = read.ok().and_then(|_| mount::program_pages(&begin));
        Some(FileOfImage { bytes: node.size, program })
    }
}

impl PackedImage for FilesOfImage {
    fn file_bytes(&self, file: u64) -> Option<u64> {
        Some(self.file(file)?.bytes)
    }

    fn parts(&self, file: u64, offset: u64, len: u64) -> Option<Vec<Part>> {
        let end = offset.checked_add(len)?;
        let mut parts: Vec<Part> = Vec::new();
        let mut position = offset;
        while position < end {
            let block = self.image.locate(NodeId(file), position).ok()?;
            let stop = block.plain.end.min(end);
            if stop <= position || block.plain.start > position {
                return None;
            }
            let (at, len) = (position - offset, stop - position);
            let inside = u64::from(block.inside) + (position - block.plain.start);
            position = stop;
            let source = match block.coding {
                Coding::Hole => continue,
                Coding::Stored => PartSource::Stored(block.raw.start.checked_add(inside)?),
                Coding::Packed => {
                    let raw = RawBytes { start: block.raw.start, end: block.raw.end };
                    let (decoded, variant) = (block.decoded, block.variant);
                    let block = PackedBlock { raw, decoded, variant };
                    PartSource::Packed(block, u32::try_from(inside).ok()?)
                }
            };
            match parts.last_mut() {
                // Stored blocks mostly lie one behind the other.
                Some(Part { at: before, len: more, source: PartSource::Stored(start) })
                    if source == PartSource::Stored(*start + *more) && *before + *more == at =>
                {
                    *more += len;
                }
                _ => parts.push(Part { at, len, source }),
            }
        }
        Some(parts)
    }

    fn program(&self, file: u64) -> Option<ProgramPages> {
        self.file(file)?.program
    }

    fn decode_time(&self, _block: &PackedBlock, bytes: u64) -> Duration {
        decode_time(self.codec, bytes)
    }
}

const COLUMNS: &[(&str, &str)] = &[
    ("policy", "policy"),
    ("total_ms", "total ms"),
    ("p50_us", "p50 us"),
    ("p99_us", "p99 us"),
    ("recorded", "recorded"),
    ("hits", "hits"),
    ("errors", "errors"),
    ("reads", "READs"),
    ("refusals", "refused"),
    ("pages_decoded", "decoded"),
    ("pages_useless", "useless"),
    ("pushes", "pushes"),
    ("pages_pushed", "pushed pages"),
    ("image_requests", "image reads"),
    ("image_bytes", "image bytes"),
];
