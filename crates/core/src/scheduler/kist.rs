//! KIST as in the paper: the kernel gets only bytes that it can send immediately.

use super::SchedulerContext;
use super::by_channel::ByChannel;
use super::global_limit::{GlobalLimit, GlobalLimitConfig};
use super::global_loop::{GLOBAL_WRITE_TIMEOUT, GlobalLoop, WriteLimits};
use crate::kernel::SocketInfo;
use crate::keys::ChannelKey;
use penstock_units::{Bytes, Duration, Instant};

/// The configuration of KIST.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KistConfig {
    /// How long the first channel with new cells waits for the next round (`GlobalWriteTimeout`).
    pub interval: Duration,
    /// How many bytes all channels together may write in one round.
    pub global_limit: GlobalLimitConfig,
    /// Which bytes equation 1 counts as unacknowledged.
    pub unacked: Unacked,
}

/// Which bytes of a socket equation 1 counts as unacknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unacked {
    /// Sent segments, as Linux's TCP_INFO reports them.
    #[default]
    Sent,
    /// All written bytes, unsent ones included, as the TCP_INFO of the authors' simulator reported them.
    Written,
    /// Segments in flight. TCP sends while these are fewer than its congestion window.
    InFlight,
}

impl Default for KistConfig {
    fn default() -> Self {
        let (global_limit, unacked) = (GlobalLimitConfig::default(), Unacked::default());
        KistConfig { interval: GLOBAL_WRITE_TIMEOUT, global_limit, unacked }
    }
}

/// The smaller of the free send buffer and the free congestion window of a socket [B].
///
/// Source: KIST §5.2, equation 1. Deviation: the limit is zero, not negative, if Linux reports contradictory values.
pub fn socket_limit(info: &SocketInfo) -> Bytes {
    let socket_space = info.capacity.saturating_sub(info.queued);
    let tcp_space = u64::from(info.cwnd.saturating_sub(info.unacked)) * u64::from(info.mss);
    socket_space.min(Bytes::new(tcp_space))
}

/// The socket limit if equation 1 counts all written bytes as unacknowledged, unsent ones included [B].
///
/// Source: Shadow 1.9.0, in which the authors ran KIST; its TCP_INFO counted unsent bytes.
pub fn socket_limit_by_written(info: &SocketInfo) -> Bytes {
    let unacked = info.queued.get().div_ceil(u64::from(info.mss.max(1)));
    socket_limit(&SocketInfo { unacked: u32::try_from(unacked).unwrap_or(u32::MAX), ..*info })
}

/// The socket limit if equation 1 counts only segments in flight [B]. During loss recovery it is larger than
/// [`socket_limit`], because TCP then sends new segments although more than a window is unacknowledged.
///
/// Source: Linux `tcp_packets_in_flight()`.
pub fn socket_limit_by_flight(info: &SocketInfo) -> Bytes {
    socket_limit(&SocketInfo { unacked: info.in_flight, ..*info })
}

/// The unsent bytes of a socket that its congestion window and its peer's receive window permit [B]. They wait only for the
/// link. Bytes that a slow reader has not permitted yet do not count, so a slow reader takes nothing from other sockets.
///
/// Linux since 3.6 leaves bytes in the socket while the interface is full (`tcp_small_queue_check`). Other queues on the
/// path are not visible.
///
/// TCP holds back a last segment that is not full (Nagle's algorithm), so only full segments count.
///
/// Source: Linux `tcp_cwnd_test`, `tcp_snd_wnd_test`.
fn backlog(info: &SocketInfo) -> u64 {
    let sent = info.queued.saturating_sub(info.not_sent);
    let permitted = info.not_sent.min(info.peer_window.saturating_sub(sent));
    let segments = permitted.get() / u64::from(info.mss.max(1));
    segments.min(info.cwnd.saturating_sub(info.in_flight).into()) * u64::from(info.mss)
}

/// Limits that follow the kernel's socket state at the beginning of each round.
///
/// Source: KIST §5.2, equations 1 and 2.
/// Deviation: the relay queries only the round's sockets and those that may still hold bytes. Other sockets add nothing
/// to the sum. The bytes of a closed connection do not count as drained.
#[derive(Debug)]
pub struct KernelLimits {
    limit: fn(&SocketInfo) -> Bytes,
    global: GlobalLimit,
    sockets: ByChannel<Socket>,
    filled: Vec<ChannelKey>,
    round: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Socket {
    limit: Bytes,
    used: Bytes,
    /// Bytes in the kernel's buffer after the last round [B].
    held: Bytes,
    asked: u64,
    filled: bool,
}

impl KernelLimits {
    fn new(global: GlobalLimitConfig, unacked: Unacked, interval: Duration) -> Self {
        let (sockets, filled) = (ByChannel::default(), Vec::new());
        let limit = match unacked {
            Unacked::Sent => socket_limit,
            Unacked::Written => socket_limit_by_written,
            Unacked::InFlight => socket_limit_by_flight,
        };
        KernelLimits { limit, global: GlobalLimit::new(global, interval), sockets, filled, round: 0 }
    }
}

impl Socket {
    /// Updates the held bytes. Returns the bytes acknowledged since the last round [B].
    fn update(&mut self, info: &SocketInfo) -> Bytes {
        std::mem::replace(&mut self.held, info.queued).saturating_sub(info.queued)
    }
}

impl WriteLimits for KernelLimits {
    const UNFLUSHED: Bytes = Bytes::ZERO;

    fn begin_round(&mut self, now: Instant, pending: &[ChannelKey], context: &mut dyn SchedulerContext) {
        self.round += 1;
        let (round, sockets) = (self.round, &mut self.sockets);
        let (mut drained, mut waits) = (Bytes::ZERO, Bytes::ZERO);
        let mut add = |socket: &mut Socket, info: &SocketInfo| {
            drained += socket.update(info);
            waits += Bytes::new(backlog(info));
        };
        for channel in pending {
            let info = context.socket_info(*channel);
            let socket = sockets.at(*channel);
            (socket.limit, socket.used, socket.asked) = ((self.limit)(&info), Bytes::ZERO, round);
            add(socket, &info);
        }
        if self.global.is_off() {
            return;
        }
        self.filled.retain(|channel| {
            let socket = sockets.at(*channel);
            if socket.asked != round {
                add(socket, &context.socket_info(*channel));
            }
            socket.filled = socket.held > Bytes::ZERO;
            socket.filled
        });
        self.global.begin(now, drained, waits);
    }

    fn left(&mut self, channel: ChannelKey) -> Bytes {
        let socket = self.sockets.at(channel);
        socket.limit.saturating_sub(socket.used).min(self.global.left())
    }

    fn charge(&mut self, channel: ChannelKey, bytes: Bytes) {
        self.sockets.at(channel).used += bytes;
        self.global.charge(bytes);
    }

    fn written(&mut self, channel: ChannelKey, charged: Bytes, bytes: Bytes) {
        let socket = self.sockets.at(channel);
        socket.used = socket.used - charged + bytes;
        socket.held += bytes;
        self.global.written(charged, bytes);
        if bytes > Bytes::ZERO && !self.global.is_off() && !std::mem::replace(&mut socket.filled, true) {
            self.filled.push(channel);
        }
    }

    fn forget(&mut self, channel: ChannelKey) {
        self.sockets.forget(channel);
        self.filled.retain(|other| *other != channel);
    }
}

/// Kernel-informed socket transport (KIST): global scheduling within the kernel's limits.
pub type Kist = GlobalLoop<KernelLimits>;

impl Kist {
    /// The scheduler of one relay.
    pub fn new(config: KistConfig) -> Self {
        GlobalLoop::with(
            config.interval,
            KernelLimits::new(config.global_limit, config.unacked, config.interval),
        )
    }
}
