//! A server of disks as its clients meet it, byte by byte.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use forebay_core::dispatch;
use forebay_core::engine::Policies;
use forebay_core::readahead;
use forebay_core::reclaim;
use forebay_host::serve::{
    FileStore, ListenAddress, MemoryStore, ServeOptions, ServedExport, Server, Store,
};
use tempfile::TempDir;

/// A server with a socket in a scratch folder.
pub(crate) struct Rig {
    folder: TempDir,
    pub(crate) server: Server,
}

impl Rig {
    fn new(store: impl Store + 'static) -> Self {
        Self::with(store, 256)
    }

    /// With `pages` pages of memory.
    pub(crate) fn with(store: impl Store + 'static, pages: u64) -> Self {
        let folder = tempfile::tempdir().expect("the rig works");
        let listen = vec![ListenAddress::Unix(folder.path().join("socket"))];
        let options = ServeOptions { listen, ..options(Arc::new(store), pages) };
        let server = Server::start(options, Box::new(|_| {})).expect("the rig works");
        Self { folder, server }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(crate) fn client(&self) -> Client {
        Client::begin(UnixStream::connect(self.socket()).expect("the rig works"))
    }
}

/// One export over `pages` pages of memory, without a way in.
pub(crate) fn options(store: Arc<dyn Store>, pages: u64) -> ServeOptions {
    let export = ServedExport {
        name: "disk".to_owned(),
        description: String::new(),
        read_only: false,
        store,
    };
    ServeOptions {
        exports: vec![export],
        listen: Vec::new(),
        inherited: Vec::new(),
        tls: None,
        slow: Duration::from_secs(1),
        folder: None,
        cache: pages * 4096,
        readahead: readahead::Spec::parse("linux-6.18").expect("the rig works"),
        reclaim: reclaim::Spec::default(),
        policies: Policies::default(),
        dispatch: dispatch::Spec::parse("adaptive").expect("the rig works"),
        threads: 4,
        connections: 20,
    }
}

/// A client that speaks the protocol itself.
pub(crate) struct Client {
    stream: UnixStream,
    cookie: u64,
}

impl Client {
    /// Chooses the default export, with structured replies and the context.
    fn begin(mut stream: UnixStream) -> Self {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("the rig works");
        let mut hello = vec![0, 0, 0, 3];
        let mut option = |number: u32, data: &[u8]| {
            hello.extend(b"IHAVEOPT");
            hello.extend(number.to_be_bytes());
            hello.extend((data.len() as u32).to_be_bytes());
            hello.extend(data);
        };
        option(8, &[]);
        option(10, b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation");
        option(7, &[0; 6]);
        stream.write_all(&hello).expect("the rig works");
        loop {
            let mut header = [0; 20];
            stream.read_exact(&mut header).expect("the rig works");
            let number = |at: usize| {
                u32::from_be_bytes(header[at..at + 4].try_into().expect("the rig works"))
            };
            let mut data = vec![0; number(16) as usize];
            stream.read_exact(&mut data).expect("the rig works");
            assert!(number(12) < 1 << 31, "an option is refused: {header:?}");
            if number(8) == 7 && number(12) == 1 {
                return Self { stream, cookie: 0 };
            }
        }
    }

    fn send(&mut self, kind: u16, flags: u16, offset: u64, len: u32) -> io::Result<()> {
        self.cookie += 1;
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(flags.to_be_bytes());
        request.extend(kind.to_be_bytes());
        request.extend(self.cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(len.to_be_bytes());
        self.stream.write_all(&request)
    }

    /// The payload of the reply, or its error.
    fn reply(&mut self) -> Result<Vec<u8>, u32> {
        let mut word = [0; 4];
        self.stream.read_exact(&mut word).expect("the rig works");
        if word == 0x6744_6698_u32.to_be_bytes() {
            let mut rest = [0; 12];
            self.stream.read_exact(&mut rest).expect("the rig works");
            let error = u32::from_be_bytes(rest[..4].try_into().expect("the rig works"));
            return if error == 0 { Ok(Vec::new()) } else { Err(error) };
        }
        assert_eq!(word, 0x668e_33ef_u32.to_be_bytes());
        let mut rest = [0; 16];
        self.stream.read_exact(&mut rest).expect("the rig works");
        let length = u32::from_be_bytes(rest[12..].try_into().expect("the rig works"));
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).expect("the rig works");
        let kind = u16::from_be_bytes([rest[2], rest[3]]);
        if kind >= 0x8000 {
            return Err(u32::from_be_bytes(payload[..4].try_into().expect("the rig works")));
        }
        Ok(payload)
    }

    pub(crate) fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        offset: u64,
        len: u32,
    ) -> Result<Vec<u8>, u32> {
        self.send(kind, flags, offset, len).expect("the rig works");
        self.reply()
    }

    pub(crate) fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        let payload = self.ask(0, 0, offset, len)?;
        assert_eq!(payload[..8], offset.to_be_bytes());
        Ok(payload[8..].to_vec())
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8], fua: bool) -> Result<(), u32> {
        self.send(1, u16::from(fua), offset, bytes.len() as u32).expect("the rig works");
        self.stream.write_all(bytes).expect("the rig works");
        self.reply().map(drop)
    }

    pub(crate) fn flush(&mut self) -> Result<(), u32> {
        self.ask(3, 0, 0, 0).map(drop)
    }

    /// The extents of a range: length and flags.
    pub(crate) fn status(&mut self, offset: u64, len: u32) -> Vec<(u32, u32)> {
        let payload = self.ask(7, 0, offset, len).expect("the rig works");
        let number =
            |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("the rig works"));
        (4..payload.len()).step_by(8).map(|at| (number(at), number(at + 4))).collect()
    }
}

pub(crate) const EIO: u32 = 5;
const ENOSPC: u32 = 28;

/// A file of `bytes` bytes, each of which identifies its offset.
fn file(folder: &TempDir, bytes: usize) -> (PathBuf, Vec<u8>) {
    let content: Vec<u8> = (0..bytes).map(|at| (at / 4096 + at % 251) as u8).collect();
    let path = folder.path().join("file");
    fs::write(&path, &content).expect("the rig works");
    (path, content)
}

#[test]
fn clients_see_each_others_writes_and_a_flush_brings_them_to_the_file() {
    for buffered in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        // The last page is not a whole one.
        let (path, mut content) = file(&scratch, 300_001);
        let rig = Rig::new(FileStore::open(&path, false, buffered).unwrap());
        let (mut one, mut other) = (rig.client(), rig.client());
        for (offset, len) in [(5_000, 1), (4_096, 8_192), (299_990, 11), (100_000, 70_000)] {
            let bytes = vec![offset as u8 | 1; len];
            one.write(offset as u64, &bytes, false).unwrap();
            content[offset..offset + len].copy_from_slice(&bytes);
        }
        assert!(other.read(0, 300_001).unwrap() == content);
        other.flush().unwrap();
        assert!(fs::read(&path).unwrap() == content, "buffered: {buffered}");
        one.write(200_000, b"durable", true).unwrap();
        content[200_000..200_007].copy_from_slice(b"durable");
        assert!(fs::read(&path).unwrap() == content, "buffered: {buffered}");
        rig.server.stop(Duration::from_secs(60)).unwrap();
    }
}

#[test]
fn stopping_brings_what_was_acknowledged_to_the_file() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, _) = file(&scratch, 1 << 20);
    let rig = Rig::new(FileStore::open(&path, false, false).unwrap());
    let mut client = rig.client();
    client.write(10_000, b"acknowledged", false).unwrap();
    let socket = rig.socket();
    rig.server.stop(Duration::from_secs(60)).unwrap();
    assert_eq!(&fs::read(&path).unwrap()[10_000..10_012], b"acknowledged");
    assert!(!socket.exists());
    assert_eq!(
        client.stream.read(&mut [0]).unwrap(),
        0,
        "the end of the connection tells the client"
    );
}

#[test]
fn many_reads_at_once_of_a_file_that_does_not_fit_bring_its_bytes() {
    const PAGES: u64 = 2000;
    let scratch = tempfile::tempdir().unwrap();
    let (path, content) = file(&scratch, PAGES as usize * 4096 - 100);
    let rig = Rig::with(FileStore::open(&path, true, false).unwrap(), 64);
    let read_many = |seed: u64| {
        let (mut client, mut random) = (rig.client(), fastrand::Rng::with_seed(seed));
        for round in 0..20 {
            let count = 1 + random.u64(..400);
            for _ in 0..count {
                let offset = random.u64(..PAGES * 4096 - 9000);
                client.send(0, 0, offset, 1 + random.u32(..8000)).unwrap();
            }
            // One of them leaves with its reads under way.
            if seed == 0 && round == 10 {
                return;
            }
            for _ in 0..count {
                let payload = client.reply().unwrap();
                let (place, bytes) = payload.split_first_chunk::<8>().unwrap();
                let place = u64::from_be_bytes(*place) as usize;
                assert!(bytes == &content[place..place + bytes.len()], "at {place}");
            }
        }
    };
    thread::scope(|scope| {
        for seed in 0..4 {
            let read_many = &read_many;
            scope.spawn(move || read_many(seed));
        }
    });
    let last = rig.client().read(PAGES * 4096 - 4096, 4096 - 100).unwrap();
    assert!(last == content[content.len() - 3996..], "the part of the last page");
    rig.server.stop(Duration::from_secs(60)).unwrap();
}

#[test]
fn zeroes_and_trims_read_as_zeroes_and_keep_their_neighbours() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, mut content) = file(&scratch, 1 << 20);
    let rig = Rig::new(FileStore::open(&path, false, false).unwrap());
    let mut client = rig.client();
    for (kind, flags, offset, len) in
        [(6, 0, 5_000, 100_000), (4, 0, 300_001, 50_000), (6, 3, 7, 9)]
    {
        client.ask(kind, flags, offset as u64, len as u32).unwrap();
        content[offset..offset + len].fill(0);
        assert!(client.read(0, 1 << 20).unwrap() == content);
    }
    client.flush().unwrap();
    assert!(fs::read(&path).unwrap() == content);
}

#[test]
fn fresh_writes_over_a_hole_are_told_as_data() {
    let rig = Rig::new(MemoryStore::new(1 << 20));
    let mut client = rig.client();
    assert_eq!(client.status(0, 1 << 20), [(1 << 20, 3)]);
    client.write(300_000, b"fresh", false).unwrap();
    // Page 73 has the bytes, as long as no store has them.
    let expected = [(73 * 4096, 3), (4096, 0), ((1 << 20) - 74 * 4096, 3)];
    assert_eq!(client.status(0, 1 << 20), expected);
    client.flush().unwrap();
    // The store takes memory by 64 KiB.
    let expected = [(4 << 16, 3), (1 << 16, 0), (11 << 16, 3)];
    assert_eq!(client.status(0, 1 << 20), expected);
}

/// Memory that fails on request.
#[derive(Debug)]
struct Faulty {
    inner: MemoryStore,
    fails: Arc<AtomicBool>,
    is_full: Arc<AtomicBool>,
}

impl Store for Faulty {
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn read(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        self.inner.read(buffers, offset)
    }

    fn write(&self, buffers: &[IoSlice<'_>], offset: u64, durable: bool) -> io::Result<usize> {
        if self.fails.load(Relaxed) {
            return Err(io::Error::other("it fails on purpose"));
        }
        if self.is_full.load(Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.inner.write(buffers, offset, durable)
    }

    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }

    fn zero(&self, _offset: u64, _len: u64, _hole: bool) -> io::Result<bool> {
        Ok(false)
    }

    fn run(&self, offset: u64) -> io::Result<(u64, bool)> {
        self.inner.run(offset)
    }

    fn zeroes_fast(&self) -> bool {
        false
    }
}

fn faulty() -> (Rig, Arc<AtomicBool>, Arc<AtomicBool>) {
    faulty_with(256)
}

/// With `pages` pages of memory.
fn faulty_with(pages: u64) -> (Rig, Arc<AtomicBool>, Arc<AtomicBool>) {
    let (fails, is_full) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let inner = MemoryStore::new(1 << 20);
    let store = Faulty { inner, fails: Arc::clone(&fails), is_full: Arc::clone(&is_full) };
    (Rig::with(store, pages), fails, is_full)
}

#[test]
fn a_failed_write_back_is_an_error_of_the_next_flush_of_each_client_once() {
    let (rig, fails, _) = faulty();
    let (mut writer, mut other) = (rig.client(), rig.client());
    writer.write(0, b"lost", false).unwrap();
    fails.store(true, Relaxed);
    assert_eq!(writer.flush(), Err(EIO));
    assert_eq!(writer.write(4096, b"lost too", true), Err(EIO), "FUA tells of its own failure");
    fails.store(false, Relaxed);
    assert_eq!(other.flush(), Err(EIO));
    assert_eq!(other.flush(), Ok(()));
    assert_eq!(writer.flush(), Err(EIO), "the write with FUA has failed since");
    assert_eq!(writer.flush(), Ok(()));
}

#[test]
fn a_page_whose_write_back_failed_is_read_as_written_while_it_is_cached_and_as_before_after() {
    let (rig, fails, _) = faulty_with(16);
    let mut client = rig.client();
    client.write(0, b"old", true).unwrap();
    client.write(0, b"new", false).unwrap();
    fails.store(true, Relaxed);
    assert_eq!(client.flush(), Err(EIO));
    fails.store(false, Relaxed);
    assert_eq!(client.flush(), Ok(()), "the page is not dirty, so nothing is written again");
    assert_eq!(rig.server.reporter().report().stats.pages_lost, 1);
    assert_eq!(client.read(0, 3).unwrap(), b"new");
    // Much more than the memory, and each page twice: the first one leaves.
    for page in (1..256).chain(1..256) {
        client.read(page * 4096, 2048).unwrap();
        client.read(page * 4096 + 2048, 2048).unwrap();
    }
    assert_eq!(client.read(0, 3).unwrap(), b"old");
}

#[test]
fn a_full_store_refuses_writers_and_takes_all_when_there_is_room_again() {
    let (rig, _, is_full) = faulty();
    let (mut writer, mut other) = (rig.client(), rig.client());
    writer.write(8192, b"acknowledged", false).unwrap();
    is_full.store(true, Relaxed);
    assert_eq!(writer.flush(), Err(ENOSPC));
    assert_eq!(other.write(0, b"refused", false), Err(ENOSPC));
    assert_eq!(other.read(8192, 12).unwrap(), b"acknowledged");
    is_full.store(false, Relaxed);
    assert_eq!(other.flush(), Ok(()));
    assert_eq!(writer.write(0, b"taken", false), Ok(()));
    assert_eq!(other.read(0, 5).unwrap(), b"taken");
}

#[test]
fn zeroes_are_written_where_the_store_cannot_zero() {
    let (rig, ..) = faulty();
    let mut client = rig.client();
    client.write(0, &[7; 100_000], false).unwrap();
    client.ask(6, 1, 3, 90_000).unwrap();
    let mut expected = vec![7; 100_000];
    expected[3..90_003].fill(0);
    assert!(client.read(0, 100_000).unwrap() == expected);
    assert_eq!(client.ask(6, 0x10, 0, 4096), Err(95), "FAST_ZERO is refused beforehand");
}

#[test]
fn four_pages_of_memory_are_enough() {
    let rig = Rig::with(MemoryStore::new(1 << 20), 4);
    let (mut one, mut other) = (rig.client(), rig.client());
    let bytes: Vec<u8> = (0..1 << 20).map(|at| (at / 999) as u8).collect();
    one.write(0, &bytes, false).unwrap();
    assert!(other.read(0, 1 << 20).unwrap() == bytes);
    one.flush().unwrap();
}

#[test]
fn a_client_that_never_reads_blocks_no_other() {
    let rig = Rig::new(MemoryStore::new(64 << 20));
    let mut greedy = rig.client();
    // Far more than sockets and the budget of a client hold. Its thread stops receiving.
    greedy.stream.set_nonblocking(true).unwrap();
    let mut sent: u64 = 0;
    while sent < 100_000 {
        match greedy.send(0, 0, (sent % 64) << 20, 1 << 20) {
            Ok(()) => sent += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent < 100_000, "the server stops receiving");
    let mut other = rig.client();
    other.write(5, b"goes on", false).unwrap();
    assert_eq!(other.read(5, 7).unwrap(), b"goes on");
    drop(greedy);
    other.flush().unwrap();
    rig.server.stop(Duration::from_secs(60)).unwrap();
}

#[test]
fn clients_that_leave_anywhere_cost_others_nothing() {
    let rig = Rig::new(MemoryStore::new(1 << 20));
    let mut whole = rig.client();
    for cut in 0..28 {
        let mut client = rig.client();
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend([0; 24]);
        client.stream.write_all(&request[..cut]).unwrap();
        drop(client);
    }
    let mut halfway = rig.client();
    halfway.send(1, 0, 0, 4096).unwrap();
    halfway.stream.write_all(&[1; 1000]).unwrap();
    drop(halfway);
    let mut wrong = rig.client();
    wrong.stream.write_all(&[9; 28]).unwrap();
    assert_eq!(wrong.stream.read(&mut [0]).unwrap(), 0, "it is sent away");
    assert_eq!(whole.read(0, 4096).unwrap(), [0; 4096], "half a write has written nothing");
    drop(UnixStream::connect(rig.socket()).unwrap());
    whole.flush().unwrap();
}

#[test]
fn a_source_that_shrinks_is_an_error_behind_the_cut() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, content) = file(&scratch, 1 << 20);
    let rig = Rig::new(FileStore::open(&path, false, false).unwrap());
    let mut client = rig.client();
    fs::File::options().write(true).open(&path).unwrap().set_len(500_000).unwrap();
    assert_eq!(client.read(800_000, 4096), Err(EIO));
    assert!(client.read(100_000, 4096).unwrap() == content[100_000..104_096]);
}

#[test]
fn an_export_shows_its_own_bytes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let export = |name: &str| ServedExport {
        name: name.to_owned(),
        description: String::new(),
        read_only: false,
        store: Arc::new(MemoryStore::new(40_000)),
    };
    let options = ServeOptions {
        exports: vec![export("one"), export("other")],
        listen: vec![ListenAddress::Unix(folder.path().join("socket"))],
        inherited: Vec::new(),
        tls: None,
        slow: Duration::from_secs(1),
        folder: None,
        cache: 8 * 4096,
        readahead: readahead::Spec::parse("linux-6.18").unwrap(),
        reclaim: reclaim::Spec::default(),
        policies: Policies::default(),
        dispatch: dispatch::Spec::parse("adaptive").unwrap(),
        threads: 1,
        connections: 20,
    };
    let server = Server::start(options, Box::new(|_| {})).unwrap();
    let mut one = Client::begin(UnixStream::connect(folder.path().join("socket")).unwrap());
    one.write(0, &[1; 40_000], false).unwrap();
    let mut stream = UnixStream::connect(folder.path().join("socket")).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x05other").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    let mut other = Client { stream, cookie: 0 };
    other.send(0, 0, 0, 40_000).unwrap();
    let mut reply = vec![0; 16 + 40_000];
    other.stream.read_exact(&mut reply).unwrap();
    assert!(reply[16..].iter().all(|byte| *byte == 0));
    server.stop(Duration::from_secs(60)).unwrap();
}

/// A page whose bytes tell which write they are of: all of them, in each of 16 bytes.
fn stamped(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(512)
}

#[test]
fn pages_reach_the_file_as_a_whole_while_they_are_written_again() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, _) = file(&scratch, 1 << 16);
    let rig = Rig::new(FileStore::open(&path, false, true).unwrap());
    let disk = fs::File::open(&path).unwrap();
    let (mut writer, mut flusher) = (rig.client(), rig.client());
    for number in 0..300 {
        writer.write(number % 16 * 4096, &stamped(number), false).unwrap();
        flusher.send(3, 0, 0, 0).unwrap();
        writer.write(number % 16 * 4096, &stamped(number + 1), false).unwrap();
        flusher.reply().unwrap();
        let mut page = vec![0; 4096];
        disk.read_exact_at(&mut page, number % 16 * 4096).unwrap();
        assert!(page == stamped(number) || page == stamped(number + 1), "write {number}");
    }
}
