//! Presets. A preset of a relay or client stands for a version of Tor. A preset of a workload stands for a paper's
//! clients.

use crate::error::{ConfigError, Origin};
use crate::tree::{Node, Table, parse};

#[derive(Debug)]
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    /// A preset that supplies all keys that this preset does not set.
    base: Option<&'static Preset>,
    /// Keys of this preset, in TOML, without the keys of its base. All presets of relays set the same keys, so that one
    /// preset can replace another.
    keys: &'static str,
}

/// Stock Tor of 2010 and 2011.
/// Source: C tor 0.2.2 `CIRCWINDOW_START` 1000, `STREAMWINDOW_START` 500, `OR_CONN_LOWWATER` 16 KiB,
/// `OR_CONN_HIGHWATER` 32 KiB, `CELL_QUEUE_LOWWATER_SIZE` 64, `CELL_QUEUE_HIGHWATER_SIZE` 256,
/// `second_elapsed_callback()`; DefenestraTor §3.1; EWMA §2.3 (this preset does not use EWMA); throttling §2.
/// Deviation: a relay closes a circuit with 2500 queued cells. SENDME windows prevent such a queue.
const TOR_0_2_2: Preset = Preset {
    name: "tor-0.2.2",
    meaning: "stock Tor of DefenestraTor, EWMA and throttling: round robin, fixed windows, refills once a second",
    base: None,
    keys: r#"
        circuit_policy = "round-robin"
        scheduler = { kind = "vanilla", outbuf_low = "16 KiB", outbuf_high = "32 KiB" }
        edge_control = { kind = "windows", circuit_window = 1000, stream_window = 500 }
        hop_control = "none"
        throttle = "none"
        channel_map = "shared"
        refill = "1 s"
        refill_phase = "random"
        refill_unblock = "none"
        edge_queue_low = 64
        edge_queue_high = 256
        max_circuit_queue = 2500
        conflux = false
        authenticated_sendmes = false
        optimistic_data = false
    "#,
};

/// Stock Tor of 2013.
/// Source: as [`TOR_0_2_2`]; KIST §3 (0.2.3.25) and §5.3 (EWMA, H = 30 s); C tor 0.2.3 `TokenBucketRefillInterval` 100
/// ms.
/// Deviation: EWMA finds the next circuit with a heap, and C tor with counts in ticks of 10 s. Both choose the same
/// circuits.
/// Deviation: the limit of 2500 queued cells, as in [`TOR_0_2_2`].
const TOR_0_2_3: Preset = Preset {
    name: "tor-0.2.3",
    meaning: "Tor of KIST: tor-0.2.2 with EWMA (half-life 30 s) and refills every 100 ms",
    base: Some(&TOR_0_2_2),
    keys: r#"
        circuit_policy = { kind = "ewma", form = "heap", half_life = "30 s" }
        refill = "100 ms"
    "#,
};

/// Tor 0.4.9 without Conflux, with the parameters of today's consensus.
/// Source: C tor 0.4.9 `circuitmux_ewma.c` (`EWMA_DEFAULT_HALF_LIFE`, `EWMA_TICK_LEN_DEFAULT`), `scheduler_kist.c`
/// (`KIST_SCHED_RUN_INTERVAL_DEFAULT`: 2 ms), `congestion_control_vegas.c`, `congestion_control_flow.c`,
/// `congestion_control_common.c` (`cellq_low` 10, `cellq_high` 256), `token_bucket.c` (steps of some 16 ms),
/// `TokenBucketRefillInterval` 100 ms, `circ_max_cell_queue_size` 2500, `sendme.c` (version 1); proposals 174, 289,
/// 324.
const TOR_0_4_9_NOCONFLUX: Preset = Preset {
    name: "tor-0.4.9-noconflux",
    meaning: "today's Tor without Conflux: EWMA in ticks, KIST every 2 ms, Vegas with XON/XOFF, refills in steps of 16 ms",
    base: None,
    keys: r#"
        circuit_policy = { kind = "ewma", form = "tick", half_life = "30 s" }
        scheduler = { kind = "kist-deployed", interval = "2 ms" }
        edge_control = { kind = "vegas", version = "0.4.9" }
        hop_control = "none"
        throttle = "none"
        channel_map = "shared"
        refill = "16 ms"
        refill_phase = "random"
        refill_unblock = "100 ms"
        edge_queue_low = 10
        edge_queue_high = 256
        max_circuit_queue = 2500
        conflux = false
        authenticated_sendmes = true
        optimistic_data = true
    "#,
};

/// Tor 0.4.9 with Conflux.
/// Source: as [`TOR_0_4_9_NOCONFLUX`]; C tor `conflux_params.c` (`cfx_enabled` 1, `cfx_num_legs_set` 2), torrc
/// `ConfluxClientUX` throughput; proposal 329.
/// Deviation: a client links circuits when it needs them, and C tor keeps up to 3 linked sets ready
/// (`cfx_max_prebuilt_set`).
const TOR_0_4_9: Preset = Preset {
    name: "tor-0.4.9",
    meaning: "today's Tor: tor-0.4.9-noconflux with two linked circuits for each client",
    base: Some(&TOR_0_4_9_NOCONFLUX),
    keys: "conflux = true",
};

pub(crate) const PRESETS: [Preset; 4] = [TOR_0_2_2, TOR_0_2_3, TOR_0_4_9_NOCONFLUX, TOR_0_4_9];

/// Live relays do not link circuits.
pub(crate) const OF_LIVE_RELAYS: &str = TOR_0_4_9_NOCONFLUX.name;

pub(crate) const NAMES: &[&str] = &[TOR_0_2_2.name, TOR_0_2_3.name, TOR_0_4_9_NOCONFLUX.name, TOR_0_4_9.name];

/// Web clients of the papers.
/// Source: KIST §3.
const WEB: Preset = Preset {
    name: "web",
    meaning: "a page of 320 KiB, then a pause of up to a minute (KIST section 3)",
    base: None,
    keys: r#"
        size = "320 KiB"
        pause = "uniform(1 ms, 60 s)"
        fresh_circuit = false
    "#,
};

/// Bulk clients of the papers.
/// Source: KIST §3.
const BULK: Preset = Preset {
    name: "bulk",
    meaning: "5 MiB after 5 MiB, without a pause (KIST section 3)",
    base: None,
    keys: r#"
        size = "5 MiB"
        pause = "0 s"
        fresh_circuit = false
    "#,
};

/// TorPerf clients that download 50 KiB.
/// Source: KIST §3.
/// Deviation: a client also pauses after a failed download. Without a pause, the next download would fail immediately.
const PERF_50K: Preset = Preset {
    name: "perf50k",
    meaning: "TorPerf: 50 KiB over a fresh circuit each minute (KIST section 3)",
    base: None,
    keys: r#"
        size = "50 KiB"
        pause = "60 s"
        fresh_circuit = true
    "#,
};

/// TorPerf clients that download 1 MiB. Source and deviation: [`PERF_50K`].
const PERF_1M: Preset = Preset {
    name: "perf1m",
    meaning: "TorPerf: 1 MiB over a fresh circuit each minute (KIST section 3)",
    base: Some(&PERF_50K),
    keys: r#"size = "1 MiB""#,
};

/// TorPerf clients that download 5 MiB. Source and deviation: [`PERF_50K`].
const PERF_5M: Preset = Preset {
    name: "perf5m",
    meaning: "TorPerf: 5 MiB over a fresh circuit each minute (KIST section 3)",
    base: Some(&PERF_50K),
    keys: r#"size = "5 MiB""#,
};

/// Exit traffic of 2008: HTTP, SSL and BitTorrent connections.
/// Source: EWMA §3.1, which cites McCoy et al. 2008. Their shares of connections are 92.45, 4.06 and 3.33 %. Their
/// shares of bytes are 57.97, 1.55 and 40.20 %.
/// Deviation: the source gives shares of bytes, but no sizes. The size of an HTTP connection (100 kB) is a guess. The
/// other two sizes follow from the shares. All connections of one kind have the same size.
/// Deviation: the source gives no pause. The pause is that of [`WEB`].
const MIX_2008: Preset = Preset {
    name: "mix-2008",
    meaning: "HTTP, SSL and BitTorrent with the shares of connections and bytes of 2008 (EWMA section 3.1)",
    base: Some(&WEB),
    keys: r#"size = "mix(92.45: 100 kB, 4.06: 60.9 kB, 3.33: 1925 kB)""#,
};

pub(crate) const WORKLOADS: [Preset; 6] = [WEB, BULK, PERF_50K, PERF_1M, PERF_5M, MIX_2008];

pub(crate) const WORKLOAD_NAMES: &[&str] =
    &[WEB.name, BULK.name, PERF_50K.name, PERF_1M.name, PERF_5M.name, MIX_2008.name];

/// Key that names a preset.
pub(crate) const PRESET: &str = "preset";

/// The keys of the preset with this name; no keys if the name is unknown.
pub(crate) fn keys_of(name: Option<&Node>) -> Result<Table, ConfigError> {
    let name = name.and_then(Node::as_text);
    let preset = PRESETS.iter().chain(&WORKLOADS).find(|preset| Some(preset.name) == name);
    preset.map_or(Ok(Table::new()), Preset::table)
}

impl Preset {
    /// The keys of this preset and its base. They count as defaults, so errors name only keys that the user wrote.
    pub(crate) fn table(&self) -> Result<Table, ConfigError> {
        let mut table = self.base.map_or(Ok(Table::new()), Preset::table)?;
        let own = parse(self.keys, 0)?;
        table.extend(own.into_iter().map(|(key, node)| (key, node.moved(&|_| Origin::Default))));
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Section;
    use crate::sections::clients::{ClientKeys, ClientsKeys};
    use crate::sections::relays::{RelayKeys, RelaysKeys};
    use crate::sections::workloads::WorkloadKeys;

    /// If a relay's preset replaces an inherited one, no key of the old preset may remain.
    #[test]
    fn all_presets_have_the_same_keys() {
        for presets in [&PRESETS[..], &WORKLOADS] {
            let keys = presets.iter().map(|preset| preset.table().unwrap().into_keys().collect::<Vec<_>>());
            let keys: Vec<_> = keys.collect();
            assert!(keys.iter().all(|some| *some == keys[0]), "{keys:?}");
        }
    }

    #[test]
    fn relays_and_clients_have_the_keys_of_presets() {
        for key in PRESETS[0].table().unwrap().keys() {
            assert!(ClientKeys::has(key) && ClientsKeys::has(key), "{key}");
            assert_eq!(RelayKeys::has(key) && RelaysKeys::has(key), key != "optimistic_data", "{key}");
        }
        assert!(WORKLOADS[0].table().unwrap().keys().all(|key| WorkloadKeys::has(key)));
    }

    #[test]
    fn preset_names_match_the_presets() {
        assert_eq!(PRESETS.map(|preset| preset.name), NAMES);
        assert_eq!(WORKLOADS.map(|preset| preset.name), WORKLOAD_NAMES);
        assert!(!WORKLOAD_NAMES.iter().any(|name| NAMES.contains(name)), "a name is a preset of one kind");
    }
}
