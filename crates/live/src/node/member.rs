//! A node as a part of a network: it tells the authorities of itself, and heeds what they agree on.

use super::Node;
use super::directory_stream::DirectoryStream;
use crate::clock::Clock;
use crate::directory::{
    Authority, Directory, DirectoryEvent, Documents, Flavour, OperatorOverrides, Params, Publication,
    RetryPolicy,
};
use penstock_core::{Counters, StreamKey};
use penstock_link::cell::Connected;
use penstock_link::descriptor::{BadDescription, Description};
use penstock_link::keys::Keys;
use penstock_units::{Duration, Instant};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// Looks so often whether there is something to say or to heed [ns].
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

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
    pub overrides: OperatorOverrides,
    /// How patient it is.
    pub retry: RetryPolicy,
}

/// A membership, alive.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) directory: Directory,
    description: Description,
    publish: bool,
    overrides: OperatorOverrides,
    /// At what rates the consensus that was heeded last has clients served [B/s, B].
    connection_bandwidth: Option<[u32; 2]>,
    publication: Publication,
    /// The keys of the last descriptor: what of them may change.
    keys: Option<([u8; 32], SystemTime)>,
    /// The consensus that was heeded last.
    applied: Option<SystemTime>,
    next: Instant,
}

impl Member {
    pub(super) fn new(membership: Membership, keys: &Keys, clock: Clock) -> io::Result<Self> {
        let Membership { authorities, description, publish, overrides, retry } = membership;
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        description.write(keys, clock.date()).map_err(wrong)?;
        Ok(Member {
            directory: Directory::start(authorities, retry, clock)?,
            description,
            publish,
            overrides,
            connection_bandwidth: None,
            publication: Publication::new(clock.now()),
            keys: None,
            applied: None,
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
    pub(super) fn update(&mut self, clock: Clock, counters: Counters, keys: &Keys) -> Option<Params> {
        let now = clock.now();
        if now < self.next {
            return None;
        }
        self.next = now + UPDATE_INTERVAL;
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
        if self.applied == Some(consensus.valid_after) {
            return None;
        }
        self.applied = Some(consensus.valid_after);
        Some(consensus.params.clone())
    }

    /// Whether clients may ask our directory.
    pub(super) fn serves(&self) -> bool {
        self.description.directory
    }

    /// What happened, for the log.
    pub(super) fn poll_directory_event(&self) -> Option<DirectoryEvent> {
        self.directory.poll_directory_event()
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
    pub(super) fn set_overrides(&mut self, overrides: OperatorOverrides) {
        if let Some(member) = &mut self.member {
            // A rate that its operator took back gives way to the authorities' again.
            (member.overrides, member.applied, member.connection_bandwidth) = (overrides, None, None);
        }
    }

    /// The documents of the network that it is a part of.
    pub fn documents(&self) -> Option<Arc<Documents>> {
        self.member.as_ref().map(|member| member.directory.documents())
    }

    /// What happened between the authorities and this node, for the log.
    pub fn poll_directory_event(&mut self) -> Option<DirectoryEvent> {
        self.member.as_ref()?.poll_directory_event()
    }

    /// A client asks our own directory.
    pub(super) fn begin_directory(&mut self, stream: StreamKey) {
        self.sockets.directory_streams.insert(stream, DirectoryStream::default());
        self.relay.on_stream_connected(self.clock.now(), stream, Connected(None), &mut self.sockets);
    }

    /// Serves all streams to our own directory that have something to do, one call each.
    pub(super) fn serve_directory_streams(&mut self) {
        for stream in std::mem::take(&mut self.sockets.woken) {
            self.serve_directory_stream(stream);
            self.process_events();
        }
    }

    /// Answers, and says what of the answer may be said.
    fn serve_directory_stream(&mut self, stream: StreamKey) {
        let (now, date) = (self.clock.now(), self.clock.date());
        if self.sockets.directory_streams.get(&stream).is_some_and(|exchange| exchange.interest.writable) {
            self.relay.on_stream_writable(now, stream, &mut self.sockets);
        }
        let Some(exchange) = self.sockets.directory_streams.get_mut(&stream) else { return };
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
    pub(super) fn poll_directory(&mut self) {
        let Some(member) = &mut self.member else { return };
        let Some(params) = member.update(self.clock, self.relay.counters(), &self.keys) else { return };
        let now = self.clock.now();
        self.relay.apply_parameters(now, params.core(member.overrides));
        self.renewal.rotation = params.onion_keys();
        // Buckets that are there stay as full as they are, unless the authorities change their minds.
        let asked = params.connection_bandwidth();
        if !member.overrides.throttle && asked != std::mem::replace(&mut member.connection_bandwidth, asked) {
            let (throttle, buckets) = params.throttle();
            self.relay.set_throttle(now, throttle, buckets);
        }
    }
}
