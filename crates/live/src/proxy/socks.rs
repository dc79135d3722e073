//! The SOCKS handshake with an application: SOCKS 4, 4a and 5, with Tor's commands RESOLVE and RESOLVE_PTR.
//!
//! Arti's crate `tor-socksproto` parses and writes the messages. It reads exactly the bytes of the handshake, so the
//! application's data stays in the socket.
//!
//! Source: RFC 1928, RFC 1929; Tor's socks-extensions.

use super::path::Purpose;
use penstock_core::EndReason;
use penstock_link::cell::{BeginFlags, Resolved, Target};
use std::fmt;
use std::net::IpAddr;
use tor_socksproto::{
    Buffer, Handshake as _, NextStep, PreciseReads, SocksAddr, SocksAuth, SocksCmd, SocksProxyHandshake,
    SocksRequest, SocksStatus, SocksVersion,
};

/// A handshake in progress.
pub(crate) struct SocksHandshake {
    state: SocksProxyHandshake,
    buffer: Buffer<PreciseReads>,
}

impl fmt::Debug for SocksHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SocksHandshake")
    }
}

/// The next step of a handshake.
#[derive(Debug)]
pub(crate) enum SocksStep {
    /// The application must send more.
    Wait,
    /// Send these bytes to the application, and continue.
    Send(Vec<u8>),
    /// The application has sent its request.
    Done(Request),
    /// The application does not speak SOCKS, or asks for an unknown command. Close its connection.
    Failed,
}

impl SocksHandshake {
    pub(crate) fn new() -> Self {
        SocksHandshake { state: SocksProxyHandshake::new(), buffer: Buffer::new_precise() }
    }

    /// Continues the handshake. `read` reads into a buffer and returns the number of bytes [B]. It returns `None` if
    /// there are no bytes now, and zero if the application has closed its connection.
    pub(crate) fn step(&mut self, read: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> SocksStep {
        loop {
            match self.state.step(&mut self.buffer) {
                Ok(NextStep::Recv(mut receive)) => {
                    let Some(count) = read(receive.buf()) else { return SocksStep::Wait };
                    if receive.note_received(count).is_err() {
                        return SocksStep::Failed;
                    }
                }
                Ok(NextStep::Send(bytes)) => return SocksStep::Send(bytes),
                Ok(NextStep::Finished(finished)) => {
                    let request = finished.into_output().ok();
                    return request.map_or(SocksStep::Failed, |request| SocksStep::Done(Request(request)));
                }
                Err(_) => return SocksStep::Failed,
            }
        }
    }
}

/// The credentials and the protocol of a request. C tor's isolation compares them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Credentials {
    /// The user of SOCKS 4, or the user and the password of SOCKS 5.
    pub(crate) secrets: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) is_socks4: bool,
}

/// An application's request.
#[derive(Clone, Debug)]
pub(crate) struct Request(SocksRequest);

impl Request {
    pub(crate) fn credentials(&self) -> Credentials {
        let secrets = match self.0.auth() {
            SocksAuth::Socks4(user) => Some((user.clone(), Vec::new())),
            SocksAuth::Username(user, password) => Some((user.clone(), password.clone())),
            _ => None,
        };
        Credentials { secrets, is_socks4: self.0.version() == SocksVersion::V4 }
    }

    /// The host of the request, in lower case, and its port.
    pub(crate) fn host(&self) -> (String, u16) {
        (self.0.addr().to_string().to_ascii_lowercase(), self.0.port())
    }

    pub(crate) fn purpose(&self) -> Purpose {
        if self.is_resolve() { Purpose::Resolve } else { Purpose::Port(self.0.port()) }
    }

    /// Whether the application asks for a name or an address instead of a connection.
    pub(crate) fn is_resolve(&self) -> bool {
        matches!(self.0.command(), SocksCmd::RESOLVE | SocksCmd::RESOLVE_PTR)
    }

    /// The target for the exit, or the status for the application if the request cannot be served. `internal`: whether
    /// addresses of private networks are allowed.
    ///
    /// Source: C tor `connection_ap_handshake_rewrite_and_attach()`, `ClientRejectInternalAddresses`.
    pub(crate) fn target(&self, internal: bool) -> Result<Target, SocksStatus> {
        let (host, port) = self.host();
        let address = host.parse::<IpAddr>().ok();
        let is_name = |text: &str| {
            (1..=253).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b':' | b'[' | b']'))
        };
        match address {
            None if !is_name(&host) => return Err(SocksStatus::GENERAL_FAILURE),
            // Onion services and the choice of an exit by name do not exist here.
            None if has_suffix(&host, "onion") => return Err(SocksStatus::HOST_UNREACHABLE),
            None if has_suffix(&host, "exit") => return Err(SocksStatus::NOT_ALLOWED),
            None if has_suffix(&host, "localhost") && !internal => return Err(SocksStatus::NOT_ALLOWED),
            Some(address) if penstock_link::descriptor::is_private(address) && !internal => {
                return Err(SocksStatus::NOT_ALLOWED);
            }
            _ => {}
        }
        Ok(match (self.0.command(), address) {
            (SocksCmd::RESOLVE_PTR, Some(address)) => Target::Resolve(crate::names::reverse(address)),
            (SocksCmd::RESOLVE_PTR, None) => return Err(SocksStatus::ADDRTYPE_NOT_SUPPORTED),
            (SocksCmd::RESOLVE, _) => Target::Resolve(host),
            (_, address) => {
                // An exit may use an IPv6 address of a name. C tor allows it by default (`IPv6Traffic`).
                let flags = BeginFlags(u32::from(address.is_none_or(|address| address.is_ipv6())));
                Target::Host { host, port, flags }
            }
        })
    }

    /// The reply without an address.
    pub(crate) fn reply(&self, status: SocksStatus) -> Vec<u8> {
        self.0.reply(status, None).unwrap_or_default()
    }

    /// The reply to RESOLVE or RESOLVE_PTR. As in C tor, the first usable answer counts.
    pub(crate) fn resolved(&self, answers: &[(Resolved, u32)]) -> Vec<u8> {
        let wants_name = self.0.command() == SocksCmd::RESOLVE_PTR;
        let is_socks4 = self.0.version() == SocksVersion::V4;
        let usable = answers.iter().find_map(|(answer, _)| match answer {
            Resolved::Address(address) if !(wants_name || is_socks4 && address.is_ipv6()) => {
                Some(SocksAddr::Ip(*address))
            }
            Resolved::Name(name) if wants_name => {
                let name = String::from_utf8(name.clone()).ok()?;
                name.try_into().ok().map(SocksAddr::Hostname)
            }
            _ => None,
        });
        match usable {
            Some(address) => self.0.reply(SocksStatus::SUCCEEDED, Some(&address)).unwrap_or_default(),
            None => self.reply(SocksStatus::HOST_UNREACHABLE),
        }
    }
}

fn has_suffix(host: &str, suffix: &str) -> bool {
    host.trim_end_matches('.').rsplit('.').next() == Some(suffix)
}

/// The status for an application whose stream ended before it was open.
///
/// Source: C tor `stream_end_reason_to_socks5_response()`.
pub(crate) fn status(reason: EndReason) -> SocksStatus {
    match reason {
        EndReason::RESOLVE_FAILED => SocksStatus::HOST_UNREACHABLE,
        EndReason::CONNECT_REFUSED | EndReason::CONNECTION_RESET => SocksStatus::CONNECTION_REFUSED,
        EndReason::EXIT_POLICY => SocksStatus::NOT_ALLOWED,
        EndReason::TIMEOUT => SocksStatus::TTL_EXPIRED,
        EndReason::NO_ROUTE => SocksStatus::NETWORK_UNREACHABLE,
        _ => SocksStatus::GENERAL_FAILURE,
    }
}

/// Performs a handshake with these bytes, for fuzzing. Returns the number of bytes that it read [B], and whether the
/// handshake gave a request for a stream or a lookup.
pub fn handshake(input: &[u8]) -> (usize, bool) {
    let (mut handshake, mut at) = (SocksHandshake::new(), 0);
    let mut read = |room: &mut [u8]| {
        let count = room.len().min(input.len() - at);
        room[..count].copy_from_slice(&input[at..at + count]);
        at += count;
        Some(count).filter(|count| *count > 0)
    };
    loop {
        match handshake.step(&mut read) {
            SocksStep::Send(_) => {}
            SocksStep::Wait | SocksStep::Failed => return (at, false),
            SocksStep::Done(request) => {
                let target = request.target(true);
                request.reply(SocksStatus::SUCCEEDED);
                request.resolved(&[(Resolved::Address([192, 0, 2, 1].into()), 60)]);
                return (at, target.is_ok());
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The request at the end of these bytes, and the answers before it.
    fn talk(input: &[u8]) -> (Option<Request>, Vec<u8>, usize) {
        let (mut handshake, mut at, mut said) = (SocksHandshake::new(), 0, Vec::new());
        loop {
            let mut read = |room: &mut [u8]| {
                let count = room.len().min(input.len() - at);
                room[..count].copy_from_slice(&input[at..at + count]);
                at += count;
                Some(count).filter(|count| *count > 0)
            };
            match handshake.step(&mut read) {
                SocksStep::Send(bytes) => said.extend(bytes),
                SocksStep::Wait | SocksStep::Failed => return (None, said, at),
                SocksStep::Done(request) => return (Some(request), said, at),
            }
        }
    }

    /// A request of SOCKS 5 for a name.
    pub(crate) fn request(command: u8, host: &str, port: u16, secrets: Option<(&str, &str)>) -> Request {
        let mut bytes = vec![5, 1, if secrets.is_some() { 2 } else { 0 }];
        if let Some((user, password)) = secrets {
            bytes.extend([1, user.len() as u8]);
            bytes.extend(user.bytes());
            bytes.push(password.len() as u8);
            bytes.extend(password.bytes());
        }
        bytes.extend([5, command, 0, 3, host.len() as u8]);
        bytes.extend(host.bytes());
        bytes.extend(port.to_be_bytes());
        talk(&bytes).0.unwrap()
    }

    #[test]
    fn a_handshake_reads_no_byte_of_the_applications_data() {
        let hello = b"\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x00\x50GET / HTTP/1.0";
        let (request, said, read) = talk(hello);
        assert_eq!((said, read), (vec![5, 0], hello.len() - 14));
        let request = request.unwrap();
        let target = Target::Host { host: "example.com".into(), port: 80, flags: BeginFlags(1) };
        assert_eq!(request.target(false), Ok(target));
        assert_eq!(request.reply(SocksStatus::SUCCEEDED), [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(request.credentials(), Credentials { secrets: None, is_socks4: false });
    }

    #[test]
    fn credentials_are_accepted_and_kept() {
        let request = request(1, "a.example", 443, Some(("me", "secret")));
        assert_eq!(request.credentials().secrets, Some((b"me".to_vec(), b"secret".to_vec())));
        assert_eq!(request.purpose(), Purpose::Port(443));
        let (socks4a, _, _) = talk(b"\x04\x01\x01\xbb\x00\x00\x00\x01me\x00a.example\x00");
        let socks4a = socks4a.unwrap();
        assert_eq!(socks4a.host(), ("a.example".into(), 443));
        assert!(socks4a.credentials().is_socks4 && socks4a.credentials() != request.credentials());
    }

    #[test]
    fn lookups_have_an_answer_in_the_reply() {
        let lookup = request(0xF0, "a.example", 0, None);
        assert_eq!(
            (lookup.target(false), lookup.purpose()),
            (Ok(Target::Resolve("a.example".into())), Purpose::Resolve)
        );
        let answers = [(Resolved::Transient, 1), (Resolved::Address([192, 0, 2, 1].into()), 1)];
        assert_eq!(lookup.resolved(&answers)[..8], [5, 0, 0, 1, 192, 0, 2, 1]);
        assert_eq!(lookup.resolved(&answers[..1])[1], 4);
        let reverse = request(0xF1, "192.0.2.1", 0, None);
        assert_eq!(reverse.target(false), Ok(Target::Resolve("1.2.0.192.in-addr.arpa".into())));
        assert_eq!(reverse.resolved(&[(Resolved::Name(b"b.example".to_vec()), 1)])[..5], [5, 0, 0, 3, 9]);
    }

    #[test]
    fn requests_that_no_exit_may_serve_are_refused() {
        let status = |host: &str, internal| request(1, host, 80, None).target(internal).err();
        for host in ["127.0.0.1", "10.0.0.1", "localhost", "a.localhost.", "192.168.1.1"] {
            assert_eq!(status(host, false), Some(SocksStatus::NOT_ALLOWED), "{host}");
            assert_eq!(status(host, true), None, "{host}");
        }
        assert_eq!(status("abc.onion", true), Some(SocksStatus::HOST_UNREACHABLE));
        assert_eq!(status("www.example.exit", true), Some(SocksStatus::NOT_ALLOWED));
        assert_eq!(status("a b", true), Some(SocksStatus::GENERAL_FAILURE));
        for bytes in [
            &b"GET / HTTP/1.0\r\n\r\n"[..],
            b"\x05\x01\x01",
            b"\x05\x01\x00\x05\x02\x00\x01\x01\x02\x03\x04\x00\x50",
        ] {
            assert!(talk(bytes).0.is_none(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(input in prop::collection::vec(any::<u8>(), 0..600), version in 4u8..=5) {
            handshake(&input);
            handshake(&[&[version, 1, 0, version][..], &input].concat());
        }
    }
}
