use crate::error::PyError;
use penstock_network::consensus::Origin;
use penstock_network::{Consensus, Pairs, Position, Sampler, Selector};
use penstock_units::Seed;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Samples pairs of circuits through the network of a consensus, and counts relays, sockets and connections that they
/// share.
#[pyclass(module = "penstock._core")]
pub(crate) struct Paths {
    name: String,
    consensus: Consensus,
    candidates: [usize; 3],
    sampler: Sampler,
}

#[pymethods]
impl Paths {
    #[new]
    fn new(text: &[u8], name: String, seed: u64) -> Result<Self, PyError> {
        let consensus = Consensus::parse(text, &name)?;
        let selector = Selector::new(&consensus.relays, &consensus.weights, &name)?;
        let candidates = Position::ALL.map(|position| selector.candidates(position));
        Ok(Self { name, consensus, candidates, sampler: Sampler::new(selector, Seed(seed)) })
    }

    fn network<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("flavor", &self.consensus.flavor)?;
        dict.set_item("valid_after", &self.consensus.valid_after)?;
        dict.set_item("relays", self.consensus.relays.len())?;
        let [guards, middles, exits] = self.candidates;
        dict.set_item("guards", guards)?;
        dict.set_item("middles", middles)?;
        dict.set_item("exits", exits)?;
        let origin = match self.consensus.origin {
            Origin::Document => "document",
            Origin::Computed => "computed",
            Origin::Even => "even",
        };
        dict.set_item("weights", origin)?;
        Ok(dict)
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
