//! Whole connections as bytes: the handshake, requests, replies, and what clients must not send.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::wire::Errno;
use crate::{
    Agreed, Command, Ending, Event, Export, Extent, PAYLOAD_MAX, ReplyStyle, Session, TlsPolicy,
};

/// A byte string that is put together.
#[derive(Clone, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u16(mut self, number: u16) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    fn raw(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    fn counted(self, bytes: &str) -> Self {
        self.u32(bytes.len() as u32).raw(bytes)
    }

    fn option(self, number: u32, data: Self) -> Self {
        self.raw("IHAVEOPT").u32(number).u32(data.0.len() as u32).raw(data.0)
    }

    fn go(self, name: &str) -> Self {
        self.option(7, Self::default().counted(name).u16(0))
    }

    fn request(self, flags: u16, kind: u16, offset: u64, length: u32) -> Self {
        let cookie = 0x0102_0304_0506_0708;
        self.u32(0x2560_9513).u16(flags).u16(kind).u64(cookie).u64(offset).u32(length)
    }

    fn extended(self, flags: u16, kind: u16, offset: u64, length: u64) -> Self {
        self.u32(0x21e4_1c71).u16(flags).u16(kind).u64(7).u64(offset).u64(length)
    }
}

fn flags() -> Bytes {
    Bytes::default().u32(3)
}

/// The client's half of a handshake that agrees on structured replies and the context.
fn structured() -> Bytes {
    let contexts = Bytes::default().counted("disk").u32(1).counted("base:allocation");
    flags().option(8, Bytes::default()).option(10, contexts).go("disk")
}

fn exports() -> Arc<[Export]> {
    let disk = Export {
        name: "disk".to_string(),
        description: "a disk".to_string(),
        size: SIZE,
        fast_zero: true,
        ..Export::default()
    };
    let frozen = Export {
        name: "frozen".to_string(),
        description: "".to_string(),
        read_only: true,
        fast_zero: false,
        ..disk.clone()
    };
    [disk, frozen].into()
}

const SIZE: u64 = 1 << 30;
const GREETING_BYTES: usize = 18;

/// What a server says and hands on when a client sends these bytes in pieces.
fn talk(bytes: &[u8], mut piece: impl FnMut() -> usize) -> (Vec<u8>, Vec<Event>) {
    let (mut out, mut events) = (Vec::new(), Vec::new());
    let mut session = Session::new(exports(), TlsPolicy::Off, &mut out);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(piece().clamp(1, rest.len()));
        session.receive(head, &mut out, &mut events);
        rest = tail;
    }
    (out, events)
}

/// Without the refusals, which `out` has.
fn whole(bytes: &Bytes) -> (Vec<u8>, Vec<Event>) {
    let (mut out, mut events) = talk(&bytes.0, || usize::MAX);
    out.drain(..GREETING_BYTES);
    events.retain(|event| !matches!(event, Event::Refused(..)));
    (out, events)
}

/// The replies to options: option, type, data.
fn replies(mut out: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut found = Vec::new();
    while out.len() >= 20 && out.starts_with(&0x0003_e889_0455_65a9_u64.to_be_bytes()) {
        let number = |at: usize| u32::from_be_bytes(out[at..at + 4].try_into().unwrap());
        let (option, kind, length) = (number(8), number(12), number(16) as usize);
        found.push((option, kind, out[20..20 + length].to_vec()));
        out = &out[20 + length..];
    }
    assert!(out.is_empty(), "nothing but replies to options: {out:?}");
    found
}

/// The types of the replies to one option behind the client's flags.
fn kinds(number: u32, data: Bytes) -> Vec<u32> {
    let (out, events) = whole(&flags().option(number, data));
    assert!(!events.iter().any(|event| matches!(event, Event::End(_))), "{events:?}");
    replies(&out).iter().map(|reply| reply.1).collect()
}

const UNSUP: u32 = 0x8000_0001;
const INVALID: u32 = 0x8000_0003;
const UNKNOWN: u32 = 0x8000_0006;
const TOO_BIG: u32 = 0x8000_0009;

#[test]
fn the_greeting_offers_fixed_newstyle_without_zeroes() {
    let (out, events) = talk(&[], || 1);
    assert_eq!(out, b"NBDMAGICIHAVEOPT\0\x03");
    assert!(events.is_empty());
}

#[test]
fn options_are_answered_or_refused_and_the_connection_is_kept() {
    let none = Bytes::default;
    let name = |name: &str| none().counted(name);
    let table: [(u32, Bytes, &[u32]); 22] = [
        (3, none(), &[2, 2, 1]),
        (3, none().raw("x"), &[INVALID]),
        (4, none().raw("withdrawn"), &[UNSUP]),
        (5, none(), &[UNSUP]),
        (99, none().raw([0; 1000]), &[UNSUP]),
        (6, name("disk").u16(0), &[3, 1]),
        (6, name("").u16(0), &[3, 1]),
        (6, name("disk").u16(5).u16(0).u16(1).u16(2).u16(3).u16(99), &[3, 3, 3, 3, 1]),
        (6, name("disk").u16(3).u16(3).u16(3).u16(3), &[3, 3, 1]),
        (6, name("frozen").u16(1).u16(2), &[3, 1]),
        (6, name("disk").u16(2).u16(3), &[INVALID]),
        (6, name("disk").u16(0).raw("x"), &[INVALID]),
        (6, none().u32(u32::MAX).u16(0), &[INVALID]),
        (6, none(), &[INVALID]),
        (7, name("nothing").u16(0), &[UNKNOWN]),
        (7, none().u32(2).raw([0xff, 0xfe]).u16(0), &[INVALID]),
        (7, name("a\0b").u16(0), &[INVALID]),
        (7, name(&"n".repeat(4097)).u16(0), &[TOO_BIG]),
        (8, none().raw("x"), &[INVALID]),
        (9, name("disk").u32(0), &[INVALID]),
        (10, name("disk").u32(0), &[INVALID]),
        (11, none().raw("x"), &[INVALID]),
    ];
    for (number, data, expected) in table {
        assert_eq!(kinds(number, data.clone()), expected, "{number} {:?}", data.0);
    }
}

#[test]
fn info_tells_size_flags_and_block_sizes_and_go_the_same() {
    let asked = Bytes::default().counted("disk").u16(1).u16(3);
    let (out, events) = whole(&flags().option(6, asked.clone()).option(7, asked));
    let found = replies(&out);
    let data = |reply: &(u32, u32, Vec<u8>)| reply.2.clone();
    // Flush, FUA, trim, zeroes, several connections, cache, fast zeroes; no DF without chunks.
    let export = Bytes::default().u16(0).u64(SIZE).u16(0b1101_0110_1101).0;
    let sizes = Bytes::default().u16(3).u32(1).u32(4096).u32(32 << 20).0;
    let all: Vec<_> = found.iter().map(data).collect();
    assert_eq!(all[..3], [export, sizes, Vec::new()]);
    assert_eq!(all[..3], all[3..]);
    let agreed = Agreed { export: 0, style: ReplyStyle::Simple, allocation: false };
    assert_eq!(events, [Event::Begin(agreed)]);

    let (out, _) = whole(&flags().option(8, Bytes::default()).go("frozen"));
    let export = Bytes::default().u16(0).u64(SIZE).u16(0b0101_1000_1111).0;
    assert_eq!(replies(&out)[1].2, export, "read-only, and DF with chunks");
}

#[test]
fn export_name_answers_without_a_reply_header_and_hangs_up_on_unknown_names() {
    let option = |name: &str| Bytes::default().raw("IHAVEOPT").u32(1).counted(name);
    let (out, events) = whole(&flags().raw(option("frozen").0));
    assert_eq!(out.len(), 10);
    assert!(matches!(&events[..], [Event::Begin(Agreed { export: 1, .. })]));
    let (out, _) = whole(&Bytes::default().u32(1).raw(option("disk").0));
    assert_eq!(out.len(), 10 + 124, "with zeroes for clients that expect them");
    let (out, events) = whole(&flags().raw(option("other").0));
    assert!(out.is_empty() && matches!(&events[..], [Event::End(Ending::Broken(_))]));
    let extended = flags().option(11, Bytes::default()).raw(option("disk").0);
    assert!(matches!(&whole(&extended).1[..], [Event::End(Ending::Broken(_))]));
}

/// libnbd's list asks twice about each export. With a fixed number of options, servers of 64
/// exports and more could not be listed.
#[test]
fn a_client_may_ask_about_each_of_many_exports() {
    let named = |number: u32| Export { name: number.to_string(), ..Export::default() };
    let exports: Vec<Export> = (0..1000).map(named).collect();
    let mut asked = flags().option(8, Bytes::default()).option(3, Bytes::default());
    for Export { name, .. } in &exports {
        asked = asked.option(6, Bytes::default().counted(name).u16(1).u16(3));
        asked = asked.option(9, Bytes::default().counted(name).u32(0));
    }
    asked = asked.option(2, Bytes::default());
    let (mut out, mut events) = (Vec::new(), Vec::new());
    let mut session = Session::new(exports.into(), TlsPolicy::Off, &mut out);
    session.receive(&asked.0, &mut out, &mut events);
    assert!(matches!(&events[..], [Event::End(Ending::Aborted)]), "{events:?}");
}

#[test]
fn handshakes_that_cannot_go_on_end_the_session() {
    let mut many = flags();
    // There are two exports.
    for _ in 0..128 + 2 * 4 + 1 {
        many = many.option(99, Bytes::default());
    }
    let broken = [
        Bytes::default().u32(0),
        Bytes::default().u32(7),
        flags().raw("IHAVENOT").u32(3).u32(0),
        flags().raw("IHAVEOPT").u32(3).u32(1 << 31),
        flags().raw("IHAVEOPT").u32(99).u32((64 << 10) + 1),
        many,
    ];
    // Old clients have no flags; the next bytes decide.
    for bytes in &broken[1..] {
        let (_, events) = whole(bytes);
        assert!(matches!(&events[..], [Event::End(Ending::Broken(_))]), "{events:?}");
    }
    assert!(whole(&broken[0]).1.is_empty());
    let (out, events) = whole(&flags().option(2, Bytes::default().raw("why")).go("disk"));
    assert_eq!(replies(&out).len(), 1);
    assert_eq!(events, [Event::End(Ending::Aborted)]);
}

#[test]
fn contexts_are_listed_selected_and_forgotten() {
    let query = |number, name: &str, queries: &[&str]| {
        let mut data = Bytes::default().counted(name).u32(queries.len() as u32);
        for query in queries {
            data = data.counted(query);
        }
        flags().option(8, Bytes::default()).option(number, data)
    };
    let count = |bytes: &Bytes| replies(&whole(bytes).0).iter().filter(|r| r.1 == 4).count();
    assert_eq!(count(&query(9, "disk", &[])), 1);
    assert_eq!(count(&query(9, "disk", &["base:"])), 1);
    assert_eq!(count(&query(9, "disk", &["base:other", "x:y"])), 0);
    assert_eq!(count(&query(10, "disk", &[])), 0);
    assert_eq!(count(&query(10, "disk", &["base:"])), 0);
    assert_eq!(count(&query(10, "disk", &["x:y", "base:allocation"])), 1);
    let refused = |bytes: &Bytes| replies(&whole(bytes).0)[1].1;
    assert_eq!(refused(&query(10, "disk", &["q"; 65])), TOO_BIG);
    assert_eq!(refused(&query(10, "other", &["base:allocation"])), UNKNOWN);

    let selected = |bytes: Bytes| match &whole(&bytes).1[..] {
        [Event::Begin(agreed)] => agreed.allocation,
        other => panic!("{other:?}"),
    };
    let good = || query(10, "disk", &["base:allocation"]);
    assert!(selected(good().go("disk")));
    assert!(selected(good().go("")), "the default export is the first");
    assert!(!selected(good().go("frozen")), "it was selected for another export");
    let again = Bytes::default().counted("disk").u32(1).u32(9);
    assert!(!selected(good().option(10, again).go("disk")), "a failed selection is none");
}

/// The error of a simple reply to one request on an export; none if it was handed on.
fn error_of(name: &str, request: Bytes) -> Option<u32> {
    let (out, events) = whole(&flags().go(name).raw(request.0));
    let reply = &out[out.len() - 16..];
    match &events[..] {
        [Event::Begin(_)] => {
            assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
            assert_eq!(reply[8..], 0x0102_0304_0506_0708_u64.to_be_bytes());
            Some(u32::from_be_bytes(reply[4..8].try_into().unwrap()))
        }
        [Event::Begin(_), Event::Request(..)] => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_are_handed_on_or_refused_with_the_right_number() {
    let request =
        |flags, kind, offset, length| Bytes::default().request(flags, kind, offset, length);
    let write = |offset, length: u32| request(0, 1, offset, length).raw(vec![1; length as usize]);
    let (perm, inval, nospc) = (Some(1), Some(22), Some(28));
    let table = [
        ("disk", request(0, 0, 0, 4096), None),
        ("disk", request(1, 0, 0, 4096), None),
        ("disk", request(0, 0, SIZE - 1, 1), None),
        ("disk", request(0, 0, SIZE, 0), Some(0)),
        ("disk", request(0, 0, SIZE, 1), inval),
        ("disk", request(0, 0, u64::MAX, 1), inval),
        ("disk", request(0, 0, 1, u32::MAX), inval),
        ("disk", request(0, 0, 0, PAYLOAD_MAX), None),
        ("disk", request(0, 0, 0, PAYLOAD_MAX + 1), inval),
        ("disk", request(0x80, 0, 0, 512), inval),
        ("disk", request(4, 0, 0, 512), inval),
        ("disk", write(0, 512), None),
        ("disk", write(SIZE, 512), nospc),
        ("disk", write(SIZE + 1, 0), nospc),
        ("disk", request(2, 1, 0, 0), inval),
        ("disk", write(0, PAYLOAD_MAX + 1), inval),
        ("disk", request(0, 3, 0, 0), None),
        ("disk", request(1, 3, 0, 0), None),
        ("disk", request(0, 3, 1, 0), inval),
        ("disk", request(0, 3, 0, 1), inval),
        ("disk", request(0, 4, 0, 1 << 20), None),
        ("disk", request(0, 4, SIZE, 1), inval),
        ("disk", request(0, 5, 0, 1 << 20), None),
        ("disk", request(0, 5, 0, u32::MAX), inval),
        ("disk", request(0b1_0011, 6, 0, 1 << 30), None),
        ("disk", request(0, 6, 1, 1 << 30), nospc),
        ("disk", request(4, 6, 0, 512), inval),
        ("disk", request(0, 7, 0, 512), inval),
        ("disk", request(0, 8, 0, 512), inval),
        ("disk", request(0, 65535, 0, 0), inval),
        ("frozen", write(0, 512), perm),
        ("frozen", request(0, 4, 0, 512), perm),
        ("frozen", request(0x10, 6, 0, 512), perm),
        ("frozen", request(0, 3, 0, 0), None),
        ("frozen", request(0, 0, 0, 512), None),
    ];
    for (place, (name, bytes, expected)) in table.into_iter().enumerate() {
        assert_eq!(error_of(name, bytes), expected, "row {place}");
    }
}

#[test]
fn the_stream_stays_in_step_behind_a_refused_write() {
    let refused = Bytes::default().request(0, 1, SIZE, 3).raw("abc");
    let (_, events) = whole(&structured().raw(refused.0).request(0, 3, 0, 0).request(0, 2, 0, 0));
    match &events[..] {
        [Event::Begin(agreed), Event::Request(request, payload), Event::End(ending)] => {
            assert!(agreed.allocation && agreed.style == ReplyStyle::Structured);
            assert_eq!((request.command, payload.len()), (Command::Flush, 0));
            assert_eq!(*ending, Ending::Disconnected);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stream_out_of_step_and_a_huge_payload_end_the_session() {
    let begun = || flags().go("disk");
    let broken = |bytes: Bytes| {
        matches!(whole(&bytes).1[..], [Event::Begin(_), Event::End(Ending::Broken(_))])
    };
    assert!(broken(begun().raw([0; 28])));
    assert!(broken(begun().request(0, 1, 0, 2 * PAYLOAD_MAX + 1)));
    assert!(broken(begun().extended(0, 0, 0, 1)), "extended requests were not agreed on");
    // Nothing is taken after the end.
    let (_, events) = whole(&begun().request(0, 2, 0, 0).request(0, 0, 0, 512));
    assert_eq!(events.len(), 2);
}

#[test]
fn extended_requests_have_long_lengths_and_a_flag_for_payloads() {
    let go = || flags().option(11, Bytes::default()).go("disk");
    let errors = |bytes: Bytes| {
        let (out, events) = whole(&go().raw(bytes.0));
        let handed_on = events.len() == 2;
        let header = 0x6e8a_278c_u32.to_be_bytes();
        let at = out.windows(4).position(|bytes| bytes == header);
        let number = |at: usize| u32::from_be_bytes(out[at..at + 4].try_into().unwrap());
        (handed_on, at.map(|at| number(at + 32)))
    };
    let one = |flags, kind, length| Bytes::default().extended(flags, kind, 0, length);
    assert_eq!(errors(one(0, 6, SIZE)), (true, None));
    assert_eq!(errors(one(0, 6, 1 << 40)), (false, Some(28)));
    assert_eq!(errors(one(0, 0, u64::MAX)), (false, Some(22)));
    assert_eq!(errors(one(0x20, 1, 3).raw("abc")), (true, None));
    assert_eq!(errors(one(0, 1, 3).raw("abc")), (true, None), "as qemu sends it");
    assert_eq!(errors(one(0x20, 0, 3).raw("abc")), (false, Some(22)));
    assert_eq!(errors(one(0x20, 3, 0)), (false, Some(22)));
}

#[test]
fn replies_are_framed_as_agreed() {
    let (_, events) = whole(&structured().request(0, 0, 4096, 8));
    let Event::Request(request, _) = &events[1] else { panic!("{events:?}") };
    let agreed = |style| Agreed { export: 0, style, allocation: true };
    let cookie = request.cookie;
    let encoded = |style: ReplyStyle| {
        let mut out = Vec::new();
        agreed(style).error(request, Errno::Io, "why", &mut out);
        (agreed(style).read_header(request).as_bytes().to_vec(), out)
    };
    let simple = |error| Bytes::default().u32(0x6744_6698).u32(error).u64(cookie);
    assert_eq!(encoded(ReplyStyle::Simple), (simple(0).0, simple(5).0));
    let chunk =
        |kind, length| Bytes::default().u32(0x668e_33ef).u16(1).u16(kind).u64(cookie).u32(length);
    let error = chunk(0x8001, 9).u32(5).u16(3).raw("why");
    assert_eq!(encoded(ReplyStyle::Structured), (chunk(1, 16).u64(4096).0, error.0));
    let chunk = |kind, length| {
        Bytes::default().u32(0x6e8a_278c).u16(1).u16(kind).u64(cookie).u64(4096).u64(length)
    };
    let error = chunk(0x8001, 9).u32(5).u16(3).raw("why");
    assert_eq!(encoded(ReplyStyle::Extended), (chunk(1, 16).u64(4096).0, error.0));

    let extents = [
        Extent { length: 4096, hole: false, zero: false },
        Extent { length: 1 << 33, hole: true, zero: true },
    ];
    let mut out = Vec::new();
    agreed(ReplyStyle::Structured).extents(request, &extents, &mut out);
    let expected = Bytes::default().u32(0x668e_33ef).u16(1).u16(5).u64(cookie).u32(20).u32(1);
    assert_eq!(out, expected.u32(4096).u32(0).u32(0xffff_0000).u32(3).0);
    out.clear();
    agreed(ReplyStyle::Extended).extents(request, &extents, &mut out);
    assert_eq!(out, chunk(6, 40).u32(1).u32(2).u64(4096).u64(0).u64(1 << 33).u64(3).0);
}

/// Numbers that look random, from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A connection's bytes: mostly sensible, with some of them changed.
    fn stream(&mut self) -> Vec<u8> {
        let mut bytes = flags();
        for _ in 0..self.below(4) {
            let data = Bytes::default().counted("disk").raw(vec![0; self.below(9) as usize]);
            bytes = bytes.option(self.below(12) as u32, data);
        }
        let extended = self.below(3) == 0;
        bytes = match self.below(3) {
            0 => bytes.go("disk"),
            1 if extended => bytes.option(11, Bytes::default()).go("disk"),
            _ => bytes.raw(structured().0.split_off(4)),
        };
        for _ in 0..self.below(8) {
            let (flags, kind) = (self.below(40) as u16, self.below(10) as u16);
            let (offset, length) = (self.below(SIZE + 9), self.below(99));
            bytes = match extended {
                true => bytes.extended(flags, kind, offset, length),
                false => bytes.request(flags, kind, offset, length as u32),
            };
            if kind == 1 {
                bytes = bytes.raw(vec![7; length as usize]);
            }
        }
        let mut bytes = bytes.0;
        for _ in 0..self.below(3) {
            let place = self.below(bytes.len() as u64) as usize;
            bytes[place] = self.next() as u8;
        }
        bytes
    }
}

#[test]
fn any_bytes_have_the_same_outcome_however_they_are_cut() {
    for seed in 1..3_000 {
        let mut numbers = Numbers(seed << 20 | 0x9e37_79b9);
        let bytes = numbers.stream();
        let expected = talk(&bytes, || usize::MAX);
        assert_eq!(talk(&bytes, || 1), expected, "seed {seed}, byte by byte");
        let pieces = talk(&bytes, || numbers.below(40) as usize);
        assert_eq!(pieces, expected, "seed {seed}, in pieces");
        // A client may leave anywhere.
        let cut = numbers.below(bytes.len() as u64) as usize;
        talk(&bytes[..cut], || usize::MAX);
    }
}

#[test]
fn a_refused_request_is_told_once_its_payload_is_skipped() {
    let sent = flags().go("disk").request(0, 1, SIZE, 3).raw("abc").request(0x80, 0, 0, 512);
    let (_, events) = talk(&sent.0, || 1);
    let told: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Refused(request, errno, _) => Some((request.command, request.length, *errno)),
            Event::StartTls | Event::Begin(_) | Event::Request(..) | Event::End(_) => None,
        })
        .collect();
    assert_eq!(told, [(Command::Write, 3, Errno::NoSpace), (Command::Read, 512, Errno::Invalid)]);
}

/// A session under a policy of TLS that has received some bytes.
fn session(tls: TlsPolicy, bytes: &Bytes) -> (Session, Vec<u8>, Vec<Event>) {
    let (mut out, mut events) = (Vec::new(), Vec::new());
    let mut session = Session::new(exports(), tls, &mut out);
    out.clear();
    session.receive(&bytes.0, &mut out, &mut events);
    (session, out, events)
}

#[test]
fn before_tls_that_is_required_a_client_may_only_ask_for_it_or_leave() {
    let required = |bytes: Bytes| {
        let (_, out, events) = session(TlsPolicy::Required, &bytes);
        (replies(&out).iter().map(|reply| reply.1).collect::<Vec<_>>(), events)
    };
    let context = Bytes::default().counted("disk").u32(1).counted("base:allocation");
    for (number, data) in [
        (3, Bytes::default()),
        (6, Bytes::default().counted("disk").u16(0)),
        (7, Bytes::default().counted("disk").u16(0)),
        (8, Bytes::default()),
        (10, context),
        (11, Bytes::default()),
        (99, Bytes::default()),
    ] {
        assert_eq!(required(flags().option(number, data)), (vec![TLS_REQD], vec![]), "{number}");
    }
    let named = required(flags().option(1, Bytes::default().raw("disk")));
    assert!(matches!(named.1[..], [Event::End(Ending::Broken(_))]));
    let left = required(flags().option(2, Bytes::default()));
    assert_eq!(left.1, [Event::End(Ending::Aborted)]);
}

#[test]
fn tls_forgets_what_was_agreed_on_before_and_begins_once() {
    let start = || Bytes::default().option(5, Bytes::default());
    let sent = flags().option(8, Bytes::default()).option(5, Bytes::default().raw("x"));
    for tls in [TlsPolicy::Allowed, TlsPolicy::Required] {
        let (mut session, mut out, mut events) = session(tls, &sent);
        session.receive(&start().0, &mut out, &mut events);
        let kinds: Vec<u32> = replies(&out).iter().map(|reply| reply.1).collect();
        let first = if tls == TlsPolicy::Allowed { 1 } else { TLS_REQD };
        assert_eq!(kinds, [first, INVALID, 1]);
        assert_eq!(core::mem::take(&mut events), [Event::StartTls]);
        assert!(!session.has_begun());
        session.secured();
        out.clear();
        session.receive(&start().go("disk").0, &mut out, &mut events);
        assert_eq!(replies(&out)[0].1, INVALID, "a second STARTTLS");
        let agreed = Agreed { export: 0, style: ReplyStyle::Simple, allocation: false };
        assert_eq!(events, [Event::Begin(agreed)], "without structured replies");
    }
    assert_eq!(kinds(5, Bytes::default()), [UNSUP]);
}

#[test]
fn plain_text_behind_starttls_is_not_taken_for_the_clients() {
    let sent = flags().option(5, Bytes::default()).go("disk");
    let (_, out, events) = session(TlsPolicy::Allowed, &sent);
    assert_eq!(replies(&out).len(), 1);
    assert!(matches!(events[..], [Event::StartTls, Event::End(Ending::Broken(_))]), "{events:?}");
}

const TLS_REQD: u32 = 0x8000_0005;
