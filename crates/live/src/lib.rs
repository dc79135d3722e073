//! The parts of a Tor relay that need no socket.
