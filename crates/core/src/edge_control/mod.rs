//! What may a circuit have outstanding end to end?
//!
//! An [`EdgeControl`] lives at each end of a circuit: at the packaging end it says how many DATA
//! cells may still leave, at the delivering end it says when a SENDME is owed. A [`StreamControl`]
//! does the same for one stream. The two compose with [`HopControl`](crate::hop_control::HopControl).
//!
//! Congestion control is used on circuits whose two ends agreed on one ([`Negotiation`]), and where all hops are
//! controlled ends may agree that nothing limits them ([`Ends`]); all others have windows.

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
use penstock_units::{Bytes, Cells, DataRate, Instant};
use std::fmt;
use std::num::{NonZeroU8, NonZeroU32};

/// What an edge control may see of its circuit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Cells waiting in the circuit's queue at this edge [cell].
    pub queue: Cells,
    /// What waits in the output buffer of the circuit's channel [B].
    pub outbuf: Bytes,
    /// The queue reached its high mark and has not fallen to its low one since: no stream is read.
    ///
    /// Source: C tor `circuit_blocked_on_p_chan`, `circuit_blocked_on_n_chan`.
    pub blocked: bool,
    /// When a SENDME comes: how many of the cells that it acknowledges met congestion, as it says [cell]; else 0.
    pub marked: u8,
}

/// End-to-end control of one circuit at one of its ends.
pub trait EdgeControl: fmt::Debug + Send {
    /// How many more DATA cells may be packaged now [cell].
    fn package_window(&self) -> Cells;
    /// A DATA cell was packaged; true if it is one whose arrival the other end acknowledges.
    fn on_package(&mut self, now: Instant, signals: Signals) -> bool;
    /// A DATA cell was delivered here; true if a circuit SENDME is owed.
    ///
    /// On a [`Violation`] the circuit must close.
    fn on_deliver(&mut self, now: Instant) -> Result<bool, Violation>;
    /// The DATA cell that is delivered next was [marked](crate::Cell::mark) on its way.
    fn on_mark(&mut self) {}
    /// How many marked cells the SENDME that is owed shall speak of [cell]. Called once for each.
    fn take_marks(&mut self) -> u8 {
        0
    }
    /// A circuit SENDME arrived. On a [`Violation`] the circuit must close.
    fn on_sendme(&mut self, now: Instant, signals: Signals) -> Result<(), Violation>;
    /// Whether circuit and stream SENDMEs change what the two ends do. Where they do not, none needs a proof, and the
    /// relay leaves out those that it has no room for.
    fn obeys_windows(&self) -> bool {
        true
    }
    /// What this end may have outstanding in all [cell], for the record; the largest number is no limit.
    fn window(&self) -> Cells;
    /// The last round-trip time this end measured, for the record; `None` if it measures none.
    fn rtt(&self) -> Option<penstock_units::Duration> {
        None
    }
}

/// What the delivering end of a stream tells the packaging end. Its cell is made by the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFeedback {
    /// One more step of the stream's window may come (tor-spec §7.4).
    Sendme,
    /// No more may come until an XON (proposal 324 §4).
    Xoff,
    /// More may come, at no more than this rate [kB/s, of 1000 B], or at any.
    Xon(Option<NonZeroU32>),
}

/// What of a stream waits for its application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// How many DATA cells brought it [cell].
    pub cells: Cells,
    /// How much it is [B].
    pub bytes: Bytes,
}

/// End-to-end control of one stream at one of its ends.
///
/// At the packaging end the relay asks `package_window` and `rate` before it reads the stream's socket. At the
/// delivering end it calls `on_deliver` for each DATA cell, then `on_drain` whenever the application was
/// offered what waits, and after both it sends what `take_feedback` returns until there is none.
pub trait StreamControl: fmt::Debug + Send {
    /// How many more DATA cells of the stream may be packaged now [cell].
    fn package_window(&self) -> Cells;
    /// At what rate the stream's socket may be read, in bursts of a second's worth; `None` is any.
    fn rate(&self) -> Option<DataRate> {
        None
    }
    /// A DATA cell with so many bytes was packaged.
    fn on_package(&mut self, now: Instant, bytes: Bytes);
    /// A DATA cell was delivered here; `backlog` has it. On a [`Violation`] the circuit must close.
    fn on_deliver(&mut self, now: Instant, backlog: Backlog) -> Result<(), Violation>;
    /// The application took `drained` [B], perhaps nothing, and left `backlog`.
    fn on_drain(&mut self, now: Instant, drained: Bytes, backlog: Backlog);
    /// Takes one message that is owed to the packaging end.
    fn take_feedback(&mut self) -> Option<StreamFeedback>;
    /// Such a message arrived here. On a [`Violation`] the circuit must close.
    fn on_feedback(&mut self, now: Instant, feedback: StreamFeedback) -> Result<(), Violation>;
}

/// Builds the [`EdgeControl`] of each circuit and the [`StreamControl`] of each stream.
#[derive(Clone, Debug)]
pub enum EdgeControlConfig {
    /// SENDME windows.
    Windows(WindowsConfig),
    /// A circuit window that follows the round-trip time; stream windows as they are.
    Dynamic(DynamicConfig),
    /// Vegas and XON/XOFF on circuits whose other end has them too; SENDME windows on the others.
    Vegas(VegasConfig),
    /// A window that follows the share of marked cells, and XON/XOFF, likewise.
    Dctcp(DctcpConfig),
    /// A rate that follows the gradient of the round trip, and XON/XOFF, likewise.
    Timely(TimelyConfig),
    /// Whatever these build: the way in for algorithms outside this workspace. They negotiate nothing.
    Custom {
        /// For a circuit.
        circuit: Factory<dyn EdgeControl>,
        /// For a stream.
        stream: Factory<dyn StreamControl>,
    },
}

impl Default for EdgeControlConfig {
    fn default() -> Self {
        EdgeControlConfig::Windows(WindowsConfig::default())
    }
}

impl EdgeControlConfig {
    /// The congestion control that this end asks for or offers, with how many cells a SENDME; `None` if it knows or offers
    /// none.
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

    /// Whether this end wants no windows where every hop is controlled.
    fn opens_ends(&self) -> bool {
        matches!(self, EdgeControlConfig::Windows(config) if config.ends != Ends::Enforced)
    }

    /// The control of one end of a circuit, whose ends agreed on this.
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

    /// The control of one end of a stream, on such a circuit.
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

/// A built-in circuit control, or anyone's.
#[derive(Debug)]
pub enum AnyEdgeControl {
    /// [`CircuitWindow`].
    Windows(CircuitWindow),
    /// [`DynamicWindow`].
    Dynamic(DynamicWindow),
    /// [`VegasWindow`].
    Vegas(Box<VegasWindow>),
    /// [`DctcpWindow`].
    Dctcp(Box<DctcpWindow>),
    /// [`TimelyWindow`].
    Timely(Box<TimelyWindow>),
    /// [`OpenCircuit`].
    Open(OpenCircuit),
    /// An algorithm from outside.
    Custom(Box<dyn EdgeControl>),
}

/// A built-in stream control without an allocation, or anyone's.
#[derive(Debug)]
pub enum AnyStreamControl {
    /// [`StreamWindow`].
    Windows(StreamWindow),
    /// [`XonXoff`].
    XonXoff(XonXoff),
    /// [`OpenStream`].
    Open(OpenStream),
    /// An algorithm from outside.
    Custom(Box<dyn StreamControl>),
}

macro_rules! each {
    ($kind:ident { $($arm:ident),* }, $self:ident, $control:ident => $call:expr) => {
        match $self {
            $($kind::$arm($control) => $call,)*
        }
    };
}

macro_rules! each_circuit {
    ($self:ident, $control:ident => $call:expr) => {
        each!(AnyEdgeControl { Windows, Dynamic, Vegas, Dctcp, Timely, Open, Custom }, $self, $control => $call)
    };
}

macro_rules! each_stream {
    ($self:ident, $control:ident => $call:expr) => {
        each!(AnyStreamControl { Windows, XonXoff, Open, Custom }, $self, $control => $call)
    };
}

impl EdgeControl for AnyEdgeControl {
    fn package_window(&self) -> Cells {
        each_circuit!(self, control => control.package_window())
    }
    fn on_package(&mut self, now: Instant, signals: Signals) -> bool {
        each_circuit!(self, control => control.on_package(now, signals))
    }
    fn on_deliver(&mut self, now: Instant) -> Result<bool, Violation> {
        each_circuit!(self, control => control.on_deliver(now))
    }
    fn on_mark(&mut self) {
        each_circuit!(self, control => control.on_mark());
    }
    fn take_marks(&mut self) -> u8 {
        each_circuit!(self, control => control.take_marks())
    }
    fn on_sendme(&mut self, now: Instant, signals: Signals) -> Result<(), Violation> {
        each_circuit!(self, control => control.on_sendme(now, signals))
    }
    fn obeys_windows(&self) -> bool {
        each_circuit!(self, control => control.obeys_windows())
    }
    fn window(&self) -> Cells {
        each_circuit!(self, control => control.window())
    }
    fn rtt(&self) -> Option<penstock_units::Duration> {
        each_circuit!(self, control => control.rtt())
    }
}

impl StreamControl for AnyStreamControl {
    fn package_window(&self) -> Cells {
        each_stream!(self, control => control.package_window())
    }
    fn rate(&self) -> Option<DataRate> {
        each_stream!(self, control => control.rate())
    }
    fn on_package(&mut self, now: Instant, bytes: Bytes) {
        each_stream!(self, control => control.on_package(now, bytes));
    }
    fn on_deliver(&mut self, now: Instant, backlog: Backlog) -> Result<(), Violation> {
        each_stream!(self, control => control.on_deliver(now, backlog))
    }
    fn on_drain(&mut self, now: Instant, drained: Bytes, backlog: Backlog) {
        each_stream!(self, control => control.on_drain(now, drained, backlog));
    }
    fn take_feedback(&mut self) -> Option<StreamFeedback> {
        each_stream!(self, control => control.take_feedback())
    }
    fn on_feedback(&mut self, now: Instant, feedback: StreamFeedback) -> Result<(), Violation> {
        each_stream!(self, control => control.on_feedback(now, feedback))
    }
}
