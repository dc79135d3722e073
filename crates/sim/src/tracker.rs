//! Records when selected cells pass the queues and buffers of every hop, called stations.
//!
//! Source: KIST §4.1 and §4.2. A cell passes a station when its last byte passes.

use crate::cell::{tag, tag_index};
use crate::queue::HostId;
use penstock_core::{Station, Tag};
use penstock_record::tables::Name;
use penstock_record::{CellRow, Position};
use penstock_units::Instant;
use std::collections::BTreeMap;

/// The times that the hosts of one shard record about tracked cells.
#[derive(Debug)]
pub(crate) struct Tracker {
    /// In a traced circuit, every n-th DATA cell is tracked; zero tracks no cells.
    every: u32,
    /// The next tag of this shard, and the distance to the tag after it. So each shard has its own tags.
    tag: usize,
    step: usize,
    /// For each traced circuit that ends in this shard, the number of packaged DATA cells.
    packaged: BTreeMap<u32, u64>,
    /// New tracked cells: circuit and number.
    cells: Vec<(u32, u64)>,
    stamps: Vec<Stamp>,
}

/// A time at which a tracked cell passed a station of a host.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    tag: Tag,
    at: HostId,
    place: Place,
    time: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    NicIn,
    Read,
    Parsed,
    Queued,
    Outbuf,
    Written,
    NicOut,
}

/// The times of all tracked cells.
#[derive(Debug)]
pub(crate) struct CellTimes {
    /// Workload and path of each traced circuit, by number.
    circuits: BTreeMap<u32, (Name, Vec<HostId>)>,
    /// The tracked cells of each shard.
    cells: Vec<Vec<Cell>>,
}

#[derive(Debug)]
struct Cell {
    circuit: u32,
    number: u64,
    hops: Vec<Times>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    nic_in: Option<Instant>,
    read: Option<Instant>,
    parsed: Option<Instant>,
    queued: Option<Instant>,
    outbuf: Option<Instant>,
    written: Option<Instant>,
    nic_out: Option<Instant>,
}

/// The position of the node with index `place` on a path of `nodes` nodes, counted from the client.
pub(crate) fn position(place: usize, nodes: usize) -> Position {
    match place {
        0 => Position::Client,
        _ if place + 1 == nodes => Position::Exit,
        1 => Position::Guard,
        _ => Position::Middle,
    }
}

impl Tracker {
    /// The tracker of one of several shards.
    pub(crate) fn new(every: u32, shard: usize, shards: usize) -> Self {
        Tracker {
            every,
            tag: shard,
            step: shards,
            packaged: BTreeMap::new(),
            cells: Vec::new(),
            stamps: Vec::new(),
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.every > 0
    }

    /// Handles a DATA cell that an exit packages; the data arrived from the server at `arrived`. Returns a tag if the
    /// cell is tracked.
    pub(crate) fn packaged(
        &mut self,
        circuit: u32,
        at: HostId,
        arrived: Instant,
        now: Instant,
    ) -> Option<Tag> {
        let packaged = self.packaged.entry(circuit).or_default();
        let number = *packaged;
        *packaged += 1;
        if !number.is_multiple_of(self.every.into()) {
            return None;
        }
        let tag = tag(self.tag);
        self.tag += self.step;
        self.cells.push((circuit, number));
        self.stamp(tag, at, Place::NicIn, arrived);
        self.stamp(tag, at, Place::Read, now);
        Some(tag)
    }

    /// Records one time of a cell. Retransmissions do not count, so each station of a hop has one time.
    fn stamp(&mut self, tag: Tag, at: HostId, place: Place, time: Instant) {
        self.stamps.push(Stamp { tag, at, place, time });
    }

    pub(crate) fn nic_in(&mut self, tag: Tag, at: HostId, now: Instant) {
        self.stamp(tag, at, Place::NicIn, now);
    }

    pub(crate) fn read(&mut self, tag: Tag, at: HostId, now: Instant) {
        self.stamp(tag, at, Place::Read, now);
    }

    pub(crate) fn station(&mut self, tag: Tag, at: HostId, station: Station, now: Instant) {
        let place = match station {
            Station::Parsed => Place::Parsed,
            Station::Queued => Place::Queued,
            Station::Outbuf => Place::Outbuf,
        };
        self.stamp(tag, at, place, now);
    }

    pub(crate) fn written(&mut self, tag: Tag, at: HostId, now: Instant) {
        self.stamp(tag, at, Place::Written, now);
    }

    pub(crate) fn nic_out(&mut self, tag: Tag, at: HostId, now: Instant) {
        self.stamp(tag, at, Place::NicOut, now);
    }
}

impl CellTimes {
    pub(crate) fn new(shards: usize) -> Self {
        CellTimes { circuits: BTreeMap::new(), cells: (0..shards).map(|_| Vec::new()).collect() }
    }

    /// Traces a circuit over the nodes `path`, which begins with the client.
    pub(crate) fn trace(&mut self, circuit: u32, workload: Name, path: Vec<HostId>) {
        self.circuits.insert(circuit, (workload, path));
    }

    /// Takes the new records of all shards.
    pub(crate) fn collect(&mut self, trackers: &mut [&mut Tracker]) {
        for (tracker, cells) in trackers.iter_mut().zip(&mut self.cells) {
            for (circuit, number) in tracker.cells.drain(..) {
                let hops = self.circuits.get(&circuit).map_or(0, |(_, path)| path.len());
                cells.push(Cell { circuit, number, hops: vec![Times::default(); hops] });
            }
        }
        for stamp in trackers.iter_mut().flat_map(|tracker| tracker.stamps.drain(..)) {
            self.apply(stamp);
        }
    }

    fn apply(&mut self, Stamp { tag, at, place, time }: Stamp) {
        let shards = self.cells.len();
        let cell = &mut self.cells[tag_index(tag) % shards][tag_index(tag) / shards];
        let Some((_, path)) = self.circuits.get(&cell.circuit) else { return };
        let Some(hop) = path.iter().position(|node| *node == at) else { return };
        let times = &mut cell.hops[hop];
        let field = match place {
            Place::NicIn => &mut times.nic_in,
            Place::Read => &mut times.read,
            Place::Parsed => &mut times.parsed,
            Place::Queued => &mut times.queued,
            Place::Outbuf => &mut times.outbuf,
            Place::Written => &mut times.written,
            Place::NicOut => &mut times.nic_out,
        };
        *field = Some(time);
    }

    /// One row for each cell and each hop that the cell reached, from the exit to the client.
    pub(crate) fn rows(&self) -> Vec<CellRow> {
        let mut rows = Vec::with_capacity(self.cells.iter().map(Vec::len).sum::<usize>() * 4);
        for cell in self.cells.iter().flatten() {
            let Some((workload, _)) = self.circuits.get(&cell.circuit) else { continue };
            for (place, times) in
                cell.hops.iter().enumerate().rev().filter(|(_, times)| times.nic_in.is_some())
            {
                let nanos = |at: Option<Instant>| at.map(Instant::as_nanos);
                rows.push(CellRow {
                    circuit: cell.circuit.into(),
                    workload: workload.clone(),
                    cell: cell.number,
                    hop: position(place, cell.hops.len()),
                    nic_in_ns: nanos(times.nic_in),
                    read_ns: nanos(times.read),
                    parsed_ns: nanos(times.parsed),
                    queued_ns: nanos(times.queued),
                    outbuf_ns: nanos(times.outbuf),
                    kernel_ns: nanos(times.written),
                    nic_out_ns: nanos(times.nic_out),
                });
            }
        }
        rows
    }
}
