//! A whole path in a test.
