//! Token buckets at work: who may read and write how much, and who waits for a refill.

use super::{Node, Relay};
use crate::cell::{Cell, MAX_PAYLOAD};
use crate::channel::Buckets;
use crate::config::{Bandwidth, Refill};
use crate::edge_control::StreamControl;
use crate::hop_control::HopControl;
use crate::kernel::Kernel;
use crate::keys::{ChannelKey, Direction, StreamKey};
use crate::scheduler::Scheduler;
use crate::token_bucket::{TokenBucket, quantum};
use penstock_units::{Bytes, Duration, Instant};
use std::sync::Arc;

/// The unit of a channel's I/O quantum [B] (C tor: `get_cell_network_size()`).
const CELL_BASE: u64 = 512;

/// Who waits for a refill, in the order in which they began to.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    reads: Vec<ChannelKey>,
    writes: Vec<ChannelKey>,
    stream_reads: Vec<StreamKey>,
    stream_writes: Vec<StreamKey>,
    due: Option<Instant>,
}

impl Waiting {
    /// When the next refill is that someone waits for.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether anyone waits.
    pub(super) fn someone(&self) -> bool {
        let channels = !self.reads.is_empty() || !self.writes.is_empty();
        channels || !self.stream_reads.is_empty() || !self.stream_writes.is_empty()
    }

    /// How many channels wait.
    pub(super) fn channels(&self) -> u32 {
        let readers_only = self.reads.iter().filter(|channel| !self.writes.contains(channel)).count();
        (readers_only + self.writes.len()) as u32
    }

    pub(super) fn forget_channel(&mut self, channel: ChannelKey) {
        self.reads.retain(|other| *other != channel);
        self.writes.retain(|other| *other != channel);
    }

    pub(super) fn forget_stream(&mut self, stream: StreamKey) {
        self.stream_reads.retain(|other| *other != stream);
        self.stream_writes.retain(|other| *other != stream);
    }
}

impl Buckets {
    pub(super) fn new(bandwidth: Bandwidth, now: Instant) -> Self {
        let bucket = TokenBucket::new(bandwidth, now);
        Buckets { read: bucket.clone(), write: bucket }
    }

    pub(super) fn refill(&mut self, refill: Refill, now: Instant) {
        self.read.refill(refill, now);
        self.write.refill(refill, now);
    }

    fn adjust(&mut self, bandwidth: Bandwidth) {
        self.read.adjust(bandwidth);
        self.write.adjust(bandwidth);
    }
}

impl<C: Cell> Node<C> {
    /// The relay's own buckets are refilled when someone looks; clients' when the throttle was asked.
    fn refill(&mut self, now: Instant) {
        let refill = self.refill;
        if let Some(global) = &mut self.buckets {
            global.refill(refill, now);
        }
    }

    /// What may be read from `channel` in one go.
    pub(super) fn read_quantum(&mut self, now: Instant, channel: ChannelKey) -> Bytes {
        self.refill(now);
        let own = self.own_buckets(channel);
        quantum(self.buckets.as_ref().map(|all| &all.read), own.map(|own| &own.read), CELL_BASE)
    }

    /// What may be written to `channel` in one go.
    pub(super) fn write_quantum(&mut self, now: Instant, channel: ChannelKey) -> Bytes {
        self.refill(now);
        let own = self.own_buckets(channel);
        quantum(self.buckets.as_ref().map(|all| &all.write), own.map(|own| &own.write), CELL_BASE)
    }

    /// What may be read from an edge stream in one go, if it has no rate of its own.
    pub(super) fn edge_read_quantum(&mut self, now: Instant) -> Bytes {
        self.refill(now);
        quantum(self.buckets.as_ref().map(|all| &all.read), None, MAX_PAYLOAD.into())
    }

    /// What may be read from this one in one go.
    ///
    /// Source: C tor 0.4.9 `connection_bucket_read_limit()`.
    /// Deviation: a client's stream gets no more at once than an exit's.
    pub(super) fn stream_read_quantum(&mut self, now: Instant, stream: StreamKey) -> Bytes {
        self.refill(now);
        let refill = self.refill;
        let own = self.streams[stream.0 as usize].bucket.as_mut();
        let own = own.map(|own| {
            own.refill(refill, now);
            &*own
        });
        quantum(self.buckets.as_ref().map(|all| &all.read), own, MAX_PAYLOAD.into())
    }

    /// Gives a stream the bucket that its control asks for: a second's worth deep, and full if it had none.
    ///
    /// Source: C tor `circuit_process_stream_xon()`.
    pub(super) fn adjust_stream_bucket(&mut self, now: Instant, stream: StreamKey) {
        let state = &mut self.streams[stream.0 as usize];
        match (state.control.rate(), &mut state.bucket) {
            (None, bucket) => *bucket = None,
            (Some(rate), bucket) => {
                let bandwidth = Bandwidth { rate, burst: rate.bytes_in(Duration::from_secs(1)) };
                match bucket {
                    Some(bucket) => bucket.adjust(bandwidth),
                    None => *bucket = Some(TokenBucket::new(bandwidth, now)),
                }
            }
        }
    }

    /// What may be written to an edge stream in one go.
    pub(super) fn stream_write_quantum(&mut self, now: Instant) -> Bytes {
        self.refill(now);
        quantum(self.buckets.as_ref().map(|all| &all.write), None, MAX_PAYLOAD.into())
    }

    pub(super) fn charge_read(&mut self, channel: ChannelKey, bytes: Bytes, cells: u64) {
        self.counters.received += cells;
        self.charge_stream_read(bytes);
        self.charge_client_read(channel, bytes);
    }

    pub(super) fn charge_write(&mut self, channel: ChannelKey, bytes: Bytes, cells: u64) {
        self.counters.sent += cells;
        self.charge_stream_write(bytes);
        self.charge_client_write(channel, bytes, cells);
    }

    /// Charges the stream's own bucket, and the relay's.
    pub(super) fn charge_packaged(&mut self, stream: StreamKey, bytes: Bytes) {
        self.charge_stream_read(bytes);
        if let Some(own) = &mut self.streams[stream.0 as usize].bucket {
            own.consume(bytes);
        }
    }

    /// Charges the relay's own bucket, as every byte does wherever it came from.
    pub(super) fn charge_stream_read(&mut self, bytes: Bytes) {
        self.counters.read_bytes += bytes;
        if let Some(global) = &mut self.buckets {
            global.read.consume(bytes);
        }
    }

    /// Charges the relay's own bucket, as every byte does wherever it goes.
    pub(super) fn charge_stream_write(&mut self, bytes: Bytes) {
        self.counters.written_bytes += bytes;
        if let Some(global) = &mut self.buckets {
            global.write.consume(bytes);
        }
    }

    pub(super) fn await_refill(&mut self, now: Instant) {
        let next = self.refill.unblocks_after(now);
        self.waiting.due.get_or_insert(next);
    }

    pub(super) fn wait_to_read(&mut self, now: Instant, channel: ChannelKey) {
        self.await_refill(now);
        note(&mut self.waiting.reads, channel);
    }

    pub(super) fn wait_to_write(&mut self, now: Instant, channel: ChannelKey) {
        self.await_refill(now);
        note(&mut self.waiting.writes, channel);
    }

    pub(super) fn wait_to_read_stream(&mut self, now: Instant, stream: StreamKey) {
        self.await_refill(now);
        note(&mut self.waiting.stream_reads, stream);
    }

    pub(super) fn wait_to_write_stream(&mut self, now: Instant, stream: StreamKey) {
        self.await_refill(now);
        note(&mut self.waiting.stream_writes, stream);
    }

    /// Whether the stream is to be left alone until the next refill.
    pub(super) fn stream_waits_to_read(&self, stream: StreamKey) -> bool {
        self.waiting.stream_reads.contains(&stream)
    }

    /// The same for writing.
    pub(super) fn stream_waits_to_write(&self, stream: StreamKey) -> bool {
        self.waiting.stream_writes.contains(&stream)
    }
}

impl<C: Cell> Relay<C> {
    /// The operator chose another rate, or none. What the buckets hold stays, as far as they are deep enough; new ones
    /// are full. Who waits for a refill goes on to wait for the next one.
    ///
    /// The driver asks for [`poll_timeout`](Self::poll_timeout) afterwards, as after any call.
    ///
    /// Source: C tor `options_act()` and `token_bucket_rw_adjust()`.
    pub fn set_bandwidth(&mut self, now: Instant, bandwidth: Option<Bandwidth>) {
        let node = &mut self.node;
        node.refill(now);
        match (bandwidth, &mut node.buckets) {
            (Some(bandwidth), Some(buckets)) => buckets.adjust(bandwidth),
            (bandwidth, buckets) => *buckets = bandwidth.map(|bandwidth| Buckets::new(bandwidth, now)),
        }
        Arc::make_mut(&mut node.config).bandwidth = bandwidth;
        let rate = bandwidth.map(|bandwidth| bandwidth.rate);
        for (_, circuit) in &mut node.circuits {
            for direction in [Direction::Forward, Direction::Backward] {
                circuit.half_mut(direction).hop.set_rate(rate);
            }
        }
    }

    /// Wakes those who waited for a refill.
    pub(super) fn on_refill(&mut self, now: Instant, kernel: &mut impl Kernel<C>) {
        if self.node.waiting.due.is_none_or(|due| due > now) {
            return;
        }
        self.node.refill_clients(now);
        // Who has to wait again is noted in the list that was emptied the last time.
        let mut waiting = std::mem::replace(&mut self.node.waiting, std::mem::take(&mut self.woken));
        waiting.due = None;
        if self.node.clients.is_some() {
            self.node.await_refill(now);
        }
        for channel in waiting.reads.drain(..) {
            self.node.set_interest(channel, kernel, |interest| interest.readable = true);
        }
        for channel in waiting.writes.drain(..) {
            self.scheduler.on_refill(now, channel, &mut self.node.context(now, kernel));
        }
        for stream in waiting.stream_reads.drain(..) {
            self.node.refresh_stream(stream, kernel);
        }
        for stream in waiting.stream_writes.drain(..) {
            self.node.flush_stream(now, stream, kernel);
        }
        self.woken = waiting;
    }
}

fn note<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}
