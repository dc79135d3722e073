//! `network.places` and `network.edges`: the places of nodes, and the delay and loss between places.

use crate::error::{ConfigError, listed, listed_briefly};
use crate::keys::{Read, section};
use crate::model::PlaceCounts;
use crate::tree::{Node, Table, Value, is_name, join};
use crate::values::{Fraction, Or, RATE, Site, Texts, ValueType, Whole, Word};
use penstock_network::places::Edge;
use penstock_network::{Country, Environment, Place, Places, geo};
use penstock_units::DataRate;
use std::collections::{BTreeMap, BTreeSet};

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct PlaceKeys("[network.places.NAME]") {
        /// The country of the place. Nodes with this country are at such places.
        country: Option<&'static str> = Or("none", Word(&geo::CODES)), Is("none");
        /// The receiving rate of nodes with the link "place".
        link_down: Option<DataRate> = Or("none", RATE), Is("none");
        /// The sending rate of nodes with the link "place".
        link_up: Option<DataRate> = Or("none", RATE), Is("none");
        /// The probability that a packet to or from this place is lost here.
        loss: f64 = Fraction, Is("0.0");
        /// The weight of the place for nodes that do not set a place.
        weight: u32 = Whole { least: 0, most: 1_000_000, unit: "" }, Is("1");
    }
}

section! {
    #[derive(Clone, Debug)]
    pub(crate) struct EdgeKeys("network.edges") {
        /// The names of all places, in the order of the rows and columns.
        order: Vec<String> = Texts, Required;
        /// The one-way delays. A row has the delays from one place to every place, and the unit at its end.
        latency: Vec<Vec<f64>> = Rows { unit: "ms", most: 1e6 }, Required;
        /// The largest random deviations from the delays, in the same form. Segments of a connection keep their order.
        jitter: Option<Vec<Vec<f64>>> = Or("none", Rows { unit: "ms", most: 1e6 }), Is("none");
        /// The probabilities that the edge loses a packet, in the same form without a unit.
        loss: Option<Vec<Vec<f64>>> = Or("none", Rows { unit: "", most: 0.999_999 }), Is("none");
    }
}

/// Rows of numbers. Each row is a string, because a table of 300 places has 90,000 numbers.
pub(crate) struct Rows {
    unit: &'static str,
    most: f64,
}

impl Rows {
    fn row(&self, text: &str, number: usize, site: &Site<'_>) -> Result<Vec<f64>, ConfigError> {
        let wrong = |why: String| site.wrong(format!("row {number}: {why}"));
        let numbers = text.trim_end().strip_suffix(self.unit).ok_or_else(|| {
            wrong(format!("the unit is missing at its end; a row is like \"12.5 80 {}\"", self.unit))
        })?;
        let one = |word: &str| {
            let value = word.parse::<f64>().ok().filter(|value| (0.0..=self.most).contains(value));
            value.ok_or_else(|| wrong(format!("{word:?} is not a number from 0 to {}", self.most)))
        };
        numbers.split_ascii_whitespace().map(one).collect()
    }
}

impl ValueType for Rows {
    type Value = Vec<Vec<f64>>;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(Vec<Vec<f64>>, Value), ConfigError> {
        let Value::List(list) = &node.value else { return Err(self.mismatch(node, site)) };
        let mut rows = Vec::with_capacity(list.len());
        for (index, row) in list.iter().enumerate() {
            let site = Site { at: row.at, ..*site };
            let text = row.as_text().ok_or_else(|| self.mismatch(row, &site))?;
            rows.push(self.row(text, index + 1, &site)?);
        }
        Ok((rows, Value::List(list.clone())))
    }

    fn describe(&self) -> String {
        let gap = if self.unit.is_empty() { "" } else { " " };
        format!("a list of rows, like [\"0.5 20{gap}{unit}\", \"21 0.5{gap}{unit}\"]", unit = self.unit)
    }

    fn unit(&self) -> &'static str {
        self.unit
    }
}

/// The places of a network: their tables, or the name of an environment that generates them.
#[derive(Clone, Debug)]
pub(crate) enum PlaceSource {
    Generated(&'static Environment),
    Listed(BTreeMap<String, Read<PlaceKeys>>),
}

/// Value type of `network.places`.
pub(crate) struct PlaceTables;

impl ValueType for PlaceTables {
    type Value = PlaceSource;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(PlaceSource, Value), ConfigError> {
        if let Some(name) = node.as_text() {
            let (name, shown) = Word(&Environment::NAMES).read(node, site).map_err(|mut error| {
                error.message = format!("{name:?} is unknown; it must be {}", self.describe());
                error
            })?;
            let environment = Environment::of(name).expect("the word is one of the names");
            return Ok((PlaceSource::Generated(environment), shown));
        }
        let (mut all, mut shown) = (BTreeMap::new(), Table::new());
        for (name, node) in node.table().ok_or_else(|| self.mismatch(node, site))? {
            let path = join(site.path, name);
            let site = Site { at: node.at, path: &path, ..*site };
            if !is_name(name, false) || name == "any" {
                let message =
                    format!("{name:?} is not a name; it must consist of letters, digits, '_' and '-'");
                return Err(site.wrong(message));
            }
            let Some(table) = node.table() else {
                return Err(site.wrong(format!("{}; write a table [{path}]", node.with_type())));
            };
            let place = Read::<PlaceKeys>::new(table.clone(), &site)?;
            shown.insert(name.clone(), Node::of_table(place.shown.clone(), node.at));
            all.insert(name.clone(), place);
        }
        let count = all.len();
        if count == 0 || count > Places::MOST {
            let message = format!("there are {count} places; there must be 1 to {}", Places::MOST);
            return Err(site.wrong(message));
        }
        Ok((PlaceSource::Listed(all), Value::Table(shown)))
    }

    fn describe(&self) -> String {
        format!("one of {}, or tables [network.places.NAME]", listed(Environment::NAMES))
    }
}

/// The place of a node: a name, or a table of names with numbers of nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodePlaces(pub(crate) Vec<(String, u32)>);

/// Value type of the key `place` of nodes.
pub(crate) struct PlacesOfNodes;

impl ValueType for PlacesOfNodes {
    type Value = NodePlaces;

    fn read(&self, node: &Node, site: &Site<'_>) -> Result<(NodePlaces, Value), ConfigError> {
        if let Some(name) = node.as_text() {
            return Ok((NodePlaces(vec![(name.to_owned(), 1)]), Value::Text(name.to_owned())));
        }
        let table = node.table().ok_or_else(|| self.mismatch(node, site))?;
        let mut counts = Vec::new();
        for (name, node) in table {
            let path = join(site.path, name);
            let count = Whole { least: 0, most: 1_000_000, unit: "" };
            let (count, _) = count.read(node, &Site { at: node.at, path: &path, ..*site })?;
            counts.push((name.clone(), count));
        }
        if counts.iter().all(|(_, count)| *count == 0) {
            return Err(site.wrong("no place has a node; give a place a number above 0"));
        }
        Ok((NodePlaces(counts), Value::Table(table.clone())))
    }

    fn describe(&self) -> String {
        "the NAME of a place, or a table of places with numbers of nodes, like { berlin = 3, paris = 1 }"
            .to_owned()
    }
}

/// The places with their edges. The order of places is that of `network.edges.order`.
pub(crate) fn places<T>(
    read: &BTreeMap<String, Read<PlaceKeys>>,
    edges: Option<&EdgeKeys>,
    network: &Read<T>,
) -> Result<Places, ConfigError> {
    let Some(edges) = edges else {
        let message = "it is \"none\"; places need edges; set network.edges.order and network.edges.latency";
        return Err(network.wrong("edges", message));
    };
    let count = edges.order.len();
    let known = || listed_briefly(read.keys().map(String::as_str));
    let mut all: Vec<Place> = Vec::with_capacity(count);
    for name in &edges.order {
        let Some(Read { keys, .. }) = read.get(name) else {
            let message = format!("there is no place {name:?}; network.places has {}", known());
            return Err(network.wrong("edges.order", message));
        };
        all.push(Place {
            name: name.clone(),
            country: keys.country.and_then(Country::of),
            down: keys.link_down,
            up: keys.link_up,
            loss: keys.loss,
            weights: [keys.weight; 3],
        });
    }
    if let Some(name) = read.keys().find(|name| edges.order.iter().filter(|one| one == name).count() != 1) {
        let message = format!("it must name the place {name:?} once, as each place of network.places");
        return Err(network.wrong("edges.order", message));
    }
    if all.iter().all(|place| place.weights[0] == 0) {
        let message = "every place has the weight 0; at least one place must have a weight above 0";
        return Err(network.wrong("places", message));
    }
    let check = |key: &str, rows: &[Vec<f64>]| {
        let wrong = |message: String| Err(network.wrong(&format!("edges.{key}"), message));
        if rows.len() != count {
            return wrong(format!("it has {} rows; it must have one for each of {count} places", rows.len()));
        }
        match rows.iter().position(|row| row.len() != count) {
            Some(row) => {
                wrong(format!("row {} has {} numbers; it must have {count}", row + 1, rows[row].len()))
            }
            None => Ok(()),
        }
    };
    check("latency", &edges.latency)?;
    edges.jitter.iter().try_for_each(|rows| check("jitter", rows))?;
    edges.loss.iter().try_for_each(|rows| check("loss", rows))?;
    let EdgeKeys { latency, jitter, loss, .. } = edges;
    let micros = |rows: &[Vec<f64>], from: usize, to: usize| (rows[from][to] * 1000.0).round() as u32;
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let edges = pairs.map(|(from, to)| Edge {
        latency: micros(latency, from, to).max(1),
        jitter: jitter.as_ref().map_or(0, |jitter| micros(jitter, from, to)),
        loss: loss.as_ref().map_or(0.0, |loss| loss[from][to]),
    });
    let edges = edges.collect();
    Ok(Places::new(all, edges))
}

/// The indices of a node's places, with the numbers of nodes.
pub(crate) fn indices(places: &Places, wanted: &NodePlaces) -> Result<PlaceCounts, String> {
    let index = |(name, count): &(String, u32)| {
        let found = places.all().iter().position(|place| place.name == *name);
        let known = || listed_briefly(places.all().iter().map(|place| place.name.as_str()));
        Ok((found.ok_or_else(|| format!("there is no place {name:?}; there are {}", known()))?, *count))
    };
    wanted.0.iter().map(index).collect()
}

/// The message for a country that no place has with a weight above 0.
pub(crate) fn without_country(places: &Places, code: &str) -> Option<String> {
    let usable = places.all().iter().filter(|place| place.weights[0] > 0);
    let codes: BTreeSet<&str> = usable.filter_map(|place| Some(place.country?.code)).collect();
    let known = match codes.is_empty() {
        true => "no place has a country".to_owned(),
        false => format!("places with a weight above 0 are in {}", listed_briefly(codes.iter().copied())),
    };
    let message = || format!("no node can be in {code:?}, because {known}; set place, or leave country out");
    (!codes.contains(code)).then(message)
}

/// The message for a place without a rate that a node with the link "place" may need.
pub(crate) fn without_rate(places: &Places, at: Option<&[(usize, u32)]>, up: bool) -> Option<String> {
    let possible =
        |index: &usize| at.is_none_or(|at| at.iter().any(|(one, count)| one == index && *count > 0));
    let lacks = |place: &Place| if up { place.up.is_none() } else { place.down.is_none() };
    let all = (0..places.all().len()).filter(possible).map(|index| &places.all()[index]);
    let names: Vec<_> = all.filter(|place| lacks(place)).map(|place| place.name.as_str()).collect();
    let key = if up { "link_up" } else { "link_down" };
    let names = (!names.is_empty()).then(|| listed_briefly(names))?;
    Some(format!(
        "it is \"place\", and these places have no {key}: {names}; set their {key}, or write a rate"
    ))
}
