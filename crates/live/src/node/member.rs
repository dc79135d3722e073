//! A node as a part of a network: it tells the authorities of itself, and heeds what they agree on.

use crate::clock::Clock;
use crate::descriptor::{BadDescription, Description};
use crate::directory::{Authority, Directory, Flavour, Note, Pace, Params, Publication};
use crate::keys::Keys;
use penstock_core::Counters;
use penstock_units::{Duration, Instant};
use std::io;
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
    /// How patient it is.
    pub pace: Pace,
}

/// A membership, alive.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) directory: Directory,
    description: Description,
    publish: bool,
    publication: Publication,
    /// The keys of the last descriptor: what of them may change.
    keys: Option<([u8; 32], SystemTime)>,
    /// The consensus that was heeded last.
    heeded: Option<SystemTime>,
    next: Instant,
}

impl Member {
    pub(super) fn new(membership: Membership, keys: &Keys, clock: Clock) -> io::Result<Self> {
        let Membership { authorities, description, publish, pace } = membership;
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        description.write(keys, clock.date()).map_err(wrong)?;
        Ok(Member {
            directory: Directory::start(authorities, pace, clock)?,
            description,
            publish,
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
        if self.publish && self.publication.is_due(now) {
            self.keys = Some(said);
            self.description.bandwidth[2] = self.publication.on_written(now);
            let text = self.description.write(keys, clock.date());
            let text = text.expect("it was written before, and only numbers and keys are others");
            self.directory.publish(keys.rsa_identity(), text.into());
        }
        let documents = self.directory.documents();
        let consensus = documents.consensus(Flavour::Microdescriptors)?;
        if self.heeded == Some(consensus.valid_after) {
            return None;
        }
        self.heeded = Some(consensus.valid_after);
        Some(consensus.params.clone())
    }

    /// What happened, for the log.
    pub(super) fn poll_note(&self) -> Option<Note> {
        self.directory.poll_note()
    }
}
