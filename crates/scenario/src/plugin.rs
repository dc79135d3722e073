//! Algorithms of crates outside this workspace, which scenario files name like built-in ones.
//!
//! `penstock build --with PATH` links such a crate into an extension of its own. The crate has one function:
//!
//! ```
//! use penstock_core::Factory;
//! use penstock_core::throttle::{NoThrottle, Throttle, ThrottleConfig};
//! use penstock_scenario::plugin::{Plugin, Plugins};
//!
//! pub fn register(plugins: &mut Plugins) {
//!     plugins.add(
//!         Plugin::new("lenient", "No client is throttled.", |parameters| {
//!             let _rate = parameters.rate("rate");
//!             Ok(ThrottleConfig::Custom(Factory::<dyn Throttle>::new(|| Box::new(NoThrottle))))
//!         })
//!         .rate("rate", "5 KiB/s", "A rate that this example ignores."),
//!     );
//! }
//!
//! let mut plugins = Plugins::default();
//! register(&mut plugins);
//! penstock_scenario::plugin::install(plugins).unwrap();
//! assert!(penstock_scenario::algorithms().iter().any(|each| each.kind == "lenient"));
//! ```
//!
//! The registry belongs to the process: it is set before the first scenario is read, and never changes. The simulator
//! and the core do not know it. They get a `Factory`, as from any other caller.

use crate::error::ConfigError;
use crate::keys::{self, Read, Reader, parameter, with_defaults};
use crate::tree::is_name;
use crate::values::{Flag, Fraction, Parameter, RATE, Size, TIME, ValueType, Whole};
use penstock_core::channel_map::ChannelMapConfig;
use penstock_core::circuit_policy::CircuitPolicyConfig;
use penstock_core::edge_control::EdgeControlConfig;
use penstock_core::hop_control::HopControlConfig;
use penstock_core::scheduler::SchedulerConfig;
use penstock_core::throttle::ThrottleConfig;
use penstock_units::{Bytes, DataRate, Duration};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

static INSTALLED: OnceLock<Plugins> = OnceLock::new();
static NONE: Plugins = Plugins::none();

/// The source of a plug-in that names none, for the list of algorithms.
pub const SOURCE: &str = "a crate that penstock build linked";

/// Makes `plugins` available to all scenario files of this process. Call it once, before the first file is read; a
/// later call has no effect.
///
/// # Errors
///
/// A sentence, if a name is taken or is no name, or if an algorithm refuses the defaults of its parameters.
pub fn install(plugins: Plugins) -> Result<(), String> {
    plugins.check()?;
    let _ = INSTALLED.set(plugins);
    Ok(())
}

/// Whether [`install`] was called.
pub fn is_installed() -> bool {
    INSTALLED.get().is_some()
}

fn all() -> &'static Plugins {
    INSTALLED.get().unwrap_or(&NONE)
}

/// One algorithm. `C` is the configuration of the core that the algorithm's trait has, such as [`SchedulerConfig`].
pub struct Plugin<C> {
    kind: &'static str,
    meaning: &'static str,
    source: &'static str,
    keys: Vec<Key>,
    build: Build<C>,
}

type Build<C> = Box<dyn Fn(&Parameters) -> Result<C, String> + Send + Sync>;

#[derive(Clone, Copy)]
struct Key {
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
    parameter_type: ParameterType,
}

#[derive(Clone, Copy)]
enum ParameterType {
    Flag,
    Whole(&'static str),
    Fraction,
    Size,
    Time,
    Rate,
}

const fn whole(unit: &'static str) -> Whole {
    Whole { least: 0, most: u32::MAX as i64, unit }
}

impl<C> Plugin<C> {
    /// An algorithm that scenario files select by the name `kind`. `meaning` is one sentence for `penstock list`.
    ///
    /// `build` makes the configuration from the values of the parameters, mostly a variant `Custom` with a
    /// [`Factory`](penstock_core::Factory). An error is one sentence about a wrong value.
    pub fn new(
        kind: &'static str,
        meaning: &'static str,
        build: impl Fn(&Parameters) -> Result<C, String> + Send + Sync + 'static,
    ) -> Self {
        Plugin { kind, meaning, source: SOURCE, keys: Vec::new(), build: Box::new(build) }
    }

    /// Names the source of the algorithm, for the list of algorithms and for errors.
    pub fn with_source(self, source: &'static str) -> Self {
        Plugin { source, ..self }
    }

    /// Adds a size above zero [B]. `default` is written as in a scenario file: `8 KiB`.
    pub fn size(self, name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        self.key(name, default, meaning, ParameterType::Size)
    }

    /// Adds a time above zero, such as `5 ms`.
    pub fn time(self, name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        self.key(name, default, meaning, ParameterType::Time)
    }

    /// Adds a rate, such as `5 KiB/s`.
    pub fn rate(self, name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        self.key(name, default, meaning, ParameterType::Rate)
    }

    /// Adds a whole number from 0, with its unit, such as `cell`.
    pub fn whole(
        self,
        name: &'static str,
        default: &'static str,
        unit: &'static str,
        meaning: &'static str,
    ) -> Self {
        self.key(name, default, meaning, ParameterType::Whole(unit))
    }

    /// Adds a fraction from 0 to below 1 [1].
    pub fn fraction(self, name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        self.key(name, default, meaning, ParameterType::Fraction)
    }

    /// Adds `true` or `false`.
    pub fn flag(self, name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        self.key(name, default, meaning, ParameterType::Flag)
    }

    fn key(
        mut self,
        name: &'static str,
        default: &'static str,
        meaning: &'static str,
        parameter_type: ParameterType,
    ) -> Self {
        self.keys.push(Key { name, default, meaning, parameter_type });
        self
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(crate) fn meaning(&self) -> &'static str {
        self.meaning
    }

    pub(crate) fn source(&self) -> &'static str {
        self.source
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|each| each.name == key)
    }

    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        self.keys.iter().map(Key::parameter).collect()
    }

    /// Reads the values of the parameters.
    pub(crate) fn read(&'static self, reader: &mut Reader<'_>) -> Result<Chosen<C>, ConfigError> {
        Ok(Chosen { plugin: self, parameters: self.values(reader)? })
    }

    fn values(&self, reader: &mut Reader<'_>) -> Result<Parameters, ConfigError> {
        let values = self.keys.iter().map(|key| Ok((key.name, key.read(reader)?)));
        Ok(Parameters(values.collect::<Result<_, _>>()?))
    }
}

impl Key {
    fn parameter(&self) -> Parameter {
        fn of<V: ValueType>(key: &Key, value_type: &V) -> Parameter {
            parameter(key.name, value_type, keys::Default::Is(key.default), key.meaning)
        }
        match self.parameter_type {
            ParameterType::Flag => of(self, &Flag),
            ParameterType::Whole(unit) => of(self, &whole(unit)),
            ParameterType::Fraction => of(self, &Fraction),
            ParameterType::Size => of(self, &Size::ANY),
            ParameterType::Time => of(self, &TIME),
            ParameterType::Rate => of(self, &RATE),
        }
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Setting, ConfigError> {
        fn get<V: ValueType>(key: &Key, reader: &mut Reader<'_>, of: &V) -> Result<V::Value, ConfigError> {
            reader.get(key.name, of, keys::Default::Is(key.default))
        }
        Ok(match self.parameter_type {
            ParameterType::Flag => Setting::Flag(get(self, reader, &Flag)?),
            ParameterType::Whole(unit) => Setting::Whole(get(self, reader, &whole(unit))?),
            ParameterType::Fraction => Setting::Fraction(get(self, reader, &Fraction)?),
            ParameterType::Size => Setting::Size(get(self, reader, &Size::ANY)?),
            ParameterType::Time => Setting::Time(get(self, reader, &TIME)?),
            ParameterType::Rate => Setting::Rate(get(self, reader, &RATE)?),
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Setting {
    Flag(bool),
    Whole(u32),
    Fraction(f64),
    Size(Bytes),
    Time(Duration),
    Rate(DataRate),
}

/// The values of an algorithm's parameters.
///
/// A getter panics if the algorithm has no parameter with this name and type. [`install`] calls every `build` once, so
/// that such a mistake is found before the first scenario.
#[derive(Clone, Debug)]
pub struct Parameters(BTreeMap<&'static str, Setting>);

macro_rules! getter {
    ($($(#[doc = $doc:literal])+ $name:ident, $variant:ident -> $type:ty;)+) => {
        impl Parameters {
            $($(#[doc = $doc])+
            pub fn $name(&self, name: &str) -> $type {
                match self.0.get(name) {
                    Some(Setting::$variant(value)) => *value,
                    _ => panic!("the algorithm declares no {} {name:?}", stringify!($name)),
                }
            })+
        }
    };
}

getter! {
    /// A size [B].
    size, Size -> Bytes;
    /// A time.
    time, Time -> Duration;
    /// A rate.
    rate, Rate -> DataRate;
    /// A whole number.
    whole, Whole -> u32;
    /// A fraction [1].
    fraction, Fraction -> f64;
    /// True or false.
    flag, Flag -> bool;
}

/// The plug-in that a node selects, with the values of its parameters.
pub(crate) struct Chosen<C: 'static> {
    plugin: &'static Plugin<C>,
    parameters: Parameters,
}

impl<C> Chosen<C> {
    pub(crate) fn kind(&self) -> &'static str {
        self.plugin.kind
    }

    /// The configuration of the core. `key` is the key that selects the algorithm, such as `scheduler`.
    pub(crate) fn config<S>(&self, node: &Read<S>, key: &str) -> Result<C, ConfigError> {
        (self.plugin.build)(&self.parameters).map_err(|message| node.wrong(key, message))
    }
}

impl<C> Clone for Chosen<C> {
    fn clone(&self) -> Self {
        Chosen { plugin: self.plugin, parameters: self.parameters.clone() }
    }
}

impl<C> fmt::Debug for Chosen<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(self.plugin.kind).field(&self.parameters).finish()
    }
}

/// A configuration of the core whose trait accepts plug-ins.
pub trait Pluggable: Sized + 'static {
    /// The key of relays and clients that selects the algorithm.
    const KEY: &'static str;
    /// The names of the built-in algorithms.
    fn built_in() -> &'static [&'static str];
    #[doc(hidden)]
    fn of(plugins: &Plugins) -> &Vec<Plugin<Self>>;
    #[doc(hidden)]
    fn of_mut(plugins: &mut Plugins) -> &mut Vec<Plugin<Self>>;
}

/// The plug-ins of a key, in the order in which they were added.
pub(crate) fn of<C: Pluggable>() -> &'static [Plugin<C>] {
    C::of(all())
}

pub(crate) fn find<C: Pluggable>(kind: &str) -> Option<&'static Plugin<C>> {
    of::<C>().iter().find(|plugin| plugin.kind == kind)
}

/// The algorithms of crates outside this workspace.
#[derive(Default)]
pub struct Plugins {
    pub(crate) circuit_policy: Vec<Plugin<CircuitPolicyConfig>>,
    pub(crate) scheduler: Vec<Plugin<SchedulerConfig>>,
    pub(crate) edge_control: Vec<Plugin<EdgeControlConfig>>,
    pub(crate) hop_control: Vec<Plugin<HopControlConfig>>,
    pub(crate) throttle: Vec<Plugin<ThrottleConfig>>,
    pub(crate) channel_map: Vec<Plugin<ChannelMapConfig>>,
}

impl Plugins {
    const fn none() -> Self {
        Plugins {
            circuit_policy: Vec::new(),
            scheduler: Vec::new(),
            edge_control: Vec::new(),
            hop_control: Vec::new(),
            throttle: Vec::new(),
            channel_map: Vec::new(),
        }
    }

    /// Adds an algorithm. Its trait follows from the configuration that it builds.
    pub fn add<C: Pluggable>(&mut self, plugin: Plugin<C>) {
        C::of_mut(self).push(plugin);
    }

    /// The key and the name of each algorithm.
    pub fn names(&self) -> Vec<(&'static str, &'static str)> {
        fn of<C: Pluggable>(plugins: &Plugins) -> impl Iterator<Item = (&'static str, &'static str)> {
            C::of(plugins).iter().map(|plugin| (C::KEY, plugin.kind))
        }
        of::<CircuitPolicyConfig>(self)
            .chain(of::<SchedulerConfig>(self))
            .chain(of::<EdgeControlConfig>(self))
            .chain(of::<HopControlConfig>(self))
            .chain(of::<ThrottleConfig>(self))
            .chain(of::<ChannelMapConfig>(self))
            .collect()
    }

    /// Checks names and defaults, as [`install`] does.
    ///
    /// # Errors
    ///
    /// Those of [`install`].
    pub fn check(&self) -> Result<(), String> {
        check::<CircuitPolicyConfig>(self)?;
        check::<SchedulerConfig>(self)?;
        check::<EdgeControlConfig>(self)?;
        check::<HopControlConfig>(self)?;
        check::<ThrottleConfig>(self)?;
        check::<ChannelMapConfig>(self)
    }
}

fn check<C: Pluggable>(plugins: &Plugins) -> Result<(), String> {
    let all = C::of(plugins);
    for (index, plugin) in all.iter().enumerate() {
        let name = format!("{} = {:?} of {}", C::KEY, plugin.kind, plugin.source);
        if !is_name(plugin.kind, false) {
            return Err(format!("{name} is not a name; it must consist of letters, digits, '_' and '-'"));
        }
        if C::built_in().contains(&plugin.kind) {
            return Err(format!("{name} is taken by an algorithm of Penstock; give yours another name"));
        }
        if all[..index].iter().any(|other| other.kind == plugin.kind) {
            return Err(format!("{name} is registered twice; give one of the two another name"));
        }
        for (index, key) in plugin.keys.iter().enumerate() {
            let twice = plugin.keys[..index].iter().any(|other| other.name == key.name);
            if twice || key.name == "kind" || !is_name(key.name, false) {
                return Err(format!("{name}: the parameter {:?} needs another name", key.name));
            }
        }
        let wrong = |key: &str, message: &str| format!("{name}: the default of {key} is wrong: {message}");
        let values = with_defaults(|reader| plugin.values(reader));
        let values = values.map_err(|error| wrong(&error.key, &error.message))?;
        (plugin.build)(&values).map_err(|message| format!("{name} refuses its own defaults: {message}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::Factory;
    use penstock_core::throttle::{NoThrottle, Throttle};

    fn lenient(kind: &'static str) -> Plugin<ThrottleConfig> {
        Plugin::new(kind, "No client is throttled.", |parameters| {
            if parameters.whole("clients") == 7 {
                return Err("7 clients are unlucky; use 8".to_owned());
            }
            Ok(ThrottleConfig::Custom(Factory::<dyn Throttle>::new(|| Box::new(NoThrottle))))
        })
        .whole("clients", "3", "1", "Ignored.")
    }

    fn refused(plugins: impl IntoIterator<Item = Plugin<ThrottleConfig>>) -> String {
        let mut all = Plugins::default();
        plugins.into_iter().for_each(|plugin| all.add(plugin));
        all.check().unwrap_err()
    }

    #[test]
    fn a_plugin_with_a_wrong_name_or_default_is_refused() {
        let taken = refused([lenient("static")]);
        assert_eq!(
            taken,
            "throttle = \"static\" of a crate that penstock build linked is taken by an algorithm of Penstock; give \
             yours another name"
        );
        assert!(refused([lenient("new"), lenient("new")]).contains("registered twice"));
        assert!(refused([lenient("two words")]).contains("is not a name"));
        assert!(refused([lenient("new").flag("kind", "true", "")]).contains("needs another name"));
        let wrong = refused([lenient("new").with_source("me").size("most", "8", "")]);
        assert!(
            wrong.starts_with("throttle = \"new\" of me: the default of most is wrong: 8 is an integer"),
            "{wrong}"
        );
        let unlucky = Plugin { keys: vec![Key { default: "7", ..lenient("new").keys[0] }], ..lenient("new") };
        assert!(refused([unlucky]).contains("refuses its own defaults: 7 clients are unlucky; use 8"));
    }
}
