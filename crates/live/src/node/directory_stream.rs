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
    Answering(Answer),
}

/// The remaining pieces of an answer.
#[derive(Debug)]
struct Answer {
    /// Each piece, and whether this answer alone holds it.
    pieces: VecDeque<(Arc<str>, bool)>,
    /// The number of bytes already read from the first piece [B].
    taken: usize,
    /// The size of the pieces that this answer alone holds [B].
    own: usize,
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

    /// The stream's memory [B]. Documents that the cache or another stream also held at the start are not counted.
    pub(super) fn memory(&self) -> u64 {
        let answer = match &self.state {
            State::Asking | State::Asked(_) => 0,
            State::Answering(answer) => answer.pieces.capacity() * size_of::<(Arc<str>, bool)>() + answer.own,
        };
        (self.request.capacity() + answer) as u64
    }

    pub(super) fn answer(&mut self, pieces: Vec<Arc<str>>) {
        let with_owner = |piece: Arc<str>| {
            let is_own = Arc::strong_count(&piece) == 1;
            (piece, is_own)
        };
        let pieces: VecDeque<_> = pieces.into_iter().map(with_owner).collect();
        let own = pieces.iter().filter(|(_, is_own)| *is_own).map(|(piece, _)| piece.len()).sum();
        self.state = State::Answering(Answer { pieces, taken: 0, own });
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
        let State::Answering(answer) = &mut self.state else { return StreamRead::Blocked };
        let Answer { pieces, taken, own } = answer;
        let payload = LivePayload::read_with(|room| {
            let most = room.len().min(limit.into());
            let mut len = 0;
            while let Some((piece, is_own)) = pieces.front().filter(|_| len < most) {
                let rest = &piece.as_bytes()[*taken..];
                let part = rest.len().min(most - len);
                room[len..len + part].copy_from_slice(&rest[..part]);
                (len, *taken) = (len + part, *taken + part);
                if *taken == piece.len() {
                    *own -= if *is_own { piece.len() } else { 0 };
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
        assert!(!exchange.is_ready(), "the core does not read yet");
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

    #[test]
    fn the_memory_of_an_answer_of_many_pieces_is_counted_fast() {
        const PIECES: usize = 100_000;
        let mut exchange = DirectoryStream::default();
        let shared: Arc<str> = "of the cache".into();
        let pieces = (0..PIECES).map(|_| "abcd".into()).chain([shared.clone()]).collect();
        exchange.answer(pieces);
        let list = exchange.memory() - 4 * PIECES as u64;
        assert!(list >= (PIECES * size_of::<Arc<str>>()) as u64, "the shared piece does not count");
        // With a sum over all pieces at each read, the loop would take some minutes.
        for left in (0..PIECES as u64).rev() {
            assert!(matches!(exchange.read(4), StreamRead::Data(_)));
            assert_eq!(exchange.memory() - list, 4 * left);
        }
        assert!(matches!(exchange.read(400), StreamRead::Data(_)));
        assert_eq!(exchange.memory(), list);
    }
}
