//! Names and values of each table's columns, in the order of the file.

use super::table::{Column, Value};
use crate::{CellRow, CircuitRow, PathRow, RelayRow, Transfer};

pub(super) fn transfers() -> [Column<Transfer>; 13] {
    [
        Column("client", Value::Text(|row| &row.client)),
        Column("workload", Value::Text(|row| &row.workload)),
        Column("circuit", Value::MaybeCount(|row| row.circuit)),
        Column("stream", Value::MaybeCount(|row| row.stream)),
        Column("direction", Value::Text(|row| row.direction.as_str())),
        Column("bytes", Value::Count(|row| row.bytes)),
        Column("bytes_received", Value::Count(|row| row.bytes_received)),
        Column("start_s", Value::Real(|row| row.start_s)),
        Column("connect_s", Value::MaybeReal(|row| row.connect_s)),
        Column("ttfb_s", Value::MaybeReal(|row| row.ttfb_s)),
        Column("ttlb_s", Value::MaybeReal(|row| row.ttlb_s)),
        Column("outcome", Value::Text(|row| row.outcome.as_str())),
        Column("warmup", Value::Flag(|row| row.warmup)),
    ]
}

pub(super) fn paths() -> [Column<PathRow>; 7] {
    [
        Column("circuit", Value::Count(|row| row.circuit)),
        Column("client", Value::Text(|row| &row.client)),
        Column("built_s", Value::MaybeReal(|row| row.built_s)),
        Column("build_time_s", Value::MaybeReal(|row| row.build_time_s)),
        Column("guard", Value::Text(|row| &row.guard)),
        Column("middle", Value::Text(|row| &row.middle)),
        Column("exit", Value::Text(|row| &row.exit)),
    ]
}

pub(super) fn relays() -> [Column<RelayRow>; 13] {
    [
        Column("relay", Value::Text(|row| &row.relay)),
        Column("position", Value::Text(|row| row.position.as_str())),
        Column("t_s", Value::Real(|row| row.t_s)),
        Column("read_bytes", Value::Count(|row| row.read_bytes)),
        Column("written_bytes", Value::Count(|row| row.written_bytes)),
        Column("circuit_queue_cells", Value::Count(|row| row.circuit_queue_cells)),
        Column("outbuf_bytes", Value::Count(|row| row.outbuf_bytes)),
        Column("kernel_out_bytes", Value::Count(|row| row.kernel_out_bytes)),
        Column("throttled_conns", Value::Count(|row| row.throttled_conns)),
        Column("bound_by", Value::MaybeText(|row| row.bound_by.as_deref())),
        Column("written_cells", Value::Count(|row| row.written_cells)),
        Column("credits", Value::Count(|row| row.credits)),
        Column("longest_queue_cells", Value::Count(|row| row.longest_queue_cells)),
    ]
}

pub(super) fn circuits() -> [Column<CircuitRow>; 11] {
    [
        Column("circuit", Value::MaybeCount(|row| row.circuit)),
        Column("workload", Value::Text(|row| &row.workload)),
        Column("hop", Value::Text(|row| row.hop.as_str())),
        Column("t_s", Value::Real(|row| row.t_s)),
        Column("queue_cells", Value::Count(|row| row.queue_cells)),
        Column("window_cells", Value::MaybeInteger(|row| row.window_cells)),
        Column("rtt_s", Value::MaybeReal(|row| row.rtt_s)),
        Column("client", Value::Text(|row| &row.client)),
        Column("cwnd_segments", Value::MaybeCount(|row| row.cwnd_segments)),
        Column("ssthresh_segments", Value::MaybeCount(|row| row.ssthresh_segments)),
        Column("srtt_s", Value::MaybeReal(|row| row.srtt_s)),
    ]
}

pub(super) fn cells() -> [Column<CellRow>; 15] {
    [
        Column("circuit", Value::Count(|row| row.circuit)),
        Column("workload", Value::Text(|row| &row.workload)),
        Column("cell", Value::Count(|row| row.cell)),
        Column("hop", Value::Text(|row| row.hop.as_str())),
        Column("nic_in_ns", Value::MaybeCount(|row| row.nic_in_ns)),
        Column("read_ns", Value::MaybeCount(|row| row.read_ns)),
        Column("parsed_ns", Value::MaybeCount(|row| row.parsed_ns)),
        Column("queued_ns", Value::MaybeCount(|row| row.queued_ns)),
        Column("outbuf_ns", Value::MaybeCount(|row| row.outbuf_ns)),
        Column("kernel_ns", Value::MaybeCount(|row| row.kernel_ns)),
        Column("nic_out_ns", Value::MaybeCount(|row| row.nic_out_ns)),
        Column("kernel_in_s", Value::MaybeReal(CellRow::kernel_in_s)),
        Column("circuit_queue_s", Value::MaybeReal(CellRow::circuit_queue_s)),
        Column("outbuf_s", Value::MaybeReal(CellRow::outbuf_s)),
        Column("kernel_out_s", Value::MaybeReal(CellRow::kernel_out_s)),
    ]
}
