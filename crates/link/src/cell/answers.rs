//! The messages that an exit sends on a stream: END, CONNECTED and RESOLVED.

use crate::wire::{Malformed, Reader, octets};
use penstock_core::EndReason;
use std::net::IpAddr;

/// An END message. It has an address if the exit policy forbids the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Reason for the end of the stream.
    pub reason: EndReason,
    /// The forbidden address, then how long a client may cache this address [s].
    pub address: Option<(IpAddr, u32)>,
}

impl From<EndReason> for End {
    fn from(reason: EndReason) -> Self {
        End { reason, address: None }
    }
}

impl End {
    /// Never fails, because a malformed END also ends the stream.
    pub(super) fn read(data: &[u8]) -> Self {
        let mut reader = Reader::new(data);
        let reason = reader.u8().map_or(EndReason::MISC, EndReason);
        let address = match reader.len() {
            4 | 8 => reader.ipv4(),
            16 | 20 => reader.ipv6(),
            _ => Err(Malformed),
        };
        let address = address.ok().filter(|_| reason == EndReason::EXIT_POLICY);
        End { reason, address: address.map(|address| (address, reader.u32().unwrap_or(u32::MAX))) }
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut data = vec![self.reason.0];
        if let Some((address, ttl)) = self.address {
            data.extend_from_slice(&octets(address));
            data.extend_from_slice(&ttl.to_be_bytes());
        }
        data
    }
}

/// A CONNECTED message: the server's address, then how long a client may cache it [s]. Directory streams have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connected(pub Option<(IpAddr, u32)>);

impl Connected {
    /// Source: tor-spec, "Opening streams"; C tor `connected_cell_parse()`.
    pub(super) fn read(data: &[u8]) -> Result<Self, Malformed> {
        if data.is_empty() {
            return Ok(Connected(None));
        }
        let mut reader = Reader::new(data);
        let address = match reader.ipv4()? {
            IpAddr::V4(zero) if zero.is_unspecified() => {
                if reader.u8()? != 6 {
                    return Err(Malformed);
                }
                reader.ipv6()?
            }
            address => address,
        };
        Ok(Connected(Some((address, reader.u32().unwrap_or(u32::MAX)))))
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let Some((address, ttl)) = self.0 else { return Vec::new() };
        let mut data = if address.is_ipv6() { vec![0, 0, 0, 0, 6] } else { Vec::new() };
        data.extend_from_slice(&octets(address));
        data.extend_from_slice(&ttl.to_be_bytes());
        data
    }
}

/// One answer in a RESOLVED message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Answer to a reverse lookup: a host name.
    Name(Vec<u8>),
    /// An address of a host name.
    Address(IpAddr),
    /// A temporary failure.
    Transient,
    /// The requested name or address does not exist.
    Nothing,
    /// An unknown kind of answer.
    Other(u8, Vec<u8>),
}

/// Reads the answers of a RESOLVED message. Each answer has the time for which a client may cache it [s].
pub(super) fn read_resolved(data: &[u8]) -> Result<Vec<(Resolved, u32)>, Malformed> {
    let (mut reader, mut answers) = (Reader::new(data), Vec::new());
    while !reader.is_empty() {
        let (kind, len) = (reader.u8()?, reader.u8()?);
        let body = reader.take(len.into())?;
        let mut value = Reader::new(body);
        let answer = match kind {
            0 => Resolved::Name(value.rest().to_vec()),
            4 => Resolved::Address(value.ipv4()?),
            6 => Resolved::Address(value.ipv6()?),
            0xF0 => Resolved::Transient,
            0xF1 => Resolved::Nothing,
            other => Resolved::Other(other, value.rest().to_vec()),
        };
        if !value.is_empty() && matches!(answer, Resolved::Address(_)) {
            return Err(Malformed);
        }
        answers.push((answer, reader.u32()?));
    }
    Ok(answers)
}

/// The message that ends a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// END.
    End(End),
    /// RESOLVED, which ends a stream for a name lookup.
    Resolved(Vec<(Resolved, u32)>),
}

impl From<EndReason> for StreamEnd {
    fn from(reason: EndReason) -> Self {
        StreamEnd::End(reason.into())
    }
}

/// Writes as many answers as fit into `room` bytes.
pub(super) fn write_resolved(answers: &[(Resolved, u32)], room: usize) -> Vec<u8> {
    let mut data = Vec::new();
    for (answer, ttl) in answers {
        let (kind, value) = match answer {
            Resolved::Name(name) => (0, name.clone()),
            Resolved::Address(address) => (if address.is_ipv4() { 4 } else { 6 }, octets(*address)),
            Resolved::Transient => (0xF0, Vec::new()),
            Resolved::Nothing => (0xF1, Vec::new()),
            Resolved::Other(kind, value) => (*kind, value.clone()),
        };
        let Ok(len) = u8::try_from(value.len()) else { continue };
        if data.len() + value.len() + 6 > room {
            break;
        }
        data.extend_from_slice(&[kind, len]);
        data.extend_from_slice(&value);
        data.extend_from_slice(&ttl.to_be_bytes());
    }
    data
}
