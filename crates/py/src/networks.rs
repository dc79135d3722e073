use crate::error::PyError;
use crate::paths::{Connected, Descriptors};
use penstock_network::{Class, Environment, Era, Imported, geo};
use penstock_units::Seed;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Import the usable relays of a consensus, with the bandwidths of server descriptors.
#[pyfunction]
pub(crate) fn of_consensus<'py>(
    py: Python<'py>,
    text: &[u8],
    name: &str,
    descriptors: Option<PyRef<'_, Descriptors>>,
) -> Result<Bound<'py, PyDict>, PyError> {
    let found = descriptors.as_ref().map(|descriptors| &descriptors.0);
    let (consensus, imported) = py.detach(|| {
        let Connected { consensus, .. } = Connected::read(text, name, found)?;
        let imported = Imported::new(&consensus, found, name)?;
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
            &relay.family,
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

/// Guard flag, exit flag, link rate, bucket rate and weight [B/s] of a relay.
type SampledRelay = (bool, bool, u64, u64, u64);

/// Name, loss, receiving and sending rate [B/s] of a place.
type SampledPlace = (String, f64, Option<u64>, Option<u64>);

/// Relays of an era, as guard flag, exit flag, link rate, bucket rate and weight [B/s]; `None` for an unknown year.
#[pyfunction]
pub(crate) fn sample_era(year: &str, count: usize, seed: u64) -> Option<Vec<SampledRelay>> {
    let sampled = Era::of(year)?.sample(count, &mut Seed(seed).stream("relays"));
    let facts = |relay: &penstock_network::era::SampledRelay| {
        (relay.class.is_guard(), relay.class.is_exit(), relay.link, relay.rate, relay.weight)
    };
    Some(sampled.iter().map(facts).collect())
}

/// The places of an environment, as name, loss, receiving and sending rate [B/s], and the latencies between them [s] by
/// source and target; `None` for an unknown environment.
#[pyfunction]
pub(crate) fn sample_places(environment: &str, seed: u64) -> Option<(Vec<SampledPlace>, Vec<Vec<f64>>)> {
    let places = Environment::of(environment)?.draw(Seed(seed));
    let count = places.all().len();
    let rate = |rate: penstock_units::DataRate| rate.bytes_per_sec();
    let facts = places
        .all()
        .iter()
        .map(|place| (place.name.clone(), place.loss, place.down.map(rate), place.up.map(rate)));
    let delay = |from, to| places.between(from, to).delay.as_secs_f64();
    let latencies = (0..count).map(|from| (0..count).map(|to| delay(from, to)).collect()).collect();
    Some((facts.collect(), latencies))
}

/// The country codes that a scenario may contain.
#[pyfunction]
pub(crate) fn countries() -> Vec<&'static str> {
    geo::CODES.to_vec()
}
