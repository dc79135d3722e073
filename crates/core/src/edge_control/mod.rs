//! What may a circuit have outstanding end to end?
//!
//! Each end of a circuit has an [`EdgeControl`]. The packaging end uses it to limit the DATA cells that may leave. The
//! delivering end uses it to decide when a SENDME is due. A [`StreamControl`] does the same for one stream. Both work
//! together with [`HopControl`](crate::hop_control::HopControl).
//!
//! A circuit has congestion control if its two ends agreed on an algorithm ([`Negotiation`]). If all hops have hop
//! control, the ends may agree on no end-to-end limit ([`Ends`]). All other circuits have fixed windows.

mod dctcp;
mod dynamic;
mod negotiation;
mod open;
mod sendmes;
mod timely;
mod vegas;
mod windows;
mod xon_xoff;

pub use dctcp::{Dctcp, DctcpConfig, DctcpWindow};
pub use dynamic::{Adjust, DynamicConfig, DynamicWindow};
pub use negotiation::{Agreement, Congestion, Negotiation};
pub use open::{Ends, OpenCircuit, OpenStream};
pub use sendmes::CwndBounds;
pub use timely::{Timely, TimelyConfig, TimelyWindow};
pub use vegas::{Vegas, VegasConfig, VegasWindow};
pub use windows::{CircuitWindow, StreamWindow, WindowsConfig};
pub use xon_xoff::{XonXoff, XonXoffConfig};

use crate::error::Violation;
use crate::factory::Factory;
use auto_impl::auto_impl;
use enum_dispatch::enum_dispatch;
use penstock_units::{Bytes, Cells, DataRate, Instant};
use std::fmt;
use std::num::{NonZeroU8, NonZeroU32};

/// The state of a circuit that its edge control can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Cells in the circuit's queue at this edge [cell].
    pub queue: Cells,
    /// Bytes in the output buffer of the circuit's channel [B].
    pub outbuf: Bytes,
    /// The queue has reached its high mark and has not fallen to its low mark since. No stream is read.
    ///
    /// Source: C tor `circuit_blocked_on_p_chan`, `circuit_blocked_on_n_chan`.
    pub blocked: bool,
    /// How many of the acknowledged cells met congestion, as the SENDME reports [cell]; 0 if there is no SENDME.
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
    /// Whether SENDMEs change the windows of the two ends. If not, SENDMEs need no digests, and the relay skips them
    /// while the queue is full.
    fn obeys_windows(&self) -> bool {
        true
    }
    /// How many cells this end may have outstanding [cell], for measurements; `u64::MAX` means no limit.
    fn window(&self) -> Cells;
    /// The last round-trip time that this end measured, for measurements; `None` if this end does not measure round
    /// trips.
    fn rtt(&self) -> Option<penstock_units::Duration> {
        None
    }
}

/// Flow control from the delivering end of a stream to the packaging end. The relay makes the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFeedback {
    /// Allows another 50 cells of the stream (tor-spec §7.4).
    Sendme,
    /// Stops the stream until an XON (proposal 324 §4).
    Xoff,
    /// Resumes the stream, at most at this rate [kB/s, 1 kB = 1000 B]; `None` sets no rate limit.
    Xon(Option<NonZeroU32>),
}

/// The data of a stream that waits for its application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The number of waiting DATA cells [cell].
    pub cells: Cells,
    /// The size of the waiting data [B].
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
    /// The rate limit for reads of the stream's socket, with bursts of one second; `None` sets no limit.
    fn rate(&self) -> Option<DataRate> {
        None
    }
    /// A DATA cell of this size was packaged.
    fn on_package(&mut self, now: Instant, bytes: Bytes);
    /// A DATA cell was delivered; `backlog` includes it. On a [`Violation`] the circuit must close.
    fn on_deliver(&mut self, now: Instant, backlog: Backlog) -> Result<(), Violation>;
    /// The application took `drained` bytes [B], possibly none, and left `backlog`.
    fn on_drain(&mut self, now: Instant, drained: Bytes, backlog: Backlog);
    /// Takes one pending feedback message for the packaging end.
    fn take_feedback(&mut self) -> Option<StreamFeedback>;
    /// Feedback from the delivering end arrived. On a [`Violation`] the circuit must close.
    fn on_feedback(&mut self, now: Instant, feedback: StreamFeedback) -> Result<(), Violation>;
}

/// Builds the [`EdgeControl`] of each circuit and the [`StreamControl`] of each stream.
#[derive(Clone, Debug)]
pub enum EdgeControlConfig {
    /// SENDME windows.
    Windows(WindowsConfig),
    /// A circuit window that follows the round-trip time, with fixed stream windows.
    Dynamic(DynamicConfig),
    /// Vegas and XON/XOFF if the other end of the circuit supports them, otherwise SENDME windows.
    Vegas(VegasConfig),
    /// A window that follows the fraction of marked cells, and XON/XOFF, if the other end of the circuit supports them.
    Dctcp(DctcpConfig),
    /// A rate that follows the gradient of the round-trip time, and XON/XOFF, if the other end of the circuit supports
    /// them.
    Timely(TimelyConfig),
    /// Algorithms from outside this workspace. They do not negotiate.
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
    /// The congestion control that this end requests or offers, with the cells that one SENDME acknowledges.
    fn congestion(&self) -> Option<(Congestion, NonZeroU8)> {
        match self {
            EdgeControlConfig::Vegas(config) if !config.offered => None,
            EdgeControlConfig::Vegas(config) => Some((Congestion::Vegas, config.sendme_inc)),
            EdgeControlConfig::Dctcp(config) => Some((Congestion::Dctcp, config.bounds.sendme_inc)),
            EdgeControlConfig::Timely(config) => Some((Congestion::Timely, config.bounds.sendme_inc)),
            EdgeControlConfig::Windows(_)
            | EdgeControlConfig::Dynamic(_)
            | EdgeControlConfig::Custom { .. } => None,
        }
    }

    /// Whether this end wants no end-to-end windows on circuits whose hops all have hop control.
    fn opens_ends(&self) -> bool {
        matches!(self, EdgeControlConfig::Windows(config) if config.ends != Ends::Enforced)
    }

    /// The control of one end of a circuit for which the two ends made this agreement.
    pub fn build_circuit(&self, agreed: Agreement) -> AnyEdgeControl {
        match (self, agreed) {
            (EdgeControlConfig::Windows(config), Agreement::OpenEnds) => {
                AnyEdgeControl::Open(OpenCircuit::new(config.ends))
            }
            (EdgeControlConfig::Windows(config), _) => AnyEdgeControl::Windows(CircuitWindow::new(*config)),
            (EdgeControlConfig::Dynamic(config), _) => AnyEdgeControl::Dynamic(DynamicWindow::new(*config)),
            (EdgeControlConfig::Vegas(config), Agreement::Congestion(inc)) => {
                AnyEdgeControl::Vegas(Box::new(VegasWindow::new(config.with_increment(inc))))
            }
            (EdgeControlConfig::Dctcp(config), Agreement::Congestion(inc)) => {
                AnyEdgeControl::Dctcp(Box::new(DctcpWindow::new(config.with_increment(inc))))
            }
            (EdgeControlConfig::Timely(config), Agreement::Congestion(inc)) => {
                AnyEdgeControl::Timely(Box::new(TimelyWindow::new(config.with_increment(inc))))
            }
            (
                EdgeControlConfig::Vegas(VegasConfig { windows, .. })
                | EdgeControlConfig::Dctcp(DctcpConfig { windows, .. })
                | EdgeControlConfig::Timely(TimelyConfig { windows, .. }),
                _,
            ) => AnyEdgeControl::Windows(CircuitWindow::new(*windows)),
            (EdgeControlConfig::Custom { circuit, .. }, _) => AnyEdgeControl::Custom(circuit.build()),
        }
    }

    /// The control of one end of a stream, on a circuit for which the two ends made this agreement.
    pub fn build_stream(&self, agreed: Agreement) -> AnyStreamControl {
        match (self, agreed) {
            (EdgeControlConfig::Windows(config), Agreement::OpenEnds) => {
                AnyStreamControl::Open(OpenStream::new(config.ends))
            }
            (EdgeControlConfig::Windows(config), _) => AnyStreamControl::Windows(StreamWindow::new(*config)),
            (EdgeControlConfig::Dynamic(config), _) => {
                AnyStreamControl::Windows(StreamWindow::new(config.windows))
            }
            (
                EdgeControlConfig::Vegas(VegasConfig { streams, .. })
                | EdgeControlConfig::Dctcp(DctcpConfig { streams, .. })
                | EdgeControlConfig::Timely(TimelyConfig { streams, .. }),
                Agreement::Congestion(_),
            ) => AnyStreamControl::XonXoff(XonXoff::new(*streams)),
            (
                EdgeControlConfig::Vegas(VegasConfig { windows, .. })
                | EdgeControlConfig::Dctcp(DctcpConfig { windows, .. })
                | EdgeControlConfig::Timely(TimelyConfig { windows, .. }),
                _,
            ) => AnyStreamControl::Windows(StreamWindow::new(*windows)),
            (EdgeControlConfig::Custom { stream, .. }, _) => AnyStreamControl::Custom(stream.build()),
        }
    }
}

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
