//! The link handshake after TLS: bytes in, bytes out, and at the end the peer's identity or a failure.
//!
//! ```text
//! initiator                         responder
//! VERSIONS                     ->
//!                              <-   VERSIONS  CERTS  AUTH_CHALLENGE  NETINFO
//! [CERTS  AUTHENTICATE] NETINFO ->                    in brackets: a relay, not a client
//! ```
//!
//! A [`Link`] has no socket and no clock. A driver passes it the bytes that TLS decrypted, sends the bytes of
//! [`Link::poll_output`], and closes the connection after a failure. The memory of a link is bounded in every state.
//! The driver limits the time (C tor: 60 s).
//!
//! Source: tor-spec, "Negotiating and initializing channels"; C tor `channel_tls_process_versions_cell()`,
//! `channel_tls_process_certs_cell()`, `channel_tls_process_auth_challenge_cell()`,
//! `channel_tls_process_authenticate_cell()`, `channel_tls_process_netinfo_cell()`.
//! Deviation: an initiator that sends certificates and no signature is refused. C tor treats it as a client.

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
use rand_core::CryptoRng;
use std::net::IpAddr;
use std::time::SystemTime;

pub use failure::LinkFailure;

/// The supported versions of the link protocol, the preferred one last. Both have circuit ids of four bytes.
pub const VERSIONS: [u16; 2] = [4, 5];
/// The most bytes that a peer may send before the end of the handshake, padding included [B].
pub const MAX_TOTAL: usize = 128 * 1024;

/// The TLS connection, as the handshake needs it.
pub trait Tls {
    /// The secret exported under [`certs::EXPORTER_LABEL`] and `context` (RFC 5705); `None` if TLS has none.
    fn export(&self, context: &[u8; 32]) -> Option<[u8; 32]>;
}

impl<F: Fn(&[u8; 32]) -> Option<[u8; 32]>> Tls for F {
    fn export(&self, context: &[u8; 32]) -> Option<[u8; 32]> {
        self(context)
    }
}

/// The peer of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A relay with a proven identity.
    Relay(Identity),
    /// A peer without a proven identity: a client, or a bridge.
    Client,
}

/// The result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// The version of the link protocol.
    pub version: u16,
    /// The peer.
    pub peer: Peer,
    /// The peer's time and addresses.
    pub netinfo: Netinfo,
    /// The bytes behind the handshake: the first cells of the link.
    pub rest: Vec<u8>,
}

impl Established {
    /// Whether the link is canonical, so that all circuits to the peer may use it. A link is canonical if the peer
    /// lists `address`, the other end of the connection, as its own.
    ///
    /// Source: C tor `channel_tls_process_netinfo_cell()` (`is_canonical`).
    pub fn is_canonical(&self, address: IpAddr) -> bool {
        matches!(self.peer, Peer::Relay(_)) && self.netinfo.mine.contains(&address)
    }
}

/// The relay that an initiator expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// SHA-1 of its RSA identity key, if known.
    pub rsa: Option<[u8; 20]>,
    /// Its ed25519 identity key, if known.
    pub ed25519: Option<[u8; 32]>,
}

impl Expected {
    fn is(&self, identity: &Identity) -> bool {
        self.rsa.is_none_or(|rsa| rsa == identity.rsa)
            && self.ed25519.is_none_or(|key| key == identity.ed25519)
    }
}

/// The side of the connection, with its state.
#[derive(Debug)]
enum Side {
    Responder {
        challenge: Challenge,
        /// The verified certificates of the initiator.
        certs: Option<Verified>,
        authenticated: bool,
    },
    Initiator {
        expected: Expected,
        /// SHA-256 of the TLS certificate.
        certificate: [u8; 32],
        /// Whether this node authenticates.
        authenticate: bool,
        verified: Option<Verified>,
        challenged: bool,
    },
}

/// A handshake in progress.
#[derive(Debug)]
pub struct Link {
    side: Side,
    version: Option<u16>,
    /// A part of a cell that has arrived.
    inbuf: Vec<u8>,
    outbuf: Vec<u8>,
    /// All bytes that arrived so far [B].
    total: usize,
    /// The sent and received bytes that AUTHENTICATE signs.
    sent: Log,
    received: Log,
    /// The content of our NETINFO.
    netinfo: Netinfo,
    finished: bool,
}

impl Link {
    /// A handshake on an accepted connection from `peer`; `mine` are our own addresses.
    pub fn respond(rng: &mut impl CryptoRng, peer: IpAddr, mine: Vec<IpAddr>) -> Self {
        let challenge = Challenge::new(rng);
        Link::new(Side::Responder { challenge, certs: None, authenticated: false }, peer, mine)
    }

    /// A handshake on a connection that we opened to `peer` as a relay. `certificate` is the SHA-256 of the TLS
    /// certificate.
    pub fn connect(expected: Expected, certificate: [u8; 32], peer: IpAddr, mine: Vec<IpAddr>) -> Self {
        Link::initiate(expected, certificate, true, peer, mine)
    }

    /// A handshake on a connection that we opened as a client, without authentication.
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
            outbuf: Vec::new(),
            total: 0,
            sent: Log::default(),
            received: Log::default(),
            netinfo: Netinfo { time: 0, yours: Some(peer), mine },
            finished: false,
        }
    }

    /// The bytes to send now; empty if there are none.
    pub fn poll_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outbuf)
    }

    /// Takes decrypted bytes. At the end of the handshake it returns the result, and accepts no more bytes.
    ///
    /// After a failure the driver closes the connection. It need not send the bytes of
    /// [`poll_output`](Self::poll_output).
    ///
    /// # Panics
    ///
    /// If the handshake has ended already.
    pub fn on_bytes(
        &mut self,
        now: SystemTime,
        bytes: &[u8],
        credentials: &Credentials,
        tls: &impl Tls,
        rng: &mut impl CryptoRng,
    ) -> Result<Option<Established>, LinkFailure> {
        assert!(!self.finished, "a handshake is over once");
        // A failure also ends the handshake.
        self.finished = true;
        let mut inbuf = std::mem::take(&mut self.inbuf);
        inbuf.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let rest = &inbuf[at..];
            let ids = if self.version.is_some() { IdLen::Four } else { IdLen::Two };
            let (frame, len) = match front(rest, ids) {
                Front::Cell(frame, len) => (frame, len),
                Front::Partial(len) => {
                    self.check_head(rest, ids, len)?;
                    // No bytes are copied repeatedly for a peer that sends one byte at a time.
                    inbuf.drain(..at);
                    self.inbuf = inbuf;
                    self.finished = false;
                    return Ok(None);
                }
            };
            self.check_length(frame.command, frame.body.len())?;
            self.total += len;
            if self.total > MAX_TOTAL {
                return Err(LinkFailure::TooMuch);
            }
            at += len;
            if let Some(netinfo) = self.on_cell(now, &frame, &rest[..len], credentials, tls, rng)? {
                let (version, peer) = (self.version.expect("NETINFO comes after VERSIONS"), self.peer());
                return Ok(Some(Established { version, peer, netinfo, rest: inbuf[at..].to_vec() }));
            }
        }
    }

    /// Whether the handshake has ended, with a result or a failure.
    pub fn is_over(&self) -> bool {
        self.finished
    }

    /// The length of the partial cell, and of the bytes to send [B].
    pub fn held(&self) -> [usize; 2] {
        [self.inbuf.len(), self.outbuf.len()]
    }

    /// The peer's identity at the end of the handshake.
    fn peer(&self) -> Peer {
        match &self.side {
            Side::Responder { certs: Some(verified), authenticated: true, .. } => {
                Peer::Relay(verified.identity)
            }
            Side::Initiator { verified: Some(verified), .. } => Peer::Relay(verified.identity),
            Side::Responder { .. } | Side::Initiator { .. } => Peer::Client,
        }
    }

    /// Rejects a cell by its header, before its body has arrived.
    fn check_head(&self, head: &[u8], ids: IdLen, len: Option<usize>) -> Result<(), LinkFailure> {
        let place = if ids == IdLen::Two { 2 } else { 4 };
        match (head.get(place), len) {
            (Some(command), Some(len)) => self.check_length(*command, len - place - 1),
            (Some(command), None) => self.check_length(*command, 0),
            _ => Ok(()),
        }
    }

    /// Whether a cell of this command and length is allowed at this point.
    fn check_length(&self, command: u8, len: usize) -> Result<(), LinkFailure> {
        let most = match (command, self.version) {
            (command::VERSIONS, None) => 256,
            // For example HTTP, or another protocol.
            (_, None) => return Err(LinkFailure::NotTor),
            (command::CERTS, _) => 16 * 1024,
            (command::AUTH_CHALLENGE | command::AUTHENTICATE, _) => 2 * 1024,
            (command::VPADDING, _) => 64 * 1024,
            (command::PADDING | command::NETINFO, _) => 1024,
            (command, _) => return Err(LinkFailure::Unexpected(command)),
        };
        if len <= most { Ok(()) } else { Err(LinkFailure::TooMuch) }
    }

    /// Handles one cell; returns the peer's NETINFO at the end of the handshake.
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
        // AUTHENTICATE signs the bytes before it.
        if frame.command != command::AUTHENTICATE {
            self.received.add(cell);
        }
        match frame.command {
            command::CERTS => self.on_certs(now, frame.body)?,
            command::AUTH_CHALLENGE => self.on_challenge(frame.body)?,
            command::AUTHENTICATE => self.on_authenticate(frame.body, credentials, tls)?,
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

    /// Chooses the highest common version.
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
                // Without authentication, the relay would pass for a client.
                if offered || !*authenticate { Ok(()) } else { Err(LinkFailure::NoCommonMethod) }
            }
            _ => Err(LinkFailure::Unexpected(command::AUTH_CHALLENGE)),
        }?;
        // The signed bytes do not include the NETINFO cell that follows.
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

    /// Sends the last cells of the initiator; the responder has sent all its cells already.
    fn on_netinfo(
        &mut self,
        now: SystemTime,
        credentials: &Credentials,
        tls: &impl Tls,
        rng: &mut impl CryptoRng,
    ) -> Result<(), LinkFailure> {
        match &self.side {
            // A peer that sends certificates must authenticate.
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
                self.say_netinfo(now);
                Ok(())
            }
            Side::Initiator { .. } => Err(LinkFailure::Unexpected(command::NETINFO)),
        }
    }
}
