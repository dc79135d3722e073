//! Handshakes of circuits are answered in a thread of their own: each takes as long as some hundred cells.

use crate::cell::Handshake;
use crate::crypto::{Answered, Identities, Refused, answer};
use penstock_core::edge_control::Negotiation;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{fmt, io, thread};

/// What is asked of the thread.
struct Ask {
    number: u64,
    handshake: Handshake,
    as_whom: Arc<Identities>,
    agree: Box<dyn FnOnce(Negotiation) -> Negotiation + Send>,
}

/// The thread.
pub(super) struct Onions {
    asks: Sender<Ask>,
    answers: Receiver<(u64, Result<Answered, Refused>)>,
}

impl fmt::Debug for Onions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Onions").finish_non_exhaustive()
    }
}

impl Onions {
    /// Starts it. It calls `wake` when it has answers.
    pub(super) fn start(wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (asks, asked) = channel::<Ask>();
        let (said, answers) = channel();
        thread::Builder::new().name("onions".into()).spawn(move || {
            let mut rng = rand::rng();
            while let Ok(ask) = asked.recv() {
                let answered = answer(&mut rng, &ask.handshake, &ask.as_whom, ask.agree);
                if said.send((ask.number, answered)).is_err() {
                    return;
                }
                wake();
            }
        })?;
        Ok(Onions { asks, answers })
    }

    /// Asks; the answer has the same number.
    pub(super) fn ask(
        &self,
        number: u64,
        handshake: Handshake,
        as_whom: Arc<Identities>,
        agree: impl FnOnce(Negotiation) -> Negotiation + Send + 'static,
    ) {
        let sent = self.asks.send(Ask { number, handshake, as_whom, agree: Box::new(agree) });
        sent.expect("the thread ends when the node is dropped, or by a panic of ours");
    }

    /// The next answer, if one is there.
    pub(super) fn answer(&self) -> Option<(u64, Result<Answered, Refused>)> {
        self.answers.try_recv().ok()
    }
}
