//! A client. It builds a circuit, then downloads and pauses in a loop.
//!
//! Without congestion control, the client's proxy uses the windows of stock Tor: a SENDME for every 50 cells of a stream,
//! and one for every 100 cells of the circuit. With Vegas, it sends SENDMEs of the circuit only. A download starts with BEGIN. The client sends the request after CONNECTED, or immediately
//! after BEGIN if the scenario has `optimistic_data`.
//!
//! Source: DefenestraTor §5.1; C tor `CIRCWINDOW_INCREMENT`, `STREAMWINDOW_INCREMENT`.

use super::draws::Draws;
use super::link::{Circuit, Halt, Hop};
use super::server::request;
use crate::Error;
use crate::clock::Clock;
use crate::error::{broken, unsupported};
use penstock_core::edge_control::{Agreement, EdgeControlConfig, Ends};
use penstock_core::hop_control::{HopControlConfig, N23Config};
use penstock_core::{RelayConfig, StreamId};
use penstock_link::cell::{RelayMessage, Target};
use penstock_link::keys::Keys;
use penstock_live::node::SocketTcp;
use penstock_record::{Direction, Outcome, Transfer, tables::Name};
use penstock_scenario::model;
use penstock_units::{Bytes, Duration, Instant};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Span;

/// The number of cells that one SENDME acknowledges without congestion control, of a stream and of a circuit [cell].
const INCREMENTS: [u32; 2] = [50, 100];

/// The SENDMEs of a circuit.
#[derive(Clone, Copy, Debug)]
struct Sendmes {
    /// Cells of a stream per SENDME [cell]; `None` sends none.
    stream: Option<u32>,
    /// Cells of the circuit per SENDME [cell]; `None` sends none.
    circuit: Option<u32>,
    /// DATA cells of the circuit so far [cell].
    cells: u32,
}

impl Sendmes {
    fn new(config: &RelayConfig, agreed: Agreement) -> Self {
        let ends = match &config.edge_control {
            EdgeControlConfig::Windows(windows) => windows.ends,
            _ => Ends::Enforced,
        };
        let (stream, circuit) = match agreed {
            Agreement::Congestion(increment) => (None, Some(increment.get().into())),
            Agreement::OpenEnds if ends == Ends::Suppressed => (None, None),
            Agreement::OpenEnds | Agreement::Nothing => (Some(INCREMENTS[0]), Some(INCREMENTS[1])),
        };
        Sendmes { stream, circuit, cells: 0 }
    }
}
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
    if config.conflux.is_some() {
        return Err(unsupported!(
            "{name}.conflux is not supported by the testbed: its clients link no circuits; set conflux = false"
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
    /// Number of the client's circuit.
    pub number: u64,
    /// Relays of the client's circuit.
    pub path: Vec<Hop>,
    /// Whether every node of the circuit offers hop control.
    pub controlled: bool,
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

/// Results of a client.
#[derive(Debug, Default)]
pub struct Done {
    /// All downloads of the client.
    pub transfers: Vec<Transfer>,
    /// Start time and duration of the circuit's construction [s].
    pub built: Option<(f64, f64)>,
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

impl Client<'_> {
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
        let begun = self.clock.now();
        let Some(guard) = self.path.first().cloned() else { return Ok(()) };
        let config = &self.model.group.config;
        let mut circuit = Circuit::connect(&guard.spec, self.tcp, &self.keys, config, self.over)?;
        let agreed = circuit.build(&self.path, self.controlled)?;
        let built = self.clock.now();
        done.built = Some((self.seconds(built), built.since(begun).as_secs_f64()));
        let mut sendmes = Sendmes::new(config, agreed);
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
            let outcome = self.download(&mut circuit, &mut download, server, &mut sendmes);
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

    fn draws_server(&mut self) -> SocketAddr {
        self.servers[self.draws.server(self.model)]
    }

    fn download(
        &self,
        circuit: &mut Circuit<'_>,
        download: &mut Download,
        server: SocketAddr,
        sendmes: &mut Sendmes,
    ) -> Result<(), Halt> {
        let stream = download.stream;
        let asks = request(self.workload.request.get(), download.size);
        let (host, port) = (server.ip().to_string(), server.port());
        circuit.send_message(
            stream,
            &RelayMessage::Begin(Target::Host { host, port, flags: Default::default() }),
        )?;
        let optimistic = self.model.group.config.optimistic_data;
        if optimistic {
            circuit.send_data(stream, &asks)?;
        }
        while download.received < download.size || download.connected.is_none() {
            let (on, message, tag) = circuit.receive_message()?;
            let is_ours = on == stream;
            match message {
                RelayMessage::Connected(_) if is_ours => {
                    download.connected = Some(self.clock.now());
                    if !optimistic {
                        circuit.send_data(stream, &asks)?;
                    }
                }
                RelayMessage::Data(payload) => {
                    sendmes.cells += 1;
                    if is_ours {
                        download.cells += 1;
                        download.received += payload.as_bytes().len() as u64;
                        download.first.get_or_insert(self.clock.now());
                    }
                    let is_due =
                        |cells: u32, per: Option<u32>| per.is_some_and(|per| cells.is_multiple_of(per));
                    if is_ours && is_due(download.cells, sendmes.stream) {
                        circuit.send_message(stream, &RelayMessage::Sendme(None))?;
                    }
                    if is_due(sendmes.cells, sendmes.circuit) {
                        circuit.send_message(None, &RelayMessage::Sendme(Some(tag)))?;
                    }
                }
                RelayMessage::End(end) if is_ours && download.received < download.size => {
                    return Err(Halt::Broke(format!("a stream ended early: {:?}", end.reason)));
                }
                RelayMessage::Truncated(reason) => {
                    return Err(Halt::Broke(format!("the circuit was cut: {reason:?}")));
                }
                // SENDMEs of relays, and END messages of earlier streams.
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
            circuit: Some(self.number),
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
