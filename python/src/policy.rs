//! Policies that are written in Python: an object answers the questions of a slot.
//!
//! ```text
//!   class --called without arguments--> object --its methods--> Method
//!                                                                 |
//!   engine --Readahead, Throttle, Reclaim--> question ------------' answer: checked, carried out
//! ```
//!
//! Python never holds a part of the engine: questions are values, and so are answers. An error
//! stops the run; until its tasks have ended, the engine gets answers without Python.

use std::sync::Arc;

use forebay_core::policy::{Slot, Spec};
use forebay_core::readahead::Readahead;
use forebay_core::reclaim::Reclaim;
use forebay_core::throttle::Throttle;
use forebay_sim::scenario::OwnPolicies;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use self::readahead::PythonReadahead;
use self::reclaim::PythonReclaim;
use self::throttle::PythonThrottle;
use crate::stop::Stop;

pub(crate) use self::readahead::Access;
pub(crate) use self::throttle::Dirtied;

mod readahead;
mod reclaim;
mod throttle;

/// A policy for a slot, as Python gives it.
#[derive(FromPyObject)]
pub(crate) enum GivenPolicy {
    /// One of the slot's table, with its parameters.
    Named(String),
    /// What makes one: a class of which the objects are policies.
    Written(Py<PyAny>),
}

/// A class of policies, and what an error in it stops.
struct Class {
    class: Py<PyAny>,
    stop: Arc<Stop>,
}

/// Fills a slot with policies of a class.
pub(crate) fn fill(
    own: &mut OwnPolicies,
    slot: &str,
    class: &Py<PyAny>,
    stop: &Arc<Stop>,
) -> PyResult<()> {
    let class = Python::attach(|py| class.clone_ref(py));
    let class = Class { class, stop: Arc::clone(stop) };
    match slot {
        <dyn Readahead as Slot>::NAME => {
            own.readahead = Some(Arc::new(move || class.object(PythonReadahead::make, "off")));
        }
        <dyn Throttle as Slot>::NAME => {
            own.throttle = Some(Arc::new(move || class.object(PythonThrottle::make, "off")));
        }
        <dyn Reclaim as Slot>::NAME => {
            own.reclaim = Some(Arc::new(move || class.object(PythonReclaim::make, "two-lists")));
        }
        other => {
            let what = format!("the policy of '{other}' is a text, not a class");
            return Err(PyTypeError::new_err(what));
        }
    }
    Ok(())
}

impl Class {
    /// A policy. If it cannot be made, the run is stopped, and has a named one until its end.
    fn object<T: Slot + ?Sized>(
        &self,
        make: fn(&Bound<'_, PyAny>, Arc<Stop>) -> PyResult<Box<T>>,
        otherwise: &str,
    ) -> Box<T> {
        let stop = Arc::clone(&self.stop);
        let made = Python::attach(|py| {
            let class = self.class.bind(py);
            let made = class.call0().and_then(|object| make(&object, stop));
            made.inspect_err(|error| note(py, error, &text_of(class)))
        });
        made.unwrap_or_else(|error| {
            self.stop.set(error);
            Spec::parse(otherwise).expect("the table has it").build()
        })
    }
}

/// A method of a policy.
#[derive(Debug)]
struct Method {
    callable: Py<PyAny>,
    /// Class and method.
    name: String,
}

impl Method {
    /// A method that every policy of its slot has.
    fn of(policy: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        Self::optional(policy, name)?.ok_or_else(|| {
            let class = class_of(policy);
            PyTypeError::new_err(format!("the policy {class} has no method {name}"))
        })
    }

    /// A method that a policy may have.
    fn optional(policy: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Self>> {
        let Some(callable) = policy.getattr_opt(name)? else { return Ok(None) };
        let name = format!("{}.{name}", class_of(policy));
        if !callable.is_callable() {
            let given = text_of(&callable);
            return Err(PyTypeError::new_err(format!("{name} is a method, not {given}")));
        }
        Ok(Some(Self { callable: callable.unbind(), name }))
    }

    /// Calls it; an error says where it was raised.
    fn call<'py>(
        &self,
        py: Python<'py>,
        arguments: impl PyCallArgs<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.noted(py, self.callable.bind(py).call1(arguments))
    }

    /// Notes in an error that this method has raised it.
    fn noted<T>(&self, py: Python<'_>, result: PyResult<T>) -> PyResult<T> {
        result.inspect_err(|error| note(py, error, &self.name))
    }
}

/// Notes in an error where it was raised.
fn note(py: Python<'_>, error: &PyErr, by: &str) {
    let note = format!("raised by {by}, a policy of this run");
    // Python 3.10 has no notes; the error and its traceback are complete without one.
    let _ = error.value(py).call_method1("add_note", (note,));
}

/// The name of an object's class.
fn class_of(policy: &Bound<'_, PyAny>) -> String {
    policy.get_type().qualname().map_or_else(|_| String::new(), |name| name.to_string())
}

/// An object as an error shows it: the beginning of a long one.
fn text_of(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr().map_or_else(|_| String::new(), |text| text.to_string());
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Characters of an object that an error shows.
const TEXT_MAX: usize = 200;
