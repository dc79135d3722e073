use crate::error::PyError;
use penstock_network::{Class, Consensus, Descriptors, Era, Imported, geo};
use penstock_units::Seed;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Import the usable relays of a consensus, with the bandwidths of server descriptors.
#[pyfunction]
pub(crate) fn of_consensus<'py>(
    py: Python<'py>,
    text: &[u8],
    name: &str,
    descriptors: Vec<(Vec<u8>, String)>,
) -> Result<Bound<'py, PyDict>, PyError> {
    let (consensus, imported) = py.detach(|| {
        let consensus = Consensus::parse(text, name)?;
        let mut found = Descriptors::default();
        descriptors.iter().try_for_each(|(text, name)| found.read(text, name))?;
        let imported = Imported::new(&consensus, (!descriptors.is_empty()).then_some(&found), name)?;
        Ok::<_, penstock_network::Error>((consensus, imported))
    })?;
    let relays = imported.relays.iter().map(|relay| {
        let [rate, burst] = relay.bandwidth.map_or([None; 2], |bandwidth| bandwidth.map(Some));
        (
            &relay.nickname,
            relay.class.is_guard(),
            relay.class.is_exit(),
            relay.weight,
            relay.link,
            rate,
            burst,
        )
    });
    let dict = PyDict::new(py);
    dict.set_item("flavor", &consensus.flavor)?;
    dict.set_item("valid_after", &consensus.valid_after)?;
    dict.set_item("relays", relays.collect::<Vec<_>>())?;
    dict.set_item("unused", imported.unused)?;
    dict.set_item("undescribed", imported.undescribed)?;
    Ok(dict)
}

/// Sample `count` relays and return their indices. Each relay is given as guard flag, exit flag and weight.
#[pyfunction]
pub(crate) fn sample(relays: Vec<(bool, bool, u64)>, count: usize, seed: u64) -> Vec<usize> {
    let relays: Vec<_> =
        relays.into_iter().map(|(guard, exit, weight)| (Class::of(guard, exit), weight)).collect();
    penstock_network::sample::sample(&relays, count, &mut Seed(seed).stream("sample"))
}

/// Year, number of relays, mean link rate and mean capacity [B/s] of each era.
#[pyfunction]
pub(crate) fn eras() -> Vec<(&'static str, u32, u64, u64)> {
    let facts = |year: &&'static str| {
        let era = Era::of(year).expect("every year has its era");
        let [link, capacity] = era.means();
        (*year, era.relays(), link, capacity)
    };
    Era::YEARS.iter().map(facts).collect()
}

/// The country codes that a scenario may contain.
#[pyfunction]
pub(crate) fn countries() -> Vec<&'static str> {
    geo::CODES.to_vec()
}
