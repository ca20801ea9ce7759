//! A server of HTTP for tests: one object, by ranges, with faults on request.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The server. Its threads end with the test's process.
pub(crate) struct PageServer {
    port: u16,
    state: Arc<Mutex<Page>>,
}

/// The served page.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) etag: Option<String>,
    /// A date as HTTP writes it.
    pub(crate) modified: Option<String>,
    /// Whether ranges are answered with ranges.
    pub(crate) ranges: bool,
    /// Whether `If-Match` is looked at.
    pub(crate) conditions: bool,
    /// Faults of the next requests.
    pub(crate) faults: VecDeque<PageFault>,
    /// The tag and the bytes from the request after the next one on.
    pub(crate) then: Option<(String, Vec<u8>)>,
    /// The delay before each reply.
    pub(crate) delay: Duration,
    /// First lines and headers of the requests so far.
    pub(crate) requests: Vec<String>,
}

/// Faults of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PageFault {
    /// Nothing.
    No,
    /// A reply with this status and no object.
    Status(u16),
    /// The connection ends in the middle of the bytes.
    Cut,
    /// The reply says one byte less and has it.
    Short,
}

impl PageServer {
    /// Serves bytes at a free port of the loopback interface.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let page = Page {
            bytes: Arc::new(bytes),
            etag: Some("\"one\"".to_owned()),
            modified: None,
            ranges: true,
            conditions: true,
            faults: VecDeque::new(),
            then: None,
            delay: Duration::ZERO,
            requests: Vec::new(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("the test works");
        let port = listener.local_addr().expect("the test works").port();
        let state = Arc::new(Mutex::new(page));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self { port, state }
    }

    /// The address of the object.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/dir/disk.img", self.port)
    }

    /// The served page, for changes.
    pub(crate) fn page(&self) -> MutexGuard<'_, Page> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve(stream: &TcpStream, state: &Mutex<Page>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line.to_ascii_lowercase());
        }
        let (page, fault) = {
            let mut page = state.lock().unwrap_or_else(PoisonError::into_inner);
            page.requests.push(head.clone());
            let fault = page.faults.pop_front().unwrap_or(PageFault::No);
            let now = page.clone();
            if let Some((etag, bytes)) = page.then.take() {
                (page.etag, page.bytes) = (Some(etag), Arc::new(bytes));
            }
            (now, fault)
        };
        thread::sleep(page.delay);
        let (reply, goes_on) = page.reply(&head, fault);
        let mut stream = stream;
        if stream.write_all(&reply).is_err() || !goes_on {
            return;
        }
    }
}

impl Page {
    /// The reply to a request, and whether the connection continues.
    fn reply(&self, head: &str, fault: PageFault) -> (Vec<u8>, bool) {
        if let PageFault::Status(status) = fault {
            let text = format!("HTTP/1.1 {status} Fault\r\ncontent-length: 0\r\n\r\n");
            return (text.into_bytes(), true);
        }
        let header = |name: &str| {
            let start = format!("{name}: ");
            head.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
        };
        let wrong = header("if-match").is_some_and(|wanted| Some(wanted) != self.etag);
        if wrong && self.conditions {
            let text = "HTTP/1.1 412 Precondition Failed\r\ncontent-length: 0\r\n\r\n";
            return (text.into(), true);
        }
        let size = self.bytes.len();
        let range = header("range").filter(|_| self.ranges).map(|range| range_of(&range, size));
        let (status, range) = match range {
            Some(range) if range.is_empty() => {
                let text = format!(
                    "HTTP/1.1 416 Range Not Satisfiable\r\ncontent-range: bytes */{size}\r\n\
                     content-length: 0\r\n\r\n"
                );
                return (text.into_bytes(), true);
            }
            Some(range) => {
                let (first, last) = (range.start, range.end - 1);
                (format!("206 Part\r\ncontent-range: bytes {first}-{last}/{size}"), range)
            }
            None => ("200 OK".to_owned(), 0..size),
        };
        let cut = usize::from(matches!(fault, PageFault::Short));
        let body = &self.bytes[range.start..range.end - cut];
        let mut text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
        if let Some(etag) = &self.etag {
            text.push_str(&format!("etag: {etag}\r\n"));
        }
        if let Some(modified) = &self.modified {
            text.push_str(&format!("last-modified: {modified}\r\n"));
        }
        text.push_str("\r\n");
        let mut reply = text.into_bytes();
        if !head.starts_with("head ") {
            let is_cut = matches!(fault, PageFault::Cut);
            reply.extend(&body[..if is_cut { body.len() / 2 } else { body.len() }]);
        }
        (reply, !matches!(fault, PageFault::Cut))
    }
}

/// The bytes of a header such as `bytes=0-9`; none if they lie behind the end.
fn range_of(header: &str, size: usize) -> Range<usize> {
    let (first, last) =
        header.trim_start_matches("bytes=").split_once('-').expect("the test works");
    let first: usize = first.parse().expect("the test works");
    let end = last.parse::<usize>().map_or(size, |last| (last + 1).min(size));
    first.min(end)..end
}
