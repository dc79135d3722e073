//! Traces some cells through the node, and samples the state of some circuits. Traces contain numbers and times only.
//!
//! Every n-th RELAY cell and every n-th stream payload gets a tag. A trace contains this node's number of the circuit,
//! and no data about the client.
//!
//! Source: KIST §4.1 ("kernel in", "tor", "kernel out"). KIST also logs no addresses.

use penstock_core::{CircuitIndex, Station, Tag};
use penstock_record::{CellRow, CircuitRow, Position};
use penstock_units::{Duration, Instant};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Maximum number of cells that are traced at the same time [cell].
const MOST: usize = 65_536;
/// Time limit for the kernel's timestamp after a cell was written.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// The trace drops a cell after this time. Such a cell was for this node, or its circuit closed.
const LOST: Duration = Duration::from_secs(120);

/// Settings of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceConfig {
    /// The node traces every n-th cell, with this n [1]; `None` traces none.
    pub cells: Option<NonZeroU32>,
    /// The node samples every n-th circuit, with this n [1]; `None` samples none.
    pub circuits: Option<NonZeroU32>,
    /// Whether the trace records the connection on which a cell left. A testbed compares it with captured packets.
    pub connections: bool,
}

/// Where a cell left the node: the connection, and the position in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Local address and port of the connection.
    pub local: SocketAddr,
    /// Remote address and port of the connection.
    pub peer: SocketAddr,
    /// Number of bytes written to the connection, up to the end of the cell or of its UDP packet [B].
    pub bytes: u64,
    /// Whether the cell left in a UDP packet.
    pub is_udp: bool,
}

#[derive(Clone, Copy, Debug)]
struct CellTimes {
    circuit: Option<(u64, Position)>,
    nic_in: Option<Instant>,
    read: Instant,
    parsed: Option<Instant>,
    queued: Option<Instant>,
    outbuf: Option<Instant>,
    kernel: Option<Instant>,
    nic_out: Option<Instant>,
    left: Option<Left>,
}

#[derive(Debug)]
pub(super) struct Trace {
    config: TraceConfig,
    /// Cells since the last traced cell [cell].
    seen: u32,
    next_tag: NonZeroU32,
    followed: BTreeMap<Tag, CellTimes>,
    circuits: Vec<Option<(CircuitIndex, u64)>>,
    next_circuit: u64,
}

impl Trace {
    pub(super) fn new(config: TraceConfig) -> Self {
        Trace {
            config,
            seen: 0,
            next_tag: NonZeroU32::MIN,
            followed: BTreeMap::new(),
            circuits: Vec::new(),
            next_circuit: 1,
        }
    }

    pub(super) fn has_cells(&self) -> bool {
        self.config.cells.is_some()
    }

    pub(super) fn begun(&mut self, circuit: CircuitIndex) {
        let index = circuit.index();
        if self.circuits.len() <= index {
            self.circuits.resize(index + 1, None);
        }
        self.circuits[index] = Some((circuit, self.next_circuit));
        self.next_circuit += 1;
    }

    pub(super) fn over(&mut self, circuit: CircuitIndex) {
        if let Some(number) = self.circuits.get_mut(circuit.index()) {
            *number = None;
        }
    }

    /// The sampled circuits with their numbers.
    pub(super) fn circuits(&self) -> impl Iterator<Item = (CircuitIndex, u64)> {
        let every = self.config.circuits.map_or(0, |every| u64::from(every.get()));
        let all = self.circuits.iter().copied().flatten();
        all.filter(move |(_, number)| every > 0 && number % every == 0)
    }

    /// Handles a cell that reached the kernel at `nic_in` and was read at `read`. Returns a tag if the cell is traced.
    pub(super) fn came(&mut self, nic_in: Option<Instant>, read: Instant) -> Option<Tag> {
        let every = self.config.cells?.get();
        self.seen += 1;
        if self.seen < every || self.followed.len() >= MOST {
            return None;
        }
        self.seen = 0;
        let tag = Tag(self.next_tag);
        self.next_tag = self.next_tag.checked_add(1).unwrap_or(NonZeroU32::MIN);
        let nic_in = nic_in.map(|at| at.min(read));
        self.followed.insert(
            tag,
            CellTimes {
                circuit: None,
                nic_in,
                read,
                parsed: None,
                queued: None,
                outbuf: None,
                kernel: None,
                nic_out: None,
                left: None,
            },
        );
        Some(tag)
    }

    /// Records the time at which a cell passes a measuring point in the core.
    pub(super) fn station(
        &mut self,
        tag: Tag,
        circuit: CircuitIndex,
        hop: Option<Position>,
        station: Station,
        at: Instant,
    ) {
        let number = self.circuits.get(circuit.index()).copied().flatten().map(|(_, number)| number);
        let Some(times) = self.followed.get_mut(&tag) else { return };
        times.circuit = times.circuit.or(number.zip(hop));
        match station {
            Station::Parsed => times.parsed = Some(at),
            Station::Queued => times.queued = Some(at),
            Station::Outbuf => times.outbuf = Some(at),
        }
    }

    pub(super) fn keeps_connections(&self) -> bool {
        self.config.connections
    }

    /// Records the time at which the cell's last byte was written to the kernel.
    pub(super) fn written(&mut self, tag: Tag, at: Instant, left: Option<Left>) {
        if let Some(times) = self.followed.get_mut(&tag) {
            (times.kernel, times.left) = (Some(at), left);
        }
    }

    pub(super) fn left(&mut self, tag: Tag, at: Instant) {
        if let Some(times) = self.followed.get_mut(&tag)
            && times.nic_out.is_none()
        {
            times.nic_out = Some(at);
        }
    }

    pub(super) fn take_rows(&mut self, now: Instant) -> Vec<(CellRow, Option<Left>)> {
        let mut rows = Vec::new();
        self.followed.retain(|tag, times| {
            let gone = times.kernel.is_some_and(|at| times.nic_out.is_some() || now.since(at) >= AFTERWARDS);
            if gone {
                rows.extend(times.row(*tag).map(|row| (row, times.left)));
            }
            !gone && now.since(times.read) < LOST
        });
        rows
    }
}

impl CellTimes {
    /// The row of a cell. `None` if the circuit closed before the relay knew its position in it.
    fn row(&self, tag: Tag) -> Option<CellRow> {
        let (circuit, hop) = self.circuit?;
        // The core reports the start of its call, which can be before an earlier station's time. Times never decrease.
        let mut last = self.read;
        let mut in_order = |at: Option<Instant>| {
            at.map(|at| {
                last = last.max(at);
                last.as_nanos()
            })
        };
        Some(CellRow {
            circuit,
            workload: unknown(),
            cell: tag.0.get().into(),
            hop,
            nic_in_ns: self.nic_in.map(Instant::as_nanos),
            read_ns: Some(self.read.as_nanos()),
            parsed_ns: in_order(self.parsed),
            queued_ns: in_order(self.queued),
            outbuf_ns: in_order(self.outbuf),
            kernel_ns: in_order(self.kernel),
            nic_out_ns: in_order(self.nic_out),
        })
    }
}

/// The text for the client and the workload of a circuit, because a relay does not know them.
pub(super) fn unknown() -> Arc<str> {
    Arc::from("unknown")
}

/// Cells and circuits that were traced since the last call.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// Cells that left the node.
    pub cells: Vec<CellRow>,
    /// For each cell, the connection on which it left; `None` if the trace does not record connections.
    pub left: Vec<Option<Left>>,
    /// Current state of the sampled circuits.
    pub circuits: Vec<CircuitRow>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn trace(every: u32) -> Trace {
        Trace::new(TraceConfig {
            cells: NonZeroU32::new(every),
            circuits: NonZeroU32::new(2),
            connections: false,
        })
    }

    #[test]
    fn one_cell_in_n_is_traced() {
        let mut trace = trace(3);
        let tags: Vec<_> = (0..7).map(|ms| trace.came(None, at(ms)).is_some()).collect();
        assert_eq!(tags, [false, false, true, false, false, true, false]);
        assert!(Trace::new(TraceConfig::default()).came(None, at(0)).is_none());
    }

    #[test]
    fn the_times_of_a_row_are_in_order() {
        let mut trace = trace(1);
        let circuit = CircuitIndex::first(4);
        trace.begun(circuit);
        let tag = trace.came(Some(at(11)), at(10)).unwrap();
        for (station, ms) in [(Station::Parsed, 9), (Station::Queued, 9), (Station::Outbuf, 20)] {
            trace.station(tag, circuit, Some(Position::Middle), station, at(ms));
        }
        trace.over(circuit);
        assert!(trace.take_rows(at(21)).is_empty());
        trace.written(tag, at(22), None);
        trace.left(tag, at(30));
        trace.left(tag, at(40));
        let rows: Vec<CellRow> = trace.take_rows(at(41)).into_iter().map(|(row, _)| row).collect();
        assert_eq!((rows[0].circuit, rows[0].hop), (1, Position::Middle));
        assert_eq!([rows[0].kernel_in_s(), rows[0].circuit_queue_s()], [Some(0.0), Some(0.01)]);
        assert_eq!([rows[0].outbuf_s(), rows[0].kernel_out_s()], [Some(0.002), Some(0.008)]);
        assert!(trace.take_rows(at(42)).is_empty());
    }

    #[test]
    fn cells_that_never_leave_are_forgotten() {
        let mut trace = trace(1);
        trace.came(None, at(0));
        assert!(trace.take_rows(at(119_999)).is_empty() && trace.followed.len() == 1);
        assert!(trace.take_rows(at(120_000)).is_empty() && trace.followed.is_empty());
    }

    #[test]
    fn one_circuit_in_n_is_sampled() {
        let mut trace = trace(1);
        (0..5).for_each(|index| trace.begun(CircuitIndex::first(index)));
        trace.over(CircuitIndex::first(1));
        trace.begun(CircuitIndex::first(1));
        assert_eq!(
            trace.circuits().map(|(index, number)| (index.index(), number)).collect::<Vec<_>>(),
            [(1, 6), (3, 4)]
        );
    }
}
