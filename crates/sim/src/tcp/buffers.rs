use super::config::{Buffer, Kernel, TcpConfig};
use penstock_units::{Duration, Instant, time::nanos};

/// The payload capacity of a new connection's send buffer [B].
/// Source: Linux `tcp_fixup_sndbuf` (3.2), `tcp_init_buffer_space`.
pub(super) fn initial_send_capacity(cfg: &TcpConfig) -> u64 {
    match cfg.send_buffer {
        Buffer::Auto { initial, .. } => payload_of(cfg, initial),
        Buffer::Fixed(bytes) => bytes,
    }
}

/// The payload capacity to which a send buffer grows [B]. Its capacity was `current` bytes, and the window is `cwnd`
/// segments.
///
/// The target is memory for two windows, computed with the kernel's estimate of the overhead per segment. The real
/// overhead is smaller, so about three windows of payload fit. The capacity never shrinks, and `tcp_wmem[2]` is the
/// maximum. Source: Linux `tcp_new_space` (3.2), `tcp_sndbuf_expand`.
pub(super) fn grown_send_capacity(cfg: &TcpConfig, current: u64, cwnd: u32, reordering: u32) -> u64 {
    match cfg.send_buffer {
        Buffer::Auto { max, .. } => {
            let demanded = u64::from(cwnd.max(reordering + 1));
            let memory = 2 * demanded * u64::from(cfg.mss + cfg.send_reckoning);
            current.max(payload_of(cfg, memory.min(max)))
        }
        Buffer::Fixed(_) => current,
    }
}

/// The payload that fits into `memory` bytes of a send buffer [B].
///
/// Deviation: the kernel counts the memory of each packet (`sk_wmem_queued`), which depends on the sizes of writes.
/// Penstock uses a fixed ratio.
fn payload_of(cfg: &TcpConfig, memory: u64) -> u64 {
    memory * u64::from(cfg.mss) / u64::from(cfg.mss + cfg.send_charge)
}

/// Whether `poll()` reports a socket as writable. Its send buffer holds `queued` of `capacity` bytes.
/// Source: Linux `sk_stream_is_writeable`: the free space is at least half of the queued bytes.
pub(super) fn is_writable(cfg: &TcpConfig, queued: u64, capacity: u64) -> bool {
    let enough = cfg.writable_with_any_space || capacity.saturating_sub(queued) >= queued.div_ceil(2);
    enough && queued < capacity
}

/// The part of a receive buffer's memory that TCP offers as window [B]. Source: Linux `tcp_win_from_space`.
fn window_of(cfg: &TcpConfig, memory: u64) -> u64 {
    memory - (memory >> cfg.adv_win_scale)
}

/// Automatic tuning of the receive buffer (dynamic right-sizing).
///
/// After each round trip, the window becomes twice the data that the application read in this round trip. Linux 6.x
/// increases the window further.
/// Source: Linux `tcp_rcv_space_adjust`, `tcp_rcv_rtt_update`; Fisk and Feng 2001.
/// Deviation: the ratio of window to memory depends only on `tcp_adv_win_scale`, not on truesize.
#[derive(Clone, Debug, Default)]
pub(super) struct RightSizing {
    /// The payload that the buffer offers as window [B].
    window: u64,
    /// The largest target of the window so far [B].
    space: u64,
    /// The read position at the start of the current round trip [B].
    seq: u64,
    since: Instant,
    /// The receiver's smoothed round trip [ns]; 0 before the first sample.
    rtt: u64,
}

impl RightSizing {
    pub(super) fn new(cfg: &TcpConfig, now: Instant) -> Self {
        let window = match cfg.receive_buffer {
            Buffer::Auto { initial, .. } => window_of(cfg, initial),
            Buffer::Fixed(bytes) => bytes,
        };
        let first = u64::from(cfg.initial_receive_window) * u64::from(cfg.mss);
        RightSizing { window, space: first.min(window), since: now, ..RightSizing::default() }
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Adds a round-trip sample from a full segment that echoed a timestamp of this endpoint.
    pub(super) fn on_rtt(&mut self, sample: Duration) {
        let sample = nanos(sample).max(1);
        if self.rtt == 0 {
            self.rtt = sample;
        } else if sample < self.rtt {
            self.rtt -= (self.rtt - sample) / 8;
        } else {
            self.rtt += (sample - self.rtt) / 8;
        }
    }

    /// Handles a read by the application. `copied` is the stream position after the read [B].
    pub(super) fn on_read(&mut self, cfg: &TcpConfig, now: Instant, copied: u64) {
        if self.rtt == 0 || nanos(now.since(self.since)) < self.rtt {
            return;
        }
        let read = copied - self.seq;
        let linux_6 = cfg.kernel == Kernel::Linux6;
        let space = if linux_6 { read } else { 2 * read };
        if space > self.space {
            let wanted = if linux_6 { self.wanted_by_6(cfg, read) } else { space };
            self.space = space;
            if let Buffer::Auto { max, .. } = cfg.receive_buffer {
                self.window = self.window.max(wanted.min(window_of(cfg, max)));
            }
        }
        self.seq = copied;
        self.since = now;
    }

    /// The target window [B]: twice the data of this round trip, plus sixteen segments, plus the growth of the reading
    /// rate (Linux 4.10 to 6.12 `tcp_rcv_space_adjust`).
    fn wanted_by_6(&self, cfg: &TcpConfig, read: u64) -> u64 {
        let window = 2 * read + 16 * u64::from(cfg.mss);
        let grew = u128::from(window) * u128::from(read - self.space) / u128::from(self.space.max(1));
        window.saturating_add(2 * u64::try_from(grew).unwrap_or(u64::MAX / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_socket_is_writable_again_at_two_thirds() {
        let linux = TcpConfig::linux_3_2();
        assert!(is_writable(&linux, 0, 30_000));
        assert!(is_writable(&linux, 20_000, 30_000));
        assert!(!is_writable(&linux, 20_001, 30_000));
        assert!(!is_writable(&linux, 0, 0));
    }

    #[test]
    fn any_free_space_makes_a_socket_of_a_simulator_writable() {
        for cfg in [TcpConfig::ns3(), TcpConfig::shadow_1_9_sockets()] {
            assert!(is_writable(&cfg, 29_999, 30_000));
            assert!(!is_writable(&cfg, 30_000, 30_000));
            assert_eq!(window_of(&cfg, 30_000), 30_000);
        }
    }

    #[test]
    fn the_send_buffer_holds_three_windows_of_payload_between_its_bounds() {
        let cfg = TcpConfig::default();
        let initial = initial_send_capacity(&cfg);
        // The estimate is 2340 B for each segment, which takes 1593 B.
        assert_eq!(initial, 23_400 * 1448 / 1593);
        assert_eq!(grown_send_capacity(&cfg, initial, 2, 3), initial);
        assert_eq!(grown_send_capacity(&cfg, initial, 100, 3), 200 * 2340 * 1448 / 1593);
        assert_eq!(grown_send_capacity(&cfg, initial, 5, 99), 200 * 2340 * 1448 / 1593);
        assert_eq!(grown_send_capacity(&cfg, initial, 1 << 20, 3), (4 << 20) * 1448 / 1593);
    }

    #[test]
    fn reading_a_window_each_round_trip_doubles_the_window() {
        let cfg = TcpConfig::default();
        let mut drs = RightSizing::new(&cfg, Instant::ZERO);
        assert_eq!(drs.window(), 65_535);
        drs.on_rtt(Duration::from_millis(100));
        drs.on_read(&cfg, Instant::from_millis(50), 40_000);
        assert_eq!(drs.window(), 65_535);
        drs.on_read(&cfg, Instant::from_millis(101), 60_000);
        assert_eq!(drs.window(), 120_000);
        drs.on_read(&cfg, Instant::from_millis(202), 100_000_000);
        assert_eq!(drs.window(), 3_145_728);
    }

    #[test]
    fn linux_6_grows_the_window_by_three_times_the_growth_of_the_reads() {
        let cfg = TcpConfig::linux_6();
        let mut drs = RightSizing::new(&cfg, Instant::ZERO);
        assert_eq!((drs.window(), drs.space), (65_536, 63_712));
        drs.on_rtt(Duration::from_millis(100));
        drs.on_read(&cfg, Instant::from_millis(101), 63_000);
        assert_eq!(drs.window(), 65_536);
        drs.on_read(&cfg, Instant::from_millis(202), 63_000 + 127_424);
        assert_eq!(drs.window(), 3 * (2 * 127_424 + 16 * 1448));
        drs.on_read(&cfg, Instant::from_millis(303), 1 << 40);
        assert_eq!(drs.window(), 3 << 20);
    }

    proptest! {
        #[test]
        fn a_tuned_send_buffer_never_shrinks(windows in prop::collection::vec(1u32..5000, 1..50)) {
            let cfg = TcpConfig::default();
            let mut capacity = initial_send_capacity(&cfg);
            for cwnd in windows {
                let grown = grown_send_capacity(&cfg, capacity, cwnd, 3);
                prop_assert!(grown >= capacity && grown <= 4 << 20);
                capacity = grown;
            }
        }
    }
}
