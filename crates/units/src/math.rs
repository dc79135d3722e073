//! Transcendental functions from one portable library.
//!
//! The standard library uses the platform's functions, whose last bits differ. A simulation must give the same bytes on
//! all platforms.

/// The arcsine of `x` [rad].
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

/// The exponential function, e^x.
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// 2^x.
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

/// x^y.
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// The square root. IEEE 754 defines it exactly.
pub fn sqrt(x: f64) -> f64 {
    libm::sqrt(x)
}

/// The probability that a standard normal variable is below `x`, from 0 to 1.
///
/// Source: Abramowitz and Stegun, 7.1.2 and 26.2.29: Φ(x) = erfc(-x / √2) / 2.
pub fn normal_below(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The normal distribution matches table 26.1 of Abramowitz and Stegun.
    #[test]
    fn the_normal_distribution_matches_the_tables() {
        for (x, below) in [
            (0.0, 0.5),
            (0.5, 0.691_462_461_274_013),
            (1.0, 0.841_344_746_068_543),
            (2.0, 0.977_249_868_051_821),
            (3.0, 0.998_650_101_968_370),
        ] {
            assert!((normal_below(x) - below).abs() < 1e-15, "{x}: {}", normal_below(x));
            assert!((normal_below(-x) - (1.0 - below)).abs() < 1e-15, "{x}: {}", normal_below(-x));
        }
        assert_eq!([f64::NEG_INFINITY, f64::INFINITY].map(normal_below), [0.0, 1.0]);
    }
}
