//! The figures over HTTP, for processes of this machine.
//!
//! Source:     RFC 9112 (HTTP/1.1), as little of it as a scraper needs.
//! Behaviour:  a thread answers each client: `GET /metrics`, then the connection ends. A client has
//!             [`PATIENCE`] in all, and a request at most [`REQUEST_MAX`] bytes. Beyond
//!             [`CLIENTS_MAX`] at once, a new one takes the place of the oldest.
//! Differs:    bodies of requests are not read, and no connection is kept.
//! Not for:    other addresses than loopback: paths of files and names of processes are private.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use forebay_report::messages::{Complaint, note};

/// An address that serves figures.
#[derive(Debug)]
pub(in crate::cmd) struct Endpoint {
    listener: TcpListener,
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Page(Arc<Mutex<Arc<str>>>);

impl Endpoint {
    /// Binds the address, which must be a loopback address.
    pub(in crate::cmd) fn bind(typed: &str) -> Result<Self> {
        let Ok(address) = typed.parse::<SocketAddr>() else {
            bail!(
                Complaint::new(format!("--prometheus takes ADDR:PORT, not '{typed}'"))
                    .hint("for example 127.0.0.1:9464 or [::1]:9464")
            );
        };
        if !address.ip().is_loopback() {
            bail!(
                Complaint::new(format!("--prometheus: {} is not a loopback address", address.ip()))
                    .hint("names of files and processes stay on this machine: 127.0.0.1 or [::1]")
            );
        }
        let listener = TcpListener::bind(address)
            .with_context(|| format!("--prometheus: cannot listen on {address}"))?;
        Ok(Self { listener })
    }

    /// Begins to answer.
    pub(super) fn start(self) -> Result<Page> {
        let page = Page::default();
        let answered = page.clone();
        self.answer_with(move || answered.text())?;
        Ok(page)
    }

    /// Begins to answer; the text is made for each request.
    pub(in crate::cmd) fn answer_with(
        self,
        page: impl Fn() -> Arc<str> + Send + Sync + 'static,
    ) -> Result<()> {
        note(&format!("serving http://{}/metrics", self.listener.local_addr()?));
        let page = Arc::new(page);
        let serve = move || {
            let mut clients = VecDeque::new();
            for client in self.listener.incoming() {
                let client = client.and_then(|client| Ok((client.try_clone()?, client)));
                let Ok((other, client)) = client else {
                    // Without descriptors nothing can be accepted; trying on at once is no help.
                    thread::sleep(PATIENCE);
                    continue;
                };
                clients.push_back(other);
                if clients.len() > CLIENTS_MAX {
                    clients.pop_front().map(|oldest| oldest.shutdown(Shutdown::Both));
                }
                let page = Arc::clone(&page);
                let answered = move || {
                    // A client that does not behave is its own concern.
                    let _ = answer(&client, &page());
                    let _ = client.shutdown(Shutdown::Both);
                };
                // Without a thread it gets no answer.
                drop(thread::Builder::new().name("forebay-metrics".to_owned()).spawn(answered));
            }
        };
        thread::Builder::new().name("forebay-metrics".to_owned()).spawn(serve)?;
        Ok(())
    }
}

impl Page {
    /// Replaces the answer.
    pub(super) fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    fn text(&self) -> Arc<str> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads a request and answers it, within [`PATIENCE`].
fn answer(mut client: &TcpStream, page: &str) -> io::Result<()> {
    let due = Instant::now() + PATIENCE;
    let mut request = [0; REQUEST_MAX];
    let mut length = 0;
    while !request[..length].windows(4).any(|end| end == b"\r\n\r\n") {
        client.set_read_timeout(Some(left(due)?))?;
        match client.read(&mut request[length..])? {
            // Too long, or cut off.
            0 => break,
            more => length += more,
        }
    }
    let reply = reply(&request[..length], page);
    let mut rest = reply.as_bytes();
    while !rest.is_empty() {
        client.set_write_timeout(Some(left(due)?))?;
        let written = client.write(rest)?;
        rest = &rest[written..];
    }
    Ok(())
}

/// Time until then; an error if it has passed.
fn left(due: Instant) -> io::Result<Duration> {
    let left = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    left.ok_or_else(|| io::ErrorKind::TimedOut.into())
}

/// The answer to a request.
fn reply(request: &[u8], page: &str) -> String {
    let (status, body) = match target(request) {
        None => ("400 Bad Request", "a request is GET /metrics HTTP/1.1\n"),
        Some(("GET" | "HEAD", "/metrics")) if page.is_empty() => {
            ("503 Service Unavailable", "there are figures after the first interval\n")
        }
        Some(("GET" | "HEAD", "/metrics")) => ("200 OK", page),
        Some(("GET" | "HEAD", _)) => ("404 Not Found", "figures are at /metrics\n"),
        Some(_) => ("405 Method Not Allowed", "only GET is answered\n"),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nAllow: GET, HEAD\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if matches!(target(request), Some(("HEAD", _))) { head } else { head + body }
}

/// Method and path of a whole request; none of anything else.
fn target(request: &[u8]) -> Option<(&str, &str)> {
    let request = std::str::from_utf8(request).ok()?;
    let (head, _) = request.split_once("\r\n\r\n")?;
    let mut words = head.lines().next()?.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_request = is_method && path.starts_with('/') && version.starts_with("HTTP/1.");
    let path = path.split('?').next()?;
    (is_request && words.next().is_none()).then_some((method, path))
}

/// Time for a client, from its first byte to our last.
const PATIENCE: Duration = Duration::from_secs(2);

/// Clients that are answered at once.
const CLIENTS_MAX: usize = 16;

/// Scrapers send some hundred bytes.
const REQUEST_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_is_answered_and_all_else_refused() {
        let status = |request: &str| {
            let reply = reply(request.as_bytes(), "figure 1\n");
            reply.split(' ').nth(1).unwrap().to_owned()
        };
        assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), "200");
        assert_eq!(status("HEAD /metrics HTTP/1.0\r\n\r\n"), "200");
        assert_eq!(status("GET /metrics?x=1 HTTP/1.1\r\n\r\n"), "200");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405");
        for garbage in [
            "",
            "\r\n\r\n",
            "GET /metrics HTTP/1.1\r\n",
            "GET /metrics\r\n\r\n",
            "GET  /metrics HTTP/1.1\r\n\r\n",
            "GET metrics HTTP/1.1\r\n\r\n",
            "get /metrics HTTP/1.1\r\n\r\n",
            "GET /metrics HTTP/2\r\n\r\n",
            "GET /metrics HTTP/1.1 x\r\n\r\n",
            "\u{1}\u{2}\r\n\r\n",
        ] {
            assert_eq!(status(garbage), "400", "{garbage:?}");
        }
        assert!(reply(b"GET /metrics HTTP/1.1\r\n\r\n", "").starts_with("HTTP/1.1 503 "));
        assert!(reply(b"\xff\r\n\r\n", "").starts_with("HTTP/1.1 400 "));
    }

    #[test]
    fn a_reply_says_how_long_it_is() {
        let text = reply(b"GET /metrics HTTP/1.1\r\n\r\n", "figure 1\n");
        assert!(text.contains("\r\nContent-Length: 9\r\n") && text.ends_with("\r\n\r\nfigure 1\n"));
        let head = reply(b"HEAD /metrics HTTP/1.1\r\n\r\n", "figure 1\n");
        assert!(head.contains("\r\nContent-Length: 9\r\n") && head.ends_with("\r\n\r\n"));
    }

    #[test]
    fn clients_that_say_nothing_keep_no_other_from_its_answer() {
        let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
        let address = endpoint.listener.local_addr().unwrap();
        endpoint.answer_with(|| "figure 1\n".into()).unwrap();
        let idle: Vec<_> =
            (0..3 * CLIENTS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut scraper = TcpStream::connect(address).unwrap();
        scraper.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut reply = String::new();
        scraper.read_to_string(&mut reply).unwrap();
        assert!(reply.ends_with("figure 1\n"), "{reply}");
        // The first of them was shut down to make room.
        assert_eq!((&idle[0]).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn only_loopback_addresses_are_taken() {
        for typed in ["0.0.0.0:0", "192.168.0.1:9464", "[::]:0", "localhost:9464", "9464", ""] {
            assert!(Endpoint::bind(typed).is_err(), "{typed}");
        }
        assert!(Endpoint::bind("127.0.0.1:0").is_ok());
    }
}
