//! A live relay on a host of the testbed, and its records.

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

const PORT: u16 = 9001;
/// The numbers of circuits of relay n start at n times this value, so that no two relays use the same number [1].
const CIRCUITS: u64 = 1_000_000;

/// Settings of a relay.
#[derive(Debug)]
pub struct Relay {
    /// Number of the relay, from 1. The numbers of its circuits depend on it.
    pub number: u64,
    /// Name of the relay.
    pub name: Name,
    /// Position of the relay on circuits.
    pub position: Position,
    /// IPv4 address of the relay.
    pub address: Ipv4Addr,
    /// Settings of the relay core.
    pub config: RelayConfig,
    /// Settings of TCP sockets.
    pub tcp: SocketTcp,
    /// The relay traces every n-th cell, with this n [1]; `None` traces none.
    pub cells: Option<NonZeroU32>,
    /// Interval between samples of circuits; `None` samples no circuits.
    pub circuits: Option<Duration>,
    /// Interval between samples of the relay.
    pub sample: Duration,
    /// Clock of the testbed.
    pub clock: Clock,
}

/// Records of a relay.
#[derive(Debug, Default)]
pub struct Record {
    /// Tables, with times of the testbed's clock.
    pub tables: Tables,
    /// For each cell, the connection on which it left.
    pub left: Vec<Option<Left>>,
}

impl Relay {
    /// Runs the relay in the network namespace of the calling thread until `over` is set. Sends the relay's address
    /// and keys to `sender`. The times of all rows are those of the testbed's clock.
    pub fn run(self, keys: Keys, sender: &Sender<(u64, Hop)>, over: &AtomicBool) -> Result<Record, Error> {
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
            // The scenario has no host names to look up.
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
        // The receiver may have ended.
        let _ = sender.send((self.number, Hop { spec, onion }));

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

/// All times of a traced cell.
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
