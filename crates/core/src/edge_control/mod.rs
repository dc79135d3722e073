//! How many cells may a circuit have outstanding end to end?
//!
//! Each end of a circuit has an [`EdgeControl`]. The packaging end uses it to limit the DATA cells that may leave. The
//! delivering end uses it to decide when a SENDME is due. A [`StreamControl`] does the same for one stream.
//! [`HopControl`](crate::hop_control::HopControl) applies in addition.
//!
//! A circuit has congestion control if its two ends agreed on an algorithm ([`Negotiation`]). If all hops have hop
//! control, the ends may agree to use no end-to-end limit ([`Ends`]). All other circuits have fixed windows.

mod congestion;
mod dctcp;
mod dynamic;
mod negotiation;
mod open;
mod timely;
mod vegas;
mod windows;
mod xon_xoff;

pub use congestion::{Acknowledged, CongestionControl, CongestionWindow, CwndBounds};
pub use dctcp::{Dctcp, DctcpConfig};
pub use dynamic::{Adjust, DynamicConfig, DynamicWindow};
pub use negotiation::{Agreement, Congestion, Negotiation};
pub use open::{Ends, OpenCircuit, OpenStream};
pub use timely::{Timely, TimelyConfig};
pub use vegas::{Vegas, VegasConfig};
pub use windows::{CircuitWindow, StreamWindow, WindowsConfig};
pub use xon_xoff::{XonXoff, XonXoffConfig};

use crate::error::Violation;
use crate::factory::Factory;
use auto_impl::auto_impl;
use enum_dispatch::enum_dispatch;
use penstock_units::{Bytes, Cells, DataRate, Instant};
use std::fmt;
use std::num::{NonZeroU8, NonZeroU32};

/// Measurements of a circuit for its edge control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Cells in the circuit's queue at this edge [cell].
    pub queue: Cells,
    /// Bytes in the output buffer of the circuit's channel [B].
    pub outbuf: Bytes,
    /// True from when the queue reaches its high mark until it falls to its low mark. During this time the edge reads
    /// no stream.
    ///
    /// Source: C tor `circuit_blocked_on_p_chan`, `circuit_blocked_on_n_chan`.
    pub blocked: bool,
    /// How many congestion marks the SENDME reports [cell]; 0 if this is no SENDME.
    pub marked: u8,
}

/// Flow control and congestion control of one circuit at one of its two ends.
#[enum_dispatch]
#[auto_impl(Box)]
pub trait EdgeControl: fmt::Debug + Send {
    /// How many more DATA cells may be packaged now [cell].
    fn package_window(&self) -> Cells;
    /// A DATA cell was packaged. Returns true if this cell triggers a SENDME when it arrives at the other end.
    fn on_package(&mut self, now: Instant, signals: Signals) -> bool;
    /// A DATA cell was delivered. Returns true if a circuit SENDME is due. On a [`Violation`] the circuit must close.
    fn on_deliver(&mut self, now: Instant) -> Result<bool, Violation>;
    /// The DATA cell that is delivered next has a congestion [mark](crate::Cell::mark).
    fn on_mark(&mut self) {}
    /// The number of marked cells that the due SENDME reports [cell]. Called once for each SENDME.
    fn take_marks(&mut self) -> u8 {
        0
    }
    /// A circuit SENDME arrived. On a [`Violation`] the circuit must close.
    fn on_sendme(&mut self, now: Instant, signals: Signals) -> Result<(), Violation>;
    /// Whether SENDMEs change the windows at the two ends. If not, they contain no digests, and a relay whose circuit
    /// queue is full sends no SENDME.
    fn obeys_windows(&self) -> bool {
        true
    }
    /// How many cells this end may have outstanding [cell]; `u64::MAX` means no limit. Only for output.
    fn window(&self) -> Cells;
    /// The last round-trip time that this end has measured; `None` if it measures none. Only for output.
    fn rtt(&self) -> Option<penstock_units::Duration> {
        None
    }
    /// The smoothed round-trip time, by which linked circuits are compared.
    ///
    /// Source: C tor `conflux_update_rtt()`, which gets `ewma_rtt_usec`.
    fn smoothed_rtt(&self) -> Option<penstock_units::Duration> {
        self.rtt()
    }
}

/// A flow control message from the delivering end of a stream to the packaging end. The relay makes the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFeedback {
    /// Allows another 50 cells of the stream (tor-spec §7.4).
    Sendme,
    /// Stops the stream until an XON (proposal 324 §4).
    Xoff,
    /// Resumes the stream, at most at this rate [kB/s, 1 kB = 1000 B]; `None` sets no rate limit.
    Xon(Option<NonZeroU32>),
}

/// The data that a stream's application has not yet taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The waiting data, in DATA cells [cell].
    pub cells: Cells,
    /// The waiting data, in bytes [B].
    pub bytes: Bytes,
}

/// Flow control of one stream at one of its two ends.
///
/// At the packaging end, the relay calls `package_window` and `rate` before it reads the stream's socket. At the
/// delivering end, it calls `on_deliver` for each DATA cell, and `on_drain` after each attempt to pass data to the
/// application. After either call the relay sends everything that `take_feedback` returns.
#[enum_dispatch]
#[auto_impl(Box)]
pub trait StreamControl: fmt::Debug + Send {
    /// How many more DATA cells of the stream may be packaged now [cell].
    fn package_window(&self) -> Cells;
    /// The rate limit for reads of the stream's socket; `None` sets no limit. A burst is at most one second's bytes.
    fn rate(&self) -> Option<DataRate> {
        None
    }
    /// A DATA cell of this size was packaged.
    fn on_package(&mut self, now: Instant, bytes: Bytes);
    /// A DATA cell was delivered. `backlog` includes this cell's data. On a [`Violation`] the circuit must close.
    fn on_deliver(&mut self, now: Instant, backlog: Backlog) -> Result<(), Violation>;
    /// The application took `drained` bytes [B], possibly zero. `backlog` is the data that still waits.
    fn on_drain(&mut self, now: Instant, drained: Bytes, backlog: Backlog);
    /// Takes one pending feedback message, which the relay sends to the packaging end.
    fn take_feedback(&mut self) -> Option<StreamFeedback>;
    /// Feedback from the delivering end arrived. On a [`Violation`] the circuit must close.
    fn on_feedback(&mut self, now: Instant, feedback: StreamFeedback) -> Result<(), Violation>;
}

/// Builds the [`EdgeControl`] of each circuit and the [`StreamControl`] of each stream.
#[derive(Clone, Debug)]
pub enum EdgeControlConfig {
    /// Fixed SENDME windows.
    Windows(WindowsConfig),
    /// A circuit window that follows the round-trip time, with fixed stream windows.
    Dynamic(DynamicConfig),
    /// Vegas and XON/XOFF if the other end of the circuit supports them, otherwise SENDME windows.
    Vegas(VegasConfig),
    /// A window that follows the fraction of marked cells, and XON/XOFF, if the other end supports both.
    Dctcp(DctcpConfig),
    /// A rate that follows the gradient of the round trip, and XON/XOFF, if the other end supports both.
    Timely(TimelyConfig),
    /// Algorithms from outside this workspace. These algorithms do not negotiate.
    Custom {
        /// Builds the control of each circuit.
        circuit: Factory<dyn EdgeControl>,
        /// Builds the control of each stream.
        stream: Factory<dyn StreamControl>,
    },
}

impl Default for EdgeControlConfig {
    fn default() -> Self {
        EdgeControlConfig::Windows(WindowsConfig::default())
    }
}

impl EdgeControlConfig {
    /// The congestion control that this end requests or offers, and the number of cells per SENDME.
    fn congestion(&self) -> Option<(Congestion, NonZeroU8)> {
        let (congestion, bounds) = match self {
            EdgeControlConfig::Vegas(VegasConfig { bounds, offered: true, .. }) => {
                (Congestion::Vegas, bounds)
            }
            EdgeControlConfig::Dctcp(DctcpConfig { bounds, .. }) => (Congestion::Dctcp, bounds),
            EdgeControlConfig::Timely(TimelyConfig { bounds, .. }) => (Congestion::Timely, bounds),
            EdgeControlConfig::Vegas(VegasConfig { offered: false, .. })
            | EdgeControlConfig::Windows(_)
            | EdgeControlConfig::Dynamic(_)
            | EdgeControlConfig::Custom { .. } => return None,
        };
        Some((congestion, bounds.sendme_inc))
    }

    /// Whether this end offers congestion control, without which circuits cannot be linked.
    pub fn has_congestion_control(&self) -> bool {
        self.congestion().is_some()
    }

    /// Whether this end's setting disables end-to-end windows if all hops have hop control.
    fn opens_ends(&self) -> bool {
        matches!(self, EdgeControlConfig::Windows(config) if config.ends != Ends::Enforced)
    }

    /// Builds the control for one end of a circuit, as the two ends have agreed.
    pub fn build_circuit(&self, agreed: Agreement) -> AnyEdgeControl {
        match (self, agreed) {
            (EdgeControlConfig::Windows(config), Agreement::OpenEnds) => OpenCircuit::new(config.ends).into(),
            (EdgeControlConfig::Dynamic(config), _) => DynamicWindow::new(*config).into(),
            (EdgeControlConfig::Vegas(config), Agreement::Congestion(inc)) => {
                let bounds = config.bounds.with_increment(inc);
                Box::new(VegasWindow::new(Vegas::new(VegasConfig { bounds, ..*config }))).into()
            }
            (EdgeControlConfig::Dctcp(config), Agreement::Congestion(inc)) => {
                let bounds = config.bounds.with_increment(inc);
                Box::new(DctcpWindow::new(Dctcp::new(DctcpConfig { bounds, ..*config }))).into()
            }
            (EdgeControlConfig::Timely(config), Agreement::Congestion(inc)) => {
                let bounds = config.bounds.with_increment(inc);
                Box::new(TimelyWindow::new(Timely::new(TimelyConfig { bounds, ..*config }))).into()
            }
            (
                EdgeControlConfig::Windows(windows)
                | EdgeControlConfig::Vegas(VegasConfig { windows, .. })
                | EdgeControlConfig::Dctcp(DctcpConfig { windows, .. })
                | EdgeControlConfig::Timely(TimelyConfig { windows, .. }),
                _,
            ) => CircuitWindow::new(*windows).into(),
            (EdgeControlConfig::Custom { circuit, .. }, _) => circuit.build().into(),
        }
    }

    /// Builds the control for one end of a stream, as the two ends of the circuit have agreed.
    pub fn build_stream(&self, agreed: Agreement) -> AnyStreamControl {
        match (self, agreed) {
            (EdgeControlConfig::Windows(config), Agreement::OpenEnds) => OpenStream::new(config.ends).into(),
            (
                EdgeControlConfig::Vegas(VegasConfig { streams, .. })
                | EdgeControlConfig::Dctcp(DctcpConfig { streams, .. })
                | EdgeControlConfig::Timely(TimelyConfig { streams, .. }),
                Agreement::Congestion(_),
            ) => XonXoff::new(*streams).into(),
            (
                EdgeControlConfig::Windows(windows)
                | EdgeControlConfig::Dynamic(DynamicConfig { windows, .. })
                | EdgeControlConfig::Vegas(VegasConfig { windows, .. })
                | EdgeControlConfig::Dctcp(DctcpConfig { windows, .. })
                | EdgeControlConfig::Timely(TimelyConfig { windows, .. }),
                _,
            ) => match windows.stream_window {
                Some(cells) => StreamWindow::new(*windows, cells).into(),
                None => OpenStream::new(Ends::Suppressed).into(),
            },
            (EdgeControlConfig::Custom { stream, .. }, _) => stream.build().into(),
        }
    }
}

/// Vegas at one end of a circuit.
pub type VegasWindow = CongestionWindow<Vegas>;
/// DCTCP at one end of a circuit.
pub type DctcpWindow = CongestionWindow<Dctcp>;
/// TIMELY at one end of a circuit.
pub type TimelyWindow = CongestionWindow<Timely>;

/// A built-in circuit control, or an algorithm from outside this workspace.
#[enum_dispatch(EdgeControl)]
#[derive(Debug)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum AnyEdgeControl {
    Windows(CircuitWindow),
    Dynamic(DynamicWindow),
    Vegas(Box<VegasWindow>),
    Dctcp(Box<DctcpWindow>),
    Timely(Box<TimelyWindow>),
    Open(OpenCircuit),
    Custom(Box<dyn EdgeControl>),
}

/// A built-in stream control (stored without an allocation), or an algorithm from outside this workspace.
#[enum_dispatch(StreamControl)]
#[derive(Debug)]
#[expect(missing_docs, reason = "variants are named after their algorithms")]
pub enum AnyStreamControl {
    Windows(StreamWindow),
    XonXoff(XonXoff),
    Open(OpenStream),
    Custom(Box<dyn StreamControl>),
}
