//! The option `MaxMemInQueues`: the memory limit for all queues.

use super::TorrcError;
use super::reader::Reader;
use super::values::bytes;
use penstock_units::Bytes;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Lowest memory limit that the torrc may set [B].
const LEAST: u64 = 64 * MIB;
/// A memory limit below this value causes a warning [B].
const LITTLE: u64 = 256 * MIB;

/// The limit in the torrc, or the default for this machine.
/// Source: C tor `compute_real_max_mem_in_queues()`.
pub(super) fn limit(read: &mut Reader) -> Result<Bytes, TorrcError> {
    let said = read.placed("MaxMemInQueues", bytes)?.filter(|(limit, _)| *limit > 0);
    let Some((limit, place)) = said else { return Ok(Bytes::new(suitable(machine()))) };
    if limit < LEAST {
        read.warn(&place, "MaxMemInQueues", "a relay needs at least 64 MBytes, which apply now");
    } else if limit < LITTLE {
        read.warn(
            &place,
            "MaxMemInQueues",
            "this is a low limit; raise it if circuits are closed for memory",
        );
    }
    Ok(Bytes::new(limit.max(LEAST)))
}

/// The default limit for a machine with this memory [B].
fn suitable(machine: Option<u64>) -> u64 {
    let most = 8 * GIB;
    let share = |memory: u64| if memory >= most { memory / 5 * 2 } else { memory / 4 * 3 };
    machine.map_or(most, |memory| share(memory).clamp(LITTLE, most))
}

/// The memory of this machine [B].
/// Source: proc(5), `/proc/meminfo`.
fn machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_memory_limit_is_that_of_c_tor() {
        for (memory, limit) in [
            (Some(128 * MIB), 256 * MIB),
            (Some(4 * GIB), 3 * GIB),
            (Some(10 * GIB), 4 * GIB),
            (Some(64 * GIB), 8 * GIB),
            (None, 8 * GIB),
        ] {
            assert_eq!(suitable(memory), limit, "{memory:?}");
        }
        assert!(machine().is_some_and(|memory| memory > MIB));
    }
}
