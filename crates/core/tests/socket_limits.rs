//! KIST's limits, compared with Linux's socket state before and after writes of known sizes.
//!
//! `penstock-testbed limits` recorded `docs/data/tcp/limits-linux-6.18.jsonl`. This program has its own code for
//! equation 1. Every 10 ms, it writes as many bytes as equation 1 permits. Every tenth write is twice as large.

use penstock_core::kernel::SocketInfo;
use penstock_core::scheduler::{socket_limit, window_limit};
use penstock_units::Bytes;
use serde_json::Value;

/// A write, and the kernel's socket state before and after it.
#[derive(Debug)]
struct Write {
    /// The link's rate in each direction [B/s].
    rate: u64,
    before: SocketInfo,
    /// The offered size, as a multiple of the recorder's limit [1].
    times: u64,
    /// The bytes that the kernel took [B].
    taken: u64,
    after: SocketInfo,
}

/// One of this many writes is twice as large.
const EXCESS: usize = 10;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

fn said(numbers: &Value) -> SocketInfo {
    let at = |index: usize| number(&numbers[index]);
    SocketInfo {
        capacity: Bytes::new(at(0)),
        queued: Bytes::new(at(1)),
        not_sent: Bytes::new(at(2)),
        cwnd: at(3) as u32,
        unacked: at(4) as u32,
        mss: at(5) as u32,
        ..SocketInfo::default()
    }
}

fn recorded() -> Vec<Write> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data/tcp/limits-linux-6.18.jsonl");
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut writes = Vec::new();
    for line in text.lines() {
        let run: Value = serde_json::from_str(line).expect("each line is a run");
        let rate = number(&run["rate_bytes_per_s"]);
        for (index, sample) in run["samples"].as_array().expect("a list").iter().enumerate() {
            writes.push(Write {
                rate,
                before: said(&sample[1]),
                times: if (index + 1) % EXCESS == 0 { 2 } else { 1 },
                taken: number(&sample[2]),
                after: said(&sample[3]),
            });
        }
    }
    writes
}

#[test]
fn the_socket_limit_equals_the_recorded_one() {
    let writes = recorded();
    assert_eq!(writes.len(), 460);
    let limit = |write: &Write| socket_limit(&write.before).get();
    // Linux counts its own overhead in the buffer, and may take less, or nothing; never more than was offered.
    let (whole, short): (Vec<&Write>, Vec<&Write>) =
        writes.iter().partition(|write| write.taken == write.times * limit(write));
    assert!(short.iter().all(|write| write.taken < write.times * limit(write)), "{short:?}");
    assert_eq!((whole.len(), short.len()), (452, 8));
    let something = |times| whole.iter().filter(|write| write.times == times && write.taken > 0).count();
    assert_eq!([1, 2].map(something), [197, 32]);
}

#[test]
fn bytes_within_the_socket_limit_leave_at_once() {
    let writes = recorded();
    let of_slow_link = writes.iter().filter(|write| write.rate == 1 << 20 && write.taken > 0);
    let (within, beyond): (Vec<&Write>, Vec<&Write>) =
        of_slow_link.partition(|write| write.taken <= socket_limit(&write.before).get());
    assert_eq!(within.len(), 95);
    for write in &within {
        assert_eq!(write.after.not_sent, write.before.not_sent, "{write:?}");
    }
    let stays = beyond.iter().filter(|write| write.after.not_sent > write.before.not_sent).count();
    assert_eq!((beyond.len(), stays), (19, 18), "the limit is no smaller than it could be");
}

/// A written byte reduces the limit, whether the byte is in flight or waits. The reduction is rounded up to a segment.
#[test]
fn deployed_kists_limit_falls_by_written_bytes() {
    let of = |info: &SocketInfo| window_limit(info, Bytes::ZERO, 1.0).get();
    let writes = recorded();
    let mut judged = 0;
    for write in &writes {
        let Write { before, after, taken, .. } = write;
        let limit = of(before);
        let outbuf = Bytes::new(10_000);
        assert_eq!(window_limit(before, outbuf, 1.0).get(), limit.saturating_sub(10_000));
        // No ACK in between, and no more under way than the window: a probe may be.
        let undisturbed = after.queued == before.queued + Bytes::new(*taken) && after.cwnd == before.cwnd;
        if *taken == 0 || !undisturbed || after.unacked > after.cwnd {
            continue;
        }
        judged += 1;
        let segment = u64::from(before.mss);
        assert!((*taken..taken + segment).contains(&(limit - of(after))), "{write:?}");
    }
    assert_eq!(judged, 224);
}

#[test]
fn numbers_that_contradict_each_other_allow_nothing() {
    let info = |capacity, queued, cwnd, unacked, mss| SocketInfo {
        capacity: Bytes::new(capacity),
        queued: Bytes::new(queued),
        cwnd,
        unacked,
        mss,
        ..SocketInfo::default()
    };
    let more_under_way_than_the_window = info(87_380, 17_376, 10, 12, 1448);
    let more_queued_than_the_buffer = info(16_384, 20_000, 10, 0, 1448);
    let no_segment = info(87_380, 0, 10, 0, 0);
    for info in [more_under_way_than_the_window, more_queued_than_the_buffer, no_segment] {
        assert_eq!(socket_limit(&info), Bytes::ZERO, "{info:?}");
    }
    // C tor's limit ignores the buffer, and allows another window behind the one in flight.
    let limit = |info| window_limit(&info, Bytes::ZERO, 1.0).get();
    assert_eq!(limit(more_under_way_than_the_window), 14_480);
    assert_eq!(limit(more_queued_than_the_buffer), 28_960);
    assert_eq!(limit(no_segment), 0);
    let unsent = SocketInfo { not_sent: Bytes::new(40_000), ..info(87_380, 40_000, 10, 0, 1448) };
    assert_eq!(limit(unsent), 0, "more waits unsent than is allowed");
}
