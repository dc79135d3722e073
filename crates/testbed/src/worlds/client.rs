//! A client. It builds its circuits, then downloads and pauses in a loop.
//!
//! A download starts with BEGIN. The client sends the request after CONNECTED, or immediately after BEGIN if the scenario
//! has `optimistic_data`.
//!
//! Source: DefenestraTor §5.1.

use super::circuits::{Built, Circuits};
use super::draws::Draws;
use super::link::{Circuit, Halt, Hop, broke};
use super::server::request;
use crate::Error;
use crate::clock::Clock;
use crate::error::{broken, unsupported};
use penstock_core::StreamId;
use penstock_core::edge_control::EdgeControlConfig;
use penstock_core::hop_control::{HopControlConfig, N23Config};
use penstock_link::cell::{RelayMessage, Target};
use penstock_link::keys::Keys;
use penstock_live::node::SocketTcp;
use penstock_record::{Direction, Outcome, Transfer, tables::Name};
use penstock_scenario::model;
use penstock_units::{Bytes, Duration, Instant};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration as Span;

/// Interval at which a client in a pause checks for the end of the run.
const LOOK: Span = Span::from_millis(20);

/// Refuses flow control that the testbed's clients do not have.
pub fn check(model: &model::Client) -> Result<(), Error> {
    let (config, name) = (&model.group.config, &model.host.name);
    if !matches!(config.edge_control, EdgeControlConfig::Windows(_) | EdgeControlConfig::Vegas(_)) {
        return Err(unsupported!(
            "{name}.edge_control is not supported by the testbed: write \"windows\" or \"vegas\""
        ));
    }
    if let HopControlConfig::N23(N23Config { adapt: Some(_), .. }) = &config.hop_control {
        return Err(unsupported!(
            "{name}.hop_control.adapt is not supported by the testbed: the client's N3 is constant; leave it out"
        ));
    }
    Ok(())
}

/// Settings of a client.
#[derive(Debug)]
pub struct Client<'a> {
    /// Name of the client.
    pub name: Name,
    /// The client in the scenario.
    pub model: &'a model::Client,
    /// Workload of the client.
    pub workload: &'a model::Workload,
    /// Random streams of the client.
    pub draws: Draws,
    /// Paths of the client's circuits. If there are several, the client links the circuits.
    pub paths: Vec<ClientPath>,
    /// Addresses of the scenario's servers.
    pub servers: &'a [SocketAddr],
    /// Settings of TCP sockets.
    pub tcp: SocketTcp,
    /// Keys for the link to the guard.
    pub keys: Keys,
    /// Clock of the run.
    pub clock: Clock,
    /// Start of the run.
    pub begins: Instant,
    /// Downloads that start before this time count as warm-up.
    pub warmup: Duration,
    /// Whether the run has ended.
    pub over: &'a AtomicBool,
}

/// The path of a circuit.
#[derive(Clone, Debug)]
pub struct ClientPath {
    /// Number of the circuit. Streams have the number of the client's first circuit.
    pub number: u64,
    /// Relays of the circuit.
    pub hops: Vec<Hop>,
    /// Whether every node of the circuit offers hop control.
    pub controlled: bool,
}

/// Results of a client.
#[derive(Debug, Default)]
pub struct Done {
    /// All downloads of the client.
    pub transfers: Vec<Transfer>,
    /// For each circuit, in the order of the paths, the time at which it was built and the duration of this [s].
    pub built: Vec<(f64, f64)>,
}

struct Download {
    stream: Option<StreamId>,
    size: u64,
    start: Instant,
    connected: Option<Instant>,
    first: Option<Instant>,
    received: u64,
    cells: u32,
}

impl<'a> Client<'a> {
    /// Runs until the end of the run.
    pub fn run(mut self) -> Result<Done, Error> {
        let mut done = Done::default();
        match self.act(&mut done) {
            Ok(()) | Err(Halt::Over) => Ok(done),
            Err(Halt::Broke(why)) => Err(broken!("client {}: {why}", self.name)),
        }
    }

    fn act(&mut self, done: &mut Done) -> Result<(), Halt> {
        let start = self.begins + self.draws.start(self.workload);
        self.wait(start)?;
        let built = self.build(done)?;
        let config = &self.model.group.config;
        let mut circuits = Circuits::new(built, config, self.clock, self.over)?;
        for number in 1..=u16::MAX {
            let (server, size) = (self.draws_server(), self.draws.size(self.workload));
            let mut download = Download {
                stream: NonZeroU16::new(number).map(StreamId),
                size: size.get(),
                start: self.clock.now(),
                connected: None,
                first: None,
                received: 0,
                cells: 0,
            };
            let outcome = self.download(&mut circuits, &mut download, server);
            let ended = match &outcome {
                Ok(()) => Outcome::Ok,
                Err(Halt::Over) => Outcome::Unfinished,
                Err(Halt::Broke(_)) => Outcome::Failed,
            };
            done.transfers.push(self.transfer(&download, number, ended));
            outcome?;
            let until = self.clock.now() + self.draws.pause(self.workload);
            self.wait(until)?;
        }
        Ok(())
    }

    /// Builds all circuits at the same time, as the simulator does.
    fn build(&self, done: &mut Done) -> Result<Vec<Built<'a>>, Halt> {
        let begun = self.clock.now();
        let config = &self.model.group.config;
        let build = |path: &ClientPath| {
            let Some(guard) = path.hops.first() else { return broke("a path has no relays") };
            let mut circuit = Circuit::connect(&guard.spec, self.tcp, &self.keys, config, self.over)?;
            let agreed = circuit.build(&path.hops, path.controlled)?;
            let built = self.clock.now();
            Ok(((circuit, agreed), (self.seconds(built), built.since(begun).as_secs_f64())))
        };
        // Each thread belongs to the network namespace of this one.
        let built: Result<Vec<_>, _> = thread::scope(|threads| {
            let builders: Vec<_> = self.paths.iter().map(|path| threads.spawn(|| build(path))).collect();
            builders.into_iter().map(|builder| builder.join().expect("errors are returned")).collect()
        });
        let circuits;
        (circuits, done.built) = built?.into_iter().unzip();
        Ok(circuits)
    }

    fn draws_server(&mut self) -> SocketAddr {
        self.servers[self.draws.server(self.model)]
    }

    fn download(
        &self,
        circuits: &mut Circuits<'_>,
        download: &mut Download,
        server: SocketAddr,
    ) -> Result<(), Halt> {
        let stream = download.stream;
        let asks = request(self.workload.request.get(), download.size);
        let (host, port) = (server.ip().to_string(), server.port());
        circuits.send_message(
            stream,
            &RelayMessage::Begin(Target::Host { host, port, flags: Default::default() }),
        )?;
        let optimistic = self.model.group.config.optimistic_data;
        if optimistic {
            circuits.send_data(stream, &asks)?;
        }
        while download.received < download.size || download.connected.is_none() {
            let (on, message) = circuits.receive_message()?;
            let is_ours = on == stream;
            match message {
                RelayMessage::Connected(_) if is_ours => {
                    download.connected = Some(self.clock.now());
                    if !optimistic {
                        circuits.send_data(stream, &asks)?;
                    }
                }
                RelayMessage::Data(payload) if is_ours => {
                    download.cells += 1;
                    download.received += payload.as_bytes().len() as u64;
                    download.first.get_or_insert(self.clock.now());
                    let increment = circuits.stream_increment();
                    if increment.is_some_and(|increment| download.cells.is_multiple_of(increment)) {
                        circuits.send_message(stream, &RelayMessage::Sendme(None))?;
                    }
                }
                RelayMessage::End(end) if is_ours && download.received < download.size => {
                    return Err(Halt::Broke(format!("a stream ended early: {:?}", end.reason)));
                }
                RelayMessage::Truncated(reason) => {
                    return Err(Halt::Broke(format!("the circuit was cut: {reason:?}")));
                }
                // SENDMEs of relays, and messages of earlier streams.
                _ => {}
            }
        }
        Ok(())
    }

    fn transfer(&self, download: &Download, number: u16, outcome: Outcome) -> Transfer {
        let since = |at: Option<Instant>| at.map(|at| at.since(download.start).as_secs_f64());
        let start_s = self.seconds(download.start);
        Transfer {
            client: self.name.clone(),
            workload: self.workload.name.as_str().into(),
            circuit: self.paths.first().map(|path| path.number),
            stream: Some(number.into()),
            direction: Direction::Download,
            bytes: Bytes::new(download.size).get(),
            bytes_received: download.received,
            start_s,
            connect_s: since(download.connected),
            ttfb_s: since(download.first),
            ttlb_s: since(Some(self.clock.now()).filter(|_| outcome == Outcome::Ok)),
            outcome,
            warmup: start_s < self.warmup.as_secs_f64(),
        }
    }

    /// Time from the start of the run to `at` [s].
    fn seconds(&self, at: Instant) -> f64 {
        at.since(self.begins).as_secs_f64()
    }

    fn wait(&self, until: Instant) -> Result<(), Halt> {
        loop {
            if self.over.load(Ordering::Relaxed) {
                return Err(Halt::Over);
            }
            let left = until.since(self.clock.now());
            if left.is_zero() {
                return Ok(());
            }
            self.clock.sleep_until(self.clock.now() + left.min(LOOK));
        }
    }
}
