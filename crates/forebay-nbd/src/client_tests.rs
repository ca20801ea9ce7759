//! The client's side against the server's side, and against servers that misbehave.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use crate::{
    Agreed, ClientEvent, ClientSession, Command, Errno, Event, Export, Extent, RemoteExport,
    Request, Session, TlsPolicy,
};

const SIZE: u64 = 1 << 20;

fn request(command: Command, offset: u64, length: u64) -> Request {
    Request { cookie: 0, command, offset, length, fua: false, no_hole: false, one_extent: false }
}

/// Both sides of one connection.
struct Pair {
    server: Session,
    client: ClientSession,
    to_client: Vec<u8>,
    agreed: Option<Agreed>,
}

impl Pair {
    fn begin(name: &str) -> (Self, Vec<ClientEvent>) {
        let disk = Export { name: "disk".to_string(), size: SIZE, ..Export::default() };
        let mut to_client = Vec::new();
        let server = Session::new([disk].into(), TlsPolicy::Off, &mut to_client);
        let client = ClientSession::new(name).unwrap();
        let mut pair = Self { server, client, to_client, agreed: None };
        let (events, _) = pair.run(Vec::new());
        (pair, events)
    }

    /// Carries bytes between both sides until none is left, one at a time.
    fn run(&mut self, mut to_server: Vec<u8>) -> (Vec<ClientEvent>, Vec<(Request, Vec<u8>)>) {
        let (mut client_events, mut requests) = (Vec::new(), Vec::new());
        while !(self.to_client.is_empty() && to_server.is_empty()) {
            for byte in core::mem::take(&mut self.to_client) {
                self.client.receive(&[byte], &mut to_server, &mut client_events);
            }
            let mut events = Vec::new();
            let bytes = core::mem::take(&mut to_server);
            self.server.receive(&bytes, &mut self.to_client, &mut events);
            for event in events {
                match event {
                    Event::Begin(agreed) => self.agreed = Some(agreed),
                    Event::Request(request, payload) => requests.push((request, payload)),
                    Event::Refused(..) => {}
                    Event::StartTls | Event::End(_) => panic!("the session goes on"),
                }
            }
        }
        (client_events, requests)
    }
}

#[test]
fn a_client_learns_what_our_server_has_and_moves_bytes() {
    let (mut pair, events) = Pair::begin("disk");
    let remote = RemoteExport {
        size: SIZE,
        read_only: false,
        flush: true,
        fua: true,
        zeroes: true,
        multi_conn: true,
        allocation: true,
        block_min: 1,
        payload_max: 32 << 20,
    };
    assert_eq!(events, [ClientEvent::Ready(remote)]);
    let agreed = pair.agreed.unwrap();
    let mut sent = Vec::new();
    let read = pair.client.request(&request(Command::Read, 4096, 5), &mut sent);
    let write = pair.client.request(&request(Command::Write, 9, 3), &mut sent);
    sent.extend(b"abc");
    let status = pair.client.request(&request(Command::BlockStatus, 0, SIZE), &mut sent);
    let beyond = pair.client.request(&request(Command::Trim, SIZE, 1), &mut sent);
    let (events, requests) = pair.run(sent);
    let [(asked_read, _), (asked_write, payload), (asked_status, _)] = &requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!((asked_write.offset, &payload[..]), (9, &b"abc"[..]));
    let reply = |events: &[ClientEvent]| match events {
        [ClientEvent::Reply(reply)] => {
            (reply.cookie, reply.result, reply.data.clone(), reply.extents.clone())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(reply(&events), (beyond, Err(Errno::Invalid.code()), vec![], vec![]));
    // In another order than requested.
    agreed.ok(asked_write, &mut pair.to_client);
    assert_eq!(reply(&pair.run(Vec::new()).0), (write, Ok(()), vec![], vec![]));
    let extents = [
        Extent { length: 4096, hole: false, zero: false },
        Extent { length: SIZE - 4096, hole: true, zero: true },
    ];
    agreed.extents(asked_status, &extents, &mut pair.to_client);
    assert_eq!(reply(&pair.run(Vec::new()).0), (status, Ok(()), vec![], extents.to_vec()));
    pair.to_client.extend(agreed.read_header(asked_read).as_bytes());
    pair.to_client.extend(b"hello");
    assert_eq!(reply(&pair.run(Vec::new()).0), (read, Ok(()), b"hello".to_vec(), vec![]));
}

#[test]
fn an_unknown_export_is_refused_with_the_servers_words() {
    let (_, events) = Pair::begin("other");
    let [ClientEvent::Broken(why)] = &events[..] else { panic!("{events:?}") };
    assert!(why.contains("there is no such export"), "{why}");
    assert!(ClientSession::new(&"n".repeat(4097)).is_err());
}

/// A client that is ready by structured replies, and one READ of 8 bytes at 16 under way.
fn reading() -> (ClientSession, u64) {
    let (pair, _) = Pair::begin("disk");
    let mut client = pair.client;
    let cookie = client.request(&request(Command::Read, 16, 8), &mut Vec::new());
    (client, cookie)
}

fn chunk(flags: u16, kind: u16, cookie: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = 0x668e_33ef_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn data(offset: u64, bytes: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes(), bytes].concat()
}

fn received(client: &mut ClientSession, bytes: &[u8]) -> Vec<ClientEvent> {
    let mut events = Vec::new();
    client.receive(bytes, &mut Vec::new(), &mut events);
    events
}

#[test]
fn a_reply_in_pieces_with_holes_is_put_together() {
    let (mut client, cookie) = reading();
    let hole = [&20_u64.to_be_bytes()[..], &4_u32.to_be_bytes()].concat();
    let bytes = [chunk(0, 2, cookie, &hole), chunk(1, 1, cookie, &data(16, b"abcd"))].concat();
    let events = received(&mut client, &bytes);
    let [ClientEvent::Reply(reply)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((reply.result, &reply.data[..]), (Ok(()), &b"abcd\0\0\0\0"[..]));
    let (mut client, cookie) = reading();
    let error = [&5_u32.to_be_bytes()[..], &0_u16.to_be_bytes()].concat();
    let bytes = [chunk(0, 1, cookie, &data(16, b"ab")), chunk(1, 0x8001, cookie, &error)].concat();
    let events = received(&mut client, &bytes);
    assert!(matches!(&events[..], [ClientEvent::Reply(reply)] if reply.result == Err(5)));
}

#[test]
fn replies_that_cannot_be_are_an_end_and_no_success() {
    for (name, flags, kind, payload) in [
        ("data in front of the request", 1, 1, data(15, b"abcdefgh")),
        ("data behind it", 1, 1, data(17, b"abcdefgh")),
        ("more data than asked for", 1, 1, data(16, b"abcdefghi")),
        ("data too early by far", 1, 1, data(u64::MAX, b"a")),
        ("less data than asked for", 1, 1, data(16, b"abcdefg")),
        ("no data", 1, 0, vec![]),
        ("a chunk without its offset", 1, 1, vec![1, 2, 3]),
        ("an empty chunk of data", 0, 1, data(16, b"")),
        ("a status that was not asked for", 1, 5, vec![0; 12]),
        ("an unknown kind", 1, 77, vec![]),
        ("an error without a number", 1, 0x8001, vec![1]),
    ] {
        let (mut client, cookie) = reading();
        let events = received(&mut client, &chunk(flags, kind, cookie, &payload));
        assert!(matches!(events[..], [ClientEvent::Broken(_)]), "{name}: {events:?}");
    }
    let (mut client, cookie) = reading();
    let twice = [chunk(0, 1, cookie, &data(16, b"abcd")), chunk(0, 1, cookie, &data(16, b"abcde"))];
    let events = received(&mut client, &twice.concat());
    assert!(matches!(events[..], [ClientEvent::Broken(_)]), "overlapping: {events:?}");
    let (mut client, cookie) = reading();
    let events = received(&mut client, &chunk(1, 1, cookie + 1, &data(16, b"abcdefgh")));
    assert!(matches!(events[..], [ClientEvent::Broken(_)]), "of no request: {events:?}");
    let (mut client, _) = reading();
    let mut long = chunk(1, 1, 1, &[]);
    let at = long.len() - 4;
    long[at..].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(matches!(received(&mut client, &long)[..], [ClientEvent::Broken(_)]), "too long");
}

#[test]
fn any_bytes_of_a_server_give_events_and_never_success_without_data() {
    for seed in 1..4_000_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (mut client, cookie) = reading();
        let mut bytes = Vec::new();
        for _ in 0..next() % 4 {
            let (flags, kind) = ((next() % 2) as u16, [0, 1, 2, 5, 0x8001, 9][next() as usize % 6]);
            let payload = data(14 + next() % 5, &vec![7; next() as usize % 12]);
            bytes.extend(chunk(flags, kind, cookie + next() % 8 / 7, &payload));
        }
        for _ in 0..next() % 3 {
            if let Some(place) = (next() as usize).checked_rem(bytes.len()) {
                bytes[place] = next() as u8;
            }
        }
        let mut all = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (head, tail) = rest.split_at((1 + next() as usize % 30).min(rest.len()));
            all.extend(received(&mut client, head));
            rest = tail;
        }
        for event in &all {
            if let ClientEvent::Reply(reply) = event {
                assert!(reply.result.is_err() || reply.data.len() == 8, "seed {seed}: {all:?}");
            }
        }
        let ends = all.iter().filter(|event| matches!(event, ClientEvent::Broken(_))).count();
        assert!(ends <= 1, "seed {seed}: {all:?}");
    }
}

#[test]
fn what_is_no_server_is_told() {
    for (bytes, why) in [
        (&b"HTTP/1.1 400 Bad Request"[..], "no NBD server"),
        (b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\0", "old protocol"),
        (b"NBDMAGICIHAVEOPT\0\0", "old protocol"),
    ] {
        let mut client = ClientSession::new("").unwrap();
        let events = received(&mut client, bytes);
        let [ClientEvent::Broken(found)] = &events[..] else { panic!("{events:?}") };
        assert!(found.contains(why), "{found}");
    }
}
