//! The part of the core's kernel that sends and receives datagrams.

use super::{LinkDatagrams, MAX_PACKETS, Path};
use crate::dtls::OVERHEAD;
use crate::node::shares::Host;
use crate::node::sockets::{Sockets, Token};
use penstock_core::datagram::Message;
use penstock_core::{Cell as _, ChannelKey, Command, Tag};
use penstock_link::cell::LiveCell;
use penstock_link::datagram::{Control, read_messages, write_messages};
use penstock_units::{Bytes, Instant};

impl Sockets {
    pub(super) fn datagrams(&mut self, channel: ChannelKey) -> Option<&mut LinkDatagrams> {
        self.channels.get_mut(channel)?.datagrams.as_deref_mut()
    }

    /// Whether the link waits for the choice of its transport.
    pub(in crate::node) fn is_choosing(&mut self, channel: ChannelKey) -> bool {
        self.datagrams(channel).is_some_and(|state| !state.is_chosen)
    }

    /// Sets the time at which the node continues the path of a link that is not open yet.
    pub(super) fn schedule_path(&mut self, channel: ChannelKey) {
        let clock = self.clock;
        let Some(state) = self.datagrams(channel) else { return };
        let due = state.poll_timeout(clock);
        let before = std::mem::replace(&mut state.due, due);
        self.due_paths.remove(&(before, channel));
        self.due_paths.insert((due, channel));
        self.recount(channel);
    }

    /// The time at which the node must continue a path.
    pub(in crate::node) fn next_path(&self) -> Option<Instant> {
        self.due_paths.first().map(|(due, _)| *due)
    }

    /// Closes the UDP socket of a link.
    pub(in crate::node) fn drop_path(&mut self, channel: ChannelKey) {
        let Some(conn) = self.channels.get_mut(channel) else { return };
        let host = conn.host;
        if let Some(state) = conn.datagrams.take() {
            self.on_path_gone(channel, host, &state);
        }
        self.recount(channel);
    }

    /// The link of a path has closed, or uses TLS only.
    pub(in crate::node) fn on_path_gone(&mut self, channel: ChannelKey, host: Host, state: &LinkDatagrams) {
        self.due_paths.remove(&(state.due, channel));
        self.waiting.remove(Token::Datagrams(channel));
        // Closing the socket also removes it from epoll.
        if let Some(number) = state.share {
            self.paths.remove(&host.path(), number);
        }
    }

    /// Counts what happened to a path: it failed, or its datagrams became smaller.
    pub(super) fn settle_path(&mut self, channel: ChannelKey) {
        let Some(conn) = self.channels.get_mut(channel) else { return };
        let Some(LinkDatagrams { path: Some(path), share, due, is_chosen, .. }) =
            conn.datagrams.as_deref_mut()
        else {
            return;
        };
        let has_broken = std::mem::take(&mut path.has_broken);
        self.failed_paths += u64::from(has_broken);
        if std::mem::take(&mut path.has_shrunk) {
            self.shrunk_paths.push(channel);
        }
        if path.socket.is_none()
            && let Some(number) = share.take()
        {
            self.paths.remove(&conn.host.path(), number);
        }
        let next = path.confirm_timeout().unwrap_or(Instant::FAR_FUTURE);
        if *is_chosen && *due != next {
            self.due_paths.remove(&(std::mem::replace(due, next), channel));
            if next != Instant::FAR_FUTURE {
                self.due_paths.insert((next, channel));
            }
        }
        if has_broken {
            // From now on, the core can write when the TLS connection is writable.
            self.rewatch(channel);
        }
        self.recount(channel);
    }

    /// Closes the UDP socket of a link. The link continues over TLS.
    pub(super) fn end_path(&mut self, channel: ChannelKey) {
        if let Some(path) = self.datagrams(channel).and_then(|state| state.path.as_mut()) {
            path.fail("evicted");
        }
        self.settle_path(channel);
    }

    /// The TLS connection of a link with datagrams is readable.
    pub(in crate::node) fn note_tls_readable(&mut self, channel: ChannelKey) {
        if let Some(state) = self.datagrams(channel) {
            state.has_tls = true;
        }
    }

    /// Sends messages as one datagram. Returns its size with DTLS [B].
    pub(in crate::node) fn send_datagram(
        &mut self,
        channel: ChannelKey,
        messages: &mut dyn Iterator<Item = Message<&LiveCell>>,
    ) -> Bytes {
        let clock = self.clock;
        let mut datagram = std::mem::take(&mut self.record);
        datagram.clear();
        let (mut needs_answer, mut tags) = (false, Vec::new());
        let messages = messages.inspect(|message| {
            needs_answer |= matches!(message, Message::Data { .. } | Message::Probe { .. });
            if let Message::Data { body, .. } = message {
                tags.extend(body.tag());
            }
        });
        write_messages(messages, &mut datagram);
        let size = Bytes::new((datagram.len() + OVERHEAD) as u64);
        if let Some(conn) = self.channels.get_mut(channel)
            && let Some(path) = conn.datagrams.as_mut().and_then(|state| state.path.as_mut())
            && !path.send_messages(clock, &datagram, needs_answer)
        {
            // As in the network, a datagram is lost if the TLS connection has no room for it.
            if conn.is_stuck() {
                conn.flush();
            }
            if !conn.is_stuck() {
                let mut cell = Vec::with_capacity(datagram.len() + 8);
                Control::Tunnel(&datagram).write(&mut cell);
                conn.encrypt(&cell);
                conn.flush();
                self.rewatch(channel);
            }
        }
        self.record = datagram;
        self.note_datagram(channel, &tags);
        self.settle_path(channel);
        size
    }

    /// Records the time at which the traced cells of a datagram left the node.
    fn note_datagram(&mut self, channel: ChannelKey, tags: &[Tag]) {
        let Some(trace) = self.trace.as_mut().filter(|_| !tags.is_empty()) else { return };
        let conn = self.channels.get(channel);
        let path = conn.and_then(|conn| conn.datagrams.as_ref()?.path.as_ref());
        let left = path.filter(|_| trace.keeps_connections()).and_then(Path::left);
        tags.iter().for_each(|tag| trace.written(*tag, self.clock.now(), left));
    }

    /// Takes the messages of the next datagram. Returns its size with DTLS [B], or zero if there is none.
    pub(in crate::node) fn receive_datagram(
        &mut self,
        channel: ChannelKey,
        into: &mut Vec<Message<LiveCell>>,
    ) -> Bytes {
        let clock = self.clock;
        let before = into.len();
        let size = self.next_datagram(channel, into);
        self.settle_path(channel);
        if let Some(trace) = &mut self.trace {
            for message in &mut into[before..] {
                if let Message::Data { body, .. } = message
                    && body.command() == Command::Relay
                    && let Some(tag) = trace.came(None, clock.now())
                {
                    body.set_tag(tag);
                }
            }
        }
        size
    }

    fn next_datagram(&mut self, channel: ChannelKey, into: &mut Vec<Message<LiveCell>>) -> Bytes {
        let clock = self.clock;
        let Some(conn) = self.channels.get_mut(channel) else { return Bytes::ZERO };
        for _ in 0..MAX_PACKETS {
            let tunneled = conn.take_control();
            let Some(state) = &mut conn.datagrams else { return Bytes::ZERO };
            let Some(path) = &mut state.path else { return Bytes::ZERO };
            let datagram = match tunneled.as_deref().map(Control::read) {
                Some(Ok(Control::Tunnel(datagram))) => {
                    // UDP does not work in the peer's direction.
                    path.fail("tunnel");
                    Some(datagram.into())
                }
                Some(_) => {
                    conn.broken = true;
                    return Bytes::ZERO;
                }
                None => path.inbox.pop_front(),
            };
            if let Some(datagram) = datagram {
                // DTLS and TLS let no changed datagram through, so the peer made this one.
                conn.broken |= read_messages(&datagram, conn.extended, into).is_err();
                let size = (datagram.len() + OVERHEAD) as u64;
                if tunneled.is_some() {
                    path.uncounted = path.uncounted.saturating_sub(size);
                }
                return Bytes::new(size);
            }
            if path.uncounted > 0 {
                return Bytes::new(std::mem::take(&mut path.uncounted));
            }
            if path.read(clock, &mut self.scratch) {
                continue;
            }
            if !std::mem::take(&mut state.has_tls) {
                return Bytes::ZERO;
            }
            let bytes = conn.fill(&mut self.scratch);
            if let Some(path) = conn.datagrams.as_mut().and_then(|state| state.path.as_mut()) {
                path.uncounted += bytes;
            }
        }
        Bytes::ZERO
    }
}
