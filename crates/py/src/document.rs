use crate::error::PyError;
use crate::{prototype, sampled};
use penstock_scenario::{NetworkFile, Point};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A parsed and checked scenario file with all its variants.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct Document(penstock_scenario::Document, Vec<prototype::Name>);

impl Document {
    pub(crate) fn inner(&self) -> &penstock_scenario::Document {
        &self.0
    }

    /// Key and name of each Python prototype that a variant selects.
    pub(crate) fn selected(&self) -> &[prototype::Name] {
        &self.1
    }

    /// Reads a scenario. `network` contains the text of a network file, and the name of this file for error messages.
    fn read(
        py: Python<'_>,
        (text, name): (&str, &str),
        network: Option<(String, String)>,
        sets: &[String],
        only: &[String],
        points: &[Point],
    ) -> Result<Self, PyError> {
        let network = network.as_ref().map(|(text, name)| NetworkFile { name, text });
        prototype::install(py)?;
        let read = || penstock_scenario::Document::in_network(text, name, network, sets, only, points);
        let (document, selected) = prototype::selected_by(read);
        Ok(Self(document?, selected))
    }
}

#[pymethods]
impl Document {
    #[new]
    #[pyo3(signature = (text, name, sets = Vec::new(), network = None))]
    fn new(
        py: Python<'_>,
        text: &str,
        name: &str,
        sets: Vec<String>,
        network: Option<(String, String)>,
    ) -> Result<Self, PyError> {
        Self::read(py, (text, name), network, &sets, &[], &[Point::default()])
    }

    #[staticmethod]
    #[pyo3(signature = (text, name, sets, only, points, network = None))]
    fn sweep(
        py: Python<'_>,
        text: &str,
        name: &str,
        sets: Vec<String>,
        only: Vec<String>,
        points: Vec<(String, Vec<String>)>,
        network: Option<(String, String)>,
    ) -> Result<Self, PyError> {
        let points: Vec<Point> = points.into_iter().map(|(name, sets)| Point { name, sets }).collect();
        Self::read(py, (text, name), network, &sets, &only, &points)
    }

    fn variants(&self) -> Vec<(&str, &str)> {
        self.0.variants().iter().map(|variant| (variant.name.as_str(), variant.label.as_str())).collect()
    }

    /// Key and name of each Python prototype that a variant selects.
    fn prototypes(&self) -> Vec<prototype::Name> {
        self.1.clone()
    }

    fn seeds(&self) -> Vec<u64> {
        self.0.seeds()
    }

    fn networks(&self) -> Vec<u64> {
        self.0.networks()
    }

    #[staticmethod]
    fn title(text: &str, name: &str) -> Result<String, PyError> {
        Ok(penstock_scenario::Document::head_of(text, name)?.title)
    }

    fn head<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let head = self.0.head();
        let dict = PyDict::new(py);
        dict.set_item("title", &head.title)?;
        dict.set_item("paper", &head.paper)?;
        dict.set_item("section", &head.section)?;
        dict.set_item("figures", &head.figures)?;
        dict.set_item("notes", &head.notes)?;
        Ok(dict)
    }

    fn resolved(&self, variant: &str) -> Result<String, PyError> {
        Ok(self.0.resolved_toml(variant)?)
    }

    fn changes(&self, variant: &str) -> Result<Vec<f64>, PyError> {
        let scenario = self.0.scenario(variant)?;
        Ok(scenario.changes.iter().map(|change| change.at.as_secs_f64()).collect())
    }

    /// Warnings, for example about deprecated keys.
    fn warnings(&self) -> &[String] {
        self.0.warnings()
    }

    fn fingerprint(&self) -> String {
        self.0.fingerprint()
    }

    fn places(&self) -> Option<(bool, &str)> {
        self.0.places()
    }

    fn optimistic(&self, variant: &str) -> Result<bool, PyError> {
        let scenario = self.0.scenario(variant)?;
        Ok(scenario.clients.iter().any(|client| client.group.config.optimistic_data))
    }

    fn sampled<'py>(
        &self,
        py: Python<'py>,
        variant: &str,
        network: u64,
    ) -> Result<Bound<'py, PyDict>, PyError> {
        Ok(sampled::dict(py, self.0.scenario(variant)?, network)?)
    }

    fn estimate<'py>(&self, py: Python<'py>, variant: &str) -> Result<Bound<'py, PyDict>, PyError> {
        let estimate = self.0.estimate(variant)?;
        let dict = PyDict::new(py);
        dict.set_item("sim_seconds", estimate.simulated)?;
        dict.set_item("cpu_seconds", estimate.seconds)?;
        dict.set_item("events", estimate.events)?;
        dict.set_item("peak_heap_bytes", estimate.memory)?;
        Ok(dict)
    }

    fn hosts(&self, variant: &str) -> Result<usize, PyError> {
        let scenario = self.0.scenario(variant)?;
        Ok(scenario.relays.len() + scenario.clients.len() + scenario.servers.len())
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}
