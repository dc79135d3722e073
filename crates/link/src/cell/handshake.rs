//! Circuit handshakes in CREATE, CREATED, EXTEND and EXTENDED.

use crate::wire::{Malformed, Reader};
use penstock_core::cell::MAX_PAYLOAD;

/// The type of a circuit handshake.
///
/// Source: tor-spec, "CREATE and CREATED cells" (`HTYPE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    /// CREATE_FAST: without public keys, over an authenticated link.
    Fast,
    /// ntor.
    Ntor,
    /// ntor-v3, with extensions.
    NtorV3,
    /// A handshake type that this relay does not support. TAP is type 0.
    Other(u16),
    /// The handshake cell is malformed. The relay that receives it closes the circuit.
    Malformed,
}

impl HandshakeKind {
    fn of(number: u16) -> Self {
        match number {
            2 => HandshakeKind::Ntor,
            3 => HandshakeKind::NtorV3,
            other => HandshakeKind::Other(other),
        }
    }

    /// The type number in CREATE2 and EXTEND2.
    ///
    /// # Panics
    ///
    /// For CREATE_FAST and malformed handshakes. They have no type number.
    pub(super) fn number(self) -> u16 {
        match self {
            HandshakeKind::Ntor => 2,
            HandshakeKind::NtorV3 => 3,
            HandshakeKind::Other(number) => number,
            HandshakeKind::Fast | HandshakeKind::Malformed => panic!("CREATE2 and EXTEND2 name a handshake"),
        }
    }
}

/// A handshake message of a client or of a relay.
#[derive(Clone, PartialEq, Eq)]
pub struct Handshake {
    /// Handshake type. CREATED2 does not carry the type, so a received CREATED2 has [`HandshakeKind::Ntor`] here.
    pub kind: HandshakeKind,
    /// The handshake message, without its length field.
    pub data: Vec<u8>,
}

impl std::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handshake({:?}, {} B)", self.kind, self.data.len())
    }
}

/// Longest handshake message in an EXTENDED2, without the length field [B].
const MOST: u16 = MAX_PAYLOAD - 2;

impl Handshake {
    pub(super) fn malformed() -> Self {
        Handshake { kind: HandshakeKind::Malformed, data: Vec::new() }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = HandshakeKind::of(reader.u16()?);
        let len = reader.u16()?;
        Ok(Handshake { kind, data: reader.take(len.into())?.to_vec() })
    }

    /// Reads the handshake in CREATED2 and EXTENDED2. Both have the length limit of EXTENDED2, because a relay forwards
    /// a CREATED2 as an EXTENDED2.
    pub(super) fn read_answer(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let len = Some(reader.u16()?).filter(|len| *len <= MOST).ok_or(Malformed)?;
        Ok(Handshake { kind: HandshakeKind::Ntor, data: reader.take(len.into())?.to_vec() })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.kind.number().to_be_bytes());
        self.write_answer(out);
    }

    pub(super) fn write_answer(&self, out: &mut Vec<u8>) {
        let len = u16::try_from(self.data.len()).expect("a handshake fits into a cell");
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&self.data);
    }
}
