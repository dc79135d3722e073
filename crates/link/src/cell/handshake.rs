//! What CREATE, CREATED, EXTEND and EXTENDED carry of a circuit's handshake.

use crate::wire::{Malformed, Reader};
use penstock_core::cell::MAX_PAYLOAD;

/// Which handshake.
///
/// Source: tor-spec, "CREATE and CREATED cells" (`HTYPE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    /// CREATE_FAST: without public keys, over a link that has them.
    Fast,
    /// ntor.
    Ntor,
    /// ntor-v3, with extensions.
    NtorV3,
    /// One that nobody here answers; TAP is 0.
    Other(u16),
    /// The cell makes no sense. Whoever is asked refuses it, and the circuit closes.
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

    /// Its number in CREATE2 and EXTEND2.
    ///
    /// # Panics
    ///
    /// For CREATE_FAST, which is not extended to, and what is malformed, which is not sent.
    pub(super) fn number(self) -> u16 {
        match self {
            HandshakeKind::Ntor => 2,
            HandshakeKind::NtorV3 => 3,
            HandshakeKind::Other(number) => number,
            HandshakeKind::Fast | HandshakeKind::Malformed => panic!("CREATE2 and EXTEND2 name a handshake"),
        }
    }
}

/// A handshake, or the answer to one.
#[derive(Clone, PartialEq, Eq)]
pub struct Handshake {
    /// Which one; of an answer, the one that it answers. A relay that passes an answer on does not know it, and
    /// says [`HandshakeKind::Ntor`] for whatever CREATED2 carries.
    pub kind: HandshakeKind,
    /// What one end says to the other.
    pub data: Vec<u8>,
}

impl std::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handshake({:?}, {} B)", self.kind, self.data.len())
    }
}

/// The longest handshake that an EXTENDED2 carries, beside its length [B].
const MOST: u16 = MAX_PAYLOAD - 2;

impl Handshake {
    /// One that makes no sense.
    pub(super) fn malformed() -> Self {
        Handshake { kind: HandshakeKind::Malformed, data: Vec::new() }
    }

    /// The end of CREATE2 and EXTEND2.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = HandshakeKind::of(reader.u16()?);
        let len = reader.u16()?;
        Ok(Handshake { kind, data: reader.take(len.into())?.to_vec() })
    }

    /// What CREATED2 and EXTENDED2 are. What came in the one goes on in the other, which has less room.
    pub(super) fn read_answer(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let len = Some(reader.u16()?).filter(|len| *len <= MOST).ok_or(Malformed)?;
        Ok(Handshake { kind: HandshakeKind::Ntor, data: reader.take(len.into())?.to_vec() })
    }

    /// The end of CREATE2 and EXTEND2.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.kind.number().to_be_bytes());
        self.write_answer(out);
    }

    /// What CREATED2 and EXTENDED2 are.
    pub(super) fn write_answer(&self, out: &mut Vec<u8>) {
        let len = u16::try_from(self.data.len()).expect("a handshake fits into a cell");
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&self.data);
    }
}
