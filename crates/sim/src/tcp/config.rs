//! The TCP configuration of a host. All connections of the host share it.

use penstock_units::Duration;

/// The modelled TCP implementation. It decides all behaviour that no other setting decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Linux 3.2 of January 2012.
    Linux3_2,
    /// Linux 6.x.
    Linux6,
    /// The simulator ns-3, release 3.44.
    Ns3,
    /// The simulator Shadow, release 1.9.0 of March 2014.
    Shadow,
}

/// The rule by which TCP counts a segment as lost before the retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// A segment is lost if the highest SACKed segment is `reordering` or more segments above it (forward
    /// acknowledgement, Linux 3.2 `tcp_fack`).
    Fack,
    /// A segment is lost if `reordering` or more segments above it are SACKed (RFC 6675).
    Sack,
    /// A segment is lost if a segment that was sent later has arrived and the reordering window has passed. A probe
    /// detects a lost tail (RFC 8985).
    Rack,
}

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 5681, like `tcp_cong.c`.
    Reno,
    /// Reno as ns-3's default of earlier releases. The window grows once for each ACK, used or not, and after a loss it
    /// is half of the data in flight (RFC 6582, ns-3 `TcpNewReno`).
    NewReno,
    /// RFC 9438 (C = 0.4, β = 0.7), like `tcp_cubic.c`.
    Cubic,
}

/// The order in which an interface serves the sockets of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceOrder {
    /// The order in which segments reach the interface's queue.
    Arrival,
    /// One segment of each socket in turn. With [`TcpConfig::small_queues`], a socket then has only one segment in the
    /// interface's queue.
    Turns,
    /// Segments without new data first, and then the data that were written first. Segments wait in their sockets.
    OldestWrite,
}

/// How data reach the network interface. Only the tuning of the send buffer depends on this.
///
/// The kernel grows a send buffer only if the congestion window looks unfilled after sending. In every variant, the
/// window looks unfilled when the data run out. A variant may add another case.
///
/// Deviation: segments always leave one by one and are never held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// The congestion window looks unfilled only when the data run out. TCP sends each segment separately (no GSO).
    None,
    /// On any ACK in the state Open, the window looks unfilled, because TCP holds back data for a larger segment (Linux
    /// 3.2 `tcp_tso_should_defer`).
    Deferred,
    /// The window looks unfilled between the bursts that TCP sends after an ACK. In slow start it looks full, because
    /// the first burst alone fills it (Linux ≥ 5.18 `tcp_event_new_data_sent`; measured on 6.18).
    Parts,
}

/// The size of a socket buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// The kernel tunes the size: it starts at `initial` [B], grows up to `max` [B] and never shrinks.
    ///
    /// Both sizes count kernel memory. [`TcpConfig::send_charge`] converts memory to payload for sending,
    /// [`TcpConfig::adv_win_scale`] for receiving.
    Auto {
        /// The size of a new connection's buffer [B].
        initial: u64,
        /// The largest size [B].
        max: u64,
    },
    /// The application sets the size with SO_SNDBUF or SO_RCVBUF: a fixed number of payload bytes [B].
    Fixed(u64),
}

/// The sysctls and constants of a host's TCP. The default is [`TcpConfig::linux_3_2`] with CUBIC, because the
/// reproduced papers used this kernel.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// The TCP implementation.
    pub kernel: Kernel,
    /// Payload of a full segment [B].
    pub mss: u32,
    /// Congestion window of a new connection and after idle time [segments] (RFC 6928).
    pub initial_cwnd: u32,
    /// Initial slow-start threshold [segments]; `u32::MAX` is infinite.
    pub initial_ssthresh: u32,
    /// The congestion control algorithm.
    pub congestion: Congestion,
    /// Whether slow start ends when the round trip grows or when ACKs arrive in a long train (only CUBIC).
    pub hystart: bool,
    /// Whether the window grows by the number of acknowledged segments instead of ACKs (RFC 3465; Linux ≥ 3.10).
    ///
    /// Without byte counting, delayed ACKs halve Reno's growth. Above ssthresh, CUBIC compensates for delayed ACKs
    /// itself.
    pub byte_counting: bool,
    /// Whether the window also grows while it does not limit the flow.
    pub grows_unused: bool,
    /// The send buffer.
    pub send_buffer: Buffer,
    /// The overhead of a full segment that the tuning of the send buffer assumes [B] (`SKB_TRUESIZE` in
    /// `tcp_new_space`).
    pub send_reckoning: u32,
    /// The actual overhead of a full segment in the send buffer [B].
    pub send_charge: u32,
    /// How data reach the network interface.
    pub offload: Offload,
    /// The receive buffer.
    pub receive_buffer: Buffer,
    /// TCP reserves the fraction 1/2^`adv_win_scale` of the receive buffer's memory and offers the rest as window
    /// (`tcp_adv_win_scale`); [`TcpConfig::NO_RESERVE`] offers all of it.
    pub adv_win_scale: u8,
    /// Whether `poll()` reports a socket as writable with any free space. Linux requires a third of the buffer.
    pub writable_with_any_space: bool,
    /// Whether TCP_INFO counts written bytes as unacknowledged even if they were not sent.
    pub info_counts_unsent: bool,
    /// Whether each write starts a new segment, so that segments of small writes stay small. Congestion windows count
    /// segments.
    ///
    /// Source: Shadow 1.9.0 `shd-tcp.c` (`tcp_sendUserData`).
    /// Deviation: receive windows and the limit of KIST's equation 1 count bytes; Shadow's receive windows count packets.
    pub segment_per_write: bool,
    /// The initial receive window [segments] (`TCP_DEFAULT_INIT_RCVWND`).
    pub initial_receive_window: u32,
    /// The minimum difference between the RTO and the smoothed round trip (`TCP_RTO_MIN`).
    pub min_rto: Duration,
    /// The RTO before the first round-trip sample, and for the first SYN (`TCP_TIMEOUT_INIT`).
    pub initial_rto: Duration,
    /// Maximum RTO and probe interval (`TCP_RTO_MAX`).
    pub max_rto: Duration,
    /// Minimum delay of a delayed ACK (`TCP_ATO_MIN`).
    pub delayed_ack: Duration,
    /// Maximum delay of a delayed ACK (`TCP_DELACK_MAX`).
    pub max_delayed_ack: Duration,
    /// The number of ACKs that the receiver sends immediately when data start to arrive (`TCP_MAX_QUICKACKS`).
    pub quick_acks: u8,
    /// A hole counts as lost after this many duplicate ACKs, or SACKed segments above the hole (`tcp_reordering`).
    pub reordering: u32,
    /// The rule by which TCP detects losses.
    pub loss_detection: LossDetection,
    /// Whether TCP undoes a window reduction after a timestamp shows that the reduction was spurious (RFC 3522).
    pub undo: bool,
    /// Whether a socket delays new data while much of its earlier data is in the interface's queue (TCP small queues).
    /// This requires calls of [`Endpoint::on_departure`](super::Endpoint::on_departure).
    pub small_queues: bool,
    /// The order in which the interface serves the sockets of a host.
    pub interface_order: InterfaceOrder,
    /// Whether the window of an idle or application-limited flow shrinks (`tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// Whether TCP delays a small segment while another small segment is unacknowledged (no TCP_NODELAY).
    pub nagle: bool,
    /// The fraction of lost segments that the simulator reports to their senders; 0 in a real network.
    pub drop_notices: f64,
    /// The number of SYN or SYN-ACK retransmissions before the connection fails (`tcp_syn_retries`).
    pub syn_retries: u8,
    /// The number of consecutive RTOs that end the connection (`tcp_retries2`).
    pub retries: u8,
}

impl TcpConfig {
    /// An [`adv_win_scale`](Self::adv_win_scale) beyond the size of any buffer.
    pub const NO_RESERVE: u8 = 63;

    /// Size of a full segment on the wire [B].
    pub fn full_segment(&self) -> u64 {
        u64::from(self.mss + super::HEADER_BYTES)
    }

    /// Whether segments wait in their sockets until the interface takes them.
    pub fn sockets_wait(&self) -> bool {
        self.interface_order == InterfaceOrder::OldestWrite
    }

    /// Whether a socket takes a part of a TLS record, up to its free space. Otherwise it takes whole cells.
    ///
    /// Source: Shadow 1.9.0 `tcp_sendUserData`.
    /// Deviation: interfaces with another order keep whole cells, so that earlier results stay valid.
    pub fn takes_parts(&self) -> bool {
        self.interface_order == InterfaceOrder::OldestWrite
    }

    /// Whether a relay runs once after all packets of a received batch. Otherwise it runs after each packet.
    ///
    /// Source: Shadow 1.9.0 `_networkinterface_scheduleNextReceive`, and `_epoll_trySchedule`, which notifies the relay once,
    /// after the batch.
    /// Deviation: with another order, relays run after each packet, so that earlier results stay valid.
    pub fn runs_after_batch(&self) -> bool {
        self.interface_order == InterfaceOrder::OldestWrite
    }
}

impl TcpConfig {
    /// Linux 3.2: FACK, proportional rate reduction (introduced in 3.2), HyStart.
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
            grows_unused: false,
            // tcp_fixup_sndbuf: ten segments, as tcp_new_space estimates their memory. Each has 1460 B, at most 304 B
            // of headers (MAX_TCP_HEADER), 256 B of sk_buff and 320 B of skb_shared_info.
            send_buffer: Buffer::Auto { initial: 23_400, max: 4 << 20 },
            send_reckoning: 892,
            // Several segments share a page fragment. In Linux 6.18, which has similar skbs, the overhead is 4 to 17 %.
            send_charge: 145,
            offload: Offload::Deferred,
            // Linux 3.4 introduced 6 MiB, half of which is the window.
            receive_buffer: Buffer::Auto { initial: 87_380, max: 4 << 20 },
            adv_win_scale: 2,
            writable_with_any_space: false,
            info_counts_unsent: false,
            segment_per_write: false,
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
            interface_order: InterfaceOrder::Arrival,
            slow_start_after_idle: true,
            nagle: false,
            drop_notices: 0.0,
            syn_retries: 5,
            retries: 15,
        }
    }

    /// Linux 6.x: RACK and tail loss probes, byte counting, small queues.
    ///
    /// Source: Linux 6.12 `tcp_init`, `tcp_sk_init`; the send buffer is measured on 6.18.
    pub fn linux_6() -> Self {
        TcpConfig {
            kernel: Kernel::Linux6,
            byte_counting: true,
            // tcp_sndbuf_expand: two windows of ten segments of 2304 B. Payload and headers take 2048 B (rounded up to
            // a power of two), sk_buff 256 B.
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

    /// The sockets of the simulator Shadow 1.9.0 with the TCP of Linux 3.2: larger first buffers, and a TCP_INFO that
    /// counts unsent bytes as unacknowledged.
    ///
    /// Source: Shadow 1.9.0 `definitions.h` (`CONFIG_SEND_BUFFER_SIZE`, `CONFIG_RECV_BUFFER_SIZE`, `CONFIG_TCP_WMEM_MAX`,
    /// `CONFIG_TCP_RMEM_MAX`), `tcp.c` (`_tcp_autotuneSendBuffer`, `_tcp_autotuneReceiveBuffer`).
    /// Deviation: [`shadow_1_9`](Self::shadow_1_9) also has Shadow's TCP. The send buffer grows only while the application
    /// waits for space.
    pub fn shadow_1_9_sockets() -> Self {
        TcpConfig {
            send_buffer: Buffer::Auto { initial: 131_072, max: 4_194_304 },
            // 2404 B for a segment. Shadow counts payload, not kernel memory.
            send_reckoning: 956,
            send_charge: 0,
            receive_buffer: Buffer::Auto { initial: 174_760, max: 6_291_456 },
            adv_win_scale: TcpConfig::NO_RESERVE,
            writable_with_any_space: true,
            info_counts_unsent: true,
            initial_receive_window: 120,
            ..TcpConfig::linux_3_2()
        }
    }

    /// The TCP of the simulator Shadow 1.9.0. Each write starts a new segment, each segment is acknowledged at once, and
    /// windows count segments, grow with every ACK and never shrink while the application pauses. A loss or a timeout
    /// multiplies the window by 0.8, and a burst of losses does so repeatedly. The simulator tells the sender of nine of
    /// ten lost segments after two round trips.
    ///
    /// Source: Shadow 1.9.0 `shd-tcp.c` (`tcp_processPacket`, `_tcp_flush`, `_tcp_autotuneSendBuffer`,
    /// `tcp_retransmitTimerExpired`, `tcp_dropPacket`), `shd-tcp-cubic.c`, `shd-tcp-scoreboard.c`, `shd-worker.c`
    /// (`worker_schedulePacket`).
    /// Deviation: a retransmission does not change the timestamp of the copy in flight, which is the same object in Shadow,
    /// so round trips are longer. ACKs that wait for the interface merge, and the window then grows by one segment. The
    /// interface sends packets in the order of their arrival, and they count once against the send buffer, instead of
    /// twice; with [`InterfaceOrder::OldestWrite`], both are as in Shadow. A segment has 1448 B of payload instead of
    /// 1434 B. SACKs name three blocks instead of all. In the order of arrival, a relay writes whole cells; Shadow takes
    /// any free bytes. SIOCOUTQ counts bytes until their ACK; Shadow's counts what waits for the interface. POLLOUT needs
    /// free space; Shadow also reports it at each departure. A needless retransmission is acknowledged at once; Shadow
    /// waits until it arrives again. Linux's rule decides about window updates; Shadow announces each packet that fits
    /// again. A timeout marks all segments without SACK as lost; Shadow spares those beyond its scoreboard. Duplicate ACKs
    /// also count before the first data are acknowledged, and a FIN belongs to the last segment. With 1 to 10 % loss, the
    /// retransmissions and reductions of a download are within 5 % of the original's.
    pub fn shadow_1_9() -> Self {
        TcpConfig {
            kernel: Kernel::Shadow,
            grows_unused: true,
            segment_per_write: true,
            // `scoreboard_update` needs a SACK of the fourth packet after a hole.
            reordering: 4,
            undo: false,
            slow_start_after_idle: false,
            drop_notices: 0.9,
            ..TcpConfig::shadow_1_9_sockets()
        }
    }

    /// The sockets of the simulator Shadow 3.3.0. Their windows grow with every ACK, and a new connection has a window of
    /// one packet. The ACK of the SYN adds the second one. Sockets take turns at the interface, as with
    /// `interface_qdisc: round-robin`. Use Reno, Shadow's only algorithm.
    ///
    /// Source: Shadow 3.3.0 `tcp_cong_reno.c` (`tcp_cong_reno_init`, `ca_reno_slow_start_new_ack_ev_`), `tcp.c`
    /// (`_tcp_processPacket`, `_tcp_autotuneSendBuffer`, `_tcp_autotuneReceiveBuffer`, `tcp_getInfo`), `definitions.h`.
    /// Deviation: windows count bytes; Shadow counts the packets of each write. Tuned buffers do not start with the
    /// path's bandwidth-delay product. Recovery, the clock of ACKs and timers are those of Linux 6, with SACKs instead
    /// of RACK.
    pub fn shadow_3_3() -> Self {
        TcpConfig {
            kernel: Kernel::Linux6,
            initial_cwnd: 2,
            byte_counting: true,
            grows_unused: true,
            // Shadow delays an ACK by 1 ms, and after a thousand ACKs by 5 ms.
            delayed_ack: Duration::from_millis(5),
            max_delayed_ack: Duration::from_millis(5),
            loss_detection: LossDetection::Sack,
            undo: false,
            small_queues: true,
            interface_order: InterfaceOrder::Turns,
            slow_start_after_idle: false,
            ..TcpConfig::shadow_1_9_sockets()
        }
    }

    /// ns-3's `TcpSocketBase` with its default attributes, except for segments of 1448 B.
    ///
    /// Source: attributes of ns-3.44, in which both buffers have a fixed size of 128 KiB.
    pub fn ns3() -> Self {
        TcpConfig {
            kernel: Kernel::Ns3,
            byte_counting: true,
            send_buffer: Buffer::Fixed(131_072),
            send_reckoning: 0,
            send_charge: 0,
            offload: Offload::None,
            receive_buffer: Buffer::Fixed(131_072),
            adv_win_scale: TcpConfig::NO_RESERVE,
            // TcpSocketBase::NewAck notifies the application of any free space.
            writable_with_any_space: true,
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
