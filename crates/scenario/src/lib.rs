//! penstock-scenario

pub mod model;
