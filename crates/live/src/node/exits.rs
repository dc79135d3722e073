//! Exit streams: name lookups, the exit policy, connections to servers, and end reasons.

use super::dos::StreamDefence;
use super::lookups::Begun;
use super::member::Member;
use super::{Node, dial};
use crate::names::{Found, Question, arpa};
use penstock_core::{DestroyReason, Direction, EndReason, StreamKey};
use penstock_link::cell::{BeginFlags, Connected, End, Resolved, StreamEnd, Target};
use penstock_link::descriptor::is_private;
use std::io;
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Copy, Debug)]
pub(super) enum ResolvePurpose {
    /// A connection to this port.
    Connect(u16, BeginFlags),
    /// A RESOLVE message.
    Resolve,
}

impl Node {
    /// Handles a client's request for a stream.
    ///
    /// Source: C tor `connection_exit_begin_conn()`, `connection_exit_begin_resolve()`.
    pub(super) fn begin(&mut self, stream: StreamKey, target: Target) {
        let is_exit = matches!(target, Target::Host { .. } | Target::Resolve(_));
        if let Some(circuit) = self.relay.circuit_of(stream).filter(|_| is_exit)
            && let Some(defence) = self.dos.on_stream(self.clock.now(), circuit)
        {
            return match defence {
                StreamDefence::Refuse => self.end(stream, EndReason::RESOURCE_LIMIT),
                StreamDefence::CloseCircuit => {
                    let (now, reason) = (self.clock.now(), DestroyReason::RESOURCE_LIMIT);
                    self.relay.close_circuit(now, circuit, reason, &mut self.sockets);
                }
            };
        }
        match target {
            Target::Host { .. } if !self.may_exit(stream) => self.end(stream, EndReason::PROTOCOL),
            Target::Host { host, port, flags } => match host.parse() {
                Ok(address) => self.connect_stream(stream, &[address], port, CLIPPED[1]),
                Err(_) if self.policy.rejects_all() => self.end(stream, EndReason::EXIT_POLICY),
                Err(_) if !is_name(&host) => self.end(stream, EndReason::RESOLVE_FAILED),
                Err(_) => {
                    self.look_up(stream, Question::Addresses(host), ResolvePurpose::Connect(port, flags))
                }
            },
            Target::Resolve(name) => match (name.parse::<IpAddr>(), arpa(&name)) {
                (Ok(address), _) => self.answer_resolve(stream, &Found::Addresses(vec![address], CLIPPED[1])),
                _ if self.policy.rejects_all() => self.answer_resolve(stream, &Found::Later),
                _ if !is_name(&name) => self.answer_resolve(stream, &Found::Nothing),
                // Clients may not look up names in the exit's private networks.
                (Err(_), Some(address)) if is_private(address) && !self.extend_to_private => {
                    self.answer_resolve(stream, &Found::Nothing);
                }
                (Err(_), Some(address)) => {
                    self.look_up(stream, Question::Name(address), ResolvePurpose::Resolve)
                }
                (Err(_), None) => self.look_up(stream, Question::Addresses(name), ResolvePurpose::Resolve),
            },
            Target::Directory if self.member.as_ref().is_some_and(Member::serves) => {
                self.begin_directory(stream)
            }
            Target::Directory => self.end(stream, EndReason::NOT_DIRECTORY),
            Target::Malformed => self.end(stream, EndReason::PROTOCOL),
        }
    }

    /// Whether the circuit may have exit streams. The previous hop must be a relay. Otherwise the exit would be a proxy
    /// with one hop.
    /// Source: C tor `connection_exit_begin_conn()`, with the default of `refuseunknownexits`.
    fn may_exit(&mut self, stream: StreamKey) -> bool {
        let circuit = self.relay.circuit_of(stream);
        let leg = circuit.and_then(|circuit| self.relay.leg(circuit, Direction::Backward));
        let before = leg.and_then(|(channel, _)| self.sockets.channel(channel)?.peer);
        let before = before.and_then(|peer| self.peers.known(peer));
        self.single_hop || before.is_some_and(|known| self.is_relay(&known.rsa))
    }

    fn look_up(&mut self, stream: StreamKey, question: Question, purpose: ResolvePurpose) {
        let circuit = self.relay.circuit_of(stream);
        let sender = circuit.and_then(|circuit| {
            let (channel, _) = self.relay.leg(circuit, Direction::Backward)?;
            Some((self.sockets.channel(channel)?.host, circuit))
        });
        let (Some(names), Some((host, circuit))) = (&self.names, sender) else {
            return self.found(stream, purpose, &Found::Later);
        };
        match self.sockets.lookups.begin(host.with_circuit(circuit), stream, purpose) {
            Begun::Started(number) => names.ask(number, question),
            Begun::Replaces(number, other, old) => {
                names.cancel(old);
                names.ask(number, question);
                self.end(other, EndReason::RESOURCE_LIMIT);
            }
            Begun::Refused => self.end(stream, EndReason::RESOURCE_LIMIT),
        }
    }

    pub(super) fn forget_lookup(&mut self, stream: StreamKey) {
        if let (Some(number), Some(names)) = (self.sockets.lookups.forget(stream), &self.names) {
            names.cancel(number);
        }
    }

    pub(super) fn on_names(&mut self) {
        while let Some((number, found)) = self.names.as_ref().and_then(crate::names::Names::answer) {
            if let Some((stream, purpose)) = self.sockets.lookups.answered(number) {
                self.found(stream, purpose, &found);
            }
        }
    }

    fn found(&mut self, stream: StreamKey, purpose: ResolvePurpose, found: &Found) {
        match (purpose, found) {
            (ResolvePurpose::Resolve, found) => self.answer_resolve(stream, found),
            (ResolvePurpose::Connect(port, flags), Found::Addresses(addresses, ttl)) => {
                let addresses = usable(addresses, flags);
                self.connect_stream(stream, &addresses, port, *ttl);
            }
            (ResolvePurpose::Connect(..), Found::Name(..) | Found::Nothing | Found::Later) => {
                self.end(stream, EndReason::RESOLVE_FAILED);
            }
        }
    }

    fn answer_resolve(&mut self, stream: StreamKey, found: &Found) {
        let (answers, ttl) = match found {
            Found::Addresses(addresses, ttl) => {
                (addresses.iter().map(|address| Resolved::Address(*address)).collect(), *ttl)
            }
            Found::Name(name, ttl) => (vec![Resolved::Name(name.clone().into_bytes())], *ttl),
            Found::Nothing => (vec![Resolved::Nothing], CLIPPED[0]),
            Found::Later => (vec![Resolved::Transient], CLIPPED[0]),
        };
        let ttl = clip(ttl);
        let answers = answers.into_iter().map(|answer| (answer, ttl)).collect();
        self.end(stream, StreamEnd::Resolved(answers));
    }

    /// Connects to the first address that the exit policy allows.
    fn connect_stream(&mut self, stream: StreamKey, addresses: &[IpAddr], port: u16, ttl: u32) {
        let Some(first) = addresses.first() else { return self.end(stream, EndReason::RESOLVE_FAILED) };
        let Some(address) = addresses.iter().find(|address| self.policy.allows(**address, port)) else {
            let reason = EndReason::EXIT_POLICY;
            self.counters.stream("refused");
            return self.end(stream, StreamEnd::End(End { reason, address: Some((*first, clip(ttl))) }));
        };
        let to = SocketAddr::new(*address, port);
        if self.documents().is_some_and(|documents| documents.refuses_reentry(to)) {
            // As in C tor `connection_exit_connect()`.
            self.counters.stream("reentry");
            return self.end(stream, EndReason::CONNECT_REFUSED);
        }
        let Some(holder) = self.holder(stream) else { return };
        if !self.make_room_for_stream(holder.0, holder.1) {
            self.counters.stream("limited");
            return self.end(stream, EndReason::RESOURCE_LIMIT);
        }
        if self.holder(stream).is_none() {
            // The link that made room carried this stream.
            return;
        }
        let said = Connected(Some((to.ip(), clip(ttl))));
        let begun = dial(to, self.outbound.streams, self.tcp);
        if let Err(error) = begun.and_then(|socket| self.sockets.attach_stream(stream, holder, socket, said))
        {
            self.counters.stream("failed");
            self.end(stream, end_reason(&error));
        }
    }

    fn end(&mut self, stream: StreamKey, end: impl Into<StreamEnd>) {
        self.relay.close_stream(self.clock.now(), stream, end.into(), &mut self.sockets);
    }
}

/// The two possible caching times in answers [s]: five minutes or an hour. With exact times, a client could find out
/// which names other clients looked up at this exit (C tor `clip_dns_ttl()`).
const CLIPPED: [u32; 2] = [300, 3600];

fn clip(ttl: u32) -> u32 {
    CLIPPED[usize::from(ttl >= CLIPPED[0])]
}

/// Whether a name server can have this name: at most 255 letters, digits, hyphens, underscores and dots. A text such as
/// `127.1`, whose last label is a number, is an IP address in short form.
/// Source: C tor `address_is_invalid_destination()`, with the default of `ServerDNSAllowNonRFC953Hostnames`; RFC 3696
/// section 2.
/// Deviation: C tor sends `127.1` to a name server. The client gets the same end reason, but later.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let last = text.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    (1..=255).contains(&text.len())
        && text.bytes().all(fits)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// The addresses that the client accepts, preferred addresses first.
fn usable(addresses: &[IpAddr], flags: BeginFlags) -> Vec<IpAddr> {
    let takes =
        |address: &&IpAddr| if address.is_ipv6() { flags.ipv6_okay() } else { !flags.ipv4_not_okay() };
    let mut usable: Vec<IpAddr> = addresses.iter().filter(takes).copied().collect();
    usable.sort_by_key(|address| address.is_ipv6() != flags.ipv6_preferred());
    usable
}

/// The end reason for a failed connection.
/// Source: C tor `errno_to_stream_end_reason()`.
pub(super) fn end_reason(error: &io::Error) -> EndReason {
    use nix::errno::Errno;
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ECONNREFUSED) => EndReason::CONNECT_REFUSED,
        Some(Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::EACCES | Errno::EPERM) => EndReason::NO_ROUTE,
        Some(Errno::ETIMEDOUT) => EndReason::TIMEOUT,
        Some(Errno::ECONNRESET | Errno::EPIPE) => EndReason::CONNECTION_RESET,
        Some(Errno::ENOBUFS | Errno::ENOMEM | Errno::ENFILE | Errno::EMFILE | Errno::EADDRNOTAVAIL) => {
            EndReason::RESOURCE_LIMIT
        }
        _ => EndReason::MISC,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_addresses_of_the_families_that_it_accepts() {
        let [four, six]: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        let both = [six, four];
        let with = |flags| usable(&both, BeginFlags(flags));
        assert_eq!(with(0), [four]);
        assert_eq!(with(1), [four, six]);
        assert_eq!(with(1 | 4), [six, four]);
        assert_eq!(with(1 | 2), [six]);
        assert!(with(2).is_empty());
    }

    #[test]
    fn text_that_is_not_a_host_name_is_not_looked_up() {
        for good in ["example.com", "a_b.example", "127.1a", "x-1.example.", "4.3.2.1.in-addr.arpa"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "127.1",
            "1",
            "256.1.1.1.",
            "a b.example",
            "a:b",
            "a\0b",
            "bücher.example",
            &"a".repeat(256),
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn clients_do_not_learn_the_age_of_a_cached_name() {
        assert_eq!([0, 299, 300, 100_000].map(clip), [300, 300, 3600, 3600]);
    }
}
