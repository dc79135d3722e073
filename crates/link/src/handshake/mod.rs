//! The handshake of a link, after TLS: bytes in, bytes out, and in the end who the other node is, or why not.
//!
//! ```text
//! initiator                         responder
//! VERSIONS                     ->
//!                              <-   VERSIONS  CERTS  AUTH_CHALLENGE  NETINFO
//! [CERTS  AUTHENTICATE] NETINFO ->                    in brackets: a relay, not a client
//! ```
//!
//! A [`Link`] owns no socket and knows no time: a driver hands it what TLS decrypted, sends what [`Link::poll_output`]
//! gives, and closes the connection when it fails. What a peer can make it hold is bounded in every state, and the driver
//! bounds the time (C tor: 60 s).
//!
//! Source: tor-spec, "Negotiating and initializing channels"; C tor `channel_tls_process_versions_cell()`,
//! `channel_tls_process_certs_cell()`, `channel_tls_process_auth_challenge_cell()`,
//! `channel_tls_process_authenticate_cell()`, `channel_tls_process_netinfo_cell()`.
//! Deviation: an initiator that shows certificates and does not sign is refused, where C tor takes it for a client.

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

/// The versions of the link protocol that are spoken here, the better one last: circuits' ids have four bytes.
pub const VERSIONS: [u16; 2] = [4, 5];
/// The most that a peer may say before the handshake is over, padding included [B].
pub const MAX_TOTAL: usize = 128 * 1024;

/// What TLS knows of the connection.
pub trait Tls {
    /// What both ends export under [`certs::EXPORTER_LABEL`] and `context` (RFC 5705); nothing if TLS cannot say.
    fn export(&self, context: &[u8; 32]) -> Option<[u8; 32]>;
}

impl<F: Fn(&[u8; 32]) -> Option<[u8; 32]>> Tls for F {
    fn export(&self, context: &[u8; 32]) -> Option<[u8; 32]> {
        self(context)
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A relay, and it proved which one.
    Relay(Identity),
    /// Somebody who proved nothing: a client, or a bridge.
    Client,
}

/// What came of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// The version of the link.
    pub version: u16,
    /// Who is at the other end.
    pub peer: Peer,
    /// What the peer says of time and addresses.
    pub netinfo: Netinfo,
    /// What came behind the handshake: the start of the link's cells.
    pub rest: Vec<u8>,
}

impl Established {
    /// Whether the connection, whose other end has this address as the socket sees it, is the one to use for all
    /// circuits to the peer: a relay says that the address is its own.
    ///
    /// Source: C tor `channel_tls_process_netinfo_cell()` (`is_canonical`).
    pub fn is_canonical(&self, address: IpAddr) -> bool {
        matches!(self.peer, Peer::Relay(_)) && self.netinfo.mine.contains(&address)
    }
}

/// Whom an initiator means to meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// SHA-1 of its RSA identity key, if that is known.
    pub rsa: Option<[u8; 20]>,
    /// Its ed25519 identity key, if that is known.
    pub ed25519: Option<[u8; 32]>,
}

impl Expected {
    fn is(&self, identity: &Identity) -> bool {
        self.rsa.is_none_or(|rsa| rsa == identity.rsa)
            && self.ed25519.is_none_or(|key| key == identity.ed25519)
    }
}

/// Which side of the connection we are on, with what that side knows.
#[derive(Debug)]
enum Side {
    Responder {
        challenge: Challenge,
        /// What the initiator's certificates prove, as soon as it signs.
        certs: Option<Verified>,
        authenticated: bool,
    },
    Initiator {
        expected: Expected,
        /// SHA-256 of the certificate that TLS showed.
        certificate: [u8; 32],
        /// Whether we say who we are.
        authenticate: bool,
        verified: Option<Verified>,
        challenged: bool,
    },
}

/// One handshake.
#[derive(Debug)]
pub struct Link {
    side: Side,
    version: Option<u16>,
    /// What came and makes no whole cell yet.
    inbuf: Vec<u8>,
    outbuf: Vec<u8>,
    /// All that came so far [B].
    total: usize,
    /// What was sent and received, as far as AUTHENTICATE is bound to it.
    sent: Log,
    received: Log,
    /// What our NETINFO says.
    netinfo: Netinfo,
    finished: bool,
}

impl Link {
    /// Of a connection that somebody opened to us, from `peer`; `mine` are our own addresses.
    pub fn respond(rng: &mut impl CryptoRng, peer: IpAddr, mine: Vec<IpAddr>) -> Self {
        let challenge = Challenge::new(rng);
        Link::new(Side::Responder { challenge, certs: None, authenticated: false }, peer, mine)
    }

    /// Of a connection that we opened as a relay, to `peer`; TLS showed the certificate with this SHA-256.
    pub fn connect(expected: Expected, certificate: [u8; 32], peer: IpAddr, mine: Vec<IpAddr>) -> Self {
        Link::initiate(expected, certificate, true, peer, mine)
    }

    /// The same as a client, who does not say who it is.
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

    /// What is to be sent now; nothing if there is none.
    pub fn poll_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outbuf)
    }

    /// Takes what TLS decrypted. When the handshake is over it says what came of it, and takes no more.
    ///
    /// After a failure the connection is to be closed. What is in [`poll_output`](Self::poll_output) need not be sent.
    ///
    /// # Panics
    ///
    /// If the handshake is over already.
    pub fn on_bytes(
        &mut self,
        now: SystemTime,
        bytes: &[u8],
        credentials: &Credentials,
        tls: &impl Tls,
        rng: &mut impl CryptoRng,
    ) -> Result<Option<Established>, LinkFailure> {
        assert!(!self.finished, "a handshake is over once");
        // A failure is an end, too.
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
                    // Whoever sends one byte at a time has nothing copied over and over for it.
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

    /// Whether it has ended, well or not.
    pub fn is_over(&self) -> bool {
        self.finished
    }

    /// What it holds of a cell that is not whole, and of what is to be sent [B].
    pub fn held(&self) -> [usize; 2] {
        [self.inbuf.len(), self.outbuf.len()]
    }

    /// Who it is, at the end.
    fn peer(&self) -> Peer {
        match &self.side {
            Side::Responder { certs: Some(verified), authenticated: true, .. } => {
                Peer::Relay(verified.identity)
            }
            Side::Initiator { verified: Some(verified), .. } => Peer::Relay(verified.identity),
            Side::Responder { .. } | Side::Initiator { .. } => Peer::Client,
        }
    }

    /// Refuses a cell by its head, before the rest of it is waited for.
    fn check_head(&self, head: &[u8], ids: IdLen, len: Option<usize>) -> Result<(), LinkFailure> {
        let place = if ids == IdLen::Two { 2 } else { 4 };
        match (head.get(place), len) {
            (Some(command), Some(len)) => self.check_length(*command, len - place - 1),
            (Some(command), None) => self.check_length(*command, 0),
            _ => Ok(()),
        }
    }

    /// Whether a cell of this command may be there now, and be so long.
    fn check_length(&self, command: u8, len: usize) -> Result<(), LinkFailure> {
        let most = match (command, self.version) {
            (command::VERSIONS, None) => 256,
            // HTTP, for example, or another protocol that begins otherwise.
            (_, None) => return Err(LinkFailure::NotTor),
            (command::CERTS, _) => 16 * 1024,
            (command::AUTH_CHALLENGE | command::AUTHENTICATE, _) => 2 * 1024,
            (command::VPADDING, _) => 64 * 1024,
            (command::PADDING | command::NETINFO, _) => 1024,
            (command, _) => return Err(LinkFailure::Unexpected(command)),
        };
        if len <= most { Ok(()) } else { Err(LinkFailure::TooMuch) }
    }

    /// Takes one cell; returns the peer's NETINFO, which ends the handshake.
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
        // AUTHENTICATE is bound to what came before it, and to no part of itself.
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

    /// Both take the highest version that both speak.
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
        // A client's clock is one more thing to know it by.
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
                // A relay that cannot say who it is would be taken for a client.
                if offered || !*authenticate { Ok(()) } else { Err(LinkFailure::NoCommonMethod) }
            }
            _ => Err(LinkFailure::Unexpected(command::AUTH_CHALLENGE)),
        }?;
        // NETINFO, which follows, is not part of what is signed.
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

    /// As the initiator, answers: it has all it needs. As the responder it has said all.
    fn on_netinfo(
        &mut self,
        now: SystemTime,
        credentials: &Credentials,
        tls: &impl Tls,
        rng: &mut impl CryptoRng,
    ) -> Result<(), LinkFailure> {
        match &self.side {
            // Whoever shows certificates signs, too.
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
