//! Commands of cells, by their numbers.
//!
//! Source: tor-spec, "Cell commands". A peer may send numbers that nobody knows yet; they are ignored.

/// Fills a link that has nothing to say.
pub const PADDING: u8 = 0;
/// Begins a circuit with TAP, which nobody answers any more.
pub const CREATE: u8 = 1;
/// A relay message under its layers.
pub const RELAY: u8 = 3;
/// The circuit is gone.
pub const DESTROY: u8 = 4;
/// Begins a circuit without public keys, over a link that has them.
pub const CREATE_FAST: u8 = 5;
/// The answer to CREATE_FAST.
pub const CREATED_FAST: u8 = 6;
/// Which versions of the link protocol a node speaks.
pub const VERSIONS: u8 = 7;
/// Time and addresses, at the end of the link's handshake.
pub const NETINFO: u8 = 8;
/// A relay message that may extend its circuit.
pub const RELAY_EARLY: u8 = 9;
/// Begins a circuit.
pub const CREATE2: u8 = 10;
/// The answer to CREATE2.
pub const CREATED2: u8 = 11;
/// How much padding a link is to have.
pub const PADDING_NEGOTIATE: u8 = 12;
/// Padding of any length.
pub const VPADDING: u8 = 128;
/// The certificates of a node.
pub const CERTS: u8 = 129;
/// What an initiator is to sign.
pub const AUTH_CHALLENGE: u8 = 130;
/// The initiator's signature.
pub const AUTHENTICATE: u8 = 131;

/// Whether a cell with this command says how long it is.
///
/// Source: tor-spec, "Cell packet format" (link protocol 2 and later).
pub fn is_variable(command: u8) -> bool {
    command == VERSIONS || command >= 128
}
