//! A node's membership in a network: it publishes a descriptor and follows the consensus.

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

const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// The settings of a node in a network.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Directory authorities.
    pub authorities: Vec<Authority>,
    /// Content of the descriptor; `None` at a client. The node adds the observed bandwidth.
    pub description: Option<Description>,
    /// Whether the node publishes its descriptor (C tor: `PublishServerDescriptor`).
    pub publish: bool,
    /// Settings that the consensus does not change.
    pub overrides: OperatorOverrides,
    /// Delays between retries of directory requests.
    pub retry: RetryPolicy,
    /// The observed bandwidth of an earlier run, from [`Node::bandwidth_history`]; or the text of C tor's state file.
    pub bandwidth_history: Option<String>,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) directory: Directory,
    description: Option<Description>,
    publish: bool,
    overrides: OperatorOverrides,
    /// Rate and burst of client connections in the last applied consensus [B/s, B].
    connection_bandwidth: Option<[u32; 2]>,
    publication: Publication,
    /// Onion key in the last descriptor, and expiry of the signing key's certificate in it.
    keys: Option<([u8; 32], SystemTime)>,
    /// Valid-after time of the last applied consensus.
    applied: Option<SystemTime>,
    next: Instant,
}

impl Member {
    pub(super) fn new(membership: Membership, keys: &Keys, clock: Clock) -> io::Result<Self> {
        let Membership { authorities, description, publish, overrides, retry, bandwidth_history } =
            membership;
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        if let Some(description) = &description {
            description.write(keys, clock.date()).map_err(wrong)?;
        }
        let documents = match description {
            Some(_) => Documents::new(authorities),
            None => Documents::of_client(authorities),
        };
        Ok(Member {
            directory: Directory::start(documents, retry, clock)?,
            description,
            publish,
            overrides,
            connection_bandwidth: None,
            publication: match bandwidth_history {
                Some(history) => Publication::continued(clock.now(), clock.date(), &history),
                None => Publication::new(clock.now()),
            },
            keys: None,
            applied: None,
            next: clock.now(),
        })
    }

    pub(super) fn describe(&mut self, description: Description, keys: &Keys) -> Result<(), BadDescription> {
        description.write(keys, description.started)?;
        self.description = Some(description);
        self.publication.on_change();
        Ok(())
    }

    /// Publishes a new descriptor if one is due. Returns the parameters of a new consensus.
    pub(super) fn update(&mut self, clock: Clock, counters: Counters, keys: &Keys) -> Option<Params> {
        let now = clock.now();
        if now < self.next {
            return None;
        }
        self.next = now + UPDATE_INTERVAL;
        self.publication.on_count(now, [counters.read_bytes.get(), counters.written_bytes.get()]);
        let said = (*keys.onion.public.as_bytes(), keys.signing.expires);
        if self.keys.is_some_and(|last| last != said) {
            self.publication.on_change();
        }
        let documents = self.directory.documents();
        self.publication.on_consensus(documents.names(&keys.rsa_identity()).unwrap_or(false));
        if let Some(description) = self.description.as_mut().filter(|_| self.publish)
            && self.publication.is_due(now)
        {
            self.keys = Some(said);
            description.bandwidth[2] = self.publication.on_written(now);
            let text = description.write(keys, clock.date());
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

    pub(super) fn serves(&self) -> bool {
        self.description.as_ref().is_some_and(|description| description.directory)
    }

    pub(super) fn poll_directory_event(&self) -> Option<DirectoryEvent> {
        self.directory.poll_directory_event()
    }
}

impl Node {
    /// Joins a network: publishes the descriptor, fetches documents, and serves them.
    ///
    /// # Errors
    ///
    /// If the description is invalid, or the system allows no more threads.
    pub fn join(&mut self, membership: Membership) -> io::Result<()> {
        self.member = Some(Member::new(membership, &self.keys, self.clock)?);
        Ok(())
    }

    /// Publishes a new description, if the node is in a network.
    ///
    /// # Errors
    ///
    /// If the description is invalid. The previous description then remains.
    pub fn describe(&mut self, description: Description) -> Result<(), BadDescription> {
        self.member.as_mut().map_or(Ok(()), |member| member.describe(description, &self.keys))
    }

    /// Sets the operator's settings, and applies the current consensus again.
    pub(super) fn set_overrides(&mut self, overrides: OperatorOverrides) {
        if let Some(member) = &mut self.member {
            // If the operator removed a rate limit, the consensus limit applies again.
            (member.overrides, member.applied, member.connection_bandwidth) = (overrides, None, None);
        }
    }

    /// The directory documents, if the node is in a network.
    pub fn documents(&self) -> Option<Arc<Documents>> {
        self.member.as_ref().map(|member| member.directory.documents())
    }

    /// The next directory event, for the log.
    pub fn poll_directory_event(&mut self) -> Option<DirectoryEvent> {
        self.member.as_ref()?.poll_directory_event()
    }

    pub(super) fn begin_directory(&mut self, stream: StreamKey) {
        self.sockets.directory_streams.insert(stream, DirectoryStream::default());
        self.relay.on_stream_connected(self.clock.now(), stream, Connected(None), &mut self.sockets);
    }

    /// Answers a complete request, and lets the core read the answer.
    pub(super) fn serve_directory_stream(&mut self, stream: StreamKey) {
        let (now, date) = (self.clock.now(), self.clock.date());
        if self.sockets.directory_streams.get(&stream).is_some_and(|exchange| exchange.interest.writable) {
            self.relay.on_stream_writable(now, stream, &mut self.sockets);
        }
        let Some(exchange) = self.sockets.directory_streams.get_mut(&stream) else { return };
        if let (Some(question), Some(member)) = (exchange.question(), &self.member) {
            let answer = member.directory.documents().answer(question, date);
            exchange.answer(answer);
        }
        let readable = exchange.interest.readable;
        self.sockets.recount_stream(stream);
        if readable {
            self.relay.on_stream_readable(now, stream, &mut self.sockets);
        }
        self.sockets.wake(stream);
    }

    /// The maxima of the observed bandwidth, as lines of C tor's state file. `None` without a descriptor.
    pub fn bandwidth_history(&self) -> Option<String> {
        let member = self.member.as_ref().filter(|member| member.description.is_some())?;
        Some(member.publication.history(self.clock.now(), self.clock.date()))
    }

    pub(super) fn poll_directory(&mut self) {
        let Some(member) = &mut self.member else { return };
        let Some(params) = member.update(self.clock, self.relay.counters(), &self.keys) else { return };
        let now = self.clock.now();
        self.relay.apply_parameters(now, params.core(member.overrides));
        self.dos.set(None, &params);
        self.meeting_points.default_limit = params.introduction_limit();
        self.renewal.rotation = params.onion_keys();
        // Existing buckets keep their level, unless the rate in the consensus changes.
        let asked = params.connection_bandwidth();
        if !member.overrides.throttle && asked != std::mem::replace(&mut member.connection_bandwidth, asked) {
            let (throttle, buckets) = params.throttle();
            self.relay.set_throttle(now, throttle, buckets);
        }
    }
}
