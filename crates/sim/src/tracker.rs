//! Records when selected cells pass the queues and buffers of every hop, called stations.
//!
//! Source: KIST §4.1 and §4.2. A cell passes a station when its last byte passes.

use crate::cell::{tag, tag_index};
use crate::queue::HostId;
use penstock_core::{Station, Tag};
use penstock_record::tables::Name;
use penstock_record::{CellRow, Position};
use penstock_units::Instant;

#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// In a traced circuit, every n-th DATA cell is tracked; zero tracks no cells.
    pub(crate) every: u32,
    /// Traced circuits, indexed by their number.
    circuits: Vec<Option<Circuit>>,
    cells: Vec<Cell>,
}

#[derive(Debug)]
struct Circuit {
    workload: Name,
    path: Vec<HostId>,
    packaged: u64,
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
    /// Traces a circuit over the nodes `path`, which begins with the client.
    pub(crate) fn trace(&mut self, circuit: u32, workload: Name, path: Vec<HostId>) {
        let slot = circuit as usize;
        if self.circuits.len() <= slot {
            self.circuits.resize_with(slot + 1, || None);
        }
        self.circuits[slot] = Some(Circuit { workload, path, packaged: 0 });
    }

    pub(crate) fn is_traced(&self, circuit: u32) -> bool {
        self.every > 0 && self.circuits.get(circuit as usize).is_some_and(Option::is_some)
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
        let traced = self.circuits.get_mut(circuit as usize)?.as_mut()?;
        let number = traced.packaged;
        traced.packaged += 1;
        if !number.is_multiple_of(self.every.into()) {
            return None;
        }
        let hops = vec![Times::default(); traced.path.len()];
        let tag = tag(self.cells.len());
        self.cells.push(Cell { circuit, number, hops });
        self.stamp(tag, at, |times| {
            times.nic_in = Some(arrived);
            times.read = Some(now);
        });
        Some(tag)
    }

    /// Records one time of a cell. Retransmissions do not count, so each station of a hop has one time.
    fn stamp(&mut self, tag: Tag, at: HostId, stamp: impl FnOnce(&mut Times)) {
        let cell = &mut self.cells[tag_index(tag)];
        let circuit = self.circuits[cell.circuit as usize].as_ref().expect("only traced circuits have tags");
        if let Some(place) = circuit.path.iter().position(|node| *node == at) {
            stamp(&mut cell.hops[place]);
        }
    }

    pub(crate) fn nic_in(&mut self, tag: Tag, at: HostId, now: Instant) {
        self.stamp(tag, at, |times| times.nic_in = Some(now));
    }

    pub(crate) fn read(&mut self, tag: Tag, at: HostId, now: Instant) {
        self.stamp(tag, at, |times| times.read = Some(now));
    }

    pub(crate) fn station(&mut self, tag: Tag, at: HostId, station: Station, now: Instant) {
        self.stamp(tag, at, |times| match station {
            Station::Parsed => times.parsed = Some(now),
            Station::Queued => times.queued = Some(now),
            Station::Outbuf => times.outbuf = Some(now),
        });
    }

    pub(crate) fn written(&mut self, tag: Tag, at: HostId, now: Instant) {
        self.stamp(tag, at, |times| times.written = Some(now));
    }

    pub(crate) fn nic_out(&mut self, tag: Tag, at: HostId, now: Instant) {
        self.stamp(tag, at, |times| times.nic_out = Some(now));
    }

    /// One row for each cell and each hop that the cell reached, from the exit to the client.
    pub(crate) fn rows(&self) -> Vec<CellRow> {
        let mut rows = Vec::with_capacity(self.cells.len() * 4);
        for cell in &self.cells {
            let circuit =
                self.circuits[cell.circuit as usize].as_ref().expect("only traced circuits have tags");
            for (place, times) in
                cell.hops.iter().enumerate().rev().filter(|(_, times)| times.nic_in.is_some())
            {
                let nanos = |at: Option<Instant>| at.map(Instant::as_nanos);
                rows.push(CellRow {
                    circuit: cell.circuit.into(),
                    workload: circuit.workload.clone(),
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
