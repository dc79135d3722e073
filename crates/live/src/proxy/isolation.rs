//! Which streams may share a circuit.
//!
//! Source: C tor's manual, `SocksPort`, isolation flags; proposal 171; C tor `connection_edge_compatible_with_circuit()`.

use super::socks::Request;
use std::net::IpAddr;

/// The properties of a request that must be equal on one circuit, for one SOCKS port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsolationFlags {
    /// The client's address (`IsolateClientAddr`).
    pub client_address: bool,
    /// The user and the password (`IsolateSOCKSAuth`).
    pub credentials: bool,
    /// The version of SOCKS (`IsolateClientProtocol`).
    pub protocol: bool,
    /// The port of the server (`IsolateDestPort`).
    pub port: bool,
    /// The address of the server (`IsolateDestAddr`).
    pub address: bool,
}

impl Default for IsolationFlags {
    fn default() -> Self {
        IsolationFlags {
            client_address: true,
            credentials: true,
            protocol: true,
            port: false,
            address: false,
        }
    }
}

/// The group of a stream. Only streams of the same group share a circuit. Each SOCKS port has its own groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Isolation {
    listener: usize,
    client_address: Option<IpAddr>,
    secrets: Option<(Vec<u8>, Vec<u8>)>,
    is_socks4: Option<bool>,
    port: Option<u16>,
    host: Option<String>,
}

impl Isolation {
    pub(crate) fn of(listener: usize, flags: IsolationFlags, client: IpAddr, request: &Request) -> Self {
        let (credentials, (host, port)) = (request.credentials(), request.host());
        Isolation {
            listener,
            client_address: flags.client_address.then_some(client),
            secrets: credentials.secrets.filter(|_| flags.credentials),
            is_socks4: flags.protocol.then_some(credentials.is_socks4),
            port: flags.port.then_some(port),
            host: flags.address.then_some(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::socks::tests::request;
    use super::*;

    #[test]
    fn credentials_and_addresses_separate_streams() {
        let flags = IsolationFlags::default();
        let client = IpAddr::from([127, 0, 0, 1]);
        let plain = request(1, "a.example", 80, None);
        let of = |request: &Request| Isolation::of(0, flags, client, request);
        assert_eq!(of(&plain), of(&request(1, "b.example", 443, None)));
        let [one, two] = ["x", "y"].map(|secret| request(1, "a.example", 80, Some(("me", secret))));
        assert!(of(&one) != of(&two) && of(&one) != of(&plain) && of(&one) == of(&one));
        assert_ne!(of(&plain), Isolation::of(1, flags, client, &plain));
        assert_ne!(of(&plain), Isolation::of(0, flags, [127, 0, 0, 2].into(), &plain));
        let shared = IsolationFlags { credentials: false, port: true, address: true, ..flags };
        let of = |request: &Request| Isolation::of(0, shared, client, request);
        assert_eq!(of(&one), of(&two));
        assert_ne!(of(&one), of(&request(1, "a.example", 81, None)));
        assert_ne!(of(&one), of(&request(1, "b.example", 80, None)));
    }
}
