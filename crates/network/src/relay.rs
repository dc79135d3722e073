//! Relays, their classes, and their possible positions on circuits.

use std::net::Ipv4Addr;
use std::sync::Arc;

/// Maximum number of other relays in a family [1]. Families of the Tor network have some hundred.
pub const MAX_FAMILY: usize = 4096;

/// The flags of a relay that path selection uses. Source: dir-spec, "s" lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Clients may use the relay as the first relay of a circuit.
    pub guard: bool,
    /// Clients may use the relay as the last relay of a circuit.
    pub exit: bool,
    /// Clients must not use the relay as the last relay, regardless of its other flags.
    pub bad_exit: bool,
    /// The relay has enough bandwidth for general circuits.
    pub fast: bool,
    /// The relay has a long uptime.
    pub stable: bool,
    /// The authorities could reach the relay.
    pub running: bool,
    /// The authorities accept the relay.
    pub valid: bool,
}

impl Flags {
    /// The flags among the words of an `s` line.
    pub fn of(words: &[&str]) -> Self {
        let has = |flag| words.contains(&flag);
        Flags {
            guard: has("Guard"),
            exit: has("Exit"),
            bad_exit: has("BadExit"),
            fast: has("Fast"),
            stable: has("Stable"),
            running: has("Running"),
            valid: has("Valid"),
        }
    }
}

/// The properties of a relay that path selection uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// A name that is unique in the network. For a consensus, the `$FINGERPRINT~nickname` of Tor's control protocol.
    pub name: String,
    /// The consensus weight [kB/s]. Path selection uses only the share of the total weight.
    pub weight: u32,
    /// The relay's flags.
    pub flags: Flags,
    /// The relay's address. Two relays whose addresses have the same first 16 bits are never on one circuit. A relay
    /// without an address is compatible with all addresses.
    pub address: Option<Ipv4Addr>,
    /// The other relays in this relay's family, as indices in increasing order. Two relays are in a family if each of
    /// them declares the other.
    pub family: Arc<[u32]>,
    /// Whether the relay's exit policy accepts port 443.
    pub exits: bool,
}

/// A relay's position on a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The first relay, which knows the client.
    Guard,
    /// The relay between the first and the last one.
    Middle,
    /// The last relay, which knows the destination.
    Exit,
}

impl Position {
    /// All positions in the order of a circuit.
    pub const ALL: [Position; 3] = [Position::Guard, Position::Middle, Position::Exit];
}

/// The class of a relay, which determines the position weights.
///
/// Source: dir-spec section 3.8.3 (G, M, E, D); C tor `compute_weighted_bandwidths()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Relays that are neither guard nor exit (M).
    Plain,
    /// Relays that are only guards (G).
    Guard,
    /// Relays that are only exits (E).
    Exit,
    /// Relays that are guards and exits (D).
    Both,
}

impl Class {
    /// The class of a relay. `guard`: the relay is a guard. `exit`: the relay is an exit.
    pub fn of(guard: bool, exit: bool) -> Class {
        match (guard, exit) {
            (false, false) => Class::Plain,
            (true, false) => Class::Guard,
            (false, true) => Class::Exit,
            (true, true) => Class::Both,
        }
    }

    /// Whether relays of this class may be guards.
    pub fn is_guard(self) -> bool {
        matches!(self, Class::Guard | Class::Both)
    }

    /// Whether relays of this class may be exits.
    pub fn is_exit(self) -> bool {
        matches!(self, Class::Exit | Class::Both)
    }
}

impl Relay {
    /// The fingerprint and the nickname of a relay of a consensus, which its name `$FINGERPRINT~nickname` has.
    pub fn identity(&self) -> (&str, &str) {
        let name = self.name.strip_prefix('$').and_then(|name| name.split_once('~'));
        name.expect("a relay of a consensus is named $FINGERPRINT~nickname")
    }

    /// The relay's class. A bad exit does not count as an exit.
    pub fn class(&self) -> Class {
        Class::of(self.flags.guard, self.flags.exit && !self.flags.bad_exit)
    }

    /// Whether the relay may have this position.
    ///
    /// Source: C tor `node_is_possible_guard()`, `router_add_running_nodes_to_smartlist()`,
    /// `choose_good_exit_server_general()`, for circuits that need capacity but no long-lived ports.
    /// Deviation: guards need no flag V2Dir, which C tor requires since 0.3.0.
    pub fn may_be(&self, position: Position) -> bool {
        let Flags { guard, bad_exit, fast, stable, running, valid, .. } = self.flags;
        let usable = running && valid && fast;
        match position {
            Position::Guard => usable && guard && stable,
            Position::Middle => usable,
            Position::Exit => usable && self.exits && !bad_exit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USABLE: Flags = Flags {
        guard: false,
        exit: false,
        bad_exit: false,
        fast: true,
        stable: true,
        running: true,
        valid: true,
    };

    fn relay(flags: Flags, exits: bool) -> Relay {
        Relay { name: "x".to_owned(), weight: 1, flags, address: None, family: Arc::default(), exits }
    }

    #[test]
    fn flags_decide_the_positions_of_a_relay() {
        let places = |flags, exits| Position::ALL.map(|position| relay(flags, exits).may_be(position));
        assert_eq!(places(USABLE, false), [false, true, false]);
        assert_eq!(places(Flags { guard: true, ..USABLE }, false), [true, true, false]);
        assert_eq!(places(Flags { guard: true, stable: false, ..USABLE }, true), [false, true, true]);
        assert_eq!(places(Flags { exit: true, ..USABLE }, true), [false, true, true]);
        assert_eq!(places(Flags { exit: true, bad_exit: true, ..USABLE }, true), [false, true, false]);
        assert_eq!(places(Flags { exit: true, ..USABLE }, false), [false, true, false]);
        for flags in [
            Flags { fast: false, guard: true, exit: true, ..USABLE },
            Flags { running: false, guard: true, exit: true, ..USABLE },
            Flags { valid: false, guard: true, exit: true, ..USABLE },
        ] {
            assert_eq!(places(flags, true), [false; 3]);
        }
    }

    #[test]
    fn a_bad_exit_is_not_an_exit() {
        let class = |guard, exit, bad_exit| relay(Flags { guard, exit, bad_exit, ..USABLE }, true).class();
        assert_eq!(class(false, true, true), Class::Plain);
        assert_eq!(class(true, true, true), Class::Guard);
        assert_eq!(class(true, true, false), Class::Both);
        assert_eq!(class(false, true, false), Class::Exit);
    }
}
