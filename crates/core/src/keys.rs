//! Dense keys of what one relay holds. Policies and schedulers see nothing else.

/// A channel of this relay: one connection to another relay or client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelKey(pub u32);

/// A client of this relay: one connection whose other end is no relay, or all of one address.
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

/// Where cells of a circuit travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Away from the client, towards the exit (C tor: `n_chan`, outbound).
    Forward,
    /// Towards the client (C tor: `p_chan`, inbound). Downloads travel this way.
    Backward,
}

impl Direction {
    /// The other one.
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
    /// Which way the cells of this queue travel.
    pub fn direction(self) -> Direction {
        if self.0 & 1 == 1 { Direction::Backward } else { Direction::Forward }
    }

    /// The circuit this queue belongs to.
    pub fn circuit(self) -> CircuitIndex {
        CircuitIndex(self.0 >> 1)
    }

    /// Consecutive from zero as circuits are, so that a policy may index by it.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The key with this index (for tests and tools that make keys of their own).
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
