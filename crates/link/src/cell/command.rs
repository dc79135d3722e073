//! The numbers of cell commands.
//!
//! Source: tor-spec, "Cell commands". Cells with unknown commands are ignored.

/// Padding of a link.
pub const PADDING: u8 = 0;
/// Opens a circuit with the obsolete TAP handshake.
pub const CREATE: u8 = 1;
/// Carries an encrypted relay message.
pub const RELAY: u8 = 3;
/// Closes a circuit.
pub const DESTROY: u8 = 4;
/// Opens a circuit without public keys, over an authenticated link.
pub const CREATE_FAST: u8 = 5;
/// The answer to CREATE_FAST.
pub const CREATED_FAST: u8 = 6;
/// Lists the versions of the link protocol that a node speaks.
pub const VERSIONS: u8 = 7;
/// Carries time and addresses at the end of the link handshake.
pub const NETINFO: u8 = 8;
/// Carries a relay message that may extend the circuit.
pub const RELAY_EARLY: u8 = 9;
/// Opens a circuit.
pub const CREATE2: u8 = 10;
/// The answer to CREATE2.
pub const CREATED2: u8 = 11;
/// Negotiates link padding.
pub const PADDING_NEGOTIATE: u8 = 12;
/// Padding of any length.
pub const VPADDING: u8 = 128;
/// The certificates of a node.
pub const CERTS: u8 = 129;
/// The random challenge that an initiator signs.
pub const AUTH_CHALLENGE: u8 = 130;
/// The initiator's signature over the challenge.
pub const AUTHENTICATE: u8 = 131;
/// Concerns the datagrams of a link, between nodes that negotiated them. C tor ignores this command.
pub const DATAGRAMS: u8 = 200;

/// Whether a cell with this command has a length field.
///
/// Source: tor-spec, "Cell packet format" (link protocol 2 and later).
pub fn is_variable(command: u8) -> bool {
    command == VERSIONS || command >= 128
}
