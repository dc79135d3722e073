use crate::error::PyError;
use penstock_network::consensus::Origin;
use penstock_network::{Consensus, Error, History, Pairs, Position, Sampler, Selector};
use penstock_units::Seed;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;

/// Server descriptors and microdescriptors of relays, read from several documents.
#[pyclass(module = "penstock._core")]
#[derive(Default)]
pub(crate) struct Descriptors(pub(crate) penstock_network::Descriptors);

#[pymethods]
impl Descriptors {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn read(&mut self, py: Python<'_>, text: &[u8], name: &str) -> Result<(), PyError> {
        Ok(py.detach(|| self.0.read(text, name))?)
    }

    fn has_bandwidths(&self) -> bool {
        self.0.has_bandwidths()
    }
}

/// A consensus with the families of its relays.
pub(crate) struct Connected {
    pub(crate) consensus: Consensus,
    /// The number of relays with a descriptor; `None` without descriptors.
    pub(crate) described: Option<usize>,
}

impl Connected {
    pub(crate) fn read(
        text: &[u8],
        name: &str,
        descriptors: Option<&penstock_network::Descriptors>,
    ) -> Result<Self, Error> {
        let mut consensus = Consensus::parse(text, name)?;
        let described =
            descriptors.map(|descriptors| descriptors.connect(&mut consensus, name)).transpose()?;
        Ok(Self { consensus, described })
    }

    fn facts<'py>(&self, py: Python<'py>, candidates: [usize; 3]) -> PyResult<Bound<'py, PyDict>> {
        let (consensus, dict) = (&self.consensus, PyDict::new(py));
        dict.set_item("flavor", &consensus.flavor)?;
        dict.set_item("valid_after", &consensus.valid_after)?;
        dict.set_item("relays", consensus.relays.len())?;
        let [guards, middles, exits] = candidates;
        dict.set_item("guards", guards)?;
        dict.set_item("middles", middles)?;
        dict.set_item("exits", exits)?;
        let origin = match consensus.origin {
            Origin::Document => "document",
            Origin::Computed => "computed",
            Origin::Even => "even",
        };
        dict.set_item("weights", origin)?;
        dict.set_item("described", self.described)?;
        dict.set_item("in_family", consensus.relays.iter().filter(|relay| !relay.family.is_empty()).count())?;
        Ok(dict)
    }
}

/// Samples pairs of circuits through the network of a consensus, and counts relays, sockets and connections that they
/// share.
#[pyclass(module = "penstock._core")]
pub(crate) struct Paths {
    name: String,
    read: Connected,
    candidates: [usize; 3],
    sampler: Sampler,
}

#[pymethods]
impl Paths {
    #[new]
    fn new(
        text: &[u8],
        name: String,
        seed: u64,
        descriptors: Option<PyRef<'_, Descriptors>>,
    ) -> Result<Self, PyError> {
        let read = Connected::read(text, &name, descriptors.as_ref().map(|descriptors| &descriptors.0))?;
        let selector = Selector::new(&read.consensus.relays, &read.consensus.weights, &name)?;
        let candidates = Position::ALL.map(|position| selector.candidates(position));
        Ok(Self { name, read, candidates, sampler: Sampler::new(selector, Seed(seed)) })
    }

    fn network<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.read.facts(py, self.candidates)
    }

    fn advance(&mut self, py: Python<'_>, pairs: u64) -> Result<(), PyError> {
        Ok(py.detach(|| self.sampler.advance(pairs, &self.name))?)
    }

    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Pairs { sampled, guard, middle, exit, relay, socket, connection } = self.sampler.pairs();
        let dict = PyDict::new(py);
        dict.set_item("pairs", sampled)?;
        dict.set_item("guard", guard)?;
        dict.set_item("middle", middle)?;
        dict.set_item("exit", exit)?;
        dict.set_item("relay", relay)?;
        dict.set_item("socket", socket)?;
        dict.set_item("connection", connection)?;
        dict.set_item("failures", self.sampler.failures())?;
        Ok(dict)
    }
}

/// The times from which and until which clients use a consensus [s since 1970]. The text may end after its first lines.
#[pyfunction]
pub(crate) fn consensus_period(text: &[u8], name: &str) -> Result<(u64, u64), PyError> {
    let period = Consensus::period(text, name)?;
    Ok((period.start, period.end))
}

/// Samples the circuits of clients over several consensuses.
#[pyclass(module = "penstock._core")]
pub(crate) struct PathHistory(History);

/// The time [s since 1970] and the client of each circuit, and its guard, middle and exit as places in a list of relays.
type Circuits = (Vec<u64>, Vec<u32>, Vec<usize>, Vec<usize>, Vec<usize>);

#[pymethods]
impl PathHistory {
    #[new]
    fn new(clients: u32, every: u64, seed: u64) -> Self {
        Self(History::new(clients, every, Seed(seed)))
    }

    #[allow(clippy::type_complexity, reason = "the parts of one result")]
    fn advance<'py>(
        &mut self,
        py: Python<'py>,
        text: &[u8],
        name: &str,
        descriptors: Option<PyRef<'_, Descriptors>>,
    ) -> Result<(Bound<'py, PyDict>, Vec<String>, Circuits), PyError> {
        let found = descriptors.as_ref().map(|descriptors| &descriptors.0);
        let history = &mut self.0;
        let (read, candidates, circuits) = py.detach(|| {
            let read = Connected::read(text, name, found)?;
            let (candidates, circuits) =
                history.advance(&read.consensus, Consensus::period(text, name)?, name)?;
            Ok::<_, Error>((read, candidates, circuits))
        })?;
        let relays = read.consensus.relays.iter().map(|relay| relay.name.clone()).collect();
        let at = |place: usize| circuits.iter().map(|circuit| circuit.relays[place]).collect();
        let times = circuits.iter().map(|circuit| circuit.time).collect();
        let clients = circuits.iter().map(|circuit| circuit.client).collect();
        Ok((read.facts(py, candidates)?, relays, (times, clients, at(0), at(1), at(2))))
    }

    fn used_guards(&self) -> BTreeMap<usize, usize> {
        self.0.used_guards()
    }

    fn failures(&self) -> u64 {
        self.0.failures()
    }
}
