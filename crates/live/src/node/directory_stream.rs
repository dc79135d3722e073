//! A stream to this relay's directory cache. It has no socket.

use crate::directory::Question;
use penstock_core::kernel::Interest;
use penstock_core::{EndReason, StreamRead};
use penstock_link::cell::LivePayload;
use std::collections::VecDeque;
use std::sync::Arc;

/// The state of a directory stream: a request, or the remaining answer.
#[derive(Debug, Default)]
pub struct DirectoryStream {
    request: Vec<u8>,
    state: State,
    pub(super) interest: Interest,
    /// The stream's memory at the last update of the node's memory count [B].
    pub(super) counted: u64,
}

#[derive(Debug, Default)]
enum State {
    /// The request is still incomplete.
    #[default]
    Asking,
    /// The request is complete, but not answered yet.
    Asked(Question),
    /// The remaining pieces of the answer, and the number of bytes already read from the first piece [B].
    Answering(VecDeque<Arc<str>>, usize),
}

impl DirectoryStream {
    /// Takes bytes from the client. Bytes after the request are ignored.
    pub fn take(&mut self, bytes: &[u8]) {
        if let State::Asking = self.state {
            self.request.extend_from_slice(bytes);
            if let Some(question) = Question::read(&self.request) {
                (self.state, self.request) = (State::Asked(question), Vec::new());
            }
        }
    }

    /// The request, if it is complete and not answered yet.
    pub fn question(&self) -> Option<&Question> {
        match &self.state {
            State::Asked(question) => Some(question),
            State::Asking | State::Answering(..) => None,
        }
    }

    /// The stream's memory [B]. Documents that other streams share are not counted.
    pub(super) fn memory(&self) -> u64 {
        let list = match &self.state {
            State::Asking | State::Asked(_) => 0,
            State::Answering(pieces, _) => {
                let own =
                    pieces.iter().filter(|piece| Arc::strong_count(piece) == 1).map(|piece| piece.len());
                pieces.capacity() * size_of::<Arc<str>>() + own.sum::<usize>()
            }
        };
        (self.request.capacity() + list) as u64
    }

    pub(super) fn answer(&mut self, pieces: Vec<Arc<str>>) {
        self.state = State::Answering(pieces.into(), 0);
    }

    /// Whether the stream has work: a request to read or to answer, or an answer that the core wants.
    pub(super) fn is_ready(&self) -> bool {
        let may_be_read = match self.state {
            State::Asking => false,
            State::Asked(_) => true,
            State::Answering(..) => self.interest.readable,
        };
        // Bytes that arrived before CONNECTED stay until the core reads them.
        may_be_read || self.interest.writable
    }

    /// The next bytes of the answer, at most `limit` [B].
    pub(super) fn read(&mut self, limit: u16) -> StreamRead<LivePayload> {
        let State::Answering(pieces, taken) = &mut self.state else { return StreamRead::Blocked };
        let payload = LivePayload::read_with(|room| {
            let most = room.len().min(limit.into());
            let mut len = 0;
            while let Some(piece) = pieces.front().filter(|_| len < most) {
                let rest = &piece.as_bytes()[*taken..];
                let part = rest.len().min(most - len);
                room[len..len + part].copy_from_slice(&rest[..part]);
                (len, *taken) = (len + part, *taken + part);
                if *taken == piece.len() {
                    pieces.pop_front();
                    *taken = 0;
                }
            }
            (len > 0).then_some(len)
        });
        payload.map_or(StreamRead::Closed(EndReason::DONE), StreamRead::Data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Documents;
    use std::time::SystemTime;

    #[test]
    fn a_request_in_pieces_is_answered_in_pieces() {
        let mut exchange = DirectoryStream::default();
        for byte in b"GET /tor/keys/all HTTP/1.0\r\n\r\nmore" {
            assert!(matches!(exchange.read(498), StreamRead::Blocked));
            exchange.take(&[*byte]);
        }
        assert!(exchange.is_ready());
        let now = SystemTime::UNIX_EPOCH;
        let none = Documents::new(Vec::new()).answer(exchange.question().unwrap(), now);
        assert!(none[0].starts_with("HTTP/1.0 404 Not found\r\n"), "{none:?}");
        exchange.answer(vec!["abc".into(), "".into(), "defg".into(), "h".into()]);
        exchange.take(b"and more");
        assert!(!exchange.is_ready(), "nobody wants it yet");
        exchange.interest.readable = true;
        assert!(exchange.is_ready());
        let mut came = Vec::new();
        let mut cells = 0;
        while let StreamRead::Data(payload) = exchange.read(2) {
            came.extend_from_slice(payload.as_bytes());
            cells += 1;
        }
        assert_eq!((&came[..], cells), (&b"abcdefgh"[..], 4));
        assert!(matches!(exchange.read(2), StreamRead::Closed(EndReason::DONE)));
    }
}
