//! Metrics over HTTP (`--http`): a thread that answers `GET /metrics` with what the server says of itself.
//!
//! It asks the control socket, as `cache status` does, so the loops know nothing of it. One connection at a time, closed
//! behind its answer; one that is slow is given up. It ends with the process.

use super::exposition;
use crate::exit::Exit;
use anyhow::{Context, Result};
use httparse::{EMPTY_HEADER, Request, Status};
use server::Listen;
use server::control;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest request that is read.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Most headers of a request.
const HEADERS_MAX: usize = 64;
/// Time for a request to arrive, and for a client to take a piece of the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause after a failed accept, usually for lack of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A door for those who collect metrics.
#[derive(Debug)]
pub struct MetricsDoor {
    listener: TcpListener,
    /// Address of the door; port 0 has become a real one.
    pub address: SocketAddr,
}

impl MetricsDoor {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the place is no TCP address, or the system says no.
    pub fn bind(place: &Listen) -> Result<MetricsDoor> {
        let Listen::Tcp(address) = place else {
            return Err(Exit::Usage.error(format!("--http {place}: say an address, like tcp:127.0.0.1:9121")));
        };
        let listener = TcpListener::bind(address).with_context(|| format!("--http {place}"))?;
        let address = listener.local_addr().context("--http")?;
        Ok(MetricsDoor { listener, address })
    }

    /// Answers in a thread of its own, until the process ends.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn open(self, control: PathBuf) -> Result<()> {
        let serve = move || {
            loop {
                match self.listener.accept() {
                    Ok((stream, from)) => {
                        if let Err(error) = converse(stream, &control) {
                            log::debug!("metrics for {from}: {error}");
                        }
                    }
                    Err(error) => {
                        log::warn!("metrics: a connection could not be taken: {error}");
                        std::thread::sleep(ACCEPT_RETRY);
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        thread.spawn(serve).context("a thread for --http")?;
        Ok(())
    }
}

fn converse(mut stream: TcpStream, control: &Path) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut stream)?;
    let answer = answer(&head, || {
        let status = control::ask(control, "status").map_err(|error| error.to_string())?;
        serde_json::from_str(&status).map_err(|error| error.to_string())
    });
    stream.write_all(answer.as_bytes())?;
    stream.shutdown(Shutdown::Write)
}

/// Reads until the head of the request is whole, wrong, or too long.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while is_begun(&head) && head.len() < REQUEST_BYTES_MAX {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => break,
            count => head.extend_from_slice(&piece[..count]),
        }
    }
    Ok(head)
}

/// True while more of a head may come.
fn is_begun(head: &[u8]) -> bool {
    matches!(Request::new(&mut [EMPTY_HEADER; HEADERS_MAX]).parse(head), Ok(Status::Partial))
}

/// The answer to a request; `status` is asked where it is needed.
fn answer(head: &[u8], status: impl FnOnce() -> Result<serde_json::Value, String>) -> String {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = Request::new(&mut headers);
    match request.parse(head) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) => return plain("400 Bad Request", "no whole request, or too long a one\n"),
        Err(error) => return plain("400 Bad Request", &format!("{error}\n")),
    }
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    if method != "GET" && method != "HEAD" {
        return response("405 Method Not Allowed\r\nAllow: GET, HEAD", "text/plain", "use GET\n", true);
    }
    if target.split('?').next() != Some("/metrics") {
        return plain("404 Not Found", "metrics are at /metrics\n");
    }
    match status().and_then(|status| exposition::text(&status).map_err(|error| error.to_string())) {
        Ok(text) => response("200 OK", exposition::CONTENT_TYPE, &text, method == "GET"),
        Err(why) => plain("503 Service Unavailable", &format!("{why}\n")),
    }
}

fn plain(line: &str, body: &str) -> String {
    response(line, "text/plain", body, true)
}

fn response(line: &str, kind: &str, body: &str, is_told: bool) -> String {
    let head = format!("HTTP/1.1 {line}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
    head + "Connection: close\r\n\r\n" + if is_told { body } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line_of(head: &[u8]) -> String {
        let answer = answer(head, || Ok(json!({ "objects": 5 })));
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn only_metrics_are_told() {
        let whole = answer(b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n", || Ok(json!({ "objects": 5 })));
        let (head, body) = whole.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert!(body.ends_with("zoneweave_cache_objects 5\n"), "{body}");
        let headed = answer(b"HEAD /metrics HTTP/1.0\n\n", || Ok(json!({ "objects": 5 })));
        assert!(headed.starts_with("HTTP/1.1 200") && headed.ends_with("\r\n\r\n"), "{headed}");
        assert_eq!(line_of(b"GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
        assert_eq!(line_of(b"POST /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
        let silent = answer(b"GET /metrics HTTP/1.1\r\n\r\n", || Err("nobody".to_owned()));
        assert!(silent.starts_with("HTTP/1.1 503 ") && silent.ends_with("nobody\n"), "{silent}");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let long = [b"GET /metrics HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; REQUEST_BYTES_MAX]].concat();
        for head in [
            &b""[..],
            b"\n\n",
            b"GET\r\n\r\n",
            b"GET /metrics HTTP/1.1",
            b"\x16\x03\x01\xff\n\n",
            b"get a b\n\n",
            &long,
        ] {
            assert_eq!(line_of(head), "HTTP/1.1 400 Bad Request", "{head:?}");
        }
    }
}
