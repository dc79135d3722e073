//! Keys of the channels, circuits, streams and clients of one relay.

use crate::arena::Key;

macro_rules! key {
    ($(#[$doc:meta])* $key:ident) => {
        $(#[$doc])*
        ///
        /// Indices are dense. A later object may reuse an index with another generation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $key {
            index: u32,
            generation: u32,
        }

        impl $key {
            /// The first key with this index, for tests and tools that create their own keys.
            pub const fn first(index: u32) -> Self {
                $key { index, generation: 0 }
            }

            /// The key with this index and generation.
            pub const fn from_parts(index: u32, generation: u32) -> Self {
                $key { index, generation }
            }

            /// The index. Indices start at zero and are dense, so that tables can use them.
            pub const fn index(self) -> usize {
                self.index as usize
            }

            /// How many earlier objects had this index.
            pub const fn generation(self) -> u32 {
                self.generation
            }
        }

        impl Key for $key {
            fn new(index: u32, generation: u32) -> Self {
                $key { index, generation }
            }

            fn index(self) -> usize {
                self.index as usize
            }

            fn generation(self) -> u32 {
                self.generation
            }
        }
    };
}

key! {
    /// A channel of this relay: one connection to another relay or client.
    ChannelKey
}
key! {
    /// A client of this relay: one connection whose other end is not a relay, or all such connections from one address.
    ClientKey
}
key! {
    /// A circuit of this relay (both directions).
    CircuitIndex
}
key! {
    /// A set of linked circuits at one of its ends.
    ConfluxKey
}
key! {
    /// A stream at one of its ends: an exit's connection to a server, or a client's connection to its application.
    StreamKey
}

/// One direction of a circuit at this relay, with its queue of cells.
///
/// The key has no generation, because policies forget a circuit before another circuit reuses its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitKey(u32);

/// The direction in which cells of a circuit travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Away from the client, towards the exit (C tor: `n_chan`, outbound).
    Forward,
    /// Towards the client (C tor: `p_chan`, inbound). Downloads travel this way.
    Backward,
}

impl Direction {
    /// An array of both directions.
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
    /// The queue of this circuit's cells that travel in `direction`.
    pub fn key(self, direction: Direction) -> CircuitKey {
        CircuitKey(self.index << 1 | u32::from(direction == Direction::Backward))
    }
}

impl CircuitKey {
    /// The direction in which the queue's cells travel.
    pub fn direction(self) -> Direction {
        if self.0 & 1 == 1 { Direction::Backward } else { Direction::Forward }
    }

    /// The index of the queue's circuit.
    pub fn circuit(self) -> usize {
        self.0 as usize >> 1
    }

    /// The index. Indices start at zero and are dense, so that policies can use them in tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The key with this index, for tests and tools that create their own keys.
    pub fn from_index(index: u32) -> Self {
        CircuitKey(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_contains_its_circuit_and_direction() {
        for direction in Direction::BOTH {
            let key = CircuitIndex::from_parts(7, 3).key(direction);
            assert_eq!((key.circuit(), key.direction()), (7, direction));
        }
    }
}
