//! As much of HTTP as a scrape and a browser need: one GET, one response, the end.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{REQUEST_BYTES_MAX, REQUEST_TIME_MAX};

/// How long a peer may take to close its side.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// Headers of the figures, and of refusals.
const TEXT: &str = "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n";
/// Headers of the page: it is whole in itself, and asks this port alone for figures.
const HTML: &str = "Content-Type: text/html; charset=utf-8\r\n\
    Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'\r\n";
/// A page that shows the figures as they change.
const PAGE: &str = include_str!("page.html");

/// A response.
struct Answer {
    status: &'static str,
    headers: &'static str,
    body: Cow<'static, str>,
}

/// Reads a request and responds with the page, or with the text of `figures`, if it asks for that.
pub(super) fn converse(
    mut stream: &TcpStream,
    figures: impl FnOnce() -> Option<String>,
) -> io::Result<()> {
    let Answer { status, headers, body } = match read(stream)? {
        Ok(head) => answer(&head, figures),
        Err(refusal) => refusal,
    };
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nAllow: GET\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.set_write_timeout(Some(REQUEST_TIME_MAX))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // Closing a connection with unread bytes resets it, and the response may be lost.
    stream.set_read_timeout(Some(LINGER_MAX))?;
    let _ = stream.take(REQUEST_BYTES_MAX as u64).read_to_end(&mut Vec::new());
    Ok(())
}

/// The request's line and headers, or an error response.
fn read(mut stream: &TcpStream) -> io::Result<Result<Vec<u8>, Answer>> {
    let start = Instant::now();
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = REQUEST_TIME_MAX.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(Err(refusal("408 Request Timeout")));
        }
        if head.len() >= REQUEST_BYTES_MAX {
            return Ok(Err(refusal("431 Request Header Fields Too Large")));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(Err(refusal("400 Bad Request"))),
            Ok(count) => head.extend_from_slice(&piece[..count]),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
    Ok(Ok(head))
}

fn refusal(status: &'static str) -> Answer {
    Answer { status, headers: TEXT, body: format!("{status}\n").into() }
}

fn answer(head: &[u8], figures: impl FnOnce() -> Option<String>) -> Answer {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let [method, target, version] = words[..] else { return refusal("400 Bad Request") };
    if !version.starts_with(b"HTTP/1.") {
        return refusal("400 Bad Request");
    }
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    match (path, method) {
        (b"/metrics", b"GET") => match figures() {
            Some(text) => Answer { status: "200 OK", headers: TEXT, body: text.into() },
            None => refusal("503 Service Unavailable"),
        },
        (b"/", b"GET") => Answer { status: "200 OK", headers: HTML, body: PAGE.into() },
        (b"/metrics" | b"/", _) => refusal("405 Method Not Allowed"),
        _ => refusal("404 Not Found"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener};

    /// The response to these bytes.
    fn answered(request: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut client = TcpStream::connect(listener.local_addr().expect("a port")).expect("it");
        client.write_all(request).expect("a small request");
        client.shutdown(Shutdown::Write).expect("an end");
        let (stream, _) = listener.accept().expect("a connection");
        converse(&stream, || Some("figures 1\n".to_owned())).expect("an answer");
        let mut text = String::new();
        client.read_to_string(&mut text).expect("text");
        text
    }

    #[test]
    fn only_a_get_of_the_figures_gets_them() {
        let long = [&b"GET /metrics HTTP/1.1\r\nX: "[..], &[b'x'; 9000], b"\r\n\r\n"].concat();
        let cases: [(&[u8], &str); 10] = [
            (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK"),
            (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200 OK"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            (b"POST / HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            (b"GET /page.html HTTP/1.1\r\n\r\n", "404 Not Found"),
            (b"GET /metrics/../x HTTP/1.1\r\n\r\n", "404 Not Found"),
            (b"GET /metrics\r\n\r\n", "400 Bad Request"),
            (b"\x16\x03\x01\x00\xff\r\n\r\n", "400 Bad Request"),
            (b"GET /metrics HTTP/1.1\r\n", "400 Bad Request"),
            (&long, "431 Request Header Fields Too Large"),
        ];
        for (request, status) in cases {
            let text = answered(request);
            assert!(text.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{text}");
            let shown = text.ends_with("\r\n\r\nfigures 1\n");
            assert_eq!(shown, status == "200 OK", "{text}");
        }
    }

    #[test]
    fn the_page_names_no_other_place() {
        let text = answered(b"GET / HTTP/1.1\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html"), "{text}");
        assert!(text.contains("default-src 'none'") && text.ends_with(PAGE));
        assert!(!PAGE.contains("://") && !PAGE.contains("src="), "nothing is loaded");
    }
}
