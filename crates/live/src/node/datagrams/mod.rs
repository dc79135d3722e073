//! Circuit cells in datagrams, between nodes that both announced datagrams in the link handshake. The core packs,
//! acknowledges and retransmits cells. This module brings a datagram path up beside the link's TLS connection
//! ([`penstock_link::datagram`]), and keeps the link on TLS if that fails.
//!
//! A link that uses datagrams keeps its TLS connection. If UDP stops working later, the datagrams travel over TLS, so no
//! cell is lost.

mod kernel;
mod mtu;
mod path;
#[cfg(test)]
mod tests;

use super::Node;
use super::shares::Holder;
use super::sockets::Token;
use crate::clock::Clock;
use crate::dtls::DtlsIdentity;
use path::{Path, PathState};
use penstock_core::ChannelKey;
use penstock_core::hop_control::HopOffer;
use penstock_core::kernel::{Interest, Kernel as _};
use penstock_link::datagram::Control;
use penstock_link::handshake::{Extensions, MAX_TOTAL};
use penstock_units::{Bytes, Duration, Instant};
use rand::RngExt as _;
use std::io;
use std::net::SocketAddr;

#[cfg(test)]
pub(super) use {path::udp_socket, tests::Middlebox};

/// The initiator selects TLS if the path does not work after this time.
const PATH_TIMEOUT: Duration = Duration::from_secs(3);
/// Shortest time between two calls for an unfinished path.
const MIN_WAIT: Duration = Duration::from_millis(5);
/// Maximum number of packets that one call reads without finding a datagram [1].
const MAX_PACKETS: usize = 16;
/// Paths may use this part of the descriptors of links and streams. Above it, the host with the most paths loses one.
const PATH_SHARE: usize = 4;

/// The datagrams of a link whose nodes both announced them.
#[derive(Debug)]
pub(super) struct LinkDatagrams {
    is_initiator: bool,
    /// The hop control that both nodes offered on the link.
    hop_control: Option<HopOffer>,
    /// Whether the initiator has chosen the transport.
    pub(super) is_chosen: bool,
    /// Until then, the initiator must choose.
    until: Instant,
    /// When the node continues the path. The place in [`Sockets::due_paths`](super::sockets::Sockets::due_paths).
    due: Instant,
    /// Whether the initiator's PATH has arrived at the responder.
    is_offered: bool,
    /// Whether this node refused the path, because it has no socket for it.
    has_refused: bool,
    /// Bytes that the peer has sent over TLS before the choice [B].
    early: usize,
    /// Whether the TLS connection has readable bytes.
    has_tls: bool,
    pub(super) path: Option<Path>,
    /// The number of the path's socket in [`Sockets::paths`].
    share: Option<u64>,
}

impl LinkDatagrams {
    /// The memory of the path [B].
    pub(super) fn memory(&self) -> u64 {
        self.path.as_ref().map_or(0, Path::memory)
    }

    /// Whether datagrams wait for the relay.
    pub(super) fn has_input(&self) -> bool {
        self.path.as_ref().is_some_and(|path| !path.inbox.is_empty())
    }

    /// Whether the link is open, and its datagrams leave over UDP.
    pub(super) fn uses_udp(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.state == PathState::Open)
    }

    fn poll_timeout(&self, clock: Clock) -> Instant {
        let path = self.path.as_ref().map_or(Instant::FAR_FUTURE, |path| path.poll_timeout(clock));
        self.until.min(path.max(clock.now() + MIN_WAIT))
    }
}

/// The next step of an unfinished path.
enum Step {
    Wait,
    Choose(bool),
    /// The peer violated the protocol, or the connection ended.
    Close(&'static str),
}

impl Node {
    /// The extensions that this node announces on links.
    pub(super) fn extensions(&self) -> Extensions {
        let offer = |with_client| self.relay.hop_offer(with_client);
        let datagrams = self.relay.speaks_datagrams();
        Extensions { with_relay: offer(false), with_client: offer(true), datagrams }
    }

    /// Starts the datagram path of a new link. The link opens when the initiator has chosen its transport.
    pub(super) fn begin_path(
        &mut self,
        channel: ChannelKey,
        is_initiator: bool,
        hop_control: Option<HopOffer>,
    ) {
        let now = self.clock.now();
        let until = now + if is_initiator { PATH_TIMEOUT } else { self.handshake_timeout };
        let (path, has_tls) = (None, true);
        let state = LinkDatagrams {
            is_initiator,
            hop_control,
            is_chosen: false,
            until,
            due: until,
            is_offered: false,
            has_refused: false,
            early: 0,
            has_tls,
            path,
            share: None,
        };
        let Some(conn) = self.sockets.channel(channel) else { return };
        conn.datagrams = Some(Box::new(state));
        self.sockets.due_paths.insert((until, channel));
        self.sockets.want(channel, Interest { readable: true, writable: false });
        if is_initiator && !self.make_path(channel, None) {
            return self.choose(channel, false, "socket");
        }
        self.drive_path(channel, true);
    }

    /// Makes the UDP socket of a link, and announces it to the peer. A responder needs the initiator's port.
    fn make_path(&mut self, channel: ChannelKey, port: Option<u16>) -> bool {
        let Some(host) = self.sockets.channel(channel).map(|conn| conn.host.path()) else { return false };
        if !self.has_room_for_path(&host) {
            return false;
        }
        let Ok(path) = self.new_path(channel, port) else { return false };
        let said = Control::Path(path.ours);
        let readable = Interest { readable: true, writable: false };
        let Some(socket) = &path.socket else { return false };
        if self.sockets.watch(socket, Token::Datagrams(channel), readable).is_err() {
            return false;
        }
        let number = self.sockets.paths.add(&host, channel);
        if let Some(state) = self.sockets.datagrams(channel) {
            (state.path, state.share) = (Some(path), Some(number));
        }
        self.say(channel, &said);
        true
    }

    /// Makes a descriptor available for a path of this host. A link needs no path, so no link and no stream ends for it.
    fn has_room_for_path(&mut self, host: &[Holder]) -> bool {
        let [links, streams] = self.held();
        if self.sockets.paths.len() < self.descriptors.shared / PATH_SHARE {
            return links + streams < self.descriptors.shared;
        }
        let other = self.sockets.paths.newest_of_most(host);
        other.is_some_and(|other| {
            self.sockets.end_path(other);
            true
        })
    }

    fn new_path(&mut self, channel: ChannelKey, port: Option<u16>) -> io::Result<Path> {
        let token = self.rng.random();
        let conn = self.sockets.channel(channel).ok_or(io::ErrorKind::NotConnected)?;
        let (local, peer) = (conn.socket.local_addr()?, conn.socket.peer_addr()?);
        let own;
        let dtls: &DtlsIdentity = if self.listener.is_some() {
            self.dtls.get_or_insert_default()
        } else {
            // One certificate on all links of a client would tell guards that they have the same client.
            own = DtlsIdentity::new();
            &own
        };
        let path = match port {
            None => Path::initiator(dtls, self.clock, [local, peer], token),
            Some(port) => Path::responder(dtls, self.clock, [local, SocketAddr::new(peer.ip(), port)], token),
        }?;
        #[cfg(test)]
        let path = path.through(self.middlebox.clone());
        Ok(path)
    }

    /// Sends a cell about datagrams over TLS.
    fn say(&mut self, channel: ChannelKey, control: &Control<'_>) {
        if let Some(conn) = self.sockets.channel(channel) {
            let mut cell = Vec::new();
            control.write(&mut cell);
            conn.encrypt(&cell);
            conn.flush();
        }
        self.sockets.rewatch(channel);
        self.sockets.recount(channel);
    }

    /// Continues the unfinished path of a link. `is_ready`: its connections may have readable bytes.
    pub(super) fn drive_path(&mut self, channel: ChannelKey, is_ready: bool) {
        let step = match self.read_controls(channel, is_ready) {
            Step::Wait => self.step_path(channel, is_ready),
            step => step,
        };
        self.sockets.settle_path(channel);
        match step {
            Step::Choose(datagrams) => self.choose(channel, datagrams, "timeout"),
            Step::Close(reason) => {
                self.counters.path(reason);
                self.relay.close_channel(self.clock.now(), channel, &mut self.sockets);
            }
            Step::Wait => self.sockets.schedule_path(channel),
        }
    }

    /// Handles the peer's cells about datagrams. Before the choice, it sends no other cells except padding.
    fn read_controls(&mut self, channel: ChannelKey, is_ready: bool) -> Step {
        let clock = self.clock;
        let mut may_fill = is_ready;
        loop {
            let Some(conn) = self.sockets.channels.get_mut(channel) else { return Step::Wait };
            let Some(body) = conn.take_control() else {
                if std::mem::take(&mut may_fill) {
                    let bytes = conn.fill(&mut self.sockets.scratch);
                    let Some(state) = &mut conn.datagrams else { return Step::Wait };
                    state.early += bytes as usize;
                    // The read bucket does not count these bytes.
                    if state.early > MAX_TOTAL {
                        return Step::Close("violation");
                    }
                    continue;
                }
                return if conn.broken { Step::Close("closed") } else { Step::Wait };
            };
            let Some(state) = &mut conn.datagrams else { return Step::Wait };
            match (Control::read(&body), &mut state.path, state.is_initiator) {
                (Ok(Control::Path(theirs)), Some(path), true) if path.theirs.is_none() => {
                    path.on_offer(clock, theirs);
                }
                (Ok(Control::Path(theirs)), None, false) if theirs.port != 0 && !state.is_offered => {
                    state.is_offered = true;
                    let is_made = self.make_path(channel, Some(theirs.port));
                    match self.sockets.datagrams(channel).and_then(|state| state.path.as_mut()) {
                        Some(path) if is_made => path.on_offer(clock, theirs),
                        _ => {
                            self.say(channel, &Control::Select(false));
                            self.sockets
                                .datagrams(channel)
                                .into_iter()
                                .for_each(|state| state.has_refused = true);
                        }
                    }
                }
                // The responder has no socket for datagrams.
                (Ok(Control::Select(false)), Some(path), true) => path.fail("refused"),
                (Ok(Control::Select(false)), _, false) => return Step::Choose(false),
                // A path that failed after the initiator's choice carries the datagrams over TLS.
                (Ok(Control::Select(true)), Some(path), false) if path.state != PathState::Unconfirmed => {
                    return Step::Choose(true);
                }
                _ => return Step::Close("violation"),
            }
        }
    }

    fn step_path(&mut self, channel: ChannelKey, is_ready: bool) -> Step {
        let clock = self.clock;
        let Some(conn) = self.sockets.channels.get_mut(channel) else { return Step::Wait };
        let Some(state) = &mut conn.datagrams else { return Step::Wait };
        let is_late = state.until <= clock.now();
        if let Some(path) = &mut state.path {
            for _ in 0..MAX_PACKETS {
                if !is_ready || !path.read(clock, &mut self.sockets.scratch) {
                    break;
                }
            }
            path.uncounted = 0;
            path.on_timer(clock);
        }
        let found = state.path.as_ref().map(|path| path.state);
        match (state.is_initiator, found) {
            (true, Some(PathState::Confirmed)) => Step::Choose(true),
            (true, Some(PathState::Failed(_))) => Step::Choose(false),
            (true, _) if is_late => Step::Choose(false),
            (false, _) if is_late => Step::Close("timeout"),
            _ => Step::Wait,
        }
    }

    /// Opens a link with the initiator's choice.
    fn choose(&mut self, channel: ChannelKey, datagrams: bool, otherwise: &'static str) {
        let now = self.clock.now();
        let Some(state) = self.sockets.datagrams(channel) else { return };
        let due = std::mem::replace(&mut state.due, Instant::FAR_FUTURE);
        let (is_initiator, hop_control) = (state.is_initiator, state.hop_control);
        let reason = match state.path.as_ref().map(|path| path.state) {
            _ if datagrams => "open",
            Some(PathState::Failed(reason)) => reason,
            _ if state.has_refused => "socket",
            _ if is_initiator => otherwise,
            _ => "peer",
        };
        state.is_chosen = true;
        self.counters.path(reason);
        self.sockets.due_paths.remove(&(due, channel));
        if is_initiator {
            self.say(channel, &Control::Select(datagrams));
        }
        if datagrams {
            if let Some(path) = self.sockets.datagrams(channel).and_then(|state| state.path.as_mut()) {
                path.open();
            }
            self.relay.use_datagrams(channel);
            self.set_path_size(channel);
        } else {
            self.sockets.drop_path(channel);
        }
        self.relay.on_channel_open(now, channel, hop_control, &mut self.sockets);
        self.classify_channel(now, channel);
        // Cells may have arrived behind the choice, and datagrams before it.
        self.queue(channel);
    }

    /// Limits the core's datagrams to the size that the path carries.
    fn set_path_size(&mut self, channel: ChannelKey) {
        if let Some(path) = self.sockets.datagrams(channel).and_then(|state| state.path.as_ref()) {
            let size = Bytes::new(path.mtu.size() as u64);
            self.relay.set_max_datagram(channel, size);
        }
    }

    /// Tells the core about paths whose datagrams became smaller.
    pub(super) fn shrink_paths(&mut self) {
        while let Some(channel) = self.sockets.shrunk_paths.pop() {
            self.counters.path("shrunk");
            self.set_path_size(channel);
        }
    }

    /// Continues paths whose time has come. Their sockets report packets themselves.
    pub(super) fn poll_paths(&mut self, now: Instant) {
        while let Some((due, channel)) = self.sockets.due_paths.first().copied()
            && due <= now
        {
            self.sockets.due_paths.pop_first();
            if self.sockets.is_choosing(channel) {
                self.drive_path(channel, false);
            } else {
                let clock = self.clock;
                if let Some(path) = self.sockets.datagrams(channel).and_then(|state| state.path.as_mut()) {
                    path.confirm_size(clock, now);
                }
                self.sockets.settle_path(channel);
            }
            self.process_events();
        }
    }
}
