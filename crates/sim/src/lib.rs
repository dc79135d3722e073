//! penstock-sim
