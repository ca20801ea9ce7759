//! `forebay serve`: files, block devices, memory and objects as disks.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use forebay_core::engine::Policies;
use forebay_core::units::PAGE_SIZE;
use forebay_host::attach::AttachError;
use forebay_host::backend::{
    Backend, BackendSource, ImageFileBackend, ObjectBackend, is_object, local_path, scrubbed,
};
use forebay_host::serve::{
    BaseIdentity, FileStore, MemoryStore, NbdAddress, ReadStore, RemoteStore, ServeError,
    ServeOptions, ServedExport, Server, ServerReport, SlowStore, Store, TlsKeys, TlsPolicy,
    UnmountCall, export_label, identify,
};
use forebay_image::{self as images, Follow, Kind, Source};
use forebay_report::messages::{Complaint, complain, note, printable, shown};
use forebay_report::units;
use forebay_sim::scenario::PolicySet;

use crate::args::serve::{Serve, ServeWhat, TlsChoice};
use crate::cmd::image::{WHAT_IS_THERE, no_image, source};
use crate::cmd::watch::serve::Endpoint;
use crate::{ERROR, objects, slots};

mod control;
mod ending;
mod json;
mod listen;
mod log;
mod metrics;
mod overlay;
mod status;

use ending::Ending;
use listen::{WaysIn, shell, ways_in};
use log::Log;

pub(crate) use overlay::complaint as overlay_complaint;

/// Serves until a signal or the end of the command.
pub(crate) fn run(arguments: &Serve) -> Result<u8> {
    if let Some(ServeWhat::Status(arguments)) = &arguments.what {
        return status::run(arguments);
    }
    let set = slots::of_server(&arguments.policy)?;
    let cache = units::bytes("--cache", &arguments.cache)?;
    let ways = ways_in(arguments)?;
    let exports = exports(arguments)?;
    let endpoint = arguments.prometheus.as_deref().map(Endpoint::bind).transpose()?;
    let tls = tls(arguments)?;
    let log = Log::open(arguments.log.as_deref())?;
    // Signals that come while it begins must not leave a socket behind.
    let ending = Ending::new()?;
    let described: Vec<String> = exports.iter().map(described).collect();
    // Nothing comes in any more when the folder was the only way.
    let WaysIn { listen, inherited, folder: _socket_folder } = ways;
    let (end, is_only_way) = (ending.end_call(), listen.is_empty() && inherited.is_empty());
    let unmounted = move || {
        if is_only_way {
            end();
        }
    };
    let folder_of_files =
        arguments.fuse.clone().map(|path| (path, Box::new(unmounted) as UnmountCall));
    let PolicySet { readahead, flush, controller, throttle, dispatch, reclaim, .. } = set;
    let options = ServeOptions {
        exports,
        listen,
        inherited,
        tls,
        slow: arguments.slow,
        folder: folder_of_files,
        cache,
        readahead,
        reclaim,
        policies: Policies::build(&flush, &controller, &throttle),
        dispatch,
        threads: arguments.threads as usize,
        connections: arguments.connections as usize,
    };
    let server =
        Server::start(options, log::sink(log.clone())).map_err(|error| start_error(&error))?;
    if let Some(endpoint) = endpoint {
        let reporter = server.reporter();
        endpoint.answer_with(move || metrics::text(&reporter.report()).into())?;
    }
    if let Err(error) = control::answer(server.reporter()) {
        note(&format!("`serve status` does not find this server: {error:#}"));
    }
    say_places(&described.join(", "), &server, arguments.fuse.as_deref());
    if let Some(command) = &arguments.run {
        ending.run(&mut shell(command, server.addresses(), arguments))?;
    }
    let ended = ending.wait(arguments.run.is_some(), || reload(&server, log.as_deref()))?;
    let reporter = server.reporter();
    say_dirty(&reporter.report(), arguments.drain_timeout);
    let stopped = server.stop(arguments.drain_timeout);
    say_requests(&reporter.report());
    match stopped {
        Ok(0) => Ok(ended),
        Ok(count) => {
            note(&format!("{count} requests were left unanswered; nothing written is lost"));
            Ok(ended)
        }
        Err(lost) => {
            complain(&Complaint::new(printable(&lost.to_string())));
            Ok(ERROR)
        }
    }
}

/// Says where exports are.
fn say_places(exports: &str, server: &Server, folder: Option<&Path>) {
    for address in server.addresses() {
        note(&format!("{exports} at {address}"));
    }
    if let Some(folder) = folder {
        note(&format!("{exports} in '{}'", shown(folder)));
    }
}

fn start_error(error: &ServeError) -> Complaint {
    let hint = match error {
        ServeError::Memory { .. } => "--cache 256M is the default",
        ServeError::Listen { address, why } => listen::hint(address, why.kind()),
        ServeError::Thread(_) => "`ulimit -u` says how many this user may have",
        ServeError::FileName(_) | ServeError::LongName { .. } => {
            "NAME=SOURCE gives an export another name"
        }
        ServeError::Folder(AttachError::Mount { why, .. })
            if why.kind() == io::ErrorKind::NotConnected =>
        {
            "a server has died there: `forebay unmount DIR` takes away what it has left"
        }
        ServeError::Folder(_) => "--fuse takes a folder; others than root need fusermount3",
    };
    Complaint::new(error.to_string()).hint(hint)
}

/// Certificates, if connections are encrypted.
fn tls(arguments: &Serve) -> Result<Option<(TlsKeys, TlsPolicy)>> {
    let folder = arguments.tls_certificates.as_deref();
    if arguments.tls_verify_peer && matches!(arguments.tls, Some(TlsChoice::On | TlsChoice::Off)) {
        bail!(
            Complaint::new("--tls-verify-peer needs --tls require").hint(
                "a client without TLS shows no certificate; `require` is the default with it"
            )
        );
    }
    let policy = match (arguments.tls, folder) {
        (Some(TlsChoice::Off), _) | (None, None) => return Ok(None),
        (Some(TlsChoice::On), _) => TlsPolicy::Allowed,
        (Some(TlsChoice::Require), _) | (None, Some(_)) => TlsPolicy::Required,
    };
    let Some(folder) = folder else {
        bail!(
            Complaint::new("--tls needs certificates").hint(
                "--tls-certificates DIR names the folder of server-cert.pem and server-key.pem"
            )
        );
    };
    let keys = TlsKeys::load(folder, arguments.tls_verify_peer).map_err(|error| {
        Complaint::new(format!("--tls-certificates: {}", printable(&error.to_string())))
            .hint("the files are server-cert.pem, server-key.pem, ca-cert.pem and ca-crl.pem")
    })?;
    Ok(Some((keys, policy)))
}

fn exports(arguments: &Serve) -> Result<Vec<ServedExport>> {
    let rate = arguments.store_rate.as_deref();
    let rate = rate.map(|typed| units::bytes("--store-rate", typed)).transpose()?.unwrap_or(0);
    let delay = arguments.store_delay;
    let mut names = BTreeSet::new();
    let mut exports = Vec::new();
    let mut overlays = overlays(arguments)?;
    for typed in &arguments.sources {
        let (name, source) = named(typed);
        if !names.insert(name.to_owned()) {
            let what = if name.is_empty() {
                "only one source can do without a name".to_owned()
            } else {
                format!("two exports have the name '{name}'")
            };
            bail!(Complaint::new(what).hint(format!("NAME={source} gives it another name")));
        }
        let overlay = overlays.remove(name);
        let overlay = overlay.map(Path::new);
        let Opened { mut store, read_only, base } =
            open(arguments, source, overlay).map_err(|error| {
                match source != typed && Path::new(typed).exists() {
                    true => {
                        let hint =
                            format!("NAME=SOURCE was read; ./{} is the file", printable(typed));
                        Complaint::new(error.to_string()).hint(hint).into()
                    }
                    false => error,
                }
            })?;
        if let (Some(file), Some(base)) = (overlay, base) {
            store = overlay::over(store, &base, file, arguments.read_only)?;
        }
        if !delay.is_zero() || rate > 0 {
            store = Arc::new(SlowStore::new(store, delay, rate));
        }
        exports.push(ServedExport {
            name: name.to_owned(),
            description: scrubbed(source),
            read_only: read_only || arguments.read_only,
            store,
        });
    }
    if let Some((name, file)) = overlays.first_key_value() {
        let what = if name.is_empty() {
            format!("--overlay {file}: every source has a name")
        } else {
            format!("--overlay {name}={file}: no source has the name '{name}'")
        };
        bail!(
            Complaint::new(what).hint("NAME=FILE takes the name of a source, FILE the one without")
        );
    }
    Ok(exports)
}

/// A source or a file, and the name of its export.
fn named(typed: &str) -> (&str, &str) {
    match typed.split_once('=') {
        Some((name, rest)) if !name.contains('/') => (name, rest),
        Some(_) | None => ("", typed),
    }
}

/// The files of overlays by the names of their exports.
fn overlays(arguments: &Serve) -> Result<BTreeMap<&str, &str>> {
    let mut overlays = BTreeMap::new();
    for typed in &arguments.overlay {
        let (name, file) = named(typed);
        if overlays.insert(name, file).is_some() {
            bail!(
                Complaint::new(format!("--overlay {typed}: the export has an overlay already"))
                    .hint("an export takes one; NAME=FILE chooses the export")
            );
        }
    }
    Ok(overlays)
}

/// What an export is made of.
struct Opened {
    store: Arc<dyn Store>,
    /// Nothing of it can be written.
    read_only: bool,
    /// What an overlay over it is held to.
    base: Option<BaseIdentity>,
}

/// Opens a source; the source of an overlay is opened read-only.
fn open(arguments: &Serve, source: &str, overlay: Option<&Path>) -> Result<Opened> {
    let is_base = overlay.is_some();
    if let Some(size) = source.strip_prefix("memory:") {
        if is_base {
            let what = format!("--overlay: nothing of '{source}' is there at the next start");
            bail!(Complaint::new(what).hint("memory can be written without an overlay"));
        }
        let bytes = units::bytes("memory:SIZE", size)?;
        if !(1..=MemoryStore::BYTES_MAX).contains(&bytes) {
            let what = format!("memory:{size}: a disk in memory has 1 byte to 64 TiB");
            bail!(Complaint::new(what).hint("memory:1G is one of 1 GiB"));
        }
        let store = Arc::new(MemoryStore::new(bytes));
        return Ok(Opened { store, read_only: false, base: None });
    }
    if NbdAddress::is_one(source) {
        return remote(source, is_base);
    }
    if let Some((image, inside)) = inside(source) {
        let base = is_base.then(|| base_in_image(image, inside)).transpose()?;
        let store = Arc::new(ReadStore::new(file_of_image(Path::new(image), inside)?));
        return Ok(Opened { store, read_only: !is_base, base });
    }
    if is_object(source) {
        let object = ObjectBackend::open(source).map_err(|error| objects::complaint(&error))?;
        let base = BaseIdentity { name: object.address(), stamp: object.stamp() };
        let store = Arc::new(ReadStore::new(Arc::new(object)));
        return Ok(Opened { store, read_only: !is_base, base: Some(base) });
    }
    local(arguments, source, overlay)
}

/// Opens a file or a block device.
fn local(arguments: &Serve, source: &str, overlay: Option<&Path>) -> Result<Opened> {
    let path = local_path(source).unwrap_or_else(|| source.into());
    let is_base = overlay.is_some();
    let read_only = arguments.read_only || is_base;
    let failed = |error: io::Error| {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
        let hint = if error.kind() == ResourceBusy && path.is_file() {
            "`forebay serve status` lists the servers"
        } else if error.kind() == ResourceBusy {
            "a device is written by one program at a time; --read-only serves it beside others"
        } else if !read_only && [PermissionDenied, ReadOnlyFilesystem].contains(&error.kind()) {
            "--read-only serves what cannot be written"
        } else {
            "a source is a file, a block device, memory:SIZE, IMAGE:/PATH or a URL"
        };
        Complaint::new(format!("cannot serve '{}': {error}", printable(source))).hint(hint)
    };
    let store = FileStore::open(&path, read_only, arguments.buffered).map_err(failed)?;
    match (is_base, read_only) {
        (true, _) => store.lock_for_reads().map_err(failed)?,
        (false, false) => store.lock_for_writes().map_err(failed)?,
        (false, true) => {
            if let Err(error) = store.lock_for_reads() {
                note(&format!("'{}': {error}; reads may give older data", printable(source)));
            }
        }
    }
    overlay::check_mark(source, &store, overlay)?;
    let store = Arc::new(store);
    let base = is_base.then(|| identify(&path).map_err(failed)).transpose()?;
    Ok(Opened { store, read_only: false, base })
}

/// Opens the export of another server.
fn remote(source: &str, is_base: bool) -> Result<Opened> {
    let failed = |why: String| {
        Complaint::new(format!("cannot serve '{}': {}", printable(source), printable(&why)))
            .hint("nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH names an export")
    };
    let address = NbdAddress::parse(source).map_err(failed)?.absolute()?;
    let name = address.to_string();
    let store = RemoteStore::open(address).map_err(|error| failed(error.to_string()))?;
    let base = BaseIdentity { name, stamp: remote_stamp(&store) };
    let read_only = store.is_read_only() && !is_base;
    Ok(Opened { store: Arc::new(store), read_only, base: Some(base) })
}

/// NBD tells nothing but the size by which a changed disk could be known.
pub(crate) fn remote_stamp(store: &RemoteStore) -> String {
    format!("{} bytes", store.bytes())
}

/// The image and the path in it, if a source is `IMAGE:/PATH`. A file of that whole name is itself.
fn inside(source: &str) -> Option<(&str, &str)> {
    let colons = source.match_indices(":/").filter(|(at, _)| !source[*at..].starts_with("://"));
    let (image, inside) = source.split_at(colons.last()?.0);
    let is_image = is_object(image) || Path::new(image).is_file();
    (is_image && !Path::new(source).exists()).then_some((image, &inside[1..]))
}

/// What an overlay over a file of an image is held to.
fn base_in_image(image: &str, inside: &str) -> Result<BaseIdentity> {
    if is_object(image) {
        let what = format!("--overlay: '{}' is inside an object", printable(inside));
        bail!(Complaint::new(what).hint("a copy of the image on this machine takes an overlay"));
    }
    let found = identify(Path::new(image));
    let BaseIdentity { name, stamp } =
        found.with_context(|| format!("cannot look at '{}'", printable(image)))?;
    Ok(BaseIdentity { name: format!("{name}:{inside}"), stamp })
}

/// Whether a source can only be read: an object, or a file inside an image.
pub(crate) fn is_never_written(source: &str) -> bool {
    is_object(source) || inside(source).is_some()
}

/// A file of an image, decoded on read.
fn file_of_image(path: &Path, inside: &str) -> Result<Arc<dyn Backend>> {
    let below = objects::address(path);
    let below = below.map(|address| objects::cached(address, objects::CACHE)).transpose()?;
    let below = below.map(|cached| cached as Arc<dyn Backend>);
    let bytes: Arc<dyn Source> = match &below {
        Some(cached) => Arc::new(BackendSource::new(Arc::clone(cached))),
        None => source(path, "--offset", 0)?,
    };
    let image = images::open(&bytes, images::Options::default());
    let image = image.map_err(|error| no_image(path, 0, &error))?;
    let found = images::resolve(image.as_ref(), inside.as_bytes(), Follow::Last)?;
    let name = format!("'{inside}' of '{}'", shown(path));
    if image.node(found.node)?.kind != Kind::File {
        bail!(Complaint::new(format!("{name} is not a regular file")).hint(WHAT_IS_THERE));
    }
    let file = ImageFileBackend::new(image, found.node, below);
    Ok(Arc::new(file.with_context(|| format!("cannot read {name}"))?))
}

/// What sources over a network have cost.
fn say_requests(report: &ServerReport) {
    for export in &report.exports {
        if let Some(sent) = export.requests {
            let name = printable(&export_label(&export.name));
            note(&format!("{name}: {} requests brought {} bytes", sent.count, sent.bytes));
        }
    }
}

fn described(export: &ServedExport) -> String {
    let name = if export.name.is_empty() { "" } else { &format!("{}=", printable(&export.name)) };
    let way = if export.read_only { ", read-only" } else { "" };
    let source = printable(&export.description);
    format!("{name}{source} ({} bytes{way})", export.store.bytes())
}

/// What is not on disk yet.
fn say_dirty(report: &ServerReport, within: Duration) {
    let dirty: u64 = report.exports.iter().map(|one| one.levels.levels.unsafe_pages()).sum();
    if dirty > 0 {
        let bytes = dirty * PAGE_SIZE;
        note(&format!("{bytes} bytes are being brought to disk, for {within:?} at most"));
    }
}

/// Opens the log anew, and looks again at certificates and sources.
fn reload(server: &Server, log: Option<&Log>) {
    if let Some(Err(error)) = log.map(Log::reopen) {
        note(&format!("the old log goes on: {error:#}"));
    }
    for line in server.reload() {
        note(&printable(&line));
    }
    note("reloaded");
}
