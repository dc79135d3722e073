//! The kernel's timestamps for the bytes of a channel (SO_TIMESTAMPING).
//!
//! A read returns the time at which the last byte reached the kernel. The times of sent bytes arrive in the socket's
//! error queue, with the number of the byte. TLS hides cell boundaries. The timestamp of a cell is therefore that of
//! the last byte written for it.
//!
//! Source: Linux `Documentation/networking/timestamping.rst`.

use crate::clock::Clock;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, RecvMsg, TimestampingFlag, recvmsg, setsockopt, sockopt::Timestamping,
};
use nix::sys::time::TimeSpec;
use penstock_core::Tag;
use penstock_units::{Duration, Instant};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::SystemTime;

/// Flag: the byte count starts with the next written byte (linux/net_tstamp.h: `SOF_TIMESTAMPING_OPT_ID_TCP`, since
/// Linux 6.2).
const OPT_ID_TCP: u32 = 1 << 16;
/// Origin of timestamps in an error queue (linux/errqueue.h: `SO_EE_ORIGIN_TIMESTAMPING`).
const ORIGIN_TIMESTAMPING: u8 = 4;
/// Size of the buffer for control messages [B].
const CONTROL: usize = 512;

pub(super) type Stamp = Duration;

#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// Number of bytes written since timestamps were enabled [B].
    written: u64,
    /// Traced cells that the kernel has not sent yet, each with the byte count at its end [B].
    waiting: VecDeque<(u64, Tag)>,
    /// Time at which the last read bytes arrived.
    pub(super) arrived: Option<Stamp>,
}

/// Enables timestamps on a socket; `None` if Linux does not support them.
pub(super) fn begin(socket: &TcpStream) -> Option<Stamps> {
    let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY
        | TimestampingFlag::from_bits_retain(OPT_ID_TCP);
    setsockopt(socket, Timestamping, &flags).ok().map(|()| Stamps::default())
}

impl Stamps {
    pub(super) fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// Registers a completely written cell that waits for its timestamp.
    pub(super) fn await_sent(&mut self, tag: Tag) {
        self.waiting.push_back((self.written, tag));
    }

    pub(super) fn sent(&mut self, socket: &TcpStream) -> Vec<(Tag, Stamp)> {
        let mut sent = Vec::new();
        while let Some((byte, stamp)) = sent_byte(socket) {
            // Byte numbers have 32 bits. The byte is among the most recently written ones.
            let ago = (self.written.wrapping_sub(1) as u32).wrapping_sub(byte);
            let upto = self.written.saturating_sub(u64::from(ago));
            while let Some((end, tag)) = self.waiting.front().copied()
                && end <= upto
            {
                self.waiting.pop_front();
                sent.push((tag, stamp));
            }
        }
        sent
    }
}

/// The next timestamp in the error queue: byte number and time.
fn sent_byte(socket: &TcpStream) -> Option<(u32, Stamp)> {
    loop {
        let (mut byte, mut stamp) = (None, None);
        let mut control = [0; CONTROL];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let mut nothing = [];
        let message: RecvMsg<'_, '_, ()> =
            recvmsg(socket.as_raw_fd(), &mut nothing, Some(&mut control), flags).ok()?;
        for part in message.cmsgs().ok()? {
            match part {
                ControlMessageOwned::ScmTimestampsns(stamps) => stamp = since_epoch(stamps.system),
                ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                    byte = (error.ee_origin == ORIGIN_TIMESTAMPING).then_some(error.ee_data);
                }
                _ => {}
            }
        }
        if let (Some(byte), Some(stamp)) = (byte, stamp) {
            return Some((byte, stamp));
        }
    }
}

fn since_epoch(time: TimeSpec) -> Option<Stamp> {
    let (seconds, nanos) = (u64::try_from(time.tv_sec()).ok()?, u32::try_from(time.tv_nsec()).ok()?);
    // A zero time means that there is no timestamp.
    (seconds > 0).then(|| Duration::new(seconds, nanos))
}

/// Converts a timestamp to the node's clock.
pub(super) fn at(clock: Clock, stamp: Stamp) -> Instant {
    let age = clock.date().duration_since(SystemTime::UNIX_EPOCH + stamp).unwrap_or_default();
    Instant::ZERO + clock.now().since(Instant::ZERO).saturating_sub(age)
}

pub(super) struct Stamped<'a> {
    pub(super) socket: &'a TcpStream,
    pub(super) stamps: &'a mut Stamps,
}

impl Read for Stamped<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut control = [0; CONTROL];
        let mut slices = [IoSliceMut::new(room)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let message: RecvMsg<'_, '_, ()> =
            recvmsg(self.socket.as_raw_fd(), &mut slices, Some(&mut control), flags)?;
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmTimestampsns(stamps) = part {
                self.stamps.arrived = since_epoch(stamps.system);
            }
        }
        Ok(message.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::num::NonZeroU32;

    #[test]
    fn sent_and_received_bytes_have_timestamps() {
        let clock = Clock::start();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        // Bytes written before the start are not counted.
        socket.write_all(&[0; 77]).unwrap();
        let (Some(mut stamps), Some(mut received)) = (begin(&socket), begin(&peer)) else {
            println!("skipped: Linux before 6.2 does not count bytes from the middle of a connection");
            return;
        };
        let before = clock.now();
        let tag = |number| Tag(NonZeroU32::new(number).unwrap());
        for number in 1..=3 {
            socket.write_all(&[0; 1000]).unwrap();
            stamps.wrote(1000);
            stamps.await_sent(tag(number));
        }
        let mut sent = Vec::new();
        while sent.len() < 3 && clock.now().since(before) < Duration::from_secs(10) {
            sent.extend(stamps.sent(&socket));
        }
        assert_eq!(sent.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [1, 2, 3].map(tag));
        let slack = Duration::from_millis(5);
        for (_, stamp) in &sent {
            let at = at(clock, *stamp);
            assert!(at + slack >= before && at <= clock.now() + slack, "{at:?} is not after {before:?}");
        }
        let mut room = [0; 4096];
        let mut read = 0;
        while read < 3077 {
            read += Stamped { socket: &peer, stamps: &mut received }.read(&mut room).unwrap_or(0);
        }
        // Linux enables timestamps of received packets in a deferred task, so the first packets may have none.
        while received.arrived.is_none() && clock.now().since(before) < Duration::from_secs(10) {
            socket.write_all(&[0; 100]).unwrap();
            let _ = Stamped { socket: &peer, stamps: &mut received }.read(&mut room);
        }
        let arrived = at(clock, received.arrived.expect("the kernel says when"));
        assert!(arrived + slack >= before && arrived <= clock.now() + slack, "{arrived:?}");
    }
}
