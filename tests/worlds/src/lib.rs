//! One path test for the simulator and for real sockets.
//!
//! A [`Plan`] describes the traffic on one path of relays, and a [`World`] executes it. The [`Findings`] must be the
//! same in every world. They can be computed by hand ([`Findings::expected`]). The relay core is the same in each
//! world; only the transport of cells differs.

pub mod linux;
pub mod sim;

use penstock_core::cell::MAX_PAYLOAD;
use penstock_core::edge_control::{EdgeControlConfig, WindowsConfig};
use penstock_core::{Counters, RelayConfig};

/// The traffic on one path: build a circuit, open streams, transfer bytes both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Relays on the path [1].
    pub hops: usize,
    /// Streams opened at once, as soon as the circuit is built [1].
    pub streams: u64,
    /// Server data on each stream [DATA cell]. Cells are full, so all worlds count the same.
    pub download: u64,
    /// Client data on each stream [DATA cell].
    pub upload: u64,
    /// Package window of every circuit [cell].
    pub circuit_window: u32,
    /// Size of the channels' send buffers [B]; `None` is the world's default.
    pub send_buffer: Option<usize>,
}

impl Plan {
    /// Three hops, a request of one cell and a download of some 400 KiB.
    pub const DOWNLOAD: Plan =
        Plan { hops: 3, streams: 1, download: 823, upload: 1, circuit_window: 1000, send_buffer: None };

    /// Plans that every world must pass.
    pub const ALL: [Plan; 5] = [
        Plan::DOWNLOAD,
        Plan { upload: 205, streams: 3, ..Plan::DOWNLOAD },
        Plan { download: 0, upload: 1501, ..Plan::DOWNLOAD },
        Plan { circuit_window: 100, streams: 2, upload: 99, ..Plan::DOWNLOAD },
        Plan { hops: 5, streams: 2, upload: 100, send_buffer: Some(4096), ..Plan::DOWNLOAD },
    ];

    /// Configuration of every node.
    pub fn config(&self) -> RelayConfig {
        let windows = WindowsConfig { circuit_window: self.circuit_window, ..WindowsConfig::default() };
        RelayConfig { edge_control: EdgeControlConfig::Windows(windows), ..RelayConfig::default() }
    }

    /// Payload of `cells` DATA cells [B].
    pub fn bytes(cells: u64) -> u64 {
        cells * u64::from(MAX_PAYLOAD)
    }
}

/// The counters of one node at the end [cell].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFindings {
    /// Cells taken from channels.
    pub received: u64,
    /// Cells written to channels.
    pub sent: u64,
    /// Cells created.
    pub made: u64,
    /// Cells of circuits that closed.
    pub dropped: u64,
    /// Circuit SENDMEs created.
    pub sendmes: u64,
    /// DATA cells packaged.
    pub packaged: u64,
    /// DATA cells delivered.
    pub delivered: u64,
}

impl From<Counters> for NodeFindings {
    fn from(counters: Counters) -> Self {
        NodeFindings {
            received: counters.received,
            sent: counters.sent,
            made: counters.made,
            dropped: counters.dropped,
            sendmes: counters.sendmes,
            packaged: counters.data_packaged,
            delivered: counters.data_delivered,
        }
    }
}

/// Results that must be the same in every world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// Circuits built [1].
    pub circuits: u64,
    /// For each stream, the bytes received by the application and by the server, in order and undamaged [B].
    pub streams: Vec<(u64, u64)>,
    /// The client, then each relay.
    pub nodes: Vec<NodeFindings>,
    /// The exit's unacknowledged DATA cells never exceeded its window.
    pub window_kept: bool,
}

impl Findings {
    /// Computes the results from the plan.
    pub fn expected(plan: &Plan) -> Findings {
        let Plan { hops, streams, download, upload, .. } = *plan;
        let (down, up, hops) = (streams * download, streams * upload, hops as u64);
        // CREATE, EXTENDs, BEGINs, DATA, and a SENDME for each hundred cells of the circuit and fifty cells of a
        // stream.
        let client = hops + streams + up + down / 100 + streams * (download / 50);
        // CREATED, CONNECTEDs and ENDs, DATA, SENDMEs.
        let exit = 1 + 2 * streams + down + up / 100 + streams * (upload / 50);
        let node = |place: u64| {
            // The last hop receives each EXTEND and sends a CREATE. Answers do the same in reverse.
            let beyond = hops - place;
            let towards_exit = client - place.saturating_sub(1);
            let towards_client = exit + beyond;
            let (received, sent) = match place {
                0 => (towards_client - 1, client),
                _ if place == hops => (towards_exit, exit),
                _ => (towards_exit + towards_client - 1, towards_exit - 1 + towards_client),
            };
            let made = if place == 0 {
                client
            } else if place == hops {
                exit
            } else {
                3
            };
            let (packaged, delivered) = if place == 0 {
                (up, down)
            } else if place == hops {
                (down, up)
            } else {
                (0, 0)
            };
            NodeFindings { received, sent, made, dropped: 0, sendmes: delivered / 100, packaged, delivered }
        };
        Findings {
            circuits: 1,
            streams: vec![(Plan::bytes(download), Plan::bytes(upload)); streams as usize],
            nodes: (0..=hops).map(node).collect(),
            window_kept: true,
        }
    }
}

/// A world that can execute a plan.
pub trait World {
    /// Its name in messages.
    fn name(&self) -> &'static str;
    /// Executes the plan to its end.
    fn run(&mut self, plan: &Plan) -> Findings;
}

/// Executes every plan in `world` and compares the results with the expected ones.
///
/// # Panics
///
/// If they differ.
pub fn path_test(world: &mut impl World) {
    for plan in &Plan::ALL {
        let found = world.run(plan);
        assert_eq!(found, Findings::expected(plan), "{}: {plan:?}", world.name());
    }
}

/// The byte at `offset` of one direction of a stream, for worlds whose cells have bodies.
pub fn byte_at(stream: u64, download: bool, offset: u64) -> u8 {
    let place = offset + stream * 7919 + u64::from(download) * 104_729;
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}
