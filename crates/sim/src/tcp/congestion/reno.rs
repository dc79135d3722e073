//! Reno: the window grows by one segment in a round trip and is halved after a loss.

/// Above ssthresh, the number of acknowledged segments that increase a window of `cwnd` segments by one.
/// Source: RFC 5681 §3.1 eq. 3; Linux `tcp_reno_cong_avoid`.
pub(super) fn segments_per_increase(cwnd: u32) -> u32 {
    cwnd.max(1)
}

/// The window after a loss [segments]. Source: RFC 5681 §3.1 eq. 4. Linux `tcp_reno_ssthresh` passes cwnd, ns-3
/// `TcpNewReno::GetSsThresh` the data in flight.
pub(super) fn ssthresh(cwnd: u32) -> u32 {
    (cwnd / 2).max(2)
}

/// Above ssthresh, the bytes that an ACK adds to a window of `window` bytes; at least 1 [B].
/// Source: ns-3.44 `TcpNewReno::CongestionAvoidance`.
pub(super) fn bytes_per_ack(window: u64, mss: u32) -> u32 {
    let mss = u64::from(mss);
    (mss * mss / window.max(1)).clamp(1, mss) as u32
}
