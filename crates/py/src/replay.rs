use crate::document::Document;
use crate::error::PyError;
use penstock_sim::replay::RecordedDownload;
use penstock_units::{Bytes, Instant};
use pyo3::prelude::*;

/// A download: client, workload, circuit, start of the circuit [ns], guard, middle, exit, time of the request [ns],
/// size [B].
type Row = (String, String, u64, u64, String, String, String, u64, u64);

/// Recorded downloads of an earlier run, which a replay requests again.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct Replay(penstock_sim::Replay);

impl Replay {
    pub(crate) fn inner(&self) -> &penstock_sim::Replay {
        &self.0
    }
}

#[pymethods]
impl Replay {
    #[new]
    fn new(document: &Document, variant: &str, rows: Vec<Row>) -> Result<Self, PyError> {
        let scenario = document.inner().scenario(variant)?;
        let downloads = rows.into_iter().map(|row| {
            let (client, workload, circuit, begun, guard, middle, exit, start, size) = row;
            let [begun, start] = [begun, start].map(Instant::from_nanos);
            let relays = [guard, middle, exit];
            RecordedDownload { client, workload, circuit, begun, relays, start, size: Bytes::new(size) }
        });
        Ok(Self(penstock_sim::Replay::new(scenario, downloads)?))
    }
}
