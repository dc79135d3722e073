//! What may a circuit have outstanding end to end?
//!
//! An [`EdgeControl`] lives at each end of a circuit: at the packaging end it says how many DATA
//! cells may still leave, at the delivering end it says when a SENDME is owed. A [`StreamControl`]
//! does the same for one stream. The two compose with [`HopControl`](crate::hop_control::HopControl).

mod dynamic;
mod windows;

pub use dynamic::{Adjust, DynamicConfig, DynamicWindow};
pub use windows::{CircuitWindow, StreamWindow, WindowsConfig};

use crate::error::Violation;
use penstock_units::{Bytes, Cells, Instant};
use std::fmt;

/// What an edge control may see of its circuit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Cells waiting in the circuit's queue at this edge [cell].
    pub queue: Cells,
    /// What waits in the output buffer of the circuit's channel [B].
    pub outbuf: Bytes,
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
    /// A circuit SENDME arrived. On a [`Violation`] the circuit must close.
    fn on_sendme(&mut self, now: Instant, signals: Signals) -> Result<(), Violation>;
    /// What this end may have outstanding in all [cell], for the record.
    fn window(&self) -> Cells;
    /// The last round-trip time this end measured, for the record; `None` if it measures none.
    fn rtt(&self) -> Option<penstock_units::Duration> {
        None
    }
}

/// End-to-end control of one stream at one of its ends.
pub trait StreamControl: fmt::Debug + Send {
    /// How many more DATA cells of the stream may be packaged now [cell].
    fn package_window(&self) -> Cells;
    /// A DATA cell was packaged.
    fn on_package(&mut self, now: Instant);
    /// A DATA cell was delivered here. On a [`Violation`] the circuit must close.
    fn on_deliver(&mut self, now: Instant) -> Result<(), Violation>;
    /// Takes one stream SENDME that is owed, if the application took enough of what came.
    ///
    /// `buffered` is what the application has not taken yet [cell].
    fn take_sendme(&mut self, now: Instant, buffered: Cells) -> bool;
    /// A stream SENDME arrived. On a [`Violation`] the circuit must close.
    fn on_sendme(&mut self, now: Instant) -> Result<(), Violation>;
}

/// Builds the [`EdgeControl`] of each circuit and the [`StreamControl`] of each stream.
#[derive(Clone, Copy, Debug)]
pub enum EdgeControlConfig {
    /// SENDME windows.
    Windows(WindowsConfig),
    /// A circuit window that follows the round-trip time; stream windows as they are.
    Dynamic(DynamicConfig),
    /// Whatever these functions build: the way in for algorithms outside this workspace.
    Custom {
        /// For a circuit.
        circuit: fn() -> Box<dyn EdgeControl>,
        /// For a stream.
        stream: fn() -> Box<dyn StreamControl>,
    },
}

impl Default for EdgeControlConfig {
    fn default() -> Self {
        EdgeControlConfig::Windows(WindowsConfig::default())
    }
}

impl EdgeControlConfig {
    /// The control of one end of a circuit.
    pub fn build_circuit(&self) -> AnyEdgeControl {
        match self {
            EdgeControlConfig::Windows(config) => AnyEdgeControl::Windows(CircuitWindow::new(*config)),
            EdgeControlConfig::Dynamic(config) => AnyEdgeControl::Dynamic(DynamicWindow::new(*config)),
            EdgeControlConfig::Custom { circuit, .. } => AnyEdgeControl::Custom(circuit()),
        }
    }

    /// The control of one end of a stream.
    pub fn build_stream(&self) -> AnyStreamControl {
        match self {
            EdgeControlConfig::Windows(config) => AnyStreamControl::Windows(StreamWindow::new(*config)),
            EdgeControlConfig::Dynamic(config) => {
                AnyStreamControl::Windows(StreamWindow::new(config.windows))
            }
            EdgeControlConfig::Custom { stream, .. } => AnyStreamControl::Custom(stream()),
        }
    }
}

/// A built-in circuit control without an allocation, or anyone's.
#[derive(Debug)]
pub enum AnyEdgeControl {
    /// [`CircuitWindow`].
    Windows(CircuitWindow),
    /// [`DynamicWindow`].
    Dynamic(DynamicWindow),
    /// An algorithm from outside.
    Custom(Box<dyn EdgeControl>),
}

/// A built-in stream control without an allocation, or anyone's.
#[derive(Debug)]
pub enum AnyStreamControl {
    /// [`StreamWindow`].
    Windows(StreamWindow),
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
        each!(AnyEdgeControl { Windows, Dynamic, Custom }, $self, $control => $call)
    };
}

macro_rules! each_stream {
    ($self:ident, $control:ident => $call:expr) => {
        each!(AnyStreamControl { Windows, Custom }, $self, $control => $call)
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
    fn on_sendme(&mut self, now: Instant, signals: Signals) -> Result<(), Violation> {
        each_circuit!(self, control => control.on_sendme(now, signals))
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
    fn on_package(&mut self, now: Instant) {
        each_stream!(self, control => control.on_package(now));
    }
    fn on_deliver(&mut self, now: Instant) -> Result<(), Violation> {
        each_stream!(self, control => control.on_deliver(now))
    }
    fn take_sendme(&mut self, now: Instant, buffered: Cells) -> bool {
        each_stream!(self, control => control.take_sendme(now, buffered))
    }
    fn on_sendme(&mut self, now: Instant) -> Result<(), Violation> {
        each_stream!(self, control => control.on_sendme(now))
    }
}
