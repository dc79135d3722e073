//! Amounts of data.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

macro_rules! amount {
    ($(#[$doc:meta])* $name:ident, $unit:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// Zero.
            pub const ZERO: $name = $name(0);

            #[doc = concat!("This many [", $unit, "].")]
            pub const fn new(amount: u64) -> Self {
                $name(amount)
            }

            #[doc = concat!("The number of [", $unit, "].")]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The difference, or zero if `other` is larger than `self`.
            pub const fn saturating_sub(self, other: Self) -> Self {
                $name(self.0.saturating_sub(other.0))
            }
        }

        impl Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                $name(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = $name;
            fn sub(self, other: $name) -> $name {
                $name(self.0 - other.0)
            }
        }

        impl SubAssign for $name {
            fn sub_assign(&mut self, other: $name) {
                self.0 -= other.0;
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = $name>>(iter: I) -> $name {
                $name(iter.map(|amount| amount.0).sum())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{} ", $unit), self.0)
            }
        }
    };
}

amount!(
    /// A number of bytes [B]. `KiB` is 1024 B, `kB` is 1000 B.
    Bytes,
    "B"
);
amount!(
    /// A number of Tor cells, regardless of their size [cell].
    Cells,
    "cell"
);

impl Bytes {
    /// `amount` times 1024 bytes [KiB].
    pub const fn kib(amount: u64) -> Self {
        Bytes(amount * 1024)
    }

    /// `amount` times 1024² bytes [MiB].
    pub const fn mib(amount: u64) -> Self {
        Bytes(amount * 1024 * 1024)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::parse::show_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kib_and_mib_are_binary() {
        assert_eq!(Bytes::kib(50).get(), 51_200);
        assert_eq!(Bytes::mib(5).get(), 5_242_880);
        assert_eq!([Bytes::new(1), Bytes::new(2)].into_iter().sum::<Bytes>(), Bytes::new(3));
    }
}
