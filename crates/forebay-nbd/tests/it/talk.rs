//! Any bytes, received by both sides of the protocol: shared by the fuzz target and the tests.

use forebay_nbd::{
    ClientEvent, ClientSession, Command, Event, Export, Extent, Request, Session, TlsPolicy,
};

/// Takes the first byte as how the rest is cut and under which policy, and the rest as what a peer
/// sends.
///
/// # Panics
/// If the outcome depends on how the bytes are split, or memory grows beyond them.
pub(crate) fn survives(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let tls = [TlsPolicy::Off, TlsPolicy::Allowed, TlsPolicy::Required][usize::from(choice) % 3];
    let piece = usize::from(choice / 3) + 1;
    let whole = served(rest, tls, rest.len().max(1));
    assert_eq!(served(rest, tls, piece), whole, "the server's side");
    assert!(whole.0.len() <= 4096 + 64 * rest.len(), "replies are as many as what they answer");
    let whole = asked(rest, rest.len().max(1));
    assert_eq!(asked(rest, piece), whole, "the client's side");
}

/// What a server says and hands on. Requests are answered at once.
fn served(bytes: &[u8], tls: TlsPolicy, piece: usize) -> (Vec<u8>, Vec<Event>) {
    let disk = Export { name: "disk".to_owned(), size: 1 << 20, ..Export::default() };
    let frozen = Export { name: "frozen".to_owned(), read_only: true, ..disk.clone() };
    let (mut out, mut events, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let mut session = Session::new([disk, frozen].into(), tls, &mut out);
    let mut agreed = None;
    // Replies of requests come when they like; here they stand apart.
    let mut replies = Vec::new();
    for part in bytes.chunks(piece) {
        // Encryption is not under test: its bytes count as plain text.
        if session.is_securing() {
            session.secured();
        }
        session.receive(part, &mut out, &mut events);
        for event in events.drain(..) {
            match &event {
                Event::Begin(found) => agreed = Some(*found),
                Event::Request(request, payload) => {
                    let agreed = agreed.expect("requests come after the handshake");
                    let is_write = request.command == Command::Write;
                    let expected = if is_write { request.length } else { 0 };
                    assert_eq!(payload.len() as u64, expected, "the payload of {request:?}");
                    assert!(request.offset + request.length <= 1 << 20, "{request:?}");
                    match request.command {
                        Command::Read => {
                            replies.extend_from_slice(agreed.read_header(request).as_bytes());
                        }
                        Command::BlockStatus => {
                            let length = request.length;
                            let extent = Extent { length, hole: true, zero: true };
                            agreed.extents(request, &[extent], &mut replies);
                        }
                        Command::Write
                        | Command::Flush
                        | Command::Trim
                        | Command::Cache
                        | Command::WriteZeroes => agreed.ok(request, &mut replies),
                        Command::Unknown => panic!("it is refused: {request:?}"),
                    }
                }
                Event::StartTls | Event::Refused(..) | Event::End(_) => {}
            }
            all.push(event);
        }
        // A piece that holds STARTTLS and more is an attack only if both come at once.
        if session.has_ended() || session.is_securing() {
            break;
        }
    }
    // The split around STARTTLS decides which bytes follow it: none of them are compared.
    if let Some(at) = all.iter().position(|event| *event == Event::StartTls) {
        all.truncate(at);
        out.clear();
    }
    (out, all)
}

/// What a client makes of a server's bytes, with a READ and a BLOCK_STATUS under way once it can.
fn asked(bytes: &[u8], piece: usize) -> Vec<ClientEvent> {
    let mut session = ClientSession::new("disk").expect("the name is short");
    let (mut out, mut events, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for part in READY.chunks(usize::MAX).chain(bytes.chunks(piece)) {
        session.receive(part, &mut out, &mut events);
        for event in events.drain(..) {
            match &event {
                ClientEvent::Ready(_) => {
                    for command in [Command::Read, Command::BlockStatus, Command::Flush] {
                        let (offset, length) = (16, 8);
                        let (fua, no_hole, one_extent) = (false, false, false);
                        let cookie = 0;
                        let request =
                            Request { cookie, command, offset, length, fua, no_hole, one_extent };
                        session.request(&request, &mut out);
                    }
                }
                ClientEvent::Reply(reply) if reply.cookie == 1 && reply.result.is_ok() => {
                    assert_eq!(reply.data.len(), 8, "a READ that succeeds has all its bytes");
                }
                ClientEvent::Reply(_) | ClientEvent::Broken(_) => {}
            }
            all.push(event);
        }
    }
    assert!(matches!(all[0], ClientEvent::Ready(_)), "the handshake is a good one");
    all
}

/// A server's half of a handshake that agrees on chunks and the context.
const READY: &[u8] = b"NBDMAGICIHAVEOPT\0\x03\
    \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x08\0\0\0\x01\0\0\0\0\
    \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x0a\0\0\0\x04\0\0\0\x04\0\0\0\x01\
    \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x0a\0\0\0\x01\0\0\0\0\
    \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x03\0\0\0\x0c\0\0\
    \0\0\0\0\0\x10\0\0\x01\x6d\
    \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x01\0\0\0\0";
