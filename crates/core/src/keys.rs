//! Dense keys of the channels, circuits, streams and clients of one relay.

use crate::arena::Key;

/// A channel of this relay: one connection to another relay or client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelKey(pub u32);

/// A client of this relay: one connection whose other end is not a relay, or all connections of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey(pub u32);

/// One direction of a circuit at this relay: a queue of cells for one channel.
///
/// The low bit is the direction, see [`CircuitKey::direction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitKey(u32);

/// A circuit of this relay, both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitIndex(pub u32);

/// A stream at the edge: an exit's connection to a server, or a client's to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey(pub u32);

/// The direction in which cells of a circuit travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Away from the client, towards the exit (C tor: `n_chan`, outbound).
    Forward,
    /// Towards the client (C tor: `p_chan`, inbound). Downloads travel this way.
    Backward,
}

macro_rules! dense_key {
    ($key:ident) => {
        impl $key {
            /// Consecutive from zero, so that tables can use it as an index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl Key for $key {
            fn new(index: u32) -> Self {
                $key(index)
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

dense_key!(ChannelKey);
dense_key!(ClientKey);
dense_key!(CircuitIndex);
dense_key!(StreamKey);

impl Direction {
    /// Both directions.
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];

    /// The opposite direction.
    pub fn opposite(self) -> Direction {
        match self {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        }
    }
}

impl CircuitIndex {
    /// The queue of this circuit in `direction`.
    pub fn key(self, direction: Direction) -> CircuitKey {
        CircuitKey(self.0 << 1 | u32::from(direction == Direction::Backward))
    }
}

impl CircuitKey {
    /// The direction of the queue's cells.
    pub fn direction(self) -> Direction {
        if self.0 & 1 == 1 { Direction::Backward } else { Direction::Forward }
    }

    /// The queue's circuit.
    pub fn circuit(self) -> CircuitIndex {
        CircuitIndex(self.0 >> 1)
    }

    /// Consecutive from zero, so that policies can use it as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The key with this index, for tests and tools that make their own keys.
    pub fn from_index(index: u32) -> Self {
        CircuitKey(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_remembers_its_circuit_and_direction() {
        for direction in [Direction::Forward, Direction::Backward] {
            let key = CircuitIndex(7).key(direction);
            assert_eq!((key.circuit(), key.direction()), (CircuitIndex(7), direction));
        }
    }
}
