use crate::bound::Bound;
use crate::client::{Circuit, Download};
use crate::queue::HostId;
use crate::tcp::Info;
use penstock_core::Counters;
use penstock_core::hop_control::Backlog;
use penstock_record::tables::Name;
use penstock_record::{
    CellRow, CircuitRow, ClientRow, Direction, Outcome, PathRow, Position, RelayRow, Tables, Transfer,
};
use penstock_units::{Cells, Duration, Instant};

/// Collects the rows of a run's tables.
///
/// Rows arrive in the order in which hosts act. [`Observer::into_tables`] sorts the rows by time.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    tables: Tables,
    /// The observer belongs to one of several shards. The shard is part of the circuits' preliminary numbers.
    shard: usize,
    shards: usize,
    /// For each circuit, its start time and its client.
    begun: Vec<(Instant, HostId)>,
    /// For each recorded download, its end time and its client.
    ended: Vec<(Instant, HostId)>,
    /// The names of bounds that were found so far. Rows share these names.
    bounds: Vec<Name>,
}

#[derive(Debug)]
pub(crate) struct TransferEnd {
    pub(crate) client: Name,
    pub(crate) workload: Name,
    /// `None` for a client without Tor.
    pub(crate) circuit: Option<u32>,
    /// For a client without Tor, when its connection was established.
    pub(crate) connected: Option<Instant>,
    pub(crate) received: u64,
    pub(crate) first_byte: Option<Instant>,
    pub(crate) last_byte: Option<Instant>,
    pub(crate) outcome: Outcome,
    pub(crate) warmup: bool,
}

#[derive(Debug)]
pub(crate) struct RelaySample {
    pub(crate) name: Name,
    pub(crate) position: Position,
    pub(crate) at: Instant,
    pub(crate) before: Counters,
    pub(crate) after: Counters,
    pub(crate) circuit_queue: Cells,
    pub(crate) outbuf: u64,
    pub(crate) kernel_out: u64,
    pub(crate) throttled: u32,
    pub(crate) bound: Option<Bound>,
}

/// The state of a traced circuit at one hop, or the state of a traced download without Tor at the server.
#[derive(Debug)]
pub(crate) struct CircuitSample {
    /// `None` for a client without Tor.
    pub(crate) circuit: Option<u32>,
    pub(crate) client: Name,
    pub(crate) workload: Name,
    pub(crate) hop: Position,
    pub(crate) at: Instant,
    pub(crate) queue: Cells,
    /// At both ends of the circuit, the end-to-end window and the last round trip measured there.
    pub(crate) window: Option<(Cells, Option<Duration>)>,
    /// At both ends of the circuit, how many SENDMEs of the circuit and its streams have arrived there.
    pub(crate) sendmes: Option<u64>,
    /// The hop control's estimates of the circuit's queues at later nodes.
    pub(crate) backlog: Option<Backlog>,
    /// The state of the socket towards the client.
    pub(crate) tcp: Option<Info>,
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

/// Makes space for one more row. The vector grows only by a quarter, because doubling could leave half of the memory
/// unused.
fn reserve_row<T>(rows: &mut Vec<T>) {
    if rows.len() == rows.capacity() {
        rows.reserve_exact(rows.len() / 4 + 1024);
    }
}

impl Observer {
    pub(crate) fn new(shard: usize, shards: usize) -> Self {
        Observer { shard, shards, ..Observer::default() }
    }

    /// Records a new circuit. Returns the circuit's preliminary number.
    pub(crate) fn circuit_begun(&mut self, now: Instant, by: HostId, client: Name, relays: &[Name]) -> u32 {
        let number = self.begun.len() * self.shards + self.shard;
        self.begun.push((now, by));
        let name = |place: usize| relays[place.min(relays.len() - 1)].clone();
        self.tables.paths.push(PathRow {
            circuit: number as u64,
            client,
            built_s: None,
            build_time_s: None,
            guard: name(0),
            middle: name(relays.len() / 2),
            exit: name(relays.len() - 1),
        });
        number as u32
    }

    pub(crate) fn circuit_built(&mut self, circuit: &Circuit, now: Instant) {
        let row = &mut self.tables.paths[circuit.number as usize / self.shards];
        row.built_s = Some(now.as_secs_f64());
        row.build_time_s = Some(seconds(now - circuit.begun));
    }

    pub(crate) fn transfer(&mut self, now: Instant, by: HostId, download: &Download, ending: TransferEnd) {
        self.ended.push((now, by));
        let since = |at: Option<Instant>| at.map(|at| seconds(at - download.start));
        let complete = ending.outcome == Outcome::Ok;
        self.tables.transfers.push(Transfer {
            client: ending.client,
            workload: ending.workload,
            circuit: ending.circuit.map(u64::from),
            stream: ending.circuit.map(|_| download.number),
            direction: Direction::Download,
            bytes: download.size.get(),
            bytes_received: ending.received,
            start_s: download.start.as_secs_f64(),
            connect_s: since(download.connected.or(ending.connected)),
            ttfb_s: since(ending.first_byte),
            ttlb_s: since(ending.last_byte.filter(|_| complete)),
            outcome: ending.outcome,
            warmup: ending.warmup,
        });
    }

    pub(crate) fn relay(&mut self, sample: RelaySample) {
        let bound_by = sample.bound.map(|bound| self.named(bound.name()));
        reserve_row(&mut self.tables.relays);
        self.tables.relays.push(RelayRow {
            relay: sample.name,
            position: sample.position,
            t_s: sample.at.as_secs_f64(),
            read_bytes: sample.after.read_bytes.saturating_sub(sample.before.read_bytes).get(),
            written_bytes: sample.after.written_bytes.saturating_sub(sample.before.written_bytes).get(),
            circuit_queue_cells: sample.circuit_queue.get(),
            outbuf_bytes: sample.outbuf,
            kernel_out_bytes: sample.kernel_out,
            throttled_conns: sample.throttled.into(),
            bound_by,
            written_cells: sample.after.sent - sample.before.sent,
            credits: sample.after.credits - sample.before.credits,
            longest_queue_cells: sample.after.longest_queue,
        });
    }

    fn named(&mut self, bound: &str) -> Name {
        if let Some(name) = self.bounds.iter().find(|name| &***name == bound) {
            return name.clone();
        }
        let name = Name::from(bound);
        self.bounds.push(name.clone());
        name
    }

    pub(crate) fn circuit(&mut self, sample: CircuitSample) {
        let tcp = sample.tcp;
        self.tables.circuits.push(CircuitRow {
            circuit: sample.circuit.map(u64::from),
            workload: sample.workload,
            hop: sample.hop,
            t_s: sample.at.as_secs_f64(),
            queue_cells: sample.queue.get(),
            window_cells: sample.window.map(|(window, _)| window.get() as i64),
            rtt_s: sample.window.and_then(|(_, rtt)| rtt).map(seconds),
            client: sample.client,
            cwnd_segments: tcp.map(|tcp| tcp.cwnd.into()),
            ssthresh_segments: tcp.map(|tcp| tcp.ssthresh).filter(|at| *at != u32::MAX).map(u64::from),
            srtt_s: tcp.map(|tcp| tcp.srtt).filter(|srtt| !srtt.is_zero()).map(seconds),
            backlog_cells: sample.backlog.and_then(|backlog| backlog.next),
            backlog_beyond_cells: sample.backlog.and_then(|backlog| backlog.beyond),
            sendmes: sample.sendmes,
        });
    }

    pub(crate) fn client(&mut self, now: Instant, client: Name, received_bytes: u64, throttled: bool) {
        reserve_row(&mut self.tables.clients);
        self.tables.clients.push(ClientRow { client, t_s: now.as_secs_f64(), received_bytes, throttled });
    }

    /// Merges the rows of all shards, sorts them by time, and numbers the circuits in the order of their start times.
    pub(crate) fn into_tables(observers: Vec<Observer>, cells: Vec<CellRow>) -> Tables {
        let shards = observers.len();
        // A client may start several circuits at the same time. The stable sort keeps them in the order of the
        // sessions.
        let mut order: Vec<(Instant, HostId, usize)> = Vec::new();
        for (shard, observer) in observers.iter().enumerate() {
            let numbers = (shard..).step_by(shards);
            order.extend(observer.begun.iter().zip(numbers).map(|((at, by), number)| (*at, *by, number)));
        }
        order.sort_by_key(|(at, by, _)| (*at, *by));
        let mut numbers = vec![0; order.iter().map(|(.., number)| number + 1).max().unwrap_or(0)];
        for (number, (.., preliminary)) in order.iter().enumerate() {
            numbers[*preliminary] = number as u64;
        }
        drop(order);
        let renumber = |circuit: &mut u64| *circuit = numbers[*circuit as usize];
        let mut tables = Tables::default();
        let mut ended = Vec::new();
        for observer in observers {
            let Observer { tables: shard, ended: of_shard, .. } = observer;
            append(&mut tables.paths, shard.paths);
            append(&mut tables.circuits, shard.circuits);
            append(&mut tables.relays, shard.relays);
            append(&mut tables.clients, shard.clients);
            ended.extend(of_shard.into_iter().zip(shard.transfers));
        }
        tables.paths.iter_mut().for_each(|row| renumber(&mut row.circuit));
        tables.paths.sort_by_key(|row| row.circuit);
        tables.circuits.iter_mut().filter_map(|row| row.circuit.as_mut()).for_each(renumber);
        tables
            .circuits
            .sort_by(|one, other| one.t_s.total_cmp(&other.t_s).then(one.circuit.cmp(&other.circuit)));
        if shards > 1 {
            tables.clients.sort_by(|one, other| {
                one.t_s.total_cmp(&other.t_s).then_with(|| one.client.cmp(&other.client))
            });
            tables.relays.sort_by(|one, other| {
                one.t_s.total_cmp(&other.t_s).then_with(|| one.relay.cmp(&other.relay))
            });
        }
        tables.cells = cells;
        tables.cells.iter_mut().for_each(|row| renumber(&mut row.circuit));
        tables.cells.sort_by_key(|row| (row.circuit, row.cell));
        ended.sort_by_key(|(ended, _)| *ended);
        tables.transfers = ended.into_iter().map(|(_, row)| row).collect();
        tables.transfers.iter_mut().for_each(|row| row.circuit.iter_mut().for_each(renumber));
        tables
    }
}

/// Adds the rows of another shard. The rows of the first shard are not copied.
fn append<T>(rows: &mut Vec<T>, mut others: Vec<T>) {
    if rows.is_empty() {
        *rows = others;
    } else {
        rows.append(&mut others);
    }
}
