//! Transcendental functions from one portable library.
//!
//! The standard library calls the platform's, whose last bits differ; a simulation that must
//! give the same bytes everywhere may not.

/// The angle whose sine is `x` [rad].
pub fn asin(x: f64) -> f64 {
    libm::asin(x)
}

/// The cosine of `x` [rad].
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}

/// The sine of `x` [rad].
pub fn sin(x: f64) -> f64 {
    libm::sin(x)
}

/// The cube root.
pub fn cbrt(x: f64) -> f64 {
    libm::cbrt(x)
}

/// e to the `x`.
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// 2 to the `x`.
pub fn exp2(x: f64) -> f64 {
    libm::exp2(x)
}

/// The natural logarithm.
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// The base-2 logarithm.
pub fn log2(x: f64) -> f64 {
    libm::log2(x)
}

/// `x` to the `y`.
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// The square root (exact in IEEE 754, kept here so that one door leads to all of them).
pub fn sqrt(x: f64) -> f64 {
    libm::sqrt(x)
}
