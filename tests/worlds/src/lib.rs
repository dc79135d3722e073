//! One path test over two worlds.
