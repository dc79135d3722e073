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
    /// Each piece, and this answer's share of its size at the last count [B].
    pieces: VecDeque<(Arc<str>, usize)>,
    /// The number of bytes already read from the first piece [B].
    taken: usize,
    /// The sum of these shares [B].
    share: usize,
}

/// The size of a piece, divided among all its holders [B]. The shares of all streams together are at most the size of
/// the piece. If the cache has dropped the piece, they are equal to it.
fn share(piece: &Arc<str>) -> usize {
    piece.len() / Arc::strong_count(piece)
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

    /// The stream's memory [B], with its share of each document that others also held at the last count.
    pub(super) fn memory(&self) -> u64 {
        let answer = match &self.state {
            State::Asking | State::Asked(_) => 0,
            State::Answering(answer) => {
                answer.pieces.capacity() * size_of::<(Arc<str>, usize)>() + answer.share
            }
        };
        (self.request.capacity() + answer) as u64
    }

    pub(super) fn answer(&mut self, pieces: Vec<Arc<str>>) {
        let pieces = pieces.into_iter().map(|piece| (piece, 0)).collect();
        self.state = State::Answering(Answer { pieces, taken: 0, share: 0 });
        self.count_shares();
    }

    /// Counts the stream's shares of its documents again. The cache may have dropped some of them, and other streams
    /// may have ended. Returns the number of pieces [1].
    pub(super) fn count_shares(&mut self) -> usize {
        let State::Answering(answer) = &mut self.state else { return 0 };
        answer.share = 0;
        for (piece, counted) in &mut answer.pieces {
            *counted = share(piece);
            answer.share += *counted;
        }
        answer.pieces.len()
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
        let Answer { pieces, taken, share } = answer;
        let payload = LivePayload::read_with(|room| {
            let most = room.len().min(limit.into());
            let mut len = 0;
            while let Some((piece, counted)) = pieces.front().filter(|_| len < most) {
                let rest = &piece.as_bytes()[*taken..];
                let part = rest.len().min(most - len);
                room[len..len + part].copy_from_slice(&rest[..part]);
                (len, *taken) = (len + part, *taken + part);
                if *taken == piece.len() {
                    *share -= *counted;
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
        let half = shared.len() as u64 / 2;
        let list = exchange.memory() - 4 * PIECES as u64 - half;
        assert!(list >= (PIECES * size_of::<Arc<str>>()) as u64);
        // With a sum over all pieces at each read, the loop would take some minutes.
        for left in (0..PIECES as u64).rev() {
            assert!(matches!(exchange.read(4), StreamRead::Data(_)));
            assert_eq!(exchange.memory() - list, 4 * left + half);
        }
        assert!(matches!(exchange.read(400), StreamRead::Data(_)));
        assert_eq!(exchange.memory(), list);
    }

    #[test]
    fn streams_share_the_size_of_a_document_that_the_cache_dropped() {
        const SIZE: u64 = 6000;
        let cached: Arc<str> = "d".repeat(SIZE as usize).into();
        let mut streams: [DirectoryStream; 2] = Default::default();
        for stream in &mut streams {
            stream.answer(vec![cached.clone()]);
        }
        let memory = |stream: &mut DirectoryStream| {
            assert_eq!(stream.count_shares(), 1);
            stream.memory() - size_of::<(Arc<str>, usize)>() as u64
        };
        assert_eq!(streams.each_mut().map(memory), [SIZE / 3; 2]);
        drop(cached);
        assert_eq!(streams.each_mut().map(memory), [SIZE / 2; 2]);
        let [mut left, other] = streams;
        drop(other);
        assert_eq!(memory(&mut left), SIZE);
    }
}
