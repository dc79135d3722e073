//! Algorithms as Python classes, which `penstock.prototypes` finds by entry point.
//!
//! A prototype is a [`Plugin`] whose factory makes a Python object. Each call of a trait's method takes the
//! interpreter's lock and calls the object's method. Built-in algorithms do not know prototypes.
//!
//! The traits have no errors, so the first exception is kept in the thread of the run, and the run is cancelled. Until
//! it stops, all prototypes of the run answer with defaults and call no Python code.

mod circuit_policy;
mod edge_control;

pub(crate) use edge_control::PySignals;

use crate::error::{Error, PyError, Violation};
use crate::linked;
use penstock_core::Factory;
use penstock_core::circuit_policy::{CircuitPolicy, CircuitPolicyConfig};
use penstock_core::edge_control::{
    EdgeControl, EdgeControlConfig, Ends, OpenStream, StreamControl, StreamWindow, WindowsConfig, XonXoff,
    XonXoffConfig,
};
use penstock_scenario::plugin::{self, Parameters, Pluggable, Plugin, Plugins};
use penstock_units::time::nanos;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

const MODULE: &str = "penstock.prototypes";

thread_local! {
    /// The run of this thread.
    static RUN: RefCell<Option<Running>> = const { RefCell::new(None) };
    /// Prototypes that the scenarios of this thread have selected, by key and name.
    static SELECTED: RefCell<BTreeSet<Name>> = const { RefCell::new(BTreeSet::new()) };
}

/// The key and the name of a prototype, such as `edge_control` and `my-windows`.
pub(crate) type Name = (&'static str, &'static str);

/// A run whose prototypes have called Python code in this thread, or will.
struct Running {
    control: Arc<penstock_sim::Control>,
    error: Option<String>,
}

/// Ends the run of this thread when it is dropped.
pub(crate) struct Guard(());

/// Begins a run in this thread. An error of a prototype cancels `control`.
pub(crate) fn begin(control: Arc<penstock_sim::Control>) -> Guard {
    RUN.set(Some(Running { control, error: None }));
    Guard(())
}

impl Guard {
    /// The sentence of the first error of a prototype.
    pub(crate) fn error(&self) -> Option<String> {
        RUN.with_borrow(|run| run.as_ref().and_then(|run| run.error.clone()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        RUN.set(None);
    }
}

fn has_failed() -> bool {
    RUN.with_borrow(|run| run.as_ref().is_some_and(|run| run.error.is_some()))
}

fn fail(sentence: String) {
    RUN.with_borrow_mut(|run| {
        if let Some(run) = run {
            run.control.cancel();
            run.error.get_or_insert(sentence);
        }
    });
}

/// Calls `read`, which reads a scenario. Returns its result and the prototypes that the scenario selects.
pub(crate) fn selected_by<R>(read: impl FnOnce() -> R) -> (R, Vec<Name>) {
    SELECTED.take();
    let result = read();
    (result, SELECTED.take().into_iter().collect())
}

/// Makes the prototypes and the linked algorithms available to scenarios; later calls do nothing.
pub(crate) fn install(py: Python<'_>) -> Result<(), PyError> {
    if plugin::is_installed() {
        return Ok(());
    }
    let mut plugins = linked::plugins();
    for found in py.import(MODULE)?.call_method0("found")?.extract::<Vec<Found>>()? {
        found.add(&mut plugins);
    }
    plugin::install(plugins).map_err(|sentence| Error::Prototype(sentence).into())
}

/// A class that `penstock.prototypes` has found. The texts live as long as the process, as the registry does.
#[derive(FromPyObject)]
struct Found {
    key: String,
    name: String,
    meaning: String,
    source: String,
    /// The kind of stream control: `windows`, `xon-xoff` or `none`.
    streams: String,
    target: Py<PyAny>,
    overridden: Vec<String>,
    parameters: Vec<Declared>,
}

/// A parameter that a class declares.
#[derive(FromPyObject)]
struct Declared {
    name: String,
    kind: String,
    default: String,
    unit: String,
    meaning: String,
}

fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

impl Found {
    fn add(self, plugins: &mut Plugins) {
        match &*self.key {
            "edge_control" => {
                let streams = self.streams.clone();
                plugins.add(self.plugin(move |class, values| EdgeControlConfig::Custom {
                    circuit: Factory::<dyn EdgeControl>::new(move || {
                        Box::new(edge_control::Prototype::new(Instance::new(&class, &values)))
                    }),
                    stream: stream_control(&streams),
                }));
            }
            _ => plugins.add(self.plugin(|class, values| {
                CircuitPolicyConfig::Custom(Factory::<dyn CircuitPolicy>::new(move || {
                    Box::new(circuit_policy::Prototype::new(Instance::new(&class, &values)))
                }))
            })),
        }
    }

    fn plugin<C: Pluggable>(
        self,
        config: impl Fn(Arc<Class>, Arc<Values>) -> C + Send + Sync + 'static,
    ) -> Plugin<C> {
        let name = leaked(&self.name);
        let parameters: Vec<_> =
            self.parameters.iter().map(|each| (leaked(&each.name), &*each.kind)).collect();
        let kinds: Vec<_> = parameters.iter().map(|(name, kind)| (*name, leaked(kind))).collect();
        let class = Arc::new(Class { class: self.target, overridden: self.overridden });
        let build = move |parameters: &Parameters| {
            let values: Values =
                kinds.iter().map(|(name, kind)| (*name, Value::of(parameters, name, kind))).collect();
            // The class may refuse a value of the scenario.
            Python::attach(|py| {
                class.instance(py, &values).map(drop).map_err(|error| class.refusal(py, error))
            })?;
            SELECTED.with_borrow_mut(|selected| selected.insert((C::KEY, name)));
            Ok(config(class.clone(), Arc::new(values)))
        };
        let plugin = Plugin::new(name, leaked(&self.meaning), build).with_source(leaked(&self.source));
        self.parameters.iter().zip(parameters).fold(plugin, |plugin, (each, (name, kind))| {
            let (default, unit, meaning) = (leaked(&each.default), leaked(&each.unit), leaked(&each.meaning));
            match kind {
                "size" => plugin.size(name, default, meaning),
                "time" => plugin.time(name, default, meaning),
                "rate" => plugin.rate(name, default, meaning),
                "fraction" => plugin.fraction(name, default, meaning),
                "flag" => plugin.flag(name, default, meaning),
                _ => plugin.whole(name, default, unit, meaning),
            }
        })
    }
}

/// The built-in stream control of a class that controls circuits.
fn stream_control(kind: &str) -> Factory<dyn StreamControl> {
    let stock = WindowsConfig::STOCK;
    match (kind, stock.stream_window) {
        ("xon-xoff", _) => {
            Factory::<dyn StreamControl>::new(|| Box::new(XonXoff::new(XonXoffConfig::TOR_0_4_9)))
        }
        ("windows", Some(cells)) => {
            Factory::<dyn StreamControl>::new(move || Box::new(StreamWindow::new(stock, cells)))
        }
        _ => Factory::<dyn StreamControl>::new(|| Box::new(OpenStream::new(Ends::Suppressed))),
    }
}

/// The values of a class's parameters: B, B/s and ns as whole numbers.
type Values = Vec<(&'static str, Value)>;

#[derive(Clone, Copy, IntoPyObject)]
enum Value {
    Flag(bool),
    Whole(u64),
    Fraction(f64),
}

impl Value {
    fn of(parameters: &Parameters, name: &str, kind: &str) -> Self {
        match kind {
            "size" => Value::Whole(parameters.size(name).get()),
            "time" => Value::Whole(nanos(parameters.time(name))),
            "rate" => Value::Whole(parameters.rate(name).bytes_per_sec()),
            "fraction" => Value::Fraction(parameters.fraction(name)),
            "flag" => Value::Flag(parameters.flag(name)),
            _ => Value::Whole(parameters.whole(name).into()),
        }
    }
}

/// A Python class that implements a trait.
struct Class {
    class: Py<PyAny>,
    /// The optional methods that the class has; the defaults of the others need no call.
    overridden: Vec<String>,
}

impl Class {
    fn instance(&self, py: Python<'_>, values: &Values) -> PyResult<Py<PyAny>> {
        let keywords = PyDict::new(py);
        for (name, value) in values {
            keywords.set_item(name, *value)?;
        }
        self.class.call(py, (), Some(&keywords))
    }

    /// The error of a class that refuses its values: the text of a `ValueError`, otherwise a sentence with the line.
    fn refusal(&self, py: Python<'_>, error: PyErr) -> String {
        if error.is_instance_of::<PyValueError>(py) {
            return error.value(py).to_string();
        }
        self.sentence(py, "__init__", error)
    }

    /// A sentence that names the class, the method, and the line of the class's file.
    fn sentence(&self, py: Python<'_>, method: &str, error: PyErr) -> String {
        let made = || -> PyResult<String> {
            // With its traceback.
            let value = error.into_value(py);
            py.import(MODULE)?.call_method1("sentence", (&self.class, method, value))?.extract()
        };
        made().unwrap_or_else(|other| format!("{method} of a Python prototype failed: {other}"))
    }

    /// The sentence for a value of a wrong type.
    fn wrong(&self, py: Python<'_>, method: &str, value: &Bound<'_, PyAny>, wanted: &str) -> String {
        let made = || -> PyResult<String> {
            py.import(MODULE)?.call_method1("wrong", (&self.class, method, value, wanted))?.extract()
        };
        made().unwrap_or_else(|_| format!("{method} of a Python prototype must return {wanted}"))
    }
}

/// The answer of a method.
enum Answer<R> {
    Value(R),
    /// `on_deliver` or `on_sendme` raised `Violation`.
    Violation,
    /// The run has failed.
    None,
}

impl<R> Answer<R> {
    fn unwrap_or(self, default: R) -> R {
        match self {
            Answer::Value(value) => value,
            Answer::Violation | Answer::None => default,
        }
    }
}

/// A method's name; `intern!` makes its Python string only once.
type Method = for<'py> fn(Python<'py>) -> &'py Bound<'py, PyString>;

macro_rules! method {
    ($name:literal) => {
        |py| pyo3::intern!(py, $name)
    };
}
use method;

/// An object of a Python class.
struct Instance {
    class: Arc<Class>,
    /// None if the class raised an exception.
    object: Option<Py<PyAny>>,
}

impl Instance {
    fn new(class: &Arc<Class>, values: &Values) -> Self {
        let make = |py: Python<'_>| {
            class.instance(py, values).map_err(|error| class.sentence(py, "__init__", error))
        };
        let object = if has_failed() { None } else { Python::attach(make).map_err(fail).ok() };
        Instance { class: Arc::clone(class), object }
    }

    fn overrides(&self, method: &str) -> bool {
        self.class.overridden.iter().any(|each| each == method)
    }

    /// Calls a method. `read` converts its result, which must be `wanted`.
    fn call<A, R>(
        &self,
        method: Method,
        arguments: A,
        wanted: &str,
        read: impl FnOnce(&Bound<'_, PyAny>) -> Option<R>,
    ) -> Answer<R>
    where
        A: for<'py> PyCallArgs<'py>,
    {
        let Some(object) = &self.object else { return Answer::None };
        if has_failed() {
            return Answer::None;
        }
        Python::attach(|py| {
            let name = method(py);
            let may_violate = || ["on_deliver", "on_sendme"].iter().any(|each| name == *each);
            let sentence = match object.bind(py).call_method1(name, arguments) {
                Ok(value) => match read(&value) {
                    Some(read) => return Answer::Value(read),
                    None => self.class.wrong(py, &name.to_string(), &value, wanted),
                },
                Err(error) if error.is_instance_of::<Violation>(py) && may_violate() => {
                    return Answer::Violation;
                }
                Err(error) => self.class.sentence(py, &name.to_string(), error),
            };
            fail(sentence);
            Answer::None
        })
    }

    /// Calls a method without result.
    fn tell<A>(&self, method: Method, arguments: A) -> Answer<()>
    where
        A: for<'py> PyCallArgs<'py>,
    {
        self.call(method, arguments, "nothing", |_| Some(()))
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Instance(..)")
    }
}
