//! Requests and options that no client should send, one after another: each costs its sender a
//! reply or the connection, and no other client anything.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use forebay_host::serve::MemoryStore;

use crate::serve::Rig;

const SIZE: u64 = 1 << 20;
const MAX: u32 = 32 << 20;

/// The expected answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// A simple reply with this error, 0 being success, and this many bytes of data.
    Reply(u32, usize),
    /// The reply of this type to an option.
    Option(u32),
    /// The end of the connection.
    Closed,
}

use Answer::{Closed, Option as Opt, Reply};

fn request(flags: u16, kind: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(77_u64.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

fn write(offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = request(0, 1, offset, length);
    bytes.resize(28 + length as usize, 7);
    bytes
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The data of GO for a name whose announced length is `announced`.
fn go(announced: u32, name: &[u8], infos: u16) -> Vec<u8> {
    let mut data = announced.to_be_bytes().to_vec();
    data.extend(name);
    data.extend(infos.to_be_bytes());
    data
}

/// Requests of a client that has chosen its export.
fn requests() -> Vec<(&'static str, Vec<u8>, Answer)> {
    let (inval, nospc) = (Reply(22, 0), Reply(28, 0));
    vec![
        ("READ of no bytes", request(0, 0, 0, 0), Reply(0, 0)),
        ("READ of no bytes at the end", request(0, 0, SIZE, 0), Reply(0, 0)),
        ("READ over the end", request(0, 0, SIZE - 1, 2), inval),
        ("READ behind the end", request(0, 0, SIZE + 1, 1), inval),
        ("READ whose end wraps", request(0, 0, u64::MAX, 2), inval),
        ("READ of more than 32 MiB", request(0, 0, 0, MAX + 1), inval),
        ("READ of 4 GiB", request(0, 0, 0, u32::MAX), inval),
        ("READ with DF and without chunks", request(4, 0, 0, 512), inval),
        ("READ with an unknown flag", request(0x80, 0, 0, 512), inval),
        ("READ with FAST_ZERO", request(0x10, 0, 0, 512), inval),
        ("READ with FUA", request(1, 0, 0, 512), Reply(0, 512)),
        ("READ of an odd range", request(0, 0, 3, 5), Reply(0, 5)),
        ("WRITE over the end", write(SIZE - 1, 2), nospc),
        ("WRITE behind the end", write(SIZE + 4096, 512), nospc),
        ("WRITE whose end wraps", write(u64::MAX - 1, 512), nospc),
        ("WRITE of no bytes", write(0, 0), Reply(0, 0)),
        ("WRITE of more than 32 MiB and of the export", write(0, MAX + 1), nospc),
        ("WRITE of 4 GiB", request(0, 1, 0, u32::MAX), Closed),
        ("WRITE with an unknown flag", request(0x100, 1, 0, 0), inval),
        ("FLUSH with a length", request(0, 3, 0, 512), inval),
        ("FLUSH with an offset", request(0, 3, 512, 0), inval),
        ("FLUSH with FUA", request(1, 3, 0, 0), Reply(0, 0)),
        ("TRIM over the end", request(0, 4, SIZE, 1), inval),
        ("TRIM of no bytes", request(0, 4, 0, 0), Reply(0, 0)),
        ("TRIM of an odd range", request(0, 4, 3, 5), Reply(0, 0)),
        ("CACHE over the end", request(0, 5, 0, u32::MAX), inval),
        ("CACHE of all", request(0, 5, 0, SIZE as u32), Reply(0, 0)),
        ("WRITE_ZEROES with FAST_ZERO", request(0x10, 6, 0, 4096), Reply(0, 0)),
        ("WRITE_ZEROES over the end", request(0, 6, 1, SIZE as u32), nospc),
        ("WRITE_ZEROES with DF", request(4, 6, 0, 512), inval),
        ("BLOCK_STATUS without a context", request(0, 7, 0, 512), inval),
        ("BLOCK_STATUS of no bytes", request(0, 7, 0, 0), inval),
        ("BLOCK_STATUS near 4 GiB", request(0, 7, 0, u32::MAX), inval),
        ("RESIZE", request(0, 8, 0, 0), inval),
        ("an unknown command", request(0, 0x1234, 0, 0), inval),
        ("a wrong number", vec![9; 28], Closed),
        ("an option in place of a request", option(7, &go(6, b"disk-1", 0)), Closed),
    ]
}

/// Options that a client sends instead of a handshake, after its flags.
fn options() -> Vec<(&'static str, Vec<u8>, Answer)> {
    let (unsup, invalid) = (Opt(0x8000_0001), Opt(0x8000_0003));
    let long = [b"IHAVEOPT\0\0\0\x07".to_vec(), (1_u32 << 31).to_be_bytes().to_vec()].concat();
    vec![
        ("a wrong number", b"IHAVENOT\0\0\0\x03\0\0\0\0".to_vec(), Closed),
        ("an option of 2 GiB", long, Closed),
        ("an option of 64 KiB and a byte", option(99, &[0; (64 << 10) + 1]), Closed),
        ("an unknown option", option(99, b"data"), unsup),
        ("STARTTLS where there is none", option(5, &[]), unsup),
        ("PEEK_EXPORT", option(4, b"x"), unsup),
        ("LIST with data", option(3, b"x"), invalid),
        ("GO without data", option(7, &[]), invalid),
        ("GO whose name is longer than it", option(7, &go(100, b"disk", 0)), invalid),
        ("GO whose name is 4 GiB", option(7, &go(u32::MAX, b"disk", 0)), invalid),
        ("GO with infos that are not there", option(7, &go(4, b"disk", 9)), invalid),
        ("GO of an unknown export", option(7, &go(4, b"none", 0)), Opt(0x8000_0006)),
        ("GO of a name that is no UTF-8", option(7, &go(2, &[0xff, 0xfe], 0)), invalid),
        ("GO of a name of 5000 bytes", option(7, &go(5000, &[b'n'; 5000], 0)), Opt(0x8000_0009)),
        ("a context before chunks", option(10, &[0; 8]), invalid),
        ("EXPORT_NAME of an unknown export", option(1, b"none"), Closed),
    ]
}

/// A connection with the greeting taken, on which nothing waits for ever.
fn connect(rig: &Rig) -> UnixStream {
    let begin = Instant::now();
    loop {
        let mut stream = UnixStream::connect(rig.socket()).expect("the rig works");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("the rig works");
        match stream.read_exact(&mut [0; 18]) {
            Ok(()) => return stream,
            // As many as it takes have left, and it has not seen that of all.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => thread::yield_now(),
            Err(error) => panic!("the rig works: {error}"),
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "the server takes clients");
    }
}

/// A client that has chosen the default export.
fn chosen(rig: &Rig) -> UnixStream {
    let mut stream = connect(rig);
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").expect("the rig works");
    stream.read_exact(&mut [0; 10]).expect("the rig works");
    stream
}

fn answer(stream: &mut UnixStream, expected: Answer) -> Answer {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
    let closed = |result: std::io::Result<()>| {
        let error = result.err().map(|error| error.kind());
        assert_ne!(error, Some(std::io::ErrorKind::WouldBlock), "neither a reply nor an end");
        error.is_some()
    };
    if let Opt(_) = expected {
        let mut head = [0; 20];
        return if closed(stream.read_exact(&mut head)) {
            Closed
        } else {
            Opt(number(&head[12..16]))
        };
    }
    let mut head = [0; 16];
    if closed(stream.read_exact(&mut head)) {
        return Closed;
    }
    assert_eq!(head[8..], 77_u64.to_be_bytes());
    let wanted = if let Reply(0, data) = expected { data } else { 0 };
    stream.read_exact(&mut vec![0; wanted]).expect("the data of a reply");
    Reply(number(&head[4..8]), wanted)
}

#[test]
fn probes_cost_their_sender_a_reply_or_the_connection() {
    let rig = Rig::with(MemoryStore::new(SIZE), 64);
    let mut bystander = rig.client();
    for (name, bytes, expected) in requests() {
        let mut stream = chosen(&rig);
        // If the server closes in the middle of a payload, the rest may be refused.
        let sent = stream.write_all(&bytes);
        assert!(sent.is_ok() || expected == Closed, "{name}: {sent:?}");
        assert_eq!(answer(&mut stream, expected), expected, "{name}");
        if expected != Closed {
            // It goes on: the stream is in step.
            stream.write_all(&request(0, 0, 0, 512)).unwrap();
            assert_eq!(answer(&mut stream, Reply(0, 512)), Reply(0, 512), "behind: {name}");
        }
        assert_eq!(bystander.read(0, 512).unwrap().len(), 512, "beside: {name}");
    }
    for (name, bytes, expected) in options() {
        let mut stream = connect(&rig);
        let sent = stream.write_all(&[&[0, 0, 0, 3], &bytes[..]].concat());
        assert!(sent.is_ok() || expected == Closed, "{name}: {sent:?}");
        assert_eq!(answer(&mut stream, expected), expected, "{name}");
        assert_eq!(bystander.read(0, 512).unwrap().len(), 512, "beside: {name}");
    }
    let mut flags = connect(&rig);
    flags.write_all(&[0, 0, 0, 7]).unwrap();
    assert_eq!(answer(&mut flags, Closed), Closed, "unknown client flags");
    bystander.flush().unwrap();
    rig.server.stop(Duration::from_secs(60)).unwrap();
}

#[test]
fn a_client_may_leave_within_a_request_a_payload_and_a_handshake() {
    let rig = Rig::with(MemoryStore::new(SIZE), 64);
    let mut bystander = rig.client();
    let whole = [&[0, 0, 0, 3][..], &option(7, &go(4, b"disk", 0)), &write(0, 600)].concat();
    for cut in 0..whole.len() {
        let mut stream = connect(&rig);
        stream.write_all(&whole[..cut]).unwrap();
    }
    assert_eq!(bystander.read(0, 600).unwrap(), [0; 600], "half a WRITE writes nothing");
    rig.server.stop(Duration::from_secs(60)).unwrap();
}
