//! A live relay at a host of the testbed, and what it records.

use super::link::Hop;
use crate::Error;
use crate::clock::Clock;
use crate::error::broken;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use penstock_core::RelayConfig;
use penstock_link::descriptor::{ExitPolicy, Private};
use penstock_link::keys::Keys;
use penstock_live::names::NameServers;
use penstock_live::node::{Left, Node, NodeConfig, Observation, SocketTcp, TraceConfig};
use penstock_record::{Position, Tables, tables::Name};
use penstock_units::{Duration, Instant};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// Where relays listen.
const PORT: u16 = 9001;
/// A relay's circuits are numbered from so many times its own number [1].
const CIRCUITS: u64 = 1_000_000;

/// What a relay is.
#[derive(Debug)]
pub struct Relay {
    /// Its number, from 1: of what its circuits are called.
    pub number: u64,
    /// Its name.
    pub name: Name,
    /// Where it stands.
    pub position: Position,
    /// Where it is.
    pub address: Ipv4Addr,
    /// How it is set up.
    pub config: RelayConfig,
    /// What its sockets are.
    pub tcp: SocketTcp,
    /// One cell in so many is followed [cell].
    pub cells: Option<NonZeroU32>,
    /// Between two looks at its circuits, if there are any.
    pub circuits: Option<Duration>,
    /// Between two rows of the relay.
    pub sample: Duration,
    /// The time of the testbed.
    pub clock: Clock,
}

/// What a relay recorded.
#[derive(Debug, Default)]
pub struct Record {
    /// In the testbed's time.
    pub tables: Tables,
    /// On which connection each of the cells left.
    pub left: Vec<Option<Left>>,
}

impl Relay {
    /// Runs in the namespace of the calling thread until it is `over`; `says` how to reach it. Rows have the testbed's time.
    pub fn run(self, keys: Keys, says: &Sender<(u64, Hop)>, over: &AtomicBool) -> Result<Record, Error> {
        let fail = |error: &dyn std::fmt::Display| broken!("relay {}: {error}", self.name);
        let identities = keys.identities();
        let onion =
            identities.onion.first().map(|key| key.public).ok_or_else(|| fail(&"it has no onion key"))?;
        let all = ExitPolicy::new(
            vec!["accept *:*".parse().map_err(|error| fail(&error))?],
            Private::AsRules,
            Vec::new(),
        );
        let listen = SocketAddr::new(self.address.into(), PORT);
        let config = NodeConfig {
            extend_to_private: true,
            single_hop: true,
            // Nobody asks for names here.
            name_servers: NameServers::At(Vec::new()),
            tcp: self.tcp,
            ..NodeConfig::new(listen, self.address.into(), self.config.clone(), all)
        };
        let mut node = Node::bind(config, keys).map_err(|error| fail(&error))?;
        node.trace(TraceConfig {
            cells: self.cells,
            circuits: self.circuits.map(|_| NonZeroU32::MIN),
            connections: true,
        });
        let tick = self.circuits.map_or(self.sample, |circuits| circuits.min(self.sample));
        let timer = every(tick).map_err(|error| fail(&error))?;
        node.wake_by(&timer).map_err(|error| fail(&error))?;
        let offset = self.clock.now().since(Instant::ZERO).saturating_sub(node.now().since(Instant::ZERO));
        let spec = node.link_spec().map_err(|error| fail(&error))?;
        // Who started it and is gone needs to hear nothing.
        let _ = says.send((self.number, Hop { spec, onion }));

        let (mut record, mut last) = (Record::default(), node.observe());
        let mut next = last.at + self.sample;
        while !over.load(Ordering::Relaxed) {
            node.turn().map_err(|error| fail(&error))?;
            if node.was_woken() {
                timer.wait().map_err(|error| fail(&error))?;
                if node.now() >= next {
                    next += self.sample;
                    last = self.sample(&mut record.tables, &node, &last, offset);
                }
                self.traced(&mut record, &mut node, offset);
            }
        }
        Ok(record)
    }

    fn sample(&self, tables: &mut Tables, node: &Node, last: &Observation, offset: Duration) -> Observation {
        let seen = node.observe();
        let mut row = seen.row(last, self.name.clone(), self.position);
        row.t_s += offset.as_secs_f64();
        tables.relays.push(row);
        seen
    }

    fn traced(&self, record: &mut Record, node: &mut Node, offset: Duration) {
        let traced = node.take_traced();
        let number = |circuit: u64| self.number * CIRCUITS + circuit;
        if self.circuits.is_some() {
            record.tables.circuits.extend(traced.circuits.into_iter().map(|mut row| {
                row.t_s += offset.as_secs_f64();
                row.circuit = row.circuit.map(number);
                row
            }));
        }
        let offset = penstock_units::time::nanos(offset);
        record.left.extend(traced.left);
        record.tables.cells.extend(traced.cells.into_iter().map(|mut row| {
            row.circuit = number(row.circuit);
            times(&mut row).into_iter().flatten().for_each(|at| *at += offset);
            row
        }));
    }
}

/// All times of a followed cell.
pub fn times(row: &mut penstock_record::CellRow) -> [Option<&mut u64>; 7] {
    [
        row.nic_in_ns.as_mut(),
        row.read_ns.as_mut(),
        row.parsed_ns.as_mut(),
        row.queued_ns.as_mut(),
        row.outbuf_ns.as_mut(),
        row.kernel_ns.as_mut(),
        row.nic_out_ns.as_mut(),
    ]
}

fn every(span: Duration) -> nix::Result<TimerFd> {
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::empty())?;
    timer.set(Expiration::Interval(TimeSpec::from(span)), TimerSetTimeFlags::empty())?;
    Ok(timer)
}
