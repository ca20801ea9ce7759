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

use forebay_core::readahead::{Readahead, Spec};
use forebay_core::reclaim::Reclaim;
use forebay_core::throttle::Throttle;
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

/// The classes of policies that are written in Python.
pub(crate) struct PythonPolicies {
    /// Makes a readahead policy for each open file.
    pub(crate) readahead: Option<Py<PyAny>>,
    /// Makes the throttle of a run.
    pub(crate) throttle: Option<Py<PyAny>>,
    /// Makes the reclaim policy of a run.
    pub(crate) reclaim: Option<Py<PyAny>>,
    pub(crate) stop: Arc<Stop>,
}

impl PythonPolicies {
    /// A readahead policy for a file, if there is a class of them.
    pub(crate) fn readahead(&self) -> Option<Box<dyn Readahead>> {
        let factory = self.readahead.as_ref()?;
        Some(match self.built(factory, PythonReadahead::new) {
            Some(policy) => Box::new(policy),
            None => Spec::parse("off").expect("the table has it").build(),
        })
    }

    /// The throttle of a run, if there is one.
    pub(crate) fn throttle(&self) -> Option<Box<dyn Throttle>> {
        let policy = self.built(self.throttle.as_ref()?, PythonThrottle::new)?;
        Some(Box::new(policy))
    }

    /// The reclaim policy of a run, if there is one.
    pub(crate) fn reclaim(&self) -> Option<Box<dyn Reclaim>> {
        let policy = self.built(self.reclaim.as_ref()?, PythonReclaim::new)?;
        Some(Box::new(policy))
    }

    /// A policy of a class. If it cannot be made, the run is stopped.
    fn built<T>(
        &self,
        factory: &Py<PyAny>,
        make: fn(&Bound<'_, PyAny>, Arc<Stop>) -> PyResult<T>,
    ) -> Option<T> {
        let made = Python::attach(|py| make(&factory.bind(py).call0()?, Arc::clone(&self.stop)));
        made.map_err(|error| self.stop.set(error)).ok()
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
        result.inspect_err(|error| {
            let note = format!("raised by {}, a policy of this run", self.name);
            // Python 3.10 has no notes; the error and its traceback are complete without one.
            let _ = error.value(py).call_method1("add_note", (note,));
        })
    }
}

/// The name of an object's class.
fn class_of(policy: &Bound<'_, PyAny>) -> String {
    policy.get_type().qualname().map_or_else(|_| String::new(), |name| name.to_string())
}

/// An object as an error shows it.
fn text_of(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| String::new(), |text| text.to_string())
}
