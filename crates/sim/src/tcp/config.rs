//! What a host's TCP is set to; shared by all its connections.

use super::congestion::Congestion;
use penstock_units::Duration;

/// How data reach the network interface, as far as the tuning of the send buffer depends on it.
///
/// A buffer that fills the congestion window is large enough, so the kernel must see the window
/// unfilled after it has sent. It does if the data ran out, and beside that:
///
/// Deviation: only the tuning knows of it. Segments leave one by one and are never held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Never: every segment goes by itself (no GSO).
    None,
    /// While a part of the window is held back to send more at once: on any ACK in the state Open
    /// (Linux 3.2 `tcp_tso_should_defer`).
    Deferred,
    /// Between the parts that an ACK lets out, unless a single one fills the window as in slow start
    /// (Linux ≥ 5.18 `tcp_event_new_data_sent`; measured on 6.18).
    Parts,
}

/// How large a socket buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// The kernel tunes it: it starts at `initial` [B], grows up to `max` [B] and never shrinks.
    ///
    /// Both count kernel memory. For sending, [`TcpConfig::send_charge`] tells how much of it a
    /// segment takes; for receiving, [`TcpConfig::adv_win_scale`] sets a part aside.
    Auto {
        /// The size once the connection is there [B].
        initial: u64,
        /// The largest size [B].
        max: u64,
    },
    /// The application set it (SO_SNDBUF, SO_RCVBUF): so many bytes of payload [B], for ever.
    Fixed(u64),
}

/// The sysctls and constants of a host's TCP.
///
/// The default is Linux 3.2 with CUBIC, the kernel of the papers' experiments.
///
/// Source: Linux 3.2 `net/ipv4/sysctl_net_ipv4.c`, `include/net/tcp.h`.
/// Deviation: HyStart, which 3.2 has on, is not modelled.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Payload of a full segment [B].
    pub mss: u32,
    /// Congestion window of a new connection, and after idleness [segments] (RFC 6928).
    pub initial_cwnd: u32,
    /// Slow start ends here [segments]; `u32::MAX` is infinite.
    pub initial_ssthresh: u32,
    /// Which algorithm governs the congestion window.
    pub congestion: Congestion,
    /// Count acknowledged segments rather than ACKs when the window grows (RFC 3465; Linux ≥ 3.10).
    ///
    /// Without it, delayed ACKs halve Reno's growth; CUBIC corrects for them by itself above
    /// ssthresh.
    pub byte_counting: bool,
    /// The send buffer.
    pub send_buffer: Buffer,
    /// What the tuning of the send buffer reckons for a full segment beyond its payload [B]
    /// (`SKB_TRUESIZE` in `tcp_new_space`).
    pub send_reckoning: u32,
    /// What a full segment in the send buffer really takes beyond its payload [B].
    pub send_charge: u32,
    /// How data reach the network interface.
    pub offload: Offload,
    /// The receive buffer.
    pub receive_buffer: Buffer,
    /// Of the receive buffer's memory, 1 part in 2^this is not offered as window (`tcp_adv_win_scale`).
    pub adv_win_scale: u8,
    /// The window offered at first [segments] (`TCP_DEFAULT_INIT_RCVWND`).
    pub initial_receive_window: u32,
    /// The least that is added to the round trip for the RTO (`TCP_RTO_MIN`).
    pub min_rto: Duration,
    /// The RTO before the first sample, and of the first SYN (`TCP_TIMEOUT_INIT`).
    pub initial_rto: Duration,
    /// No RTO and no probe interval exceeds this (`TCP_RTO_MAX`).
    pub max_rto: Duration,
    /// The shortest wait of a delayed ACK (`TCP_ATO_MIN`).
    pub delayed_ack: Duration,
    /// The longest wait of a delayed ACK (`TCP_DELACK_MAX`).
    pub max_delayed_ack: Duration,
    /// How many ACKs are sent at once when data start to arrive (`TCP_MAX_QUICKACKS`).
    pub quick_acks: u8,
    /// Duplicate ACKs or segments SACKed above a hole until it counts as lost (`tcp_reordering`).
    pub reordering: u32,
    /// Forward acknowledgement: everything far enough below the highest SACK is lost (`tcp_fack`).
    pub fack: bool,
    /// Shrink the window of an idle or application-limited flow (`tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Hold a small segment back while anything is unacknowledged (no TCP_NODELAY).
    pub nagle: bool,
    /// How often a SYN or SYN-ACK is repeated before giving up (`tcp_syn_retries`).
    pub syn_retries: u8,
    /// How many RTOs in a row end the connection (`tcp_retries2`).
    pub retries: u8,
}

impl TcpConfig {
    /// What a full segment weighs on the wire [B].
    pub fn full_segment(&self) -> u64 {
        u64::from(self.mss + super::HEADER_BYTES)
    }
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig {
            mss: 1448,
            initial_cwnd: 10,
            initial_ssthresh: u32::MAX,
            congestion: Congestion::Cubic,
            byte_counting: false,
            // tcp_fixup_sndbuf: ten segments as tcp_new_space reckons them, each 1460 B, headers of
            // 304 B at most (MAX_TCP_HEADER), sk_buff 256 B and skb_shared_info 320 B.
            send_buffer: Buffer::Auto { initial: 23_400, max: 4 << 20 },
            send_reckoning: 892,
            // Page fragments, shared by several segments: 4 to 17 % in 6.18, whose skbs are alike.
            send_charge: 145,
            offload: Offload::Deferred,
            receive_buffer: Buffer::Auto { initial: 87_380, max: 6 << 20 },
            adv_win_scale: 2,
            initial_receive_window: 10,
            min_rto: Duration::from_millis(200),
            initial_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(120),
            delayed_ack: Duration::from_millis(40),
            max_delayed_ack: Duration::from_millis(200),
            quick_acks: 16,
            reordering: 3,
            fack: true,
            slow_start_after_idle: true,
            nagle: false,
            syn_retries: 5,
            retries: 15,
        }
    }
}
