/// A received count minus `count`; negative if the received count is behind. `wire` has the lower 32 bits of the
/// received count (RFC 1982).
pub(crate) fn ahead(wire: u32, count: u64) -> i64 {
    i64::from(wire.wrapping_sub(count as u32).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_all_numbers_are_ahead_of_any_count() {
        for count in [0, 7, u64::from(u32::MAX), 1 << 40] {
            for distance in [-(1i64 << 31), -1, 0, 1, (1 << 31) - 1] {
                assert_eq!(ahead(count.wrapping_add_signed(distance) as u32, count), distance);
            }
        }
    }
}
