//! Servers that are replaced while their clients stay.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use forebay_host::serve::{MemoryStore, NbdAddress, RemoteStore, Server, Store};
use tempfile::TempDir;

use crate::serve::options;

const PAGE: usize = 4096;

/// A socket that outlives the servers which listen on it, as systemd's does.
struct Socket {
    folder: TempDir,
    listener: UnixListener,
}

impl Socket {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("the test works");
        let listener = UnixListener::bind(folder.path().join("far")).expect("the test works");
        Self { folder, listener }
    }

    fn serve(&self, store: &Arc<MemoryStore>) -> Server {
        let store = Arc::clone(store) as Arc<dyn Store>;
        let mut options = options(store, 64);
        options.inherited = vec![OwnedFd::from(self.listener.try_clone().expect("it works"))];
        Server::start(options, Box::new(|_| {})).expect("the test works")
    }

    fn client(&self) -> RemoteStore {
        let path = self.folder.path().join("far");
        let address = format!("nbd+unix:///?socket={}", path.display());
        let address = NbdAddress::parse(&address).expect("it is one");
        RemoteStore::open(address).expect("a server listens")
    }
}

fn write(store: &dyn Store, page: u64, byte: u8, durable: bool) -> io::Result<usize> {
    store.write(&[IoSlice::new(&[byte; PAGE])], page * PAGE as u64, durable)
}

/// The byte that a page consists of.
fn read(store: &dyn Store, page: u64) -> io::Result<u8> {
    let mut bytes = [0; PAGE];
    let count = store.read(&mut [IoSliceMut::new(&mut bytes)], page * PAGE as u64)?;
    assert_eq!(count, PAGE);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a page is whole");
    Ok(bytes[0])
}

/// Writes, reads, zeroes and flushes 16 pages until it is over; all requests succeed, and each read
/// brings what was written. Returns what the pages hold.
fn exercise(store: &dyn Store, first: u64, done: &AtomicU64, is_over: &AtomicBool) -> [u8; 16] {
    let (mut model, mut state) = ([0; 16], first + 1);
    while !is_over.load(Relaxed) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let (choice, place) = (state >> 33, (state >> 40) as usize % 16);
        let page = first + place as u64;
        match choice % 8 {
            0 => store.flush().expect("a flush succeeds"),
            1 => {
                let zeroed = store.zero(page * PAGE as u64, PAGE as u64, true);
                assert!(zeroed.expect("zeroing succeeds"));
                model[place] = 0;
            }
            2..4 => assert_eq!(read(store, page).expect("a read succeeds"), model[place]),
            _ => {
                model[place] = (state >> 50) as u8;
                let durable = choice % 8 == 4;
                write(store, page, model[place], durable).expect("a write succeeds");
            }
        }
        done.fetch_add(1, Relaxed);
    }
    model
}

#[test]
fn servers_that_are_replaced_cost_their_clients_no_request() {
    let (socket, disk) = (Socket::new(), Arc::new(MemoryStore::new(48 * PAGE as u64)));
    let first = socket.serve(&disk);
    let remote = socket.client();
    let (done, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (models, last) = thread::scope(|scope| {
        let (remote, done, is_over) = (&remote, &done, &is_over);
        let mut server = first;
        let workers: Vec<_> = (0..3)
            .map(|worker| scope.spawn(move || exercise(remote, worker * 16, done, is_over)))
            .collect();
        for _ in 0..8 {
            let before = done.load(Relaxed);
            let is_working = || workers.iter().all(|worker| !worker.is_finished());
            while done.load(Relaxed) < before + 300 && is_working() {
                thread::sleep(Duration::from_millis(1));
            }
            server.stop(Duration::from_secs(60)).expect("all is written");
            server = socket.serve(&disk);
        }
        is_over.store(true, Relaxed);
        let join = |worker: thread::ScopedJoinHandle<'_, _>| worker.join().expect("it verifies");
        (workers.into_iter().map(join).collect::<Vec<_>>(), server)
    });
    remote.flush().expect("a flush succeeds");
    last.stop(Duration::from_secs(60)).expect("all is written");
    for (page, byte) in models.concat().into_iter().enumerate() {
        assert_eq!(read(&*disk, page as u64).expect("it reads"), byte, "page {page}");
    }
}

#[test]
fn what_a_killed_server_had_not_flushed_is_sent_again() {
    let (socket, before) = (Socket::new(), Arc::new(MemoryStore::new(8 * PAGE as u64)));
    // As it is on disk after the cut: of all that follows, what is durable alone.
    let after = Arc::new(MemoryStore::new(8 * PAGE as u64));
    for (page, byte) in [(0, 1), (1, 9), (2, 4), (3, 9)] {
        write(&*after, page, byte, true).expect("it is memory");
    }
    let server = socket.serve(&before);
    let remote = socket.client();
    write(&remote, 0, 1, false).expect("it is acknowledged");
    remote.flush().expect("it is acknowledged");
    write(&remote, 1, 2, false).expect("it is acknowledged");
    // A durable write over one that is not: the order counts.
    write(&remote, 2, 3, false).expect("it is acknowledged");
    write(&remote, 2, 4, true).expect("it is acknowledged");
    let zeroed = remote.zero(3 * PAGE as u64, PAGE as u64, true);
    assert!(zeroed.expect("it is acknowledged"));
    // Whether there was time to write it does not matter: that store is gone.
    let _ = server.stop(Duration::ZERO);
    let server = socket.serve(&after);
    for (page, byte) in [(0, 1), (1, 2), (2, 4), (3, 0)] {
        assert_eq!(read(&remote, page).expect("it reads"), byte, "page {page}");
    }
    remote.flush().expect("nothing is lost");
    server.stop(Duration::from_secs(60)).expect("all is written");
    assert_eq!(read(&*after, 1).expect("it reads"), 2);
}

/// A server of 4096 zeroes that ends after so many requests, and refuses the last of them.
fn ending_server(mut stream: UnixStream, requests: u32) -> io::Result<()> {
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    stream.read_exact(&mut [0; 4])?;
    loop {
        let mut option = [0; 16];
        stream.read_exact(&mut option)?;
        let length = u32::from_be_bytes([option[12], option[13], option[14], option[15]]);
        stream.read_exact(&mut vec![0; length as usize])?;
        let mut reply = |kind: u32, data: &[u8]| {
            let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
            bytes.extend(&option[8..12]);
            bytes.extend(kind.to_be_bytes());
            bytes.extend((data.len() as u32).to_be_bytes());
            bytes.extend(data);
            stream.write_all(&bytes)
        };
        if option[11] != 7 {
            reply(0x8000_0001, &[])?;
            continue;
        }
        reply(3, &[0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 1])?;
        reply(1, &[])?;
        break;
    }
    for number in 1..=requests {
        let mut request = [0; 28];
        stream.read_exact(&mut request)?;
        let is_last = number == requests;
        let mut reply = 0x6744_6698_u32.to_be_bytes().to_vec();
        reply.extend(if is_last { 108_u32 } else { 0 }.to_be_bytes());
        reply.extend(&request[8..16]);
        reply.resize(reply.len() + if is_last { 0 } else { PAGE }, 0);
        stream.write_all(&reply)?;
    }
    // Its own connection stays open until the client has left it.
    stream.read_exact(&mut [0]).or(Ok(()))
}

#[test]
fn a_request_that_meets_a_server_about_to_end_is_sent_to_the_next_one() {
    let socket = Socket::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 {
                let (stream, _) = socket.listener.accept().expect("a client comes");
                // The last client leaves without waiting for anything.
                let _ = ending_server(stream, 2);
            }
        });
        let remote = socket.client();
        for _ in 0..2 {
            assert_eq!(read(&remote, 0).expect("it reads"), 0);
        }
        drop(remote);
    });
}
