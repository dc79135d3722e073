//! The extension module `penstock._core`, which only converts values.
//!
//! Layers, in order: `error` (the Python exception of each error), `huge_pages` and `heap` (memory of a run), `document`, `control`,
//! `replay` and `paths` (classes), `prototype` (algorithms as Python classes), `sampled` (dictionaries of a sampled
//! network), `networks` (relays of consensus documents and eras). The other functions are in this file. Long calls release the interpreter's lock, so that runs in Python threads use all cores. Types and
//! documentation are in `python/penstock/_core.pyi`.

mod control;
mod document;
mod error;
mod heap;
mod huge_pages;
mod networks;
mod paths;
mod prototype;
mod replay;
mod sampled;

use pyo3::prelude::*;

/// The Rust part of the Python package `penstock`.
#[pymodule(name = "_core")]
mod core {
    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::control::Control;
    #[pymodule_export]
    use crate::document::Document;
    #[pymodule_export]
    use crate::error::{Cancelled, OutputError, PenstockError, ScenarioError, Violation};
    #[pymodule_export]
    use crate::networks::{countries, eras, of_consensus, sample, sample_era, sample_places};
    #[pymodule_export]
    use crate::paths::{Descriptors, PathHistory, Paths, consensus_period};
    #[pymodule_export]
    use crate::prototype::PySignals;
    #[pymodule_export]
    use crate::replay::Replay;
    #[pymodule_export]
    use crate::{
        algorithms, compiled, cores, merge, plugins, presets, run, version, workload_kinds, workload_presets,
    };

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::linked::plugins().check().map_err(PyImportError::new_err)
    }
}

/// Algorithms of other crates, which `penstock build` links. `build.rs` writes the list.
mod linked {
    use penstock_scenario::plugin;

    include!(concat!(env!("OUT_DIR"), "/register.rs"));

    pub(crate) fn plugins() -> plugin::Plugins {
        let mut plugins = plugin::Plugins::default();
        register(&mut plugins);
        plugins
    }
}

use control::Control;
use document::Document;
use error::{Error, PyError};
use penstock_record::RunKey;
use penstock_scenario::reference::{AlgorithmInfo, Parameter};
use pyo3::types::PyDict;
use replay::Replay;
use std::path::PathBuf;

/// Run one variant with one seed and write its tables into `part_dir`.
///
/// `network` is the network's seed, by default `seed`. If `replay` is given, clients request the recorded downloads
/// instead of their own. An error of a Python prototype ends the run.
#[pyfunction]
#[pyo3(signature = (document, variant, network, seed, part_dir, control, replay = None))]
#[expect(clippy::too_many_arguments, reason = "Python callers pass them by name")]
fn run<'py>(
    py: Python<'py>,
    document: &Document,
    variant: String,
    network: Option<u64>,
    seed: u64,
    part_dir: PathBuf,
    control: &Control,
    replay: Option<&Replay>,
) -> Result<Bound<'py, PyDict>, PyError> {
    let scenario = document.inner().scenario(&variant)?;
    if let ([(key, name), ..], true) = (document.selected(), control.threads() > 1) {
        let sentence =
            format!("{key} = {name} is a Python class, which runs in one thread; leave --threads out");
        return Err(Error::Prototype(sentence).into());
    }
    let prototypes = prototype::begin(control.inner().clone());
    let (outcome, peak_heap_bytes) = py.detach(|| {
        heap::peak_of(|| {
            let network_seed = network.unwrap_or(seed);
            let control = control.inner();
            let outcome = match replay {
                None => penstock_sim::run_in(scenario, network_seed, seed, control),
                Some(replay) => penstock_sim::replay(scenario, network_seed, seed, replay.inner(), control),
            };
            let outcome = outcome?;
            let network = network.map(|network| network.to_string()).unwrap_or_default();
            outcome.tables.write(&part_dir, &RunKey { variant, network, seed }).map_err(Error::Output)?;
            Ok::<_, Error>(outcome.stats)
        })
    });
    if let Some(sentence) = prototypes.error() {
        return Err(Error::Prototype(sentence).into());
    }
    let stats = outcome?;
    let dict = PyDict::new(py);
    dict.set_item("sim_seconds", stats.sim_seconds)?;
    dict.set_item("events", stats.events)?;
    dict.set_item("packets", stats.packets)?;
    dict.set_item("cells", stats.cells)?;
    dict.set_item("data_cells", stats.data_cells)?;
    dict.set_item("sendmes", stats.sendmes)?;
    dict.set_item("relay_calls", stats.relay_calls)?;
    dict.set_item("relay_queries", stats.relay_queries)?;
    dict.set_item("timed_out_circuits", stats.timed_out_circuits)?;
    dict.set_item("test_circuits", stats.test_circuits)?;
    dict.set_item("build_timeout_s", stats.build_timeout_s)?;
    dict.set_item("peak_heap_bytes", peak_heap_bytes + control.peak_of_others())?;
    Ok(dict)
}

/// Merge the tables of `parts`, in this order, into the tables of `out_dir`.
#[pyfunction]
fn merge(py: Python<'_>, parts: Vec<PathBuf>, out_dir: PathBuf) -> Result<(), PyError> {
    py.detach(|| penstock_record::merge(&parts, &out_dir)).map_err(|error| Error::Merge(error).into())
}

/// Describe every algorithm.
#[pyfunction]
fn algorithms(py: Python<'_>) -> Result<Vec<Bound<'_, PyDict>>, PyError> {
    prototype::install(py)?;
    let dict = |each: AlgorithmInfo| -> PyResult<_> {
        let dict = PyDict::new(py);
        dict.set_item("key", each.key)?;
        dict.set_item("kind", each.kind)?;
        dict.set_item("meaning", each.meaning)?;
        dict.set_item("source", each.source)?;
        dict.set_item("parameters", parameters("", &each.parameters))?;
        let partners = each.partners.iter().map(|other| (other.key, other.not, other.refused, other.why));
        dict.set_item("partners", partners.collect::<Vec<_>>())?;
        Ok(dict)
    };
    Ok(penstock_scenario::algorithms().into_iter().map(dict).collect::<PyResult<_>>()?)
}

/// Key and name of each algorithm of another crate.
#[pyfunction]
fn plugins() -> Vec<(&'static str, &'static str)> {
    linked::plugins().names()
}

/// Name, default in TOML, unit and meaning of each parameter. The keys of an inner table come after the table, with the
/// table's name as prefix.
fn parameters(before: &str, of: &[Parameter]) -> Vec<(String, String, &'static str, &'static str)> {
    let with_inner = |each: &Parameter| {
        let name = format!("{before}{}", each.key);
        let inner = parameters(&format!("{name}."), &each.keys);
        [(name, each.default.clone(), each.unit, each.meaning)].into_iter().chain(inner).collect::<Vec<_>>()
    };
    of.iter().flat_map(with_inner).collect()
}

/// Key and description of every kind of workload.
#[pyfunction]
fn workload_kinds() -> Vec<(&'static str, &'static str)> {
    penstock_scenario::workload_kinds().into_iter().map(|each| (each.key, each.meaning)).collect()
}

/// Name and description of every preset of a workload.
#[pyfunction]
fn workload_presets() -> Vec<(&'static str, &'static str)> {
    penstock_scenario::workload_presets().into_iter().map(|each| (each.name, each.meaning)).collect()
}

/// Name and description of every preset.
#[pyfunction]
fn presets() -> Vec<(&'static str, &'static str)> {
    penstock_scenario::presets().into_iter().map(|each| (each.name, each.meaning)).collect()
}

/// The number of cores that this process may use.
#[pyfunction]
fn cores() -> usize {
    penstock_sim::control::cores()
}

/// The version of Penstock with its commit; `build.rs` describes the form.
#[pyfunction]
const fn version() -> &'static str {
    env!("PENSTOCK_VERSION")
}

/// The platform for which Penstock was compiled, and the compiler.
#[pyfunction]
const fn compiled() -> (&'static str, &'static str) {
    (env!("PENSTOCK_TARGET"), env!("PENSTOCK_RUSTC"))
}
