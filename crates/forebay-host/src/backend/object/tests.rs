//! Objects of a server that the test controls.

use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

use super::server::{PageFault, PageServer};
use super::*;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn open(url: &str) -> Result<ObjectBackend, ObjectError> {
    ObjectBackend::open_with(url, Duration::from_millis(1))
}

fn sent(object: &ObjectBackend) -> Requests {
    object.requests().unwrap()
}

fn failure(error: &io::Error) -> &RequestFailure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<ObjectError>()) {
        Some(ObjectError::Read { failure, .. } | ObjectError::Open { failure, .. }) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ranges_come_as_they_are_and_are_counted() {
    let bytes = bytes(100_000);
    let server = PageServer::new(bytes.clone());
    let object = open(&server.url()).unwrap();
    assert_eq!(object.len(), 100_000);
    let before = sent(&object).count;
    let mut buffer = vec![0; 5000];
    assert_eq!(object.read_at(&mut buffer, 777).unwrap(), 5000);
    assert_eq!(buffer, bytes[777..5777]);
    // Several buffers are one request; the end is where the object ends.
    let (mut first, mut second) = (vec![0; 300], vec![0; 4096]);
    let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    assert_eq!(object.read_vectored_at(&mut buffers, 99_000).unwrap(), 1000);
    assert_eq!((&first[..], &second[..700]), (&bytes[99_000..99_300], &bytes[99_300..]));
    assert_eq!(object.read_at(&mut buffer, 100_000).unwrap(), 0);
    assert_eq!(sent(&object).count - before, 2);
    assert_eq!(sent(&object).bytes, 6000);
    let last = server.page().requests.last().cloned().unwrap();
    assert!(last.contains("range: bytes=99000-99999") && last.contains("if-match: \"one\""));
    // Opened again, it is the same.
    let again = object.reopen().unwrap();
    assert_eq!(again.read_at(&mut buffer, 0).unwrap(), 5000);
    assert_eq!(buffer, bytes[..5000]);
}

#[test]
fn an_object_without_bytes_opens() {
    let server = PageServer::new(Vec::new());
    let object = open(&server.url()).unwrap();
    assert!(object.is_empty());
    assert_eq!(object.read_at(&mut [0; 10], 0).unwrap(), 0);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let server = PageServer::new(bytes(1000));
    for (status, wanted) in [(404, "there is no such object"), (403, "access is denied")] {
        server.page().faults.push_back(PageFault::Status(status));
        let error = open(&server.url()).unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains(&server.url()), "{error}");
    }
    server.page().ranges = false;
    let error = open(&server.url()).unwrap_err();
    let no_ranges = matches!(&error, ObjectError::Open { failure: RequestFailure::NoRanges, .. });
    assert!(no_ranges, "{error}");
}

#[test]
fn a_server_that_recovers_is_tried_again() {
    let bytes = bytes(100_000);
    let server = PageServer::new(bytes.clone());
    let object = open(&server.url()).unwrap();
    for faults in [
        vec![PageFault::Status(500), PageFault::Status(503)],
        // What came before the connection ended is not asked for again.
        vec![PageFault::Cut],
    ] {
        let (requests, before) = (faults.len() as u64 + 1, sent(&object).count);
        server.page().faults.extend(faults);
        let mut buffer = vec![0; 50_000];
        assert_eq!(object.read_at(&mut buffer, 10).unwrap(), 50_000);
        assert_eq!(buffer, bytes[10..50_010]);
        assert_eq!(sent(&object).count - before, requests);
    }
    let last = server.page().requests.last().cloned().unwrap();
    assert!(last.contains("range: bytes=25010-50009"), "{last}");
}

#[test]
fn a_server_that_does_not_recover_is_given_up() {
    let server = PageServer::new(bytes(1000));
    let object = open(&server.url()).unwrap();
    let before = sent(&object).count;
    server.page().faults.extend([PageFault::Status(500); 20]);
    let error = object.read_at(&mut [0; 100], 100).unwrap_err();
    assert_eq!(sent(&object).count - before, 5);
    let text = error.to_string();
    assert!(text.contains("bytes 100 to 200 of") && text.contains("500"), "{text}");
    // The object is as good as before.
    server.page().faults.clear();
    assert_eq!(object.read_at(&mut [0; 100], 100).unwrap(), 100);
}

#[test]
fn an_object_that_was_changed_is_an_error_and_never_its_bytes() {
    let version = |etag: Option<&str>, modified: Option<&str>| {
        (etag.map(str::to_owned), modified.map(str::to_owned))
    };
    let (old, new) = ("Tue, 24 Nov 2026 03:00:00 GMT", "Tue, 24 Nov 2026 04:00:00 GMT");
    let cases = [
        (version(Some("\"one\""), None), version(Some("\"two\""), None)),
        (version(Some("W/\"one\""), None), version(Some("W/\"two\""), None)),
        (version(None, Some(old)), version(None, Some(new))),
        (version(Some("W/\"one\""), Some(old)), version(Some("W/\"one\""), Some(new))),
    ];
    // A server that honours conditions, and one that does not.
    for ((before, after), conditions) in
        cases.into_iter().flat_map(|case| [(case.clone(), true), (case, false)])
    {
        let server = PageServer::new(bytes(1000));
        {
            let mut page = server.page();
            (page.etag, page.modified) = before;
            page.conditions = conditions;
        }
        let object = open(&server.url()).unwrap();
        assert_eq!(object.read_at(&mut [0; 100], 0).unwrap(), 100);
        {
            let mut page = server.page();
            (page.etag, page.modified) = after.clone();
            page.bytes = Arc::new(vec![9; 1000]);
        }
        let mut buffer = [7; 100];
        let error = object.read_at(&mut buffer, 0).unwrap_err();
        assert_eq!(failure(&error), &RequestFailure::Changed, "{after:?}");
        assert_eq!(error.kind(), io::ErrorKind::StaleNetworkFileHandle);
        assert_eq!(buffer, [7; 100], "{after:?}");
    }
    // Of a server that names no version there is the size.
    let server = PageServer::new(bytes(1000));
    server.page().etag = None;
    let object = open(&server.url()).unwrap();
    server.page().bytes = Arc::new(vec![9; 1001]);
    let error = object.read_at(&mut [0; 100], 0).unwrap_err();
    assert_eq!(failure(&error), &RequestFailure::Changed);
}

#[test]
fn a_version_that_changes_while_a_range_comes_is_an_error() {
    let server = PageServer::new(bytes(100_000));
    let object = open(&server.url()).unwrap();
    {
        // The first half is of the first version, and then there is another one.
        let mut page = server.page();
        page.faults.push_back(PageFault::Cut);
        page.then = Some(("\"two\"".to_owned(), vec![9; 100_000]));
    }
    let read = object.read_at(&mut vec![0; 50_000], 0);
    assert!(read.is_err(), "{read:?}");
    assert_eq!(server.page().requests.len(), 3);
}

#[test]
fn a_body_of_another_length_is_an_error() {
    let server = PageServer::new(bytes(1000));
    let object = open(&server.url()).unwrap();
    server.page().faults.push_back(PageFault::Short);
    let error = object.read_at(&mut [0; 100], 0).unwrap_err();
    assert_eq!(failure(&error), &RequestFailure::Length { got: 99, wanted: 100 });
}

#[test]
fn a_signed_address_is_asked_for_as_it_is_and_never_shown() {
    let server = PageServer::new(bytes(1000));
    let typed = format!("{}?X-Amz-Signature=abc%2F", server.url());
    let object = open(&typed.replace("http://", "http://me:secret@")).unwrap();
    let first = server.page().requests[0].clone();
    assert!(first.starts_with("get /dir/disk.img?x-amz-signature=abc%2f "), "{first}");
    assert!(first.contains("authorization: basic"), "{first}");
    server.page().faults.extend([PageFault::Status(500); 20]);
    let error = object.read_at(&mut [0; 10], 0).unwrap_err();
    for text in [format!("{error} {error:?}"), format!("{object:?}")] {
        for secret in ["secret", "Signature", "abc"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error_that_names_it() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", server.local_addr().unwrap());
    drop(server);
    let error = open(&url).unwrap_err().to_string();
    assert!(error.contains(&url) && error.contains("refused"), "{error}");
}

#[test]
fn errors_of_a_store_are_shown_by_code_and_message() {
    let body = "Server returned non-2xx status code: 403 Forbidden: <?xml?><Error>\n\
        <Code>InvalidAccessKeyId</Code><Message>no such key</Message><Id>AKIA</Id></Error>";
    assert_eq!(short(body), "InvalidAccessKeyId: no such key");
    assert_eq!(short("Server returned non-2xx status code: 404 Not Found: "), "404 Not Found");
}
