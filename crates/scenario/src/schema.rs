//! Every key of a scenario: its form, its default, its meaning. Nothing else says them.

use crate::error::{Mistake, listed};
use crate::form::{Form, MOST_SIZE};
use crate::presets;
use crate::tree::{Node, Origin, Table, Value, join, parse_value};
use penstock_core::edge_control::WindowsConfig;
use penstock_network::{Era, geo};

/// One key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) fallback: Fallback,
    pub(crate) meaning: &'static str,
}

/// What a key is if nobody sets it.
#[derive(Debug)]
pub(crate) enum Fallback {
    /// Somebody must.
    Required,
    /// This, in TOML.
    Value(&'static str),
    /// As this key: of the same table, or with its section in front.
    Like(&'static str),
}

/// A table with known keys.
#[derive(Debug)]
pub(crate) struct Section {
    /// As it is written: `[run]`, `[relays.NAME]`.
    pub(crate) title: &'static str,
    /// Groups of keys; several sections share some.
    pub(crate) groups: &'static [&'static [Key]],
}

impl Section {
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// `table` with all keys known, checked, canonical and present.
    ///
    /// `root` has the sections that were filled before, for [`Fallback::Like`].
    pub(crate) fn fill(&self, table: &Table, at: Origin, path: &str, root: &Table) -> Result<Table, Mistake> {
        self.refuse_unknown(table, path)?;
        fill_keys(self.keys(), table, at, path, root)
    }

    pub(crate) fn refuse_unknown(&self, table: &Table, path: &str) -> Result<(), Mistake> {
        let Some((name, node)) = table.iter().find(|(name, _)| self.keys().all(|key| key.name != *name))
        else {
            return Ok(());
        };
        let allowed = listed(self.keys().map(|key| key.name));
        let message = format!("this key is unknown; {} takes {allowed}", self.title);
        Err(Mistake::new(node.at, join(path, name), message))
    }
}

fn fill_keys(
    keys: impl Iterator<Item = &'static Key>,
    table: &Table,
    at: Origin,
    path: &str,
    root: &Table,
) -> Result<Table, Mistake> {
    let mut filled = Table::new();
    for key in keys {
        let path = join(path, key.name);
        let node = match (table.get(key.name), &key.fallback) {
            (Some(node), _) => key.form.check(node, &path, root)?,
            (None, Fallback::Value(default)) => {
                let node = parse_value(default).expect("a default is TOML");
                key.form.check(&node.moved(&|_| Origin::Default), &path, root)?
            }
            (None, Fallback::Like(other)) => {
                let node = match other.split_once('.') {
                    None => &filled[*other],
                    Some((section, other)) => &root[section].table().expect("a section is a table")[other],
                };
                Node { value: node.value.clone(), at: Origin::Default }
            }
            (None, Fallback::Required) => {
                return Err(Mistake::new(
                    at,
                    path,
                    format!("this key is missing; it must be {}", key.form.describe()),
                ));
            }
        };
        filled.insert(key.name.to_owned(), node);
    }
    Ok(filled)
}

/// A trait of the core, and what implements it.
#[derive(Debug)]
pub(crate) struct Algorithm {
    /// The trait's name in the core.
    pub(crate) name: &'static str,
    pub(crate) kinds: &'static [Kind],
}

/// One implementation.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) source: &'static str,
    pub(crate) partners: &'static [Partner],
    pub(crate) keys: &'static [Key],
}

/// What a kind cannot do, or does in vain, beside a value of another key of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partner {
    pub(crate) key: &'static str,
    /// What that key must not be; of an algorithm its kind.
    pub(crate) not: &'static str,
    pub(crate) verdict: Verdict,
    /// As it continues the kind's name.
    pub(crate) why: &'static str,
}

/// What becomes of a node that has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is no such node.
    Refused,
    /// It runs, but one of them has no effect.
    InVain,
}

impl Algorithm {
    /// `{ kind = ..., parameters }` with all of the kind's parameters.
    pub(crate) fn fill(&self, node: &Node, path: &str, root: &Table) -> Result<Table, Mistake> {
        let empty = Table::new();
        let (name, at, table) = match &node.value {
            Value::Text(name) => (name.as_str(), node.at, &empty),
            Value::Table(table) => match table.get("kind").map(|kind| (kind, kind.as_text())) {
                Some((kind, Some(name))) => (name, kind.at, table),
                Some((kind, None)) => {
                    return Err(Mistake::new(kind.at, join(path, "kind"), self.wrong_kind(&kind.is_what())));
                }
                None => (self.kinds[0].name, node.at, table),
            },
            _ => return Err(Mistake::new(node.at, path, self.wrong_kind(&node.is_what()))),
        };
        let Some(kind) = self.kinds.iter().find(|kind| kind.name == name) else {
            let message = self.wrong_kind(&format!("{name:?} is unknown"));
            return Err(Mistake::new(at, join(path, "kind"), message));
        };
        let known = |name: &str| name == "kind" || kind.keys.iter().any(|key| key.name == name);
        if let Some((name, node)) = table.iter().find(|(name, _)| !known(name)) {
            let allowed = listed(["kind"].into_iter().chain(kind.keys.iter().map(|key| key.name)));
            let message = format!("this key is unknown; the kind {:?} takes {allowed}", kind.name);
            return Err(Mistake::new(node.at, join(path, name), message));
        }
        let mut filled = fill_keys(kind.keys.iter(), table, node.at, path, root)?;
        filled.insert("kind".to_owned(), Node::text(kind.name, at));
        Ok(filled)
    }

    fn wrong_kind(&self, why: &str) -> String {
        format!("{why}; the kind must be one of {}", listed(self.kinds.iter().map(|kind| kind.name)))
    }
}

const fn key(name: &'static str, form: Form, fallback: Fallback, meaning: &'static str) -> Key {
    Key { name, form, fallback, meaning }
}

use Fallback::{Like, Required, Value as Default};

const SIZE: Form = Form::Size { least: 1, most: MOST_SIZE };
const WHOLE_FROM_1: Form = Form::Whole { least: 1, most: i64::MAX, unit: "" };
const CELLS: Form = Form::Whole { least: 1, most: 100_000, unit: "cell" };
/// Buffers below a few segments only test the tester.
const BUFFER: Form = Form::Or("auto", &Form::Size { least: 4096, most: MOST_SIZE });
const QUEUE: Form = Form::Size { least: 3000, most: MOST_SIZE };

pub(crate) const HEAD: Section = Section {
    title: "[scenario]",
    groups: &[&[
        key("title", Form::Text, Required, "one line for lists and headings"),
        key("paper", Form::Text, Default("''"), "short name of the paper that it stands for"),
        key("section", Form::Text, Default("''"), "the paper's section"),
        key("figures", Form::Texts, Default("[]"), "the paper's figures"),
        key("notes", Form::Text, Default("''"), "whatever else a reader should know"),
    ]],
};

const STOP: Section = Section {
    title: "run.stop",
    groups: &[&[
        key("workload", Form::Text, Required, "the workload whose downloads count"),
        key("downloads", WHOLE_FROM_1, Required, "finished downloads of all its clients, warm-up included"),
    ]],
};

pub(crate) const RUN: Section = Section {
    title: "[run]",
    groups: &[&[
        key("seeds", Form::Seeds, Default("[1]"), "one run for each; seeds are the same in all variants"),
        key(
            "networks",
            Form::Or("none", &Form::Seeds),
            Default("'none'"),
            "seeds of networks, a run for each of them and of seeds; \"none\": each of seeds draws a network of its own",
        ),
        key("duration", Form::Span { zero: false }, Required, "latest end of simulated time"),
        key(
            "warmup",
            Form::Span { zero: true },
            Default("'0 s'"),
            "downloads that start earlier are marked as warm-up",
        ),
        key(
            "stop",
            Form::Or("none", &Form::Section(&STOP)),
            Default("'none'"),
            "ends a run at the sample after that workload's clients finished so many downloads in total",
        ),
        key("sample", Form::Span { zero: false }, Default("'1 s'"), "interval of relays.parquet"),
    ]],
};

const CPU: Section = Section {
    title: "relay.cpu",
    groups: &[&[
        key("cell", Form::Span { zero: true }, Default("'0 s'"), "each cell read or written"),
        key("call", Form::Span { zero: true }, Default("'0 s'"), "each system call that reads or writes"),
        key("record", Form::Span { zero: true }, Default("'0 s'"), "each TLS record read or written"),
        key("look", Form::Span { zero: true }, Default("'0 s'"), "each circuit that the policy looks at"),
        key(
            "query",
            Form::Span { zero: true },
            Default("'0 s'"),
            "each time the scheduler asks about a socket; KIST measured 0.914 us",
        ),
    ]],
};

pub(crate) const TRACE: Section = Section {
    title: "[trace]",
    groups: &[&[
        key(
            "workloads",
            Form::Texts,
            Default("[]"),
            "circuits of these workloads' clients go to circuits.parquet",
        ),
        key(
            "share",
            Form::Or("all", &Form::Fraction),
            Default("'all'"),
            "probability that a client is one whose circuits are traced, drawn for each seed",
        ),
        key("interval", Form::Span { zero: false }, Default("'100 ms'"), "interval of circuits.parquet"),
        key(
            "cells",
            Form::Whole { least: 0, most: 1_000_000, unit: "cell" },
            Default("0"),
            "one of every so many DATA cells of traced circuits goes to cells.parquet; 0 is none",
        ),
    ]],
};

pub(crate) const TCP: Section = Section {
    title: "[tcp]",
    groups: &[&[
        key(
            "profile",
            Form::Choice(&["linux-3.2", "linux-6", "ns3"]),
            Default("'linux-3.2'"),
            "whose TCP: loss recovery, timers, initial window, buffers",
        ),
        key(
            "congestion",
            Form::Choice(&["cubic", "reno"]),
            Default("'cubic'"),
            "how the congestion window grows",
        ),
        key(
            "hystart",
            Form::Flag,
            Default("true"),
            "CUBIC leaves slow start when round trips grow (HyStart)",
        ),
        key(
            "nodelay",
            Form::Flag,
            Default("false"),
            "TCP_NODELAY on every socket; without it a small segment waits while another is unacknowledged",
        ),
        key("mss", Form::Size { least: 88, most: 65_483 }, Default("'1448 B'"), "most payload of a segment"),
        key(
            "send_buffer",
            BUFFER,
            Default("'auto'"),
            "send buffer of every socket; \"auto\" tunes it as the profile does",
        ),
        key(
            "receive_buffer",
            BUFFER,
            Default("'auto'"),
            "receive buffer of every socket; \"auto\" tunes it as the profile does",
        ),
    ]],
};

const PAIR: Section = Section {
    title: "[[network.pairs]]",
    groups: &[&[
        key("between", Form::Texts, Required, "two nodes or groups of nodes"),
        key("rtt", Form::Span { zero: false }, Like("network.rtt"), "round trip between the two"),
        key(
            "loss",
            Form::Fraction,
            Like("network.loss"),
            "probability that a packet between the two is lost",
        ),
        key("reorder", Form::Fraction, Like("network.reorder"), "probability that a datagram is overtaken"),
        key(
            "duplicate",
            Form::Fraction,
            Like("network.duplicate"),
            "probability that a datagram comes twice",
        ),
    ]],
};

/// Rates that may be drawn.
const RATES: Form = Form::Drawn(&Form::Rate);
const DELAYS: Form = Form::Drawn(&Form::Span { zero: false });

const LATENCY: Section = Section {
    title: "network.latency",
    groups: &[&[
        key("near", DELAYS, Required, "what a node on the near side adds to all its round trips"),
        key("far", DELAYS, Like("near"), "what a node on the far side adds"),
        key(
            "far_share",
            Form::Fraction,
            Default("0.0"),
            "probability that a node is on the far side; with 0 the network is a star",
        ),
        key(
            "across",
            DELAYS,
            Like("near"),
            "round trip from one side to the other, of which the way between them takes what one node of each leaves, 2 ms at least",
        ),
    ]],
};

const NETWORK_KEYS: &[Key] = &[
    key(
        "rtt",
        Form::Span { zero: false },
        Default("'80 ms'"),
        "round trip between any two nodes, without queues and serialisation",
    ),
    key(
        "latency",
        Form::Or("even", &Form::Or("geographic", &Form::Or("ways", &Form::Section(&LATENCY)))),
        Default("'even'"),
        "\"even\": all are network.rtt apart; \"geographic\": by the way between their countries; \"ways\": as network.ways has it; or a dumbbell: nodes hang at two points, at delays that are drawn for each seed",
    ),
    key(
        "access",
        DELAYS,
        Default("'11 ms'"),
        "what a node adds to all its round trips where latency is \"geographic\" or \"ways\"",
    ),
    key(
        "ways",
        Form::Or("none", &Form::Ways),
        Default("'none'"),
        "round trips between two countries, and within one, without the access of either end, for latency = \"ways\"",
    ),
    key(
        "loss",
        Form::Fraction,
        Default("0.0"),
        "probability that a packet is lost on its way, in each direction",
    ),
    key(
        "reorder",
        Form::Fraction,
        Default("0.0"),
        "probability that a datagram takes longer, by up to a round trip, so that others overtake it; segments of TCP keep their order",
    ),
    key(
        "duplicate",
        Form::Fraction,
        Default("0.0"),
        "probability that a datagram comes twice; no segment of TCP does",
    ),
    // How much FIFO stands in front of the bottleneck decides TTFB; to be calibrated.
    key(
        "link_queue",
        QUEUE,
        Default("'75 kB'"),
        "drop-tail queue in front of every receiving access link; 75 kB is ModelNet's 50 packets",
    ),
    key(
        "consensus_n23",
        Form::Flag,
        Default("true"),
        "the consensus activates N23: nodes whose hop_control is \"n23\" use it; false is as if theirs were \"none\"",
    ),
];

/// `[network]` without its pairs, which fall back on it.
pub(crate) const NETWORK: Section = Section { title: "[network]", groups: &[NETWORK_KEYS] };
pub(crate) const NETWORK_AND_PAIRS: Section = Section {
    title: "[network]",
    groups: &[
        NETWORK_KEYS,
        &[key("pairs", Form::Sections(&PAIR), Default("[]"), "exceptions between two nodes or groups")],
    ],
};

macro_rules! host {
    ($link:literal) => {
        &[
            key("link", RATES, Default($link), "access link, each direction"),
            key("link_up", RATES, Like("link"), "what the access link sends"),
            key("link_down", RATES, Like("link"), "what the access link receives"),
            key("link_queue", QUEUE, Like("network.link_queue"), "queue in front of the receiving link"),
            key("send_buffer", BUFFER, Like("tcp.send_buffer"), "send buffer of its sockets"),
            key("receive_buffer", BUFFER, Like("tcp.receive_buffer"), "receive buffer of its sockets"),
            key(
                "country",
                Form::Or("any", &Form::Choice(geo::CODES)),
                Default("'any'"),
                "where it is, for network.latency = \"geographic\" or \"ways\"; \"any\" draws one for each node, of relays as those of their era were, of the others as Tor's users are",
            ),
        ]
    };
}

const RELAY_HOST: &[Key] = host!("'10 MiB/s'");
const CLIENT_HOST: &[Key] = host!("'10 MiB/s'");
const SERVER_HOST: &[Key] = host!("'100 MiB/s'");

pub(crate) const TOR: &[Key] = &[
    key(
        presets::KEY,
        Form::Or("none", &Form::Choice(presets::NAMES)),
        Default("'none'"),
        "a version of Tor: it sets keys over what is inherited and below what stands beside it",
    ),
    key(
        "cpu",
        Form::Or("none", &Form::Section(&CPU)),
        Default("'none'"),
        "how long its processor takes for Tor's work, which waits in one queue; \"none\" is no time",
    ),
    key(
        "bandwidth_rate",
        Form::Or("none", &RATES),
        Default("'none'"),
        "refill of the global read and write buckets (torrc BandwidthRate)",
    ),
    key(
        "bandwidth_burst",
        Form::Or("auto", &SIZE),
        Default("'auto'"),
        "their depth (torrc BandwidthBurst); \"auto\" is a second of bandwidth_rate",
    ),
    key(
        "refill",
        Form::Span { zero: false },
        Default("'1 s'"),
        "time between refills; 1 s until Tor 0.2.3.5, then 100 ms",
    ),
    key(
        "refill_phase",
        Form::Or("random", &Form::Span { zero: true }),
        Default("'random'"),
        "when the first refill is; \"random\" draws it from [0, refill) for each node and seed",
    ),
    key(
        "refill_unblock",
        Form::Or("none", &Form::Span { zero: false }),
        Default("'none'"),
        "who finds a bucket empty looks again so much later, and buckets are refilled by whole refills when somebody looks (C tor since 0.4.0: refill 16 ms, this 100 ms); \"none\" is at the next refill",
    ),
    key(
        "circuit_policy",
        Form::Algorithm(&CIRCUIT_POLICY),
        Default("{}"),
        "which circuit of a channel sends next",
    ),
    key(
        "priority_factor",
        Form::Whole { least: 1, most: 1_000_000, unit: "cell" },
        Default("10"),
        "cells that a cell of a circuit of the worse class counts as, for a circuit policy that counts (KIST section 5.1)",
    ),
    key("scheduler", Form::Algorithm(&SCHEDULER), Default("{}"), "which channels write now, and how much"),
    key(
        "edge_control",
        Form::Algorithm(&EDGE_CONTROL),
        Default("{}"),
        "what a circuit may have outstanding, where it packages",
    ),
    key("hop_control", Form::Algorithm(&HOP_CONTROL), Default("{}"), "what one hop may have outstanding"),
    key(
        "transport",
        Form::Choice(&["tcp", "datagram"]),
        Default("'tcp'"),
        "what channels to nodes that have the same are: TLS over TCP, or datagrams that are acknowledged at each hop; others are over TCP",
    ),
    key(
        "datagram_hold",
        Form::Span { zero: true },
        Default("'1 ms'"),
        "how long a message that is alone waits for company in a datagram",
    ),
    key(
        "datagram_timeout",
        Form::Span { zero: false },
        Default("'1 s'"),
        "the least timeout after which a cell without acknowledgement is sent again",
    ),
    key("throttle", Form::Algorithm(&THROTTLE), Default("{}"), "at what rate each client is served"),
    key("channel_map", Form::Algorithm(&CHANNEL_MAP), Default("{}"), "which channel a circuit takes"),
    key(
        "authenticated_sendmes",
        Form::Flag,
        Default("false"),
        "where it packages, a circuit SENDME must prove that its cell arrived (proposal 289), or the circuit closes",
    ),
    key(
        "edge_queue_low",
        CELLS,
        Default("64"),
        "streams are read again when the circuit's queue is at most so long",
    ),
    key(
        "edge_queue_high",
        CELLS,
        Default("256"),
        "streams are no longer read when the circuit's queue is so long",
    ),
    key(
        "mark_above",
        Form::Or("none", &Form::Whole { least: 0, most: 100_000, unit: "cell" }),
        Default("'none'"),
        "a RELAY cell that joins a circuit's queue with more cells is marked, for `edge_control = \"dctcp\"`; 20 is DCTCP's K",
    ),
    key(
        "circuit_queue_most",
        CELLS,
        Default("2500"),
        "a circuit with so many cells in one direction is closed when another arrives (consensus circ_max_cell_queue_size)",
    ),
];

const WEIGHT: &[Key] = &[
    key(
        "weight",
        Form::Or("auto", &Form::Rate),
        Default("'auto'"),
        "share in bandwidth-weighted paths; \"auto\" is bandwidth_rate, or what the link sends",
    ),
    key(
        "flags",
        Form::Texts,
        Default("['guard', 'exit']"),
        "where it may stand on paths \"tor\" beside the middle: \"guard\", \"exit\", both or none",
    ),
];

/// Relays as they were: only where relays are named.
const ERA: &[Key] = &[
    key(
        "era",
        Form::Or("none", &Form::Choice(&Era::YEARS)),
        Default("'none'"),
        "draws link, bandwidth_rate, bandwidth_burst, weight, flags and country of these relays as they were in that year, anew for each network",
    ),
    key(
        "era_buckets",
        Form::Flag,
        Default("true"),
        "relays of an era have token buckets as their operators set them; false makes the smaller of link and bandwidth_rate the link, and the only limit",
    ),
];

/// Copies of a node: only where nodes are named.
const COUNT: &[Key] = &[key(
    "count",
    Form::Or("one", &Form::Whole { least: 1, most: 1_000_000, unit: "" }),
    Default("'one'"),
    "makes so many, NAME0001, NAME0002 and so on; \"one\" makes NAME itself",
)];

pub(crate) const RELAY: Section = Section { title: "[relay]", groups: &[RELAY_HOST, TOR, WEIGHT] };
pub(crate) const RELAYS: Section =
    Section { title: "[relays.NAME]", groups: &[RELAY_HOST, TOR, WEIGHT, COUNT, ERA] };

pub(crate) const CLIENT: Section = Section { title: "[client]", groups: &[CLIENT_HOST, TOR, PATH] };
pub(crate) const CLIENTS: Section = Section {
    title: "[clients.NAME]",
    groups: &[
        CLIENT_HOST,
        TOR,
        PATH,
        COUNT,
        &[
            key(
                "workload",
                Form::Texts,
                Required,
                "what it does: the NAME of a [workloads.NAME], or several names for all of them at once, whose streams share its circuit",
            ),
            key(
                "isolate_workloads",
                Form::Flag,
                Default("false"),
                "each of several workloads has circuits of its own (torrc SocksPort, its isolation flags)",
            ),
        ],
    ],
};
const PATH: &[Key] = &[
    key(
        "path",
        Form::Texts,
        Default("'weighted'"),
        "relays from the entry to the exit; \"weighted\" draws different ones by weight, \"tor\" a guard, a middle and an exit as Tor's clients do, `[]` is plain TCP without Tor",
    ),
    key(
        "hops",
        Form::Whole { least: 1, most: 8, unit: "" },
        Default("3"),
        "how many relays a weighted path has",
    ),
    key(
        "guards",
        Form::Whole { least: 1, most: 100, unit: "" },
        Default("3"),
        "how many guards a client keeps, of which each circuit takes one, on a path \"tor\" (torrc NumEntryGuards; 3 until Tor 0.2.4)",
    ),
    key(
        "circuit_lifetime",
        Form::Or("auto", &Form::Or("none", &Form::Span { zero: false })),
        Default("'auto'"),
        "a circuit whose first stream is older gets no new one: the next download has a new circuit (torrc MaxCircuitDirtiness); \"auto\" is 10 min on paths \"tor\", and none on others",
    ),
    key(
        "build_timeout",
        Form::Or("auto", &Form::Or("none", &Form::Span { zero: false })),
        Default("'auto'"),
        "a circuit that is not built by then is given up, and another one begun (torrc CircuitBuildTimeout); \"auto\" is 60 s on paths \"tor\", and none on others",
    ),
    key(
        "optimistic_data",
        Form::Flag,
        Default("false"),
        "send the request right after BEGIN, before CONNECTED is back (proposal 174)",
    ),
    key(
        "priority_class",
        Form::Choice(&["better", "worse"]),
        Default("'better'"),
        "what it tells the relays of its circuits before their first stream (KIST section 5.1); better is the default and not told",
    ),
    key(
        "server",
        Form::Texts,
        Default("'any'"),
        "server or servers, one drawn for each download; \"any\" is all",
    ),
];

pub(crate) const SERVER: Section = Section { title: "[server]", groups: &[SERVER_HOST] };
pub(crate) const SERVERS: Section = Section { title: "[servers.NAME]", groups: &[SERVER_HOST, COUNT] };

const MARKOV: Section = Section {
    title: "workload.tgen.packets",
    groups: &[&[
        key("start", Form::Name, Default("'start'"), "the state before the first one"),
        key("transitions", Form::Transitions, Required, "which state follows which, with weights"),
        key(
            "emissions",
            Form::Emissions,
            Required,
            "what a state says when it is entered, with weights, and after which delay the next one is",
        ),
    ]],
};

const TGEN: Section = Section {
    title: "workload.tgen",
    groups: &[&[
        key(
            "flows",
            Form::Or("none", &Form::Section(&MARKOV)),
            Default("'none'"),
            "when flows begin, each with a circuit of its own; \"none\" is one after the other, with pause between",
        ),
        key(
            "streams",
            Form::Or("none", &Form::Section(&MARKOV)),
            Default("'none'"),
            "when streams of a flow begin; \"none\" is one stream",
        ),
        key(
            "packets",
            Form::Section(&MARKOV),
            Required,
            "when packets of a stream leave: + the client's, - the server's",
        ),
        key("packet", Form::Size { least: 1, most: 1 << 16 }, Default("'1434 B'"), "what a packet carries"),
    ]],
};

pub(crate) const WORKLOADS: Section = Section {
    title: "[workloads.NAME]",
    groups: &[&[
        key(
            presets::KEY,
            Form::Or("none", &Form::Choice(presets::WORKLOAD_NAMES)),
            Default("'none'"),
            "what a paper's clients do: it sets keys below what stands beside it",
        ),
        key(
            "size",
            Form::Or("none", &Form::Amounts),
            Default("'none'"),
            "what a download delivers; a workload has this, hold or tgen",
        ),
        key(
            "hold",
            Form::Or("none", &Form::Spans),
            Default("'none'"),
            "instead of downloading, a client opens a circuit, and closes it and its connection so much later",
        ),
        key(
            "tgen",
            Form::Or("none", &Form::Section(&TGEN)),
            Default("'none'"),
            "instead of downloading in a loop, streams begin and packets leave as tgen's Markov models say",
        ),
        key(
            "circuits",
            Form::Whole { least: 1, most: 1000, unit: "" },
            Default("1"),
            "so many at once, each with downloads or holds of its own",
        ),
        key(
            "pause",
            Form::Spans,
            Default("'0 s'"),
            "from the last byte, or the end of a hold, to the next one",
        ),
        key("start", Form::Spans, Default("'0 s'"), "when a client begins"),
        key("fresh_circuit", Form::Flag, Default("false"), "every download gets a circuit of its own"),
        key(
            "timeout",
            Form::Or("none", &Form::Span { zero: false }),
            Default("'none'"),
            "a download that takes longer is given up",
        ),
        key(
            "request",
            Form::Size { least: 1, most: 1 << 20 },
            Default("'200 B'"),
            "size of the request that asks for the file",
        ),
    ]],
};

pub(crate) const CHANGES: Section = Section {
    title: "[[changes]]",
    groups: &[&[
        key("at", Form::Span { zero: false }, Required, "when, from the beginning of the run"),
        key(
            "set",
            Form::Overrides,
            Required,
            "what it sets: bandwidth_rate, bandwidth_burst, circuit_policy or throttle of relays and clients, like \"relays.middle.circuit_policy.half_life\"",
        ),
    ]],
};

pub(crate) const DEPLOYMENTS: Section = Section {
    title: "[[deployments]]",
    groups: &[&[
        key("relays", Form::Texts, Default("'any'"), "relays or groups of relays; \"any\" is all"),
        key(
            "position",
            Form::Choice(&["any", "guard", "middle", "exit"]),
            Default("'any'"),
            "which of them, by their flags: \"exit\" has exit, \"guard\" has guard alone, \"middle\" neither",
        ),
        key(
            "share",
            Form::Or("all", &Form::Fraction),
            Default("'all'"),
            "which part of those, drawn for each network; who is in a small share is in a larger one too",
        ),
        key(
            "set",
            Form::Overrides,
            Required,
            "keys of [relay] that these relays' software has, like { scheduler = \"kist\" }",
        ),
    ]],
};

pub(crate) const VARIANTS: Section = Section {
    title: "[[variants]]",
    groups: &[&[
        key("name", Form::Name, Required, "name in output and on the command line"),
        key("label", Form::Text, Like("name"), "name in pictures"),
        key("set", Form::Overrides, Default("{}"), "what it overrides: keys with dots, like \"relay.link\""),
    ]],
};

/// Every section in the order in which a file is written, with the key that it has at the top.
pub(crate) const SECTIONS: &[(&str, &Section)] = &[
    ("scenario", &HEAD),
    ("run", &RUN),
    ("trace", &TRACE),
    ("tcp", &TCP),
    ("network", &NETWORK_AND_PAIRS),
    ("relay", &RELAY),
    ("relays", &RELAYS),
    ("client", &CLIENT),
    ("clients", &CLIENTS),
    ("server", &SERVER),
    ("servers", &SERVERS),
    ("workloads", &WORKLOADS),
    ("deployments", &DEPLOYMENTS),
    ("changes", &CHANGES),
    ("variants", &VARIANTS),
];

/// Sections of no list, for the reference.
pub(crate) const INNER_SECTIONS: &[&Section] = &[&STOP, &CPU, &LATENCY, &PAIR, &TGEN, &MARKOV, &ADAPT];

pub(crate) const CIRCUIT_POLICY: Algorithm = Algorithm {
    name: "CircuitPolicy",
    kinds: &[
        Kind {
            name: "round-robin",
            meaning: "circuits take turns, a cell each",
            source: "C tor 0.2.3; DefenestraTor section 3.1",
            partners: &[],
            keys: &[],
        },
        Kind {
            name: "ewma",
            meaning: "the circuit that sent least of late goes first",
            source: "EWMA sections 2.3 and 3.5; C tor circuitmux_ewma.c",
            partners: &[],
            keys: &[
                key(
                    "half_life",
                    Form::Span { zero: false },
                    Default("'30 s'"),
                    "what was sent counts half after this long",
                ),
                key(
                    "form",
                    Form::Choice(&["list", "heap", "tick"]),
                    Default("'heap'"),
                    "how it is computed: all three choose alike",
                ),
            ],
        },
    ],
};

const GLOBAL_WRITE_TIMEOUT: Key = key(
    "interval",
    Form::Span { zero: false },
    Default("'10 ms'"),
    "from the first channel that has something to send to the round that serves it (GlobalWriteTimeout)",
);
const RUN_INTERVAL: Key = key(
    "interval",
    Form::Span { zero: false },
    Default("'10 ms'"),
    "least time between two runs (KISTSchedRunInterval); the consensus may lower it, 2 ms today",
);

const ASKS_THE_KERNEL: Partner = Partner {
    key: "transport",
    not: "datagram",
    verdict: Verdict::InVain,
    why: "asks the kernel for limits, but a datagram socket reports no limit",
};

pub(crate) const SCHEDULER: Algorithm = Algorithm {
    name: "Scheduler",
    kinds: &[
        Kind {
            name: "vanilla",
            meaning: "one socket at a time, as the kernel reports them writable",
            source: "C tor 0.2.3; DefenestraTor section 3.1; KIST section 5.1",
            partners: &[],
            keys: &[
                key(
                    "outbuf_low",
                    SIZE,
                    Default("'16 KiB'"),
                    "cells move to the output buffer when it falls below this",
                ),
                key("outbuf_high", SIZE, Default("'32 KiB'"), "and they move until it holds at least this"),
            ],
        },
        Kind {
            name: "global",
            meaning: "all channels together, best circuit first, as much as the kernel takes",
            source: "KIST sections 5.2 and 5.3, without write limits",
            partners: &[],
            keys: &[GLOBAL_WRITE_TIMEOUT],
        },
        Kind {
            name: "kist",
            meaning: "global scheduling, and no more than the kernel can send at once",
            source: "KIST section 5.2, algorithms 1 and 2, equations 1 and 2",
            partners: &[ASKS_THE_KERNEL],
            keys: &[
                GLOBAL_WRITE_TIMEOUT,
                key(
                    "global_limit",
                    Form::Choice(&["drained", "rate", "off"]),
                    Default("'drained'"),
                    "what all channels together may get: the most that drained from the kernel between two rounds, a bucket of the greatest rate, or any amount",
                ),
                key(
                    "rate",
                    Form::Or("measured", &Form::Rate),
                    Default("'measured'"),
                    "with global_limit \"rate\": the rate, if it is known",
                ),
                key(
                    "fill",
                    Form::Or("auto", &Form::Span { zero: false }),
                    Default("'auto'"),
                    "with global_limit \"rate\": how much of the rate the bucket holds; \"auto\" is interval",
                ),
            ],
        },
        Kind {
            name: "kist-deployed",
            meaning: "KIST as C tor has it: congestion windows limit, nothing else does",
            source: "C tor scheduler_kist.c",
            partners: &[ASKS_THE_KERNEL],
            keys: &[RUN_INTERVAL],
        },
        Kind {
            name: "kist-lite",
            meaning: "C tor's KIST without asking the kernel: output buffers limit",
            source: "C tor scheduler_kist.c, channeltls.c",
            partners: &[],
            keys: &[RUN_INTERVAL],
        },
    ],
};

const CIRCUIT_WINDOW: Form = window(WindowsConfig::CIRCUIT_RANGE);
const STREAM_WINDOW: Form = window(WindowsConfig::STREAM_RANGE);
const CELLS_BY_VERSION: Form = Form::Or("version", &Form::Whole { least: 0, most: 100_000, unit: "cell" });
const COUNT_OF_SAMPLES: Form = Form::Whole { least: 2, most: 1000, unit: "1" };

const EARLY_SENDMES: Form = window(WindowsConfig::EARLY_RANGE);

const fn window((least, most): (u32, u32)) -> Form {
    Form::Whole { least: least as i64, most: most as i64, unit: "cell" }
}

/// What every kind of windows takes beside its circuit window.
const STREAM_WINDOW_KEY: Key =
    key("stream_window", STREAM_WINDOW, Default("500"), "DATA cells of a stream that may be unacknowledged");
const SENDME_BUG_KEY: Key = key(
    "sendme_bug_101",
    Form::Flag,
    Default("false"),
    "acknowledge one cell too late, as clients until 0.2.1.19 did",
);

pub(crate) const EDGE_CONTROL: Algorithm = Algorithm {
    name: "EdgeControl",
    kinds: &[
        Kind {
            name: "windows",
            meaning: "fixed SENDME windows of circuits and streams",
            source: "tor-spec section 7.4; DefenestraTor sections 3.1 and 4.1",
            partners: &[],
            keys: &[
                key(
                    "circuit_window",
                    CIRCUIT_WINDOW,
                    Default("1000"),
                    "DATA cells of a circuit that may be unacknowledged; 100 is 50 KiB",
                ),
                STREAM_WINDOW_KEY,
                SENDME_BUG_KEY,
                key(
                    "early_sendmes",
                    EARLY_SENDMES,
                    Default("0"),
                    "how far circuit SENDMEs run ahead of what arrived, as a selfish client's do; 0 is honest",
                ),
                key(
                    "ends",
                    Form::Choice(&["enforced", "ignored", "suppressed"]),
                    Default("'enforced'"),
                    "what becomes of these windows on circuits that have credits at each hop, if client and last relay both say other than \"enforced\": they do not hold, and this end sends SENDMEs that nobody heeds, or none",
                ),
            ],
        },
        Kind {
            name: "dynamic-windows",
            meaning: "a circuit window that follows the round-trip time",
            source: "DefenestraTor section 4.1, equations 1 and 2",
            partners: &[],
            keys: &[
                key(
                    "alpha",
                    Form::Fraction,
                    Default("0.25"),
                    "where the threshold lies between the least and the greatest round trip",
                ),
                key(
                    "adjust",
                    Form::Choice(&["every-sendme", "once-per-rtt"]),
                    Default("'every-sendme'"),
                    "how often the window may change",
                ),
                key(
                    "decay",
                    Form::Fraction,
                    Default("0.0"),
                    "how fast least and greatest round trip drift towards the mean, a sample; 0 is never",
                ),
                key(
                    "peer_bug_101",
                    Form::Flag,
                    Default("false"),
                    "peers acknowledge one cell too late: the least window is 101",
                ),
                STREAM_WINDOW_KEY,
                SENDME_BUG_KEY,
            ],
        },
        Kind {
            name: "vegas",
            meaning: "congestion control and XON/XOFF on circuits whose client and last relay both have it; else SENDME windows",
            source: "proposal 324; RFC 3742; C tor 0.4.9 and 0.4.7",
            partners: &[],
            keys: VEGAS,
        },
        Kind {
            name: "dctcp",
            meaning: "a congestion window that follows the share of cells that relays marked, and XON/XOFF, on circuits whose client and last relay both have it; else SENDME windows",
            source: "Alizadeh et al. 2010 section 3; RFC 8257",
            partners: &[NEEDS_MARKS],
            keys: DCTCP,
        },
        Kind {
            name: "timely",
            meaning: "a rate that follows the gradient of the round trip, as a window, and XON/XOFF, on circuits whose client and last relay both have it; else SENDME windows",
            source: "Mittal et al. 2015 section 4.3, algorithm 1",
            partners: &[],
            keys: TIMELY,
        },
    ],
};

const SENDME_INC: Form = Form::Whole { least: 1, most: 254, unit: "cell" };
const SENDME_INC_MEANING: &str = "DATA cells that one circuit SENDME acknowledges, as the relay says; the client refuses it if its own is farther away than 1";
const CWND_MAX_KEY: Key = key(
    "cwnd_max",
    Form::Whole { least: 1, most: i32::MAX as i64, unit: "cell" },
    Default("1000"),
    "greatest congestion window",
);
const FALLBACK_WINDOW_KEY: Key = key(
    "circuit_window",
    CIRCUIT_WINDOW,
    Default("1000"),
    "circuits whose other end does not have it have this window",
);

const DCTCP: &[Key] = &[
    key("sendme_inc", SENDME_INC, Default("10"), SENDME_INC_MEANING),
    key("cwnd_init", CELLS, Default("20"), "congestion window of a new circuit"),
    key("cwnd_min", CELLS, Default("20"), "least congestion window"),
    CWND_MAX_KEY,
    key(
        "g",
        Form::Fraction,
        Default("0.0625"),
        "weight of the newest window in the average share of marked cells",
    ),
    FALLBACK_WINDOW_KEY,
    STREAM_WINDOW_KEY,
];

const TIMELY: &[Key] = &[
    key("sendme_inc", SENDME_INC, Default("31"), SENDME_INC_MEANING),
    key("cwnd_init", CELLS, Default("124"), "congestion window of a new circuit"),
    key("cwnd_min", CELLS, Default("62"), "least congestion window"),
    CWND_MAX_KEY,
    key(
        "t_low",
        Form::Span { zero: true },
        Default("'10 ms'"),
        "the rate grows while the round trip is less than so much above the circuit's least one",
    ),
    key("t_high", Form::Span { zero: false }, Default("'100 ms'"), "it falls while it is more above it"),
    key("delta", Form::Rate, Default("'10 KiB/s'"), "what the rate gains in a round trip, in bytes of cells"),
    key(
        "beta",
        Form::Fraction,
        Default("0.8"),
        "how much of a gradient, or of what exceeds t_high, it loses",
    ),
    key(
        "alpha",
        Form::Fraction,
        Default("0.875"),
        "weight of the newest difference of two round trips in the gradient",
    ),
    FALLBACK_WINDOW_KEY,
    STREAM_WINDOW_KEY,
];

const VEGAS: &[Key] = &[
    key(
        "version",
        Form::Choice(&["0.4.9", "0.4.7"]),
        Default("'0.4.9'"),
        "C tor's version, whose constants the keys that say \"version\" take",
    ),
    key("sendme_inc", SENDME_INC, Default("31"), SENDME_INC_MEANING),
    key("cwnd_init", CELLS, Default("124"), "congestion window of a new circuit"),
    key("cwnd_min", CELLS, Default("124"), "least congestion window"),
    key(
        "cwnd_max",
        Form::Whole { least: 500, most: i32::MAX as i64, unit: "cell" },
        Default("2147483647"),
        "greatest congestion window",
    ),
    key("cwnd_inc", CELLS, Default("1"), "what an update after slow start adds or takes"),
    key(
        "cwnd_inc_rate",
        Form::Whole { least: 1, most: 250, unit: "1" },
        Default("31"),
        "one update after slow start for so many times sendme_inc acknowledged cells; a smaller window is updated with every SENDME",
    ),
    key(
        "cwnd_inc_pct_ss",
        Form::Whole { least: 1, most: 500, unit: "%" },
        Default("100"),
        "what a SENDME adds in slow start, of the cells that it acknowledges",
    ),
    key(
        "sscap",
        CELLS_BY_VERSION,
        Default("'version'"),
        "slow start grows more slowly above this window: 600, or 500",
    ),
    key("ss_max", CELLS, Default("5000"), "slow start ends at this window"),
    key(
        "alpha",
        CELLS_BY_VERSION,
        Default("'version'"),
        "the window grows while fewer cells are queued: 186, or 124",
    ),
    key("beta", CELLS_BY_VERSION, Default("'version'"), "it shrinks while more are queued: 248"),
    key("gamma", CELLS_BY_VERSION, Default("'version'"), "slow start ends when so many are queued: 186"),
    key(
        "delta",
        CELLS_BY_VERSION,
        Default("'version'"),
        "it falls at once to so many above the bandwidth-delay product when more are queued: 310, or 372",
    ),
    key(
        "ewma_cwnd_pct",
        Form::Whole { least: 1, most: 255, unit: "%" },
        Default("50"),
        "round trips are averaged over this part of a window's updates after slow start",
    ),
    key("ewma_max", COUNT_OF_SAMPLES, Default("10"), "over so many at most"),
    key("ewma_ss", COUNT_OF_SAMPLES, Default("2"), "over so many in slow start"),
    key(
        "rtt_reset_pct",
        Form::Whole { least: 0, most: 100, unit: "%" },
        Default("100"),
        "how far the least round trip rises to the average while the window is at its least",
    ),
    key(
        "cwnd_full_gap",
        Form::Or("version", &Form::Whole { least: 0, most: 32_767, unit: "1" }),
        Default("'version'"),
        "a window that lacks the cells of so many SENDMEs is still full: 4, or 1",
    ),
    key(
        "cwnd_full_minpct",
        Form::Or("version", &Form::Whole { least: 0, most: 100, unit: "%" }),
        Default("'version'"),
        "a window of which less is under way is not full: 25, or 75",
    ),
    key(
        "cwnd_full_per_cwnd",
        Form::Flag,
        Default("true"),
        "a window must be found full anew once in a window's worth of SENDMEs; false is once in an update",
    ),
    key(
        "xoff",
        Form::Whole { least: 1, most: 10_000, unit: "cell" },
        Default("500"),
        "an XOFF is due when more of a stream waits for its application, in cells of 488 B",
    ),
    key(
        "xoff_grace",
        Form::Or("version", &Form::Span { zero: true }),
        Default("'version'"),
        "for how long, before the XOFF leaves with the next cell that arrives: 5 ms, or none",
    ),
    key(
        "xon_rate",
        Form::Whole { least: 1, most: 5000, unit: "cell" },
        Default("500"),
        "the rate in an XON is measured over so much, in cells of 498 B",
    ),
    key(
        "xon_change_pct",
        Form::Whole { least: 1, most: 99, unit: "%" },
        Default("25"),
        "another XON leaves when that rate moved so far",
    ),
    key(
        "xon_ewma_cnt",
        Form::Whole { least: 2, most: 100, unit: "1" },
        Default("2"),
        "that rate is averaged over so many measurements",
    ),
    key(
        "circuit_window",
        CIRCUIT_WINDOW,
        Default("1000"),
        "circuits whose other end has no congestion control have this window",
    ),
    STREAM_WINDOW_KEY,
];

pub(crate) const HOP_CONTROL: Algorithm = Algorithm {
    name: "HopControl",
    kinds: &[
        Kind {
            name: "none",
            meaning: "a hop carries whatever the edges allow",
            source: "C tor",
            partners: &[],
            keys: &[],
        },
        Kind {
            name: "n23",
            meaning: "credits at each hop whose nodes both have them: no queue of a circuit holds more than N2 + N3 cells",
            source: "DefenestraTor section 4.2 and figure 3; Kung, Blackwell, Chapman 1994",
            partners: &[],
            keys: &[
                key("n2", CELLS, Default("10"), "one credit for so many forwarded cells (N2)"),
                key(
                    "n3",
                    Form::Whole { least: 0, most: 100_000, unit: "cell" },
                    Default("500"),
                    "what may be outstanding beyond that (N3); if it adapts, what it starts at, from 100 to 500",
                ),
                key(
                    "adapt",
                    Form::Or("none", &Form::Section(&ADAPT)),
                    Default("'none'"),
                    "how N3 follows congestion, from 100 to 500 cells; \"none\" keeps it",
                ),
                key(
                    "credit_path",
                    Form::Choice(&["link", "circuit"]),
                    Default("'link'"),
                    "how this node's credits travel: before all circuits, or in the queue of their circuit's other direction",
                ),
                key(
                    "client_participates",
                    Form::Flag,
                    Default("true"),
                    "the hop between a client and its entry has credits too; if either says false it has none",
                ),
            ],
        },
        Kind {
            name: "backtap",
            meaning: "over datagrams: a window for each circuit and hop, by how many of its cells wait at the next node",
            source: "Tschorsch and Scheuermann 2016, by the slides of Ojha and Sharma 2018 and nstor",
            partners: &[NEEDS_DATAGRAMS],
            keys: &[ALPHA, BETA, START, SLOW_START, SAMPLES, CAP, BASE_MEMORY],
        },
        Kind {
            name: "marut",
            meaning: "over datagrams: the window of a circuit's first node follows the worst hop of all",
            source: "Ojha and Sharma 2018",
            partners: &[NEEDS_DATAGRAMS],
            keys: &[
                ALPHA,
                BETA,
                START,
                SLOW_START,
                SAMPLES,
                CAP,
                BASE_MEMORY,
                key(
                    "mode",
                    Form::Choice(&["hop", "e2e"]),
                    Default("'hop'"),
                    "the window counts cells that the next node, or the last one, is not known to have forwarded; all nodes of a path must have the same",
                ),
                key(
                    "middle",
                    Form::Or("own", &Form::Or("open", &Form::Whole { least: 1, most: 2000, unit: "cell" })),
                    Default("1024"),
                    "what the other nodes let be outstanding on their hops; \"own\" is a window as BackTap's, \"open\" all that datagrams hold",
                ),
                key(
                    "occupancy",
                    Form::Choice(&["measured", "window"]),
                    Default("'measured'"),
                    "what a hop's congestion is a part of: the most cells that were outstanding in the round, or the node's own window, which stays at start in the middle",
                ),
                key(
                    "interval",
                    Form::Choice(&["circuit", "hop"]),
                    Default("'circuit'"),
                    "the window changes no oftener than once in a round trip of the circuit, or of the first hop",
                ),
                key(
                    "interval_hops",
                    Form::Whole { least: 1, most: 10, unit: "" },
                    Default("3"),
                    "in mode \"hop\" a circuit's round trip is not measured, but so many times that of the first hop",
                ),
                key(
                    "quantum",
                    Form::Whole { least: 1, most: 65535, unit: "1/64 cell" },
                    Default("1"),
                    "a node rounds its own congestion down to whole numbers of this; coarse ones tell a spy less",
                ),
                key(
                    "memory",
                    Form::Or("none", &Form::Whole { least: 1, most: 1000, unit: "round trip" }),
                    Default("2"),
                    "what was heard of congestion fades after so many round trips of the circuit; \"none\" never does",
                ),
                key(
                    "queue_cap",
                    Form::Or("none", &CELLS),
                    Default("2000"),
                    "a node in the middle in whose queue more waits tells nothing of what it forwards",
                ),
            ],
        },
    ],
};

const NEEDS_MARKS: Partner = Partner {
    key: "mark_above",
    not: "none",
    verdict: Verdict::InVain,
    why: "reacts only to marks, so its window only grows if no relay sets marks",
};
const NEEDS_DATAGRAMS: Partner = Partner {
    key: "transport",
    not: "tcp",
    verdict: Verdict::Refused,
    why: "is for datagrams; set transport = \"datagram\" as well",
};

/// The slides leave all of these open but the first two's names.
const ALPHA: Key =
    key("alpha", CELLS, Default("3"), "a window grows by a cell if fewer than this wait (alpha); nstor's");
const BETA: Key =
    key("beta", CELLS, Default("6"), "and shrinks by one if more than this wait (beta); nstor's");
const START: Key =
    key("start", Form::Whole { least: 1, most: 2000, unit: "cell" }, Default("2"), "the first window");
const SLOW_START: Key = key(
    "slow_start",
    Form::Or("none", &CELLS),
    Default("'none'"),
    "the window doubles in each round until more than this wait (CircuitStart: 2); \"none\" grows by a cell from the start",
);
const SAMPLES: Key = key(
    "samples",
    Form::Whole { least: 1, most: 1000, unit: "" },
    Default("3"),
    "a round with fewer round trips than this goes on: nstor's; 1 is as Marut's authors have it",
);
const CAP: Key = key(
    "cap",
    Form::Flag,
    Default("true"),
    "no window is greater than what bandwidth_rate carries in a base round trip, if there is a rate",
);
const BASE_MEMORY: Key = key(
    "base_memory",
    Form::Or("none", &Form::Span { zero: false }),
    Default("'none'"),
    "a least round trip to a neighbour is forgotten after this, in whole seconds; \"none\" never forgets",
);

const ADAPT: Section = Section {
    title: "hop_control.adapt",
    groups: &[&[
        key(
            "law",
            Form::Choice(&["exponential", "kung94"]),
            Default("'exponential'"),
            "N3 falls by a factor that the delay in the output buffer decides and grows by steps, or it is a share of a pool",
        ),
        key("interval", Form::Span { zero: false }, Default("'100 ms'"), "time between adjustments"),
        key(
            "kernel",
            Form::Flag,
            Default("false"),
            "delays count until the kernel has sent a cell, not until it took it",
        ),
        key(
            "threshold",
            Form::Or("auto", &Form::Span { zero: true }),
            Default("'auto'"),
            "exponential: a delay that is no more than this above the least one is no congestion; \"auto\" is 20 ms",
        ),
        key(
            "scale",
            Form::Or("auto", &Form::Span { zero: false }),
            Default("'auto'"),
            "exponential: the delay that takes N3 down to 1/e; \"auto\" is 50 ms",
        ),
        key(
            "step",
            Form::Or("auto", &CELLS),
            Default("'auto'"),
            "exponential: what an interval without congestion adds; \"auto\" is 1",
        ),
        key(
            "pool",
            Form::Or("auto", &CELLS),
            Default("'auto'"),
            "kung94: cells of all circuits that leave on one channel; \"auto\" is 2000",
        ),
    ]],
};

const NEEDS_A_RATE: Partner = Partner {
    key: "bandwidth_rate",
    not: "none",
    verdict: Verdict::Refused,
    why: "divides the relay's bandwidth_rate, which is \"none\"; set bandwidth_rate",
};
const CLIENT_BURST: Key = key(
    "burst",
    SIZE,
    Default("'2 MiB'"),
    "depth of each client's read and write buckets (torrc PerConnBWBurst)",
);
const AGGREGATE: Key = key(
    "aggregate",
    Form::Choice(&["connection", "address"]),
    Default("'connection'"),
    "what counts as one client and has a pair of buckets: each connection, or all of one address (throttling section 5.3)",
);
const COUNTED: Key = key(
    "count",
    Form::Choice(&["all", "clients"]),
    Default("'all'"),
    "among which open connections the bandwidth is divided: all, or those to clients",
);
const CLIENT_HALF_LIFE: Key = key(
    "half_life",
    Form::Span { zero: false },
    Default("'30 s'"),
    "what a client was sent counts half after this long",
);

pub(crate) const THROTTLE: Algorithm = Algorithm {
    name: "Throttle",
    kinds: &[
        Kind { name: "none", meaning: "no client is throttled", source: "C tor", partners: &[], keys: &[] },
        Kind {
            name: "static",
            meaning: "one rate for every client",
            source: "throttling section 3.1; C tor connection_or_update_token_buckets_helper()",
            partners: &[],
            keys: &[
                key("rate", Form::Rate, Required, "refill of each client's buckets (torrc PerConnBWRate)"),
                CLIENT_BURST,
                AGGREGATE,
            ],
        },
        Kind {
            name: "bit-splitting",
            meaning: "the relay's bandwidth_rate, divided equally",
            source: "throttling section 3.2, algorithm 1",
            partners: &[NEEDS_A_RATE],
            keys: &[COUNTED, CLIENT_BURST, AGGREGATE],
        },
        Kind {
            name: "flagging",
            meaning: "who was sent more than the fair share of late is slowed down to one rate",
            source: "throttling section 3.2, algorithm 2",
            partners: &[NEEDS_A_RATE],
            keys: &[
                key(
                    "rate",
                    Form::Rate,
                    Default("'5 KiB/s'"),
                    "refill of a flagged client's buckets (flagRate)",
                ),
                key(
                    "penalty",
                    Form::Fraction,
                    Default("0.5"),
                    "the flag goes when the client's count is below this part of the fair one (P); 0 is never",
                ),
                CLIENT_HALF_LIFE,
                key(
                    "unflag",
                    Form::Choice(&["current", "frozen"]),
                    Default("'current'"),
                    "of the fair count now, or when the client was last above it, as in the authors' prototype",
                ),
                COUNTED,
                CLIENT_BURST,
                AGGREGATE,
            ],
        },
        Kind {
            name: "threshold",
            meaning: "the loudest clients get what the last of them had",
            source: "throttling section 3.2, algorithm 3",
            partners: &[],
            keys: &[
                key("fraction", Form::Fraction, Default("0.1"), "the part of clients that is throttled (T)"),
                key(
                    "refresh",
                    Form::Span { zero: false },
                    Default("'60 s'"),
                    "from one choice to the next, and over how long throughput is measured (R)",
                ),
                key("floor", Form::Rate, Default("'5 KiB/s'"), "nobody is throttled below (F)"),
                CLIENT_HALF_LIFE,
                key(
                    "throughput",
                    Form::Choice(&["mean", "written"]),
                    Default("'mean'"),
                    "half of what was written and read, as in the authors' prototype, or what was written",
                ),
                key(
                    "order",
                    Form::Choice(&["descending", "ascending"]),
                    Default("'descending'"),
                    "\"ascending\" throttles all but that part, at the rate of the quietest of them, as the authors' prototype does",
                ),
                key(
                    "lift_zero",
                    Form::Flag,
                    Default("true"),
                    "the floor lifts a throughput of zero, too; false leaves it, as the authors' prototype does",
                ),
                CLIENT_BURST,
                AGGREGATE,
            ],
        },
    ],
};

pub(crate) const CHANNEL_MAP: Algorithm = Algorithm {
    name: "ChannelMap",
    kinds: &[
        Kind {
            name: "shared",
            meaning: "one channel between two relays, shared by all their circuits",
            source: "C tor; DefenestraTor section 3.1; KIST section 5.1",
            partners: &[],
            keys: &[],
        },
        Kind {
            name: "per-circuit",
            meaning: "a channel of its own for every circuit that this node begins or extends",
            source: "throttling section 5.3",
            partners: &[],
            keys: &[],
        },
    ],
};

/// Every trait, by its key.
pub(crate) const ALGORITHMS: &[(&str, &Algorithm)] = &[
    ("circuit_policy", &CIRCUIT_POLICY),
    ("scheduler", &SCHEDULER),
    ("edge_control", &EDGE_CONTROL),
    ("hop_control", &HOP_CONTROL),
    ("throttle", &THROTTLE),
    ("channel_map", &CHANNEL_MAP),
];
