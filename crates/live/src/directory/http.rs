//! HTTP for directory documents: one request and one response per connection.
//!
//! Source: RFC 1945; dir-spec, "Standards compliance".
//! Deviation: documents are never compressed. Requests ask for plain documents, and clients of C tor accept plain
//! documents.

use super::failure::Failure;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum size of a message header [B].
const MAX_HEAD: usize = 32 * 1024;
/// Maximum size of a response body [B] (C tor: `MAX_DIR_DL_SIZE`).
const MAX_BODY: usize = (1 << 24) - 1;
/// Maximum number of header fields [1].
const MAX_HEADERS: usize = 64;

pub(super) fn get(to: SocketAddr, path: &str, since: Option<SystemTime>) -> Vec<u8> {
    let since = since.map(|time| format!("If-Modified-Since: {}\r\n", httpdate::fmt_http_date(time)));
    let since = since.unwrap_or_default();
    format!("GET {path} HTTP/1.0\r\nHost: {to}\r\nAccept-Encoding: identity\r\n{since}\r\n").into_bytes()
}

pub(super) fn post(to: SocketAddr, path: &str, document: &str) -> Vec<u8> {
    let len = document.len();
    format!("POST {path} HTTP/1.0\r\nHost: {to}\r\nContent-Length: {len}\r\n\r\n{document}").into_bytes()
}

/// The response of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Reason text after the status code.
    pub reason: String,
    /// Time of the server's clock, from the `Date` header.
    pub date: Option<SystemTime>,
    /// The document.
    pub body: Vec<u8>,
}

impl Answer {
    /// Parses all bytes that the server sent before it closed the connection.
    pub fn read(bytes: Vec<u8>) -> Result<Answer, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut head = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(len) = head.parse(&bytes).map_err(|_| Failure::NotHttp)? else {
            return Err(Failure::NotHttp);
        };
        if header(head.headers, "content-encoding").is_some_and(|value| value != "identity") {
            return Err(Failure::NotHttp);
        }
        let body_len = match header(head.headers, "content-length") {
            Some(value) => Some(value.trim().parse::<usize>().map_err(|_| Failure::NotHttp)?),
            None => None,
        };
        let date = header(head.headers, "date").and_then(|date| httpdate::parse_http_date(date).ok());
        let (status, reason) = (head.code.unwrap_or_default(), head.reason.unwrap_or_default().to_owned());
        let mut body = bytes;
        body.drain(..len);
        if body_len.is_some_and(|said| said > body.len()) {
            return Err(Failure::Short);
        }
        body.truncate(body_len.unwrap_or(body.len()));
        Ok(Answer { status, reason, date, body })
    }

    /// Maximum size of a response [B].
    pub(super) const MOST: usize = MAX_HEAD + MAX_BODY;
}

fn header<'a>(headers: &[httparse::Header<'a>], name: &str) -> Option<&'a str> {
    let found = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(found.value).ok()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Requested path; `None` if the method is not GET.
    pub(super) path: Option<String>,
    pub(super) since: Option<SystemTime>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Partial,
    /// A complete request. Later bytes are ignored, because clients may not upload documents.
    Whole(Request),
    /// The request is malformed or too long.
    Malformed,
}

impl Request {
    pub(super) fn read(bytes: &[u8]) -> Asked {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        match head.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {
                let path = head.path.filter(|_| head.method == Some("GET")).map(ToOwned::to_owned);
                let since = header(head.headers, "if-modified-since");
                let since = since.and_then(|since| httpdate::parse_http_date(since).ok());
                Asked::Whole(Request { path, since })
            }
            Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => Asked::Partial,
            Ok(httparse::Status::Partial) | Err(_) => Asked::Malformed,
        }
    }
}

/// A response: a header and documents. The documents are shared, not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) pieces: Vec<Arc<str>>,
    pub(super) expires: Option<SystemTime>,
}

impl Response {
    pub(super) fn of(status: u16) -> Response {
        Response { status, pieces: Vec::new(), expires: None }
    }

    /// A response with documents; status 404 if there are none.
    pub(super) fn documents(pieces: Vec<Arc<str>>, expires: Option<SystemTime>) -> Response {
        let status = if pieces.is_empty() { 404 } else { 200 };
        Response { status, pieces, expires }
    }

    pub(super) fn write(self, now: SystemTime) -> Vec<Arc<str>> {
        let reason = match self.status {
            200 => "OK",
            304 => "Not modified",
            400 => "Bad request",
            404 => "Not found",
            status => unreachable!("this relay does not send status {status}"),
        };
        let mut head =
            format!("HTTP/1.0 {} {reason}\r\nDate: {}\r\n", self.status, httpdate::fmt_http_date(now));
        if self.status == 200 {
            let len: usize = self.pieces.iter().map(|piece| piece.len()).sum();
            head.push_str("Content-Type: text/plain\r\nContent-Encoding: identity\r\n");
            head.push_str(&format!("Content-Length: {len}\r\n"));
            if let Some(expires) = self.expires {
                head.push_str(&format!("Expires: {}\r\n", httpdate::fmt_http_date(expires)));
            }
        }
        head.push_str("\r\n");
        [head.into()].into_iter().chain(self.pieces).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const TIME: Duration = Duration::from_secs(784_111_777);

    #[test]
    fn a_request_may_arrive_in_any_pieces() {
        let time = SystemTime::UNIX_EPOCH + TIME;
        let bytes = get("127.0.0.1:80".parse().unwrap(), "/tor/keys/all", Some(time));
        for len in 0..bytes.len() {
            assert_eq!(Request::read(&bytes[..len]), Asked::Partial, "{len} B");
        }
        let request = Request { path: Some("/tor/keys/all".into()), since: Some(time) };
        assert_eq!(Request::read(&bytes), Asked::Whole(request));
    }

    #[test]
    fn uploads_of_clients_are_refused() {
        let bytes = post("127.0.0.1:80".parse().unwrap(), "/tor/", "router\n");
        assert_eq!(Request::read(&bytes), Asked::Whole(Request { path: None, since: None }));
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let endless = [b"GET / HTTP/1.0\r\n".to_vec(), b"A: b\r\n".repeat(MAX_HEAD / 6)].concat();
        assert_eq!(Request::read(&endless), Asked::Malformed);
        let long = [b"GET /".to_vec(), vec![b'a'; MAX_HEAD]].concat();
        assert_eq!(Request::read(&long), Asked::Malformed);
    }

    #[test]
    fn our_own_responses_are_parsed() {
        let now = SystemTime::UNIX_EPOCH + TIME;
        let response = Response::documents(vec!["one\n".into(), "two\n".into()], Some(now));
        let text: String = response.write(now).concat();
        assert!(text.contains("\r\nExpires: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), "{text}");
        let answer = Answer::read(text.clone().into_bytes()).unwrap();
        assert_eq!((answer.status, &answer.body[..]), (200, &b"one\ntwo\n"[..]));
        assert_eq!(Answer::read(text.as_bytes()[..text.len() - 1].to_vec()), Err(Failure::Short));
    }

    #[test]
    fn compressed_documents_are_refused() {
        let text = "HTTP/1.0 200 OK\r\nContent-Encoding: deflate\r\n\r\nx";
        assert_eq!(Answer::read(text.into()), Err(Failure::NotHttp));
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "(GET |HTTP/1.0 |/|200|\r\n|Content-Length: |9){0,12}") {
            let _ = (Answer::read(bytes.clone()), Request::read(&bytes));
            let _ = (Answer::read(text.clone().into()), Request::read(text.as_bytes()));
        }
    }
}
