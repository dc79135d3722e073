//! A node as a part of a network: it tells the authorities of itself, and heeds what they agree on.

use super::Node;
use super::exchange::Exchange;
use crate::clock::Clock;
use crate::directory::{Authority, Directory, Documents, Flavour, Note, Own, Pace, Params, Publication};
use penstock_core::{Counters, StreamKey};
use penstock_link::cell::Connected;
use penstock_link::descriptor::{BadDescription, Description};
use penstock_link::keys::Keys;
use penstock_units::{Duration, Instant};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// Looks so often whether there is something to say or to heed [ns].
const LOOK: Duration = Duration::from_secs(1);

/// Which network a node is a part of, and as what.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Who its authorities are.
    pub authorities: Vec<Authority>,
    /// What the node says of itself; its bandwidth's last part, what it was seen to carry, is filled in.
    pub description: Description,
    /// Whether it says that to the authorities (C tor: `PublishServerDescriptor`).
    pub publish: bool,
    /// What the consensus does not decide.
    pub own: Own,
    /// How patient it is.
    pub pace: Pace,
}

/// A membership, alive.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) directory: Directory,
    description: Description,
    publish: bool,
    own: Own,
    /// At what rates the consensus that was heeded last has clients served [B/s, B].
    connection_bandwidth: Option<[u32; 2]>,
    publication: Publication,
    /// The keys of the last descriptor: what of them may change.
    keys: Option<([u8; 32], SystemTime)>,
    /// The consensus that was heeded last.
    heeded: Option<SystemTime>,
    next: Instant,
}

impl Member {
    pub(super) fn new(membership: Membership, keys: &Keys, clock: Clock) -> io::Result<Self> {
        let Membership { authorities, description, publish, own, pace } = membership;
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        description.write(keys, clock.date()).map_err(wrong)?;
        Ok(Member {
            directory: Directory::start(authorities, pace, clock)?,
            description,
            publish,
            own,
            connection_bandwidth: None,
            publication: Publication::new(clock.now()),
            keys: None,
            heeded: None,
            next: clock.now(),
        })
    }

    /// What the node says of itself is this from now on.
    pub(super) fn describe(&mut self, description: Description, keys: &Keys) -> Result<(), BadDescription> {
        description.write(keys, description.started)?;
        self.description = description;
        self.publication.on_change();
        Ok(())
    }

    /// Publishes what is to be published; new parameters, if there are some.
    pub(super) fn look(&mut self, clock: Clock, counters: Counters, keys: &Keys) -> Option<Params> {
        let now = clock.now();
        if now < self.next {
            return None;
        }
        self.next = now + LOOK;
        self.publication.on_count(now, [counters.read_bytes.get(), counters.written_bytes.get()]);
        let said = (*keys.onion().public.as_bytes(), keys.signing_expires());
        if self.keys.is_some_and(|last| last != said) {
            self.publication.on_change();
        }
        let documents = self.directory.documents();
        self.publication.on_consensus(documents.names(&keys.rsa_identity()).unwrap_or(false));
        if self.publish && self.publication.is_due(now) {
            self.keys = Some(said);
            self.description.bandwidth[2] = self.publication.on_written(now);
            let text = self.description.write(keys, clock.date());
            let text = text.expect("it was written before, and only numbers and keys are others");
            self.directory.publish(keys.rsa_identity(), text.into());
        }
        let consensus = documents.consensus(Flavour::Microdescriptors)?;
        if self.heeded == Some(consensus.valid_after) {
            return None;
        }
        self.heeded = Some(consensus.valid_after);
        Some(consensus.params.clone())
    }

    /// Whether clients may ask our directory.
    pub(super) fn serves(&self) -> bool {
        self.description.directory
    }

    /// What happened, for the log.
    pub(super) fn poll_note(&self) -> Option<Note> {
        self.directory.poll_note()
    }
}

impl Node {
    /// Becomes a part of a network: publishes, fetches its documents, and gives them to whoever asks.
    ///
    /// # Errors
    ///
    /// If a descriptor cannot say what is described, or there can be no thread.
    pub fn join(&mut self, membership: Membership) -> io::Result<()> {
        self.member = Some(Member::new(membership, &self.keys, self.clock)?);
        Ok(())
    }

    /// Tells the network of itself anew, if it is a part of one.
    ///
    /// # Errors
    ///
    /// If a descriptor cannot say what is described; the one before stays.
    pub fn describe(&mut self, description: Description) -> Result<(), BadDescription> {
        self.member.as_mut().map_or(Ok(()), |member| member.describe(description, &self.keys))
    }

    /// What its operator decides himself is this from now on; the present consensus is heeded anew.
    pub(super) fn set_own(&mut self, own: Own) {
        if let Some(member) = &mut self.member {
            // A rate that its operator took back gives way to the authorities' again.
            (member.own, member.heeded, member.connection_bandwidth) = (own, None, None);
        }
    }

    /// The documents of the network that it is a part of.
    pub fn documents(&self) -> Option<Arc<Documents>> {
        self.member.as_ref().map(|member| member.directory.documents())
    }

    /// What happened between the authorities and this node, for the log.
    pub fn poll_note(&mut self) -> Option<Note> {
        self.member.as_ref()?.poll_note()
    }

    /// A client asks our own directory.
    pub(super) fn begin_directory(&mut self, stream: StreamKey) {
        self.sockets.exchanges.insert(stream, Exchange::default());
        self.relay.on_stream_connected(self.clock.now(), stream, Connected(None), &mut self.sockets);
    }

    /// Serves all streams to our own directory that have something to do, one call each.
    pub(super) fn serve_exchanges(&mut self) {
        for stream in std::mem::take(&mut self.sockets.woken) {
            self.serve_exchange(stream);
            self.heed();
        }
    }

    /// Answers, and says what of the answer may be said.
    fn serve_exchange(&mut self, stream: StreamKey) {
        let (now, date) = (self.clock.now(), self.clock.date());
        if self.sockets.exchanges.get(&stream).is_some_and(|exchange| exchange.interest.writable) {
            self.relay.on_stream_writable(now, stream, &mut self.sockets);
        }
        let Some(exchange) = self.sockets.exchanges.get_mut(&stream) else { return };
        if let (Some(question), Some(member)) = (exchange.question(), &self.member) {
            let answer = member.directory.documents().answer(question, date);
            exchange.answer(answer);
        }
        if exchange.interest.readable {
            self.relay.on_stream_readable(now, stream, &mut self.sockets);
        }
        self.sockets.wake(stream);
    }

    /// Speaks with the authorities, and heeds what they agreed on.
    pub(super) fn look_around(&mut self) {
        let Some(member) = &mut self.member else { return };
        let Some(params) = member.look(self.clock, self.relay.counters(), &self.keys) else { return };
        let now = self.clock.now();
        self.relay.apply_parameters(now, params.core(member.own));
        self.renewal.rotation = params.onion_keys();
        // Buckets that are there stay as full as they are, unless the authorities change their minds.
        let asked = params.connection_bandwidth();
        if !member.own.throttle && asked != std::mem::replace(&mut member.connection_bandwidth, asked) {
            let (throttle, buckets) = params.throttle();
            self.relay.set_throttle(now, throttle, buckets);
        }
    }
}
