//! The link handshake after TLS. It takes and returns bytes, and ends with the peer's identity or a failure.
//!
//! ```text
//! initiator                         responder
//! VERSIONS                     ->
//!                              <-   VERSIONS  CERTS  AUTH_CHALLENGE  NETINFO
//! [CERTS  AUTHENTICATE] NETINFO ->                    a client sends no cells in brackets
//! ```
//!
//! A node may announce [`Extensions`] in a VPADDING cell before its NETINFO.
//!
//! A [`Link`] has no socket and no clock. The driver passes decrypted bytes to the `Link`, sends the bytes of
//! [`Link::poll_output`], and closes the connection after a failure. The `Link` limits its memory in every state. The
//! driver limits the time (C tor: 60 s).
//!
//! Source: tor-spec, "Negotiating and initializing channels"; C tor `channel_tls_process_versions_cell()`,
//! `channel_tls_process_certs_cell()`, `channel_tls_process_auth_challenge_cell()`,
//! `channel_tls_process_authenticate_cell()`, `channel_tls_process_netinfo_cell()`.
//! Deviation: an initiator that sends CERTS must also send AUTHENTICATE. C tor otherwise treats it as a client.

mod extensions;
mod failure;
mod log;

#[cfg(test)]
mod tests;

use crate::cell::{Frame, Front, IdLen, command, front, push_fixed, push_variable};
use crate::certs::{
    self, Binding, Challenge, Credentials, Identity, LinkKey, Netinfo, Verified, method_is_offered,
    verify_certs,
};
use log::Log;
use penstock_core::hop_control::HopOffer;
use rand_core::CryptoRng;
use std::net::IpAddr;
use std::time::SystemTime;

pub use extensions::Extensions;
pub use failure::LinkFailure;

/// Supported versions of the link protocol, the preferred one last. In both versions, circuit ids have four bytes.
pub const VERSIONS: [u16; 2] = [4, 5];
/// Maximum number of bytes that a peer may send before the end of the handshake, including padding [B].
pub const MAX_TOTAL: usize = 128 * 1024;
/// Longer VPADDING cells are padding [B].
const MAX_ANNOUNCEMENT: usize = 7 + extensions::MAX_LEN;
/// Capacity of the receive buffer beyond twice its content [B].
const KEPT: usize = 4096;

/// The functions of a TLS connection that the handshake needs.
pub trait Tls {
    /// The secret that TLS exports with [`certs::EXPORTER_LABEL`] and `context` (RFC 5705); `None` without an exporter.
    fn export(&self, context: &[u8; 32]) -> Option<[u8; 32]>;
}

impl<F: Fn(&[u8; 32]) -> Option<[u8; 32]>> Tls for F {
    fn export(&self, context: &[u8; 32]) -> Option<[u8; 32]> {
        self(context)
    }
}

/// The peer of a link, as the handshake identified it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A relay that proved its identity.
    Relay(Identity),
    /// A peer without a proven identity: a client or a bridge.
    Client,
}

/// The result of a successful handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// Version of the link protocol.
    pub version: u16,
    /// Identity of the peer.
    pub peer: Peer,
    /// Time and addresses of the peer.
    pub netinfo: Netinfo,
    /// The peer's offer of hop control, if it matches this node's offer.
    pub hop_control: Option<HopOffer>,
    /// Whether both nodes can carry circuit cells in datagrams.
    pub datagrams: bool,
    /// Bytes that arrived after the handshake: the first cells of the link.
    pub rest: Vec<u8>,
}

impl Established {
    /// Whether the link is canonical, so that all circuits to the peer may use it. A link is canonical if the peer
    /// lists `address` as its own. `address` is the remote address of the connection.
    ///
    /// Source: C tor `channel_tls_process_netinfo_cell()` (`is_canonical`).
    pub fn is_canonical(&self, address: IpAddr) -> bool {
        matches!(self.peer, Peer::Relay(_)) && self.netinfo.mine.contains(&address)
    }
}

/// The relay that an initiator wants to reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// SHA-1 of the RSA identity key, if known.
    pub rsa: Option<[u8; 20]>,
    /// Ed25519 identity key, if known.
    pub ed25519: Option<[u8; 32]>,
}

impl Expected {
    fn is(&self, identity: &Identity) -> bool {
        self.rsa.is_none_or(|rsa| rsa == identity.rsa)
            && self.ed25519.is_none_or(|key| key == identity.ed25519)
    }
}

/// This node's role in the handshake, with its state.
#[derive(Debug)]
enum Side {
    Responder {
        challenge: Challenge,
        certs: Option<Verified>,
        authenticated: bool,
    },
    Initiator {
        expected: Expected,
        /// SHA-256 of the responder's TLS certificate.
        certificate: [u8; 32],
        authenticate: bool,
        verified: Option<Verified>,
        challenged: bool,
    },
}

/// A link handshake in progress.
#[derive(Debug)]
pub struct Link {
    side: Side,
    version: Option<u16>,
    /// Received bytes of an incomplete cell.
    inbuf: Vec<u8>,
    /// Bytes of a VPADDING cell that have not arrived [B]. Its bytes are not kept.
    padding: usize,
    outbuf: Vec<u8>,
    /// Number of received bytes so far [B].
    total: usize,
    /// Digests of the sent and of the received bytes, which AUTHENTICATE signs.
    sent: Log,
    received: Log,
    netinfo: Netinfo,
    ours: Extensions,
    theirs: Option<Extensions>,
    finished: bool,
}

impl Link {
    /// Starts the handshake on an accepted connection from `peer`. `mine` are the addresses of this node.
    pub fn respond(rng: &mut impl CryptoRng, peer: IpAddr, mine: Vec<IpAddr>) -> Self {
        let challenge = Challenge::new(rng);
        Link::new(Side::Responder { challenge, certs: None, authenticated: false }, peer, mine)
    }

    /// Starts the handshake on a connection that this relay opened to `peer`. `certificate` is the SHA-256 of the
    /// peer's TLS certificate.
    pub fn connect(expected: Expected, certificate: [u8; 32], peer: IpAddr, mine: Vec<IpAddr>) -> Self {
        Link::initiate(expected, certificate, true, peer, mine)
    }

    /// Starts the handshake on a connection that this node opened as a client, without authentication.
    pub fn connect_as_client(expected: Expected, certificate: [u8; 32], peer: IpAddr) -> Self {
        Link::initiate(expected, certificate, false, peer, Vec::new())
    }

    fn initiate(
        expected: Expected,
        certificate: [u8; 32],
        authenticate: bool,
        peer: IpAddr,
        mine: Vec<IpAddr>,
    ) -> Self {
        let side = Side::Initiator { expected, certificate, authenticate, verified: None, challenged: false };
        let mut link = Link::new(side, peer, mine);
        link.say_versions();
        link
    }

    fn new(side: Side, peer: IpAddr, mine: Vec<IpAddr>) -> Self {
        Link {
            side,
            version: None,
            inbuf: Vec::new(),
            padding: 0,
            outbuf: Vec::new(),
            total: 0,
            sent: Log::default(),
            received: Log::default(),
            netinfo: Netinfo { time: 0, yours: Some(peer), mine },
            ours: Extensions::default(),
            theirs: None,
            finished: false,
        }
    }

    /// Sets the abilities that this node announces. Call this before the first [`on_bytes`](Self::on_bytes).
    #[must_use]
    pub fn with_extensions(mut self, ours: Extensions) -> Self {
        self.ours = ours;
        self
    }

    /// Whether one end of the link is a client.
    pub fn is_with_client(&self) -> bool {
        match self.side {
            Side::Responder { authenticated, .. } => !authenticated,
            Side::Initiator { authenticate, .. } => !authenticate,
        }
    }

    /// The hop control that this node announces for this kind of link.
    pub fn offered_hop_control(&self) -> Option<HopOffer> {
        self.ours.hop_control(self.is_with_client())
    }

    /// The bytes to send now; empty if there are none.
    pub fn poll_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outbuf)
    }

    /// Handles decrypted bytes. Returns the result when the handshake ends. After a failure, the driver closes the
    /// connection. It may drop the bytes of [`poll_output`](Self::poll_output).
    ///
    /// # Panics
    ///
    /// If the handshake has already ended.
    pub fn on_bytes(
        &mut self,
        now: SystemTime,
        bytes: &[u8],
        credentials: &Credentials,
        tls: &impl Tls,
        rng: &mut impl CryptoRng,
    ) -> Result<Option<Established>, LinkFailure> {
        assert!(!self.finished, "a handshake is over once");
        // Set first, because every failure below also ends the handshake.
        self.finished = true;
        let mut inbuf = std::mem::take(&mut self.inbuf);
        inbuf.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            at += self.skip_padding(&inbuf[at..])?;
            let rest = &inbuf[at..];
            let ids = if self.version.is_some() { IdLen::Four } else { IdLen::Two };
            let (frame, len) = match front(rest, ids) {
                Front::Cell(frame, len) => (frame, len),
                Front::Partial(len) => {
                    self.check_head(rest, ids, len)?;
                    let is_padding = |len: &usize| {
                        ids == IdLen::Four && rest[4] == command::VPADDING && *len > MAX_ANNOUNCEMENT
                    };
                    if let Some(len) = len.filter(is_padding) {
                        self.padding = len;
                        continue;
                    }
                    // The buffer moves and is not copied, so a peer that sends single bytes causes little work.
                    inbuf.drain(..at);
                    if inbuf.capacity() > 2 * inbuf.len() + KEPT {
                        inbuf.shrink_to_fit();
                    }
                    self.inbuf = inbuf;
                    self.finished = false;
                    return Ok(None);
                }
            };
            self.check_length(frame.command, frame.body.len())?;
            self.count(len)?;
            at += len;
            if let Some(netinfo) = self.on_cell(now, &frame, &rest[..len], credentials, tls, rng)? {
                let (version, peer) = (self.version.expect("NETINFO comes after VERSIONS"), self.peer());
                let theirs = self.theirs.unwrap_or_default();
                let hop_control =
                    HopOffer::agree(self.offered_hop_control(), theirs.hop_control(self.is_with_client()));
                let datagrams = self.ours.datagrams && theirs.datagrams;
                let rest = inbuf[at..].to_vec();
                return Ok(Some(Established { version, peer, netinfo, hop_control, datagrams, rest }));
            }
        }
    }

    /// Whether the handshake has ended, with success or failure.
    pub fn is_over(&self) -> bool {
        self.finished
    }

    /// Skips bytes of a VPADDING cell. Returns their number [B].
    fn skip_padding(&mut self, bytes: &[u8]) -> Result<usize, LinkFailure> {
        let len = self.padding.min(bytes.len());
        self.padding -= len;
        self.received.add(&bytes[..len]);
        self.count(len).map(|()| len)
    }

    /// Counts received bytes [B].
    fn count(&mut self, bytes: usize) -> Result<(), LinkFailure> {
        self.total += bytes;
        if self.total > MAX_TOTAL { Err(LinkFailure::TooMuch) } else { Ok(()) }
    }

    /// The size of the buffers [B].
    pub fn memory(&self) -> usize {
        self.inbuf.capacity() + self.outbuf.capacity()
    }

    /// Memory in use: the bytes of an incomplete cell, and the bytes to send [B].
    pub fn held(&self) -> [usize; 2] {
        [self.inbuf.len(), self.outbuf.len()]
    }

    fn peer(&self) -> Peer {
        match &self.side {
            Side::Responder { certs: Some(verified), authenticated: true, .. } => {
                Peer::Relay(verified.identity)
            }
            Side::Initiator { verified: Some(verified), .. } => Peer::Relay(verified.identity),
            Side::Responder { .. } | Side::Initiator { .. } => Peer::Client,
        }
    }

    /// Checks a cell by its header, before the body arrives.
    fn check_head(&self, head: &[u8], ids: IdLen, len: Option<usize>) -> Result<(), LinkFailure> {
        let place = if ids == IdLen::Two { 2 } else { 4 };
        match (head.get(place), len) {
            (Some(command), Some(len)) => self.check_length(*command, len - place - 1),
            (Some(command), None) => self.check_length(*command, 0),
            _ => Ok(()),
        }
    }

    /// Checks whether a cell with this command and length is allowed in the current state.
    fn check_length(&self, command: u8, len: usize) -> Result<(), LinkFailure> {
        let most = match (command, self.version) {
            (command::VERSIONS, None) => 256,
            // The peer speaks another protocol, for example HTTP.
            (_, None) => return Err(LinkFailure::NotTor),
            (command::CERTS, _) => 16 * 1024,
            (command::AUTH_CHALLENGE | command::AUTHENTICATE, _) => 2 * 1024,
            (command::VPADDING, _) => 64 * 1024,
            (command::PADDING | command::NETINFO, _) => 1024,
            (command, _) => return Err(LinkFailure::Unexpected(command)),
        };
        if len <= most { Ok(()) } else { Err(LinkFailure::TooMuch) }
    }

    /// Handles one cell. Returns the peer's NETINFO at the end of the handshake.
    fn on_cell(
        &mut self,
        now: SystemTime,
        frame: &Frame<'_>,
        cell: &[u8],
        credentials: &Credentials,
        tls: &impl Tls,
        rng: &mut impl CryptoRng,
    ) -> Result<Option<Netinfo>, LinkFailure> {
        let Some(_) = self.version else {
            self.received.add(cell);
            self.on_versions(now, frame.body, credentials)?;
            return Ok(None);
        };
        // AUTHENTICATE signs only the bytes before it.
        if frame.command != command::AUTHENTICATE {
            self.received.add(cell);
        }
        match frame.command {
            command::CERTS => self.on_certs(now, frame.body)?,
            command::AUTH_CHALLENGE => self.on_challenge(frame.body)?,
            command::AUTHENTICATE => self.on_authenticate(frame.body, credentials, tls)?,
            command::VPADDING => {
                let said =
                    Extensions::read(frame.body).map_err(|_| LinkFailure::Malformed(command::VPADDING))?;
                if said.is_some() && std::mem::replace(&mut self.theirs, said).is_some() {
                    return Err(LinkFailure::Unexpected(command::VPADDING));
                }
            }
            command::NETINFO => {
                let netinfo =
                    Netinfo::read(frame.body).map_err(|_| LinkFailure::Malformed(command::NETINFO))?;
                self.on_netinfo(now, credentials, tls, rng)?;
                return Ok(Some(netinfo));
            }
            _ => {}
        }
        Ok(None)
    }

    fn say_versions(&mut self) {
        let body: Vec<u8> = VERSIONS.iter().flat_map(|version| version.to_be_bytes()).collect();
        push_variable(&mut self.outbuf, IdLen::Two, command::VERSIONS, &body);
        self.sent.add(&self.outbuf);
    }

    /// Selects the highest common version.
    fn on_versions(
        &mut self,
        now: SystemTime,
        body: &[u8],
        credentials: &Credentials,
    ) -> Result<(), LinkFailure> {
        let theirs = body.chunks_exact(2).map(|version| u16::from_be_bytes([version[0], version[1]]));
        let best = theirs.filter(|version| VERSIONS.contains(version)).max();
        self.version = Some(best.ok_or(LinkFailure::NoCommonVersion)?);
        if let Side::Responder { challenge, .. } = &self.side {
            let challenge = challenge.body();
            self.say_versions();
            let from = self.outbuf.len();
            push_variable(&mut self.outbuf, IdLen::Four, command::CERTS, credentials.responder_certs());
            push_variable(&mut self.outbuf, IdLen::Four, command::AUTH_CHALLENGE, &challenge);
            self.sent.add(&self.outbuf[from..]);
            self.say_netinfo(now);
        }
        Ok(())
    }

    fn say_netinfo(&mut self, now: SystemTime) {
        if let Some(body) = self.ours.write() {
            push_variable(&mut self.outbuf, IdLen::Four, command::VPADDING, &body);
        }
        let is_relay = !matches!(self.side, Side::Initiator { authenticate: false, .. });
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        // A client sends no time, because its clock could identify it.
        self.netinfo.time = if is_relay { u32::try_from(seconds).unwrap_or(u32::MAX) } else { 0 };
        push_fixed(&mut self.outbuf, command::NETINFO, &self.netinfo.write());
    }

    fn on_certs(&mut self, now: SystemTime, body: &[u8]) -> Result<(), LinkFailure> {
        let (slot, link) = match &mut self.side {
            Side::Responder { certs, .. } => (certs, LinkKey::Authentication),
            Side::Initiator { verified, certificate, .. } => (verified, LinkKey::Tls(*certificate)),
        };
        if slot.is_some() {
            return Err(LinkFailure::Unexpected(command::CERTS));
        }
        let proven = verify_certs(body, link, now).map_err(LinkFailure::Certs)?;
        *slot = Some(proven);
        match &self.side {
            Side::Initiator { expected, .. } if !expected.is(&proven.identity) => {
                Err(LinkFailure::WrongIdentity)
            }
            _ => Ok(()),
        }
    }

    fn on_challenge(&mut self, body: &[u8]) -> Result<(), LinkFailure> {
        let offered = method_is_offered(body).map_err(|_| LinkFailure::Malformed(command::AUTH_CHALLENGE))?;
        match &mut self.side {
            Side::Initiator { verified: Some(_), challenged: challenged @ false, authenticate, .. } => {
                *challenged = true;
                // Without authentication, the responder would treat this relay as a client.
                if offered || !*authenticate { Ok(()) } else { Err(LinkFailure::NoCommonMethod) }
            }
            _ => Err(LinkFailure::Unexpected(command::AUTH_CHALLENGE)),
        }?;
        // AUTHENTICATE does not sign the NETINFO cell that follows.
        self.received.close();
        Ok(())
    }

    fn on_authenticate(
        &mut self,
        body: &[u8],
        credentials: &Credentials,
        tls: &impl Tls,
    ) -> Result<(), LinkFailure> {
        let Side::Responder { certs: Some(verified), authenticated: authenticated @ false, .. } =
            &mut self.side
        else {
            return Err(LinkFailure::Unexpected(command::AUTHENTICATE));
        };
        let tls_secret = tls.export(&verified.rsa_sha256).ok_or(LinkFailure::NoExporter)?;
        let binding = Binding {
            rsa: [verified.rsa_sha256, credentials.rsa_sha256()],
            ed25519: [verified.identity.ed25519, credentials.ed25519()],
            responder_log: self.sent.digest(),
            initiator_log: self.received.digest(),
            certificate: credentials.tls_sha256(),
            tls_secret,
        };
        certs::verify(body, verified, &binding).map_err(|_| LinkFailure::BadAuthentication)?;
        *authenticated = true;
        Ok(())
    }

    /// Sends the last cells of the initiator. The responder has already sent all its cells.
    fn on_netinfo(
        &mut self,
        now: SystemTime,
        credentials: &Credentials,
        tls: &impl Tls,
        rng: &mut impl CryptoRng,
    ) -> Result<(), LinkFailure> {
        match &self.side {
            // An initiator that sends certificates must also authenticate.
            Side::Responder { certs: Some(_), authenticated: false, .. } => {
                Err(LinkFailure::Unexpected(command::NETINFO))
            }
            Side::Responder { .. } => Ok(()),
            Side::Initiator {
                verified: Some(verified), challenged: true, certificate, authenticate, ..
            } => {
                if *authenticate {
                    let from = self.outbuf.len();
                    push_variable(
                        &mut self.outbuf,
                        IdLen::Four,
                        command::CERTS,
                        credentials.initiator_certs(),
                    );
                    self.sent.add(&self.outbuf[from..]);
                    let tls_secret = tls.export(&credentials.rsa_sha256()).ok_or(LinkFailure::NoExporter)?;
                    let binding = Binding {
                        rsa: [credentials.rsa_sha256(), verified.rsa_sha256],
                        ed25519: [credentials.ed25519(), verified.identity.ed25519],
                        responder_log: self.received.digest(),
                        initiator_log: self.sent.digest(),
                        certificate: *certificate,
                        tls_secret,
                    };
                    let proof = certs::make(credentials, rng, &binding);
                    push_variable(&mut self.outbuf, IdLen::Four, command::AUTHENTICATE, &proof);
                }
                // The agreement: only what both nodes offer, on this kind of link.
                self.ours = self.ours.in_common(&self.theirs.unwrap_or_default()).for_link(!*authenticate);
                self.say_netinfo(now);
                Ok(())
            }
            Side::Initiator { .. } => Err(LinkFailure::Unexpected(command::NETINFO)),
        }
    }
}
