//! Tests of all tables. Other tests use the rows of this module, too.

use super::*;
use crate::{CellRow, CircuitRow, ClientRow, Direction, Outcome, PathRow, Position, RelayRow, Transfer};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::path::PathBuf;

/// A directory of one test, removed after the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("penstock-record-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for the test");
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn one_row_each() -> Tables {
    Tables {
        transfers: vec![Transfer {
            client: "web-1".into(),
            workload: "web".into(),
            circuit: Some(7),
            stream: None,
            direction: Direction::Download,
            bytes: 307_200,
            bytes_received: 498,
            start_s: 1.5,
            connect_s: Some(0.25),
            ttfb_s: Some(0.75),
            ttlb_s: None,
            outcome: Outcome::Unfinished,
            warmup: true,
        }],
        paths: vec![PathRow {
            circuit: 7,
            client: "web-1".into(),
            built_s: Some(1.0),
            build_time_s: Some(0.5),
            guard: "g".into(),
            middle: "m".into(),
            exit: "e".into(),
        }],
        relays: vec![RelayRow {
            relay: "m".into(),
            position: Position::Middle,
            t_s: 1.0,
            read_bytes: 1,
            written_bytes: 2,
            circuit_queue_cells: 3,
            outbuf_bytes: 4,
            kernel_out_bytes: 5,
            throttled_conns: 0,
            bound_by: None,
            written_cells: 6,
            credits: 7,
            longest_queue_cells: 90,
        }],
        circuits: vec![CircuitRow {
            circuit: Some(7),
            workload: "web".into(),
            hop: Position::Exit,
            t_s: 0.1,
            queue_cells: 256,
            window_cells: Some(-1),
            rtt_s: None,
            client: "web-1".into(),
            cwnd_segments: Some(10),
            ssthresh_segments: None,
            srtt_s: Some(0.125),
            backlog_cells: Some(2.5),
            backlog_beyond_cells: None,
            sendmes: Some(12),
        }],
        cells: vec![CellRow {
            circuit: 7,
            workload: "web".into(),
            cell: 0,
            hop: Position::Guard,
            nic_in_ns: Some(1),
            read_ns: Some(500_000_001),
            parsed_ns: Some(500_000_001),
            queued_ns: Some(500_000_001),
            outbuf_ns: Some(2_500_000_001),
            kernel_ns: None,
            nic_out_ns: None,
        }],
        clients: vec![ClientRow { client: "web-1".into(), t_s: 2.0, received_bytes: 1494, throttled: true }],
    }
}

/// The rows of a file, as the library's own reader prints them.
pub(crate) fn rows(dir: &Path, name: &str) -> Vec<String> {
    let file = File::open(dir.join(name)).expect("the file was written");
    let reader = SerializedFileReader::new(file).expect("the file is Parquet");
    reader
        .get_row_iter(None)
        .expect("the schema is flat")
        .map(|row| row.expect("a row").to_string())
        .collect()
}

#[test]
fn every_column_of_the_interface_is_written_with_its_value() {
    let dir = Scratch::new("columns");
    one_row_each().write(&dir.0, &RunKey::new("stock", u64::MAX)).expect("there is space");
    let key = format!("variant: \"stock\", network: \"\", seed: {}", u64::MAX);
    for (file, rest) in [
        (
            "transfers",
            "client: \"web-1\", workload: \"web\", circuit: 7, stream: null, direction: \"download\", \
             bytes: 307200, bytes_received: 498, start_s: 1.5, connect_s: 0.25, ttfb_s: 0.75, ttlb_s: null, \
             outcome: \"unfinished\", warmup: true",
        ),
        (
            "paths",
            "circuit: 7, client: \"web-1\", built_s: 1.0, build_time_s: 0.5, guard: \"g\", middle: \"m\", \
             exit: \"e\"",
        ),
        (
            "relays",
            "relay: \"m\", position: \"middle\", t_s: 1.0, read_bytes: 1, written_bytes: 2, \
             circuit_queue_cells: 3, outbuf_bytes: 4, kernel_out_bytes: 5, throttled_conns: 0, bound_by: null, written_cells: 6, credits: 7, longest_queue_cells: 90",
        ),
        (
            "circuits",
            "circuit: 7, workload: \"web\", hop: \"exit\", t_s: 0.1, queue_cells: 256, window_cells: -1, \
             rtt_s: null, client: \"web-1\", cwnd_segments: 10, ssthresh_segments: null, srtt_s: 0.125, \
             backlog_cells: 2.5, backlog_beyond_cells: null, sendmes: 12",
        ),
        (
            "cells",
            "circuit: 7, workload: \"web\", cell: 0, hop: \"guard\", nic_in_ns: 1, read_ns: 500000001, \
             parsed_ns: 500000001, queued_ns: 500000001, outbuf_ns: 2500000001, kernel_ns: null, \
             nic_out_ns: null, kernel_in_s: 0.5, circuit_queue_s: 2.0, outbuf_s: null, kernel_out_s: null",
        ),
        ("clients", "client: \"web-1\", t_s: 2.0, received_bytes: 1494, throttled: true"),
    ] {
        assert_eq!(rows(&dir.0, &format!("{file}.parquet")), [format!("{{{key}, {rest}}}")], "{file}");
    }
}

#[test]
fn a_table_without_rows_still_has_its_columns() {
    let dir = Scratch::new("empty");
    Tables::default().write(&dir.0, &RunKey::new("stock", 1)).expect("there is space");
    let file = File::open(dir.0.join("cells.parquet")).expect("the file was written");
    let reader = SerializedFileReader::new(file).expect("the file is Parquet");
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    assert_eq!(reader.metadata().file_metadata().schema().get_fields().len(), 18);
}

#[test]
fn the_same_tables_give_the_same_bytes() {
    let (a, b) = (Scratch::new("bytes-a"), Scratch::new("bytes-b"));
    let row = one_row_each().relays.remove(0);
    let relays = (0..5_000).map(|i| RelayRow { t_s: f64::from(i) * 0.1, ..row.clone() }).collect();
    let tables = Tables { relays, ..one_row_each() };
    for dir in [&a, &b] {
        tables.write(&dir.0, &RunKey::new("stock", 1)).expect("there is space");
    }
    for name in ["transfers", "paths", "relays", "circuits", "cells"] {
        let read = |dir: &Scratch| std::fs::read(dir.0.join(format!("{name}.parquet"))).expect("written");
        assert!(read(&a) == read(&b), "{name}.parquet differs");
    }
}

#[test]
fn an_error_names_its_file() {
    let dir = Scratch::new("error");
    let missing = dir.0.join("missing");
    let error =
        Tables::default().write(&missing, &RunKey::new("stock", 1)).expect_err("there is no directory");
    assert!(matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound));
    assert!(
        error.to_string().starts_with(&missing.join("transfers.parquet").display().to_string()),
        "{error}"
    );
}
