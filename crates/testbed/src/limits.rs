//! Experiment `limits`. It reads the kernel's state of a socket before and after each write. The size of each write
//! is KIST's limit (section 5.2, Equation 1). The experiment tests whether the kernel sends this size immediately.

use crate::Error;
use crate::diag::{Diag, TcpInfo};
use crate::error::broken;
use crate::link::LinkConfig;
use crate::pair::Pair;
use crate::row::{LimitsRow, LinkRow, limits_sample};
use crate::socket::{Congestion, OWN_BUFFERS, dial_eager};
use crate::tcp::{PORT, Receiver};
use penstock_units::{Bytes, Duration, Seed};
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, SocketAddrV4};

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Link, the same in both directions.
    pub link: LinkConfig,
    /// Interval between writes.
    pub every: Duration,
    /// Number of writes [1].
    pub writes: u32,
    /// The application doubles every n-th write, so that the kernel cannot send the whole write immediately [1]; 0
    /// doubles no write.
    pub excess: u32,
    /// The time for which the loop spins before each packet is due.
    pub spin: Duration,
}

/// Maximum size of a write [B].
const MOST: usize = 4 << 20;

/// Runs the experiment. The process must have only the calling thread, and can run only one experiment.
pub fn run(experiment: &Experiment) -> Result<LimitsRow, Error> {
    let pair = Pair::join(experiment.link, Seed(1), &OWN_BUFFERS, experiment.spin)?;
    let receiver = Receiver::listen(&pair, u64::MAX)?;
    let diag = Diag::new().map_err(|error| broken!("sock_diag is refused here: {error}"))?;
    let start = pair.clock.now();
    let socket = dial_eager(SocketAddrV4::new(pair.address(1), PORT))?;
    let block = vec![0; MOST];
    let ask =
        || diag.info(&socket).ok_or_else(|| broken!("the kernel does not report the state of the socket"));
    let mut samples = Vec::new();
    let mut tick = pair.clock.now();
    for write in 1..=experiment.writes {
        pair.clock.sleep_until(tick);
        tick += experiment.every;
        let (now, before) = (pair.clock.now(), ask()?);
        let times = if experiment.excess > 0 && write % experiment.excess == 0 { 2 } else { 1 };
        let wanted = (times * sendable(&before).get() as usize).min(MOST);
        let written = match (&socket).write(&block[..wanted]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            other => other.map_err(|error| broken!("the flow broke off: {error}"))?,
        };
        samples.push(limits_sample(now, start, &before, written as u64, &ask()?));
    }
    let bytes = receiver.bytes();
    let _ = socket.shutdown(Shutdown::Both);
    let reference = (Congestion::Cubic, None);
    Ok(LimitsRow {
        link: LinkRow::new("limits", reference, &experiment.link, bytes, &pair.part()?)?,
        every_s: experiment.every.as_secs_f64(),
        samples,
    })
}

/// Bytes that Linux would accept and send immediately, by KIST section 5.2, Equation 1. The function uses only
/// `info`, so its result can be compared with the core's.
fn sendable(info: &TcpInfo) -> Bytes {
    let segments = info.cwnd.saturating_sub(info.unacked);
    let window = Bytes::new(u64::from(segments) * u64::from(info.mss));
    window.min(info.capacity.saturating_sub(info.queued))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sendable_bytes_fit_into_the_window_and_the_buffer() {
        let info =
            TcpInfo { capacity: Bytes::new(9000), cwnd: 10, unacked: 7, mss: 1000, ..TcpInfo::default() };
        assert_eq!(sendable(&info), Bytes::new(3000));
        assert_eq!(sendable(&TcpInfo { queued: Bytes::new(8000), ..info }), Bytes::new(1000));
        assert_eq!(sendable(&TcpInfo { unacked: 12, ..info }), Bytes::ZERO);
        assert_eq!(sendable(&TcpInfo { queued: Bytes::new(9500), ..info }), Bytes::ZERO);
    }
}
