//! Networks of places: their keys, the assignment of nodes, losses and delays by direction, and listed circuits.

use penstock_scenario::model::{Host, Latency, LossOf, Path, Place};
use penstock_scenario::{Document, Error, NetworkFile, Point, Scenario};
use penstock_units::{Duration, Seed};
use std::collections::BTreeMap;

/// The index of a node's place.
fn listed(host: &Host) -> usize {
    let Place::Listed(index) = host.place else { panic!("{:?} is not a listed place", host.place) };
    index
}

const TEXT: &str = r#"[scenario]
title = "test"
[run]
duration = "1 min"
[network]
latency = "places"
loss_of = "data"
[network.places.berlin]
country = "DE"
link_down = "8 Mbit/s"
link_up = "1 Mbit/s"
loss = 0.5
[network.places.paris]
country = "FR"
link_down = "20 Mbit/s"
link_up = "2 Mbit/s"
loss = 0.2
weight = 3
[network.edges]
order = ["paris", "berlin"]
latency = [
    "2 20 ms",
    "30.5 3 ms",
]
loss = ["0 0.1", "0 0"]
[relays.a]
place = "berlin"
[relays.b]
country = "FR"
[relays.c]
place = "paris"
[client]
path = ["a", "b", "c"]
link = "place"
[clients.web]
count = 10
workload = "web"
place = { berlin = 7, paris = 3 }
[clients.far]
count = 8
workload = "web"
[servers.server]
count = 2
[workloads.web]
size = "320 KiB"
"#;

fn parse(text: &str) -> Result<Document, Error> {
    Document::parse(text, "x.toml", &[])
}

fn scenario(text: &str) -> Scenario {
    parse(text).unwrap().scenario("default").unwrap().clone()
}

/// The error for the text after replacing `from` with `to`.
fn sentence(from: &str, to: &str) -> String {
    assert_eq!(TEXT.matches(from).count(), 1, "{from:?} must occur once");
    parse(&TEXT.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn losses_of_places_and_edges_multiply_by_direction() {
    let scenario = scenario(TEXT);
    let drawn = scenario.sampled(Seed(1));
    let [a, b] = [0, 1].map(|relay| &drawn.relays[relay].host);
    let (there, back) = (drawn.network.between(a, b), drawn.network.between(b, a));
    assert_eq!(there.delay, Duration::from_micros(30_500), "from Berlin to Paris");
    assert_eq!(back.delay, Duration::from_millis(20));
    assert_eq!([there.rtt, back.rtt], [Duration::from_micros(50_500); 2]);
    assert!((there.loss - (1.0 - 0.5 * 0.8)).abs() < 1e-12, "{}", there.loss);
    assert!((back.loss - (1.0 - 0.8 * 0.9 * 0.5)).abs() < 1e-12, "{}", back.loss);
    assert_eq!(there.loss_of, LossOf::Data);
    assert_eq!(drawn.network.shortest_delay(), Duration::from_millis(2));
}

#[test]
fn a_fraction_of_the_losses_of_places_and_edges_remains() {
    let lines = "loss_of = \"data\"\nloss = 0.5\nplace_loss = 0.1";
    let scenario = scenario(&TEXT.replace("loss_of = \"data\"", lines));
    let drawn = scenario.sampled(Seed(1));
    let [a, b] = [0, 1].map(|relay| &drawn.relays[relay].host);
    let (there, back) = (drawn.network.between(a, b).loss, drawn.network.between(b, a).loss);
    assert!((there - (1.0 - (1.0 - 0.1 * 0.6) * 0.5)).abs() < 1e-12, "{there}");
    assert!((back - (1.0 - (1.0 - 0.1 * 0.64) * 0.5)).abs() < 1e-12, "{back}");
}

#[test]
fn the_delays_of_places_and_edges_have_a_factor() {
    let drawn = |latency: &str| {
        let scenario = scenario(&TEXT.replace("loss_of = \"data\"", latency)).sampled(Seed(1)).into_owned();
        let [a, b] = [0, 1].map(|relay| &scenario.relays[relay].host);
        (scenario.network.between(a, b).delay, scenario.network.between(b, a).rtt)
    };
    assert_eq!(
        drawn("place_latency = 2"),
        (Duration::from_millis(61), Duration::from_millis(101)),
        "twice 30.5 ms, and twice 50.5 ms"
    );
}

#[test]
fn nodes_are_divided_among_their_places_in_every_network() {
    let scenario = scenario(TEXT);
    let count = |drawn: &Scenario, group: &str| {
        let Latency::Places(places, _) = &drawn.network.latency else { panic!() };
        let mut counts = BTreeMap::new();
        for client in drawn.clients.iter().filter(|client| client.host.group.name == group) {
            let place = &places.all()[listed(&client.host)];
            *counts.entry(place.name.clone()).or_insert(0) += 1;
            let links = [client.host.link_down, client.host.link_up];
            assert_eq!(links, [place.down.unwrap(), place.up.unwrap()], "a link of the place");
        }
        counts
    };
    let [one, other] = [1, 2].map(|seed| scenario.sampled(Seed(seed)).into_owned());
    for drawn in [&one, &other] {
        let counted = |berlin: i32, paris: i32| {
            BTreeMap::from([("berlin".to_owned(), berlin), ("paris".to_owned(), paris)])
        };
        assert_eq!(count(drawn, "web"), counted(7, 3), "exactly the numbers of the table");
        assert_eq!(count(drawn, "far"), counted(2, 6), "in proportion to the weights");
        assert_eq!(listed(&drawn.relays[1].host), 0, "the country has one place");
    }
    let places =
        |drawn: &Scenario| drawn.clients.iter().map(|client| listed(&client.host)).collect::<Vec<_>>();
    assert_ne!(places(&one), places(&other), "which client is where differs");
    assert_eq!(places(&one), places(&scenario.sampled(Seed(1))));
}

#[test]
fn the_resolved_scenario_has_the_places() {
    let document = parse(TEXT).unwrap();
    let resolved = document.resolved_toml("default").unwrap();
    let again = parse(&resolved).unwrap();
    assert_eq!(again.resolved_toml("default").unwrap(), resolved);
    assert!(document.describe().contains("2 places of network.places"), "{}", document.describe());
}

#[test]
fn a_single_short_edge_gives_a_warning() {
    let warnings = |shortest: &str| {
        let names: Vec<String> = (0..12).map(|place| format!("\"p{place}\"")).collect();
        let tables: String = (0..12).map(|place| format!("[network.places.p{place}]\n")).collect();
        let usual = format!("    \"{}20 ms\",\n", "20 ".repeat(11));
        let rows = usual.replacen("20", shortest, 1) + &usual.repeat(11);
        let edges = format!("[network.edges]\norder = [{}]\nlatency = [\n{rows}]\n", names.join(", "));
        let start = TEXT.split("[network.places.berlin]").next().unwrap();
        let rest = "[relays.a]\n[clients.web]\ncount = 100\nworkload = \"web\"\npath = [\"a\"]\n[servers.s]\n[workloads.web]\nsize = \"1 KiB\"\n";
        parse(&format!("{start}{tables}{edges}{rest}")).unwrap().warnings().to_vec()
    };
    assert_eq!(warnings("5"), [""; 0]);
    assert_eq!(
        warnings("0.5"),
        [
            "x.toml:22: network.edges.latency: the delay from \"p0\" to \"p0\" shortens the simulator's look-ahead from 20 ms to 500 us, so runs of large networks are slower; lengthen it if possible"
        ]
    );
}

#[test]
fn a_pair_may_differ_by_direction() {
    let text =
        "[[network.pairs]]\nbetween = [\"c\", \"a\"]\nlatency = [\"5 ms\", \"7 ms\"]\nloss = [0.25, 0.5]\n";
    let scenario = scenario(&format!("{TEXT}{text}"));
    let [a, c] = [0, 2].map(|relay| &scenario.relays[relay].host);
    let (there, back) = (scenario.network.between(c, a), scenario.network.between(a, c));
    assert_eq!([there.delay, back.delay], [5, 7].map(Duration::from_millis));
    assert_eq!([there.loss, back.loss], [0.25, 0.5]);
    assert_eq!(there.rtt, Duration::from_millis(12));
    let wrong = |pair: &str| parse(&format!("{TEXT}[[network.pairs]]\n{pair}\n")).unwrap_err().to_string();
    for (pair, right) in [
        (
            "between = [\"a\", \"c\"]\nlatency = \"5 ms\"\nrtt = \"9 ms\"",
            "x.toml:48: network.pairs.0.latency: this pair has an rtt, too; set one of the two",
        ),
        (
            "between = [\"a\", \"c\"]\nloss = [0.1, 0.2, 0.3]",
            "x.toml:48: network.pairs.0.loss: the list has 3 values; it must have two",
        ),
        (
            "between = [\"web\", \"web\"]\nloss = [0.1, 0.2]",
            "x.toml:47: network.pairs.0.between: two nodes of one group have no direction; give both directions the same values",
        ),
    ] {
        assert_eq!(wrong(pair), right);
    }
}

#[test]
fn errors_in_places_are_sentences() {
    for (said, right) in [
        (
            sentence("\"30.5 3 ms\"", "\"30.5 ms\""),
            "x.toml:21: network.edges.latency: row 2 has 1 numbers; it must have 2",
        ),
        (
            sentence("\"30.5 3 ms\"", "\"30.5 3\""),
            "x.toml:23: network.edges.latency: row 2: the unit is missing at its end; a row is like \"12.5 80 ms\"",
        ),
        (
            sentence("\"0 0.1\"", "\"0 1.5\""),
            "x.toml:25: network.edges.loss: row 1: \"1.5\" is not a number from 0 to 0.999999; or \"none\"",
        ),
        (
            sentence("order = [\"paris\", \"berlin\"]", "order = [\"paris\", \"rome\"]"),
            "x.toml:20: network.edges.order: there is no place \"rome\"; network.places has berlin, paris",
        ),
        (
            sentence("order = [\"paris\", \"berlin\"]", "order = [\"paris\", \"paris\"]"),
            "x.toml:20: network.edges.order: it must name the place \"berlin\" once, as each place of network.places",
        ),
        (
            sentence("place = \"berlin\"", "place = \"rome\""),
            "x.toml:27: relays.a.place: there is no place \"rome\"; there are paris, berlin",
        ),
        (
            sentence("link_up = \"1 Mbit/s\"\n", ""),
            "x.toml:33: clients.far.link: it is \"place\", and these places have no link_up: berlin; set their link_up, or write a rate",
        ),
        (
            sentence("[relays.b]\ncountry = \"FR\"", "[relays.b]\ncountry = \"SE\""),
            "x.toml:29: relays.b.country: no node can be in \"SE\", because places with a weight above 0 are in DE, FR; set place, or leave country out",
        ),
        (
            sentence("weight = 3", "weight = 0"),
            "x.toml:29: relays.b.country: no node can be in \"FR\", because places with a weight above 0 are in DE; set place, or leave country out",
        ),
        (
            sentence("latency = \"places\"", "latency = \"even\""),
            "x.toml:27: relays.a.place: the network has no places; set network.latency = \"places\"",
        ),
        (
            sentence("country = \"DE\"\n", "city = \"Berlin\"\n"),
            "x.toml:9: network.places.berlin.city: this key is unknown; [network.places.NAME] takes country, link_down, link_up, loss, weight",
        ),
    ] {
        assert_eq!(said, right);
    }
    let no_edges =
        TEXT.split("[network.edges]").next().unwrap().to_owned() + &TEXT[TEXT.find("[relays.a]").unwrap()..];
    assert!(
        parse(&no_edges)
            .unwrap_err()
            .to_string()
            .contains("set network.edges.order and network.edges.latency")
    );
}

const FILE: &str = r#"[network]
latency = "places"
[network.places.rome]
link_down = "1 MiB/s"
link_up = "1 MiB/s"
[network.places.oslo]
country = "FR"
link_down = "2 MiB/s"
link_up = "2 MiB/s"
[network.edges]
order = ["oslo", "rome"]
latency = ["1 9 ms", "9 1 ms"]
[clients.web]
place = { oslo = 1 }
link = "place"
[clients.bulk]
place = "rome"
"#;

fn in_network(network: &str) -> Result<Document, Error> {
    in_network_of(&TEXT.replace("place = \"berlin\"\n", "").replace("place = \"paris\"\n", ""), network)
}

#[test]
fn a_network_file_places_the_clients_of_the_scenario() {
    let document = in_network(FILE).unwrap();
    let drawn = document.scenario("default").unwrap().sampled(Seed(1)).into_owned();
    let Latency::Places(places, _) = &drawn.network.latency else { panic!() };
    assert_eq!(places.all().len(), 2, "the places of the scenario are gone");
    let web = drawn.clients.iter().filter(|client| client.host.group.name == "web");
    assert!(web.clone().count() == 10 && web.clone().all(|client| listed(&client.host) == 0));
    let warnings = document.warnings();
    assert_eq!(
        warnings,
        ["net.toml:16: clients.bulk: the scenario has no such nodes, so this has no effect"]
    );
    let wrong = in_network(&FILE.replace("link = \"place\"\n", "count = 3\n")).unwrap_err().to_string();
    assert_eq!(
        wrong,
        "net.toml:15: clients.web.count: this key belongs in a scenario; here a network file sets only place, country, link, link_up, link_down, link_queue"
    );
}

#[test]
fn an_environment_generates_places_for_each_network() {
    let start = TEXT.find("[network.places.berlin]").unwrap();
    let rest = &TEXT[TEXT.find("[relays.a]").unwrap()..];
    let rest = rest.replace("place = \"berlin\"\n", "").replace("place = \"paris\"\n", "");
    let rest = rest.replace("place = { berlin = 7, paris = 3 }\n", "");
    let text = format!("{}places = \"shadow-2014\"\n{rest}", &TEXT[..start]);
    let scenario = scenario(&text);
    let [one, again, other] = [1, 1, 2].map(|seed| scenario.sampled(Seed(seed)).into_owned());
    assert_eq!(one.network.latency, again.network.latency);
    let slow = text.replace("latency = \"places\"", "latency = \"places\"\nplace_latency = 3");
    let slow = self::scenario(&slow).sampled(Seed(1)).into_owned();
    let [one_places, slow_places] = [&one, &slow].map(|drawn| {
        let Latency::Places(places, Some(_)) = &drawn.network.latency else { panic!() };
        places
    });
    assert_eq!(**slow_places, one_places.stretched(3.0));
    assert_ne!(one.network.latency, other.network.latency);
    let Latency::Places(places, Some(_)) = &one.network.latency else { panic!() };
    for client in &one.clients {
        let place = &places.all()[listed(&client.host)];
        assert!(place.name.starts_with("clients-"), "{}", place.name);
        assert_eq!(client.host.link_up, place.up.unwrap());
    }
    let name = |index: usize| places.all()[index].name.clone();
    assert!(one.relays.iter().all(|relay| name(listed(&relay.host)).starts_with("relays-")));
    assert!(one.servers.iter().all(|server| name(listed(&server.host)).starts_with("servers-")));
    let said = parse(&text.replace("shadow-2014", "shadow-2013")).unwrap_err().to_string();
    let right = "\"shadow-2013\" is unknown; it must be one of shadow-2012, shadow-2014, or tables [network.places.NAME]";
    assert!(said.contains(right), "{said}");
    assert!(parse(&text).unwrap().describe().contains("places that are drawn as in shadow-2014"));
    let again = in_network_of(&text, FILE).unwrap();
    assert!(matches!(again.scenario("default").unwrap().network.latency, Latency::Places(_, None)));
    let elsewhere = in_network_of(&text, &FILE.replace("country = \"FR\"\n", "")).unwrap_err().to_string();
    assert!(elsewhere.contains("no node can be in \"FR\", because no place has a country"), "{elsewhere}");
}

fn in_network_of(text: &str, network: &str) -> Result<Document, Error> {
    let file = Some(NetworkFile { name: "net.toml", text: network });
    Document::in_network(text, "x.toml", file, &[], &[], &[Point::default()])
}

#[test]
fn each_client_takes_one_of_the_listed_circuits() {
    let listed = |choice: &str, count: usize| {
        let circuits = ["a b c", "c b a", "b", "b c", "c a"][..count].join("\", \"");
        let keys = format!("circuits = [\"{circuits}\"]\ncircuit_choice = \"{choice}\"\nloss_of = \"data\"");
        let clients = "count = 2\nworkload = \"web\"";
        let text = TEXT.replace("loss_of = \"data\"", &keys).replace("[\"a\", \"b\", \"c\"]", "\"circuits\"");
        text.replace("count = 8\nworkload = \"web\"", clients)
            .replace("count = 10\n", "")
            .replace("place = { berlin = 7, paris = 3 }\n", "")
    };
    let paths = |choice: &str, seed| {
        let drawn = scenario(&listed(choice, 5)).sampled(Seed(seed)).into_owned();
        drawn.clients.iter().map(|client| client.group.path.clone()).collect::<Vec<_>>()
    };
    let fixed = |relays: &[usize]| Path::Fixed(relays.to_vec());
    let all = [fixed(&[0, 1, 2]), fixed(&[2, 1, 0]), fixed(&[1]), fixed(&[1, 2]), fixed(&[2, 0])];
    assert_eq!(paths("first", 1), all[..3]);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 1..60 {
        let drawn = paths("random", seed);
        let places: Vec<usize> =
            drawn.iter().map(|path| all.iter().position(|one| one == path).unwrap()).collect();
        assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?} are different and in order");
        seen.insert(places);
    }
    assert_eq!(seen.len(), 10, "each choice of three of five circuits");
    let said = parse(&listed("first", 2)).unwrap_err().to_string();
    assert!(
        said.ends_with("3 clients have the path \"circuits\", and there are 2 circuits; list at least 3"),
        "{said}"
    );
    let text = listed("first", 5);
    let said = |from: &str, to: &str| parse(&text.replace(from, to)).unwrap_err().to_string();
    assert!(said("\"c b a\"", "\"c b x\"").contains("circuit 2: there is no relay \"x\"; there are a, b, c"));
    assert!(said("\"c b a\"", "\"c b c\"").contains("circuit 2: it has \"c\" twice"));
    let weighted =
        scenario(&text.replace("circuits = [\"a b c\", \"c b a\", \"b\", \"b c\", \"c a\"]\n", ""));
    let drawn = weighted.sampled(Seed(1));
    let hops = |path: &Path| if let Path::Fixed(path) = path { path.len() } else { 0 };
    assert!(drawn.clients.iter().all(|client| hops(&client.group.path) == 3), "a circuit for the whole run");
    assert!(said("\"c b a\"", "\"\"").contains("circuit 2: it has 0 relays; it must have 1 to 8"));
}

#[test]
fn a_client_at_its_entry_has_the_host_of_this_relay() {
    let listed = |circuits: &str| {
        let keys = format!("circuits = [{circuits}]\nloss_of = \"data\"");
        let text = TEXT.replace("loss_of = \"data\"", &keys).replace("[\"a\", \"b\", \"c\"]", "\"circuits\"");
        let text = text.replace("link = \"place\"\n", "at = \"entry\"\n").replace("count = 10\n", "");
        text.replace("count = 8\n", "").replace("place = { berlin = 7, paris = 3 }\n", "")
    };
    let good = listed("\"a b c\", \"c a\"").replace("[relays.a]\n", "[relays.a]\nlink = \"3 Mbit/s\"\n");
    let drawn = scenario(&good).sampled(Seed(1)).into_owned();
    let [far, web] = &drawn.clients[..] else { panic!("two clients") };
    assert_eq!([far.group.entry(), web.group.entry()], [Some(0), Some(2)]);
    assert_eq!([far.group.hops(), web.group.hops()], [2, 1]);
    assert_eq!([&*far.host.name, &*web.host.name], ["far", "web"]);
    assert_eq!(far.host.link_down, drawn.relays[0].host.link_down);
    assert_eq!(far.host.place, drawn.relays[0].host.place);

    let said = |text: &str| parse(text).unwrap_err().to_string();
    let short = said(&listed("\"a b c\", \"b\""));
    assert!(
        short.ends_with(
            "a circuit has one relay, and clients at their entries need two; list two or more relays"
        ),
        "{short}"
    );
    for path in ["\"weighted\"", "[]", "[\"a\"]"] {
        let text = good.replace("path = \"circuits\"", &format!("path = {path}"));
        let text = text.replace("[clients.far]\n", "[clients.far]\nhops = 3\n");
        let said = said(&text);
        assert!(
            said.contains("a client at its entry needs a path of at least two relays that stays the same"),
            "{said}"
        );
    }
    let traced = said(&format!("[trace]\nclients = \"1 s\"\n{good}"));
    assert!(traced.contains("a client at its entry has no host; leave trace.clients out"), "{traced}");
    let linked = parse(&good.replace("at = \"entry\"\n", "at = \"entry\"\nlink = \"1 Mbit/s\"\n")).unwrap();
    let warning =
        "link has no effect, because the client has at = \"entry\", so the settings of its first relay apply";
    assert!(linked.warnings().iter().any(|text| text.contains(warning)), "{:?}", linked.warnings());
}
