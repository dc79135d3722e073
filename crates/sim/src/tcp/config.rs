//! What a host's TCP is set to; shared by all its connections.

use penstock_units::Duration;

/// Whose TCP it is, where the kernels differ in details that nobody sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Linux 3.2 of January 2012.
    Linux3_2,
    /// Linux 6.x.
    Linux6,
    /// The simulator ns-3, release 3.44.
    Ns3,
}

/// What makes a segment count as lost before the retransmission timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// Forward acknowledgement: it is far enough below the highest SACK (Linux 3.2 `tcp_fack`).
    Fack,
    /// Enough segments above it are SACKed (RFC 6675).
    Sack,
    /// One sent later has arrived, and some time passed; a probe finds a lost tail (RFC 8985).
    Rack,
}

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 5681, like `tcp_cong.c`.
    Reno,
    /// RFC 9438 (C = 0.4, β = 0.7), like `tcp_cubic.c`.
    Cubic,
}

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
/// The default is [`TcpConfig::linux_3_2`] with CUBIC, the kernel of the papers' experiments.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Whose details.
    pub kernel: Kernel,
    /// Payload of a full segment [B].
    pub mss: u32,
    /// Congestion window of a new connection, and after idleness [segments] (RFC 6928).
    pub initial_cwnd: u32,
    /// Slow start ends here [segments]; `u32::MAX` is infinite.
    pub initial_ssthresh: u32,
    /// Which algorithm governs the congestion window.
    pub congestion: Congestion,
    /// Leave slow start when the round trip grows or ACKs come in a long train (CUBIC only).
    pub hystart: bool,
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
    /// What makes a segment count as lost.
    pub loss_detection: LossDetection,
    /// Undo a reduction that a timestamp shows to be spurious (RFC 3522).
    pub undo: bool,
    /// Hold data back while much of this socket waits at the interface (TCP small queues).
    ///
    /// It needs [`Endpoint::on_departure`](super::Endpoint::on_departure).
    pub small_queues: bool,
    /// Shrink the window of an idle or application-limited flow (`tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Hold a small segment back while another small one is unacknowledged (no TCP_NODELAY).
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

impl TcpConfig {
    /// Linux 3.2: FACK, proportional rate reduction (new in it), HyStart.
    ///
    /// Source: Linux 3.2 `tcp_init`, `net/ipv4/sysctl_net_ipv4.c`, `include/net/tcp.h`.
    pub fn linux_3_2() -> Self {
        TcpConfig {
            kernel: Kernel::Linux3_2,
            mss: 1448,
            initial_cwnd: 10,
            initial_ssthresh: u32::MAX,
            congestion: Congestion::Cubic,
            hystart: true,
            byte_counting: false,
            // tcp_fixup_sndbuf: ten segments as tcp_new_space reckons them, each 1460 B, headers of
            // 304 B at most (MAX_TCP_HEADER), sk_buff 256 B and skb_shared_info 320 B.
            send_buffer: Buffer::Auto { initial: 23_400, max: 4 << 20 },
            send_reckoning: 892,
            // Page fragments, shared by several segments: 4 to 17 % in 6.18, whose skbs are alike.
            send_charge: 145,
            offload: Offload::Deferred,
            // 6 MiB with half of it for the window came in 3.4.
            receive_buffer: Buffer::Auto { initial: 87_380, max: 4 << 20 },
            adv_win_scale: 2,
            initial_receive_window: 10,
            min_rto: Duration::from_millis(200),
            initial_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(120),
            delayed_ack: Duration::from_millis(40),
            max_delayed_ack: Duration::from_millis(200),
            quick_acks: 16,
            reordering: 3,
            loss_detection: LossDetection::Fack,
            undo: true,
            small_queues: false,
            slow_start_after_idle: true,
            nagle: false,
            syn_retries: 5,
            retries: 15,
        }
    }

    /// Linux 6.x: RACK and tail loss probes, byte counting, small queues.
    ///
    /// Source: Linux 6.12 `tcp_init`, `tcp_sk_init`; the send buffer as measured on 6.18.
    pub fn linux_6() -> Self {
        TcpConfig {
            kernel: Kernel::Linux6,
            byte_counting: true,
            // tcp_sndbuf_expand: two windows of ten segments at 2304 B each, of which the payload and
            // all headers take 2048 B, rounded up to a power of two, and sk_buff 256 B.
            send_buffer: Buffer::Auto { initial: 46_080, max: 4 << 20 },
            send_reckoning: 856,
            offload: Offload::Parts,
            receive_buffer: Buffer::Auto { initial: 131_072, max: 6 << 20 },
            adv_win_scale: 1,
            initial_receive_window: 44,
            loss_detection: LossDetection::Rack,
            small_queues: true,
            syn_retries: 6,
            ..TcpConfig::linux_3_2()
        }
    }

    /// ns-3's `TcpSocketBase` with its default attributes, but segments of 1448 B.
    ///
    /// Source: attributes of ns-3.44. Its buffers are fixed at 128 KiB.
    pub fn ns3() -> Self {
        TcpConfig {
            kernel: Kernel::Ns3,
            byte_counting: true,
            send_buffer: Buffer::Fixed(131_072),
            send_reckoning: 0,
            send_charge: 0,
            offload: Offload::None,
            receive_buffer: Buffer::Fixed(131_072),
            adv_win_scale: 0,
            initial_receive_window: 91,
            min_rto: Duration::from_secs(1),
            initial_rto: Duration::from_secs(3),
            max_rto: Duration::from_secs(60),
            delayed_ack: Duration::from_millis(200),
            quick_acks: 1,
            loss_detection: LossDetection::Sack,
            undo: false,
            slow_start_after_idle: false,
            syn_retries: 6,
            retries: 6,
            ..TcpConfig::linux_3_2()
        }
    }
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig::linux_3_2()
    }
}
