//! Machines, and policies for each slot.

use std::sync::Arc;
use std::{fs, io};

use forebay_core::control::Controller;
use forebay_core::dispatch::Dispatch;
use forebay_core::elevator::Elevator;
use forebay_core::flush::Flush;
use forebay_core::policy::{Slot, Spec, SpecError};
use forebay_core::readahead::Readahead;
use forebay_core::reclaim::Reclaim;
use forebay_core::throttle::Throttle;
use forebay_sim::machine::{Machine as SimMachine, MachineError};
use forebay_sim::scenario::PolicySet;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::policy::{self, GivenPolicy};
use crate::stop::Stop;

/// A modelled machine.
#[pyclass(frozen, module = "forebay")]
#[derive(Debug)]
pub(crate) struct Machine(pub(crate) SimMachine);

/// Key, value, least and greatest value in truth, unit, source.
type Parameter = (&'static str, u64, u64, u64, &'static str, String);

#[pymethods]
impl Machine {
    /// A machine that comes with the package, or one of a TOML file, with settings.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "arguments are made from Python's objects")]
    fn new(name: &str, settings: Vec<(String, String)>) -> PyResult<Self> {
        let is_file = name.contains(['/', '.']) && SimMachine::names().all(|known| known != name);
        let machine = if is_file {
            let text = fs::read_to_string(name).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot read '{name}': {error}"))
            })?;
            SimMachine::parse(&text, name)
        } else {
            SimMachine::builtin(name)
        };
        let mut machine = machine.map_err(|error| {
            if !matches!(error, MachineError::UnknownMachine { .. }) {
                return bad(error);
            }
            let known: Vec<&str> = SimMachine::names().collect();
            bad(format!("{error} (known: {})", known.join(", ")))
        })?;
        for (key, value) in &settings {
            let set = machine.set(key, value);
            // The command's flag is no part of Python.
            set.map_err(|error| bad(error.to_string().replacen("--set: ", "", 1)))?;
        }
        Ok(Self(machine))
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn summary(&self) -> &str {
        self.0.summary()
    }

    fn parameters(&self) -> Vec<Parameter> {
        let all = self.0.parameters();
        let all =
            all.map(|one| (one.key, one.value, one.low, one.high, one.unit, one.source.clone()));
        all.collect()
    }

    fn texts(&self) -> Vec<(&'static str, &str)> {
        self.0.texts().collect()
    }

    fn __repr__(&self) -> String {
        format!("Machine('{}')", self.0.name())
    }
}

/// The names of the machines that come with the package.
#[pyfunction]
pub(crate) fn machines() -> Vec<&'static str> {
    SimMachine::names().collect()
}

/// Name, default, least and greatest value, summary.
type PolicyParameter = (&'static str, u64, u64, u64, &'static str);

/// Slot, name, summary, source, parameters.
type PolicyLine = (&'static str, &'static str, &'static str, &'static str, Vec<PolicyParameter>);

/// Every policy of every slot.
#[pyfunction]
pub(crate) fn policies() -> Vec<PolicyLine> {
    let mut lines = lines::<dyn Readahead>();
    lines.extend(lines_of_others());
    lines
}

fn lines_of_others() -> Vec<PolicyLine> {
    [
        lines::<dyn Flush>(),
        lines::<dyn Controller>(),
        lines::<dyn Throttle>(),
        lines::<dyn Elevator>(),
        lines::<dyn Dispatch>(),
        lines::<dyn Reclaim>(),
    ]
    .concat()
}

fn lines<T: Slot + ?Sized>() -> Vec<PolicyLine> {
    let line = |policy: &forebay_core::policy::Policy<T>| {
        let parameters = policy.parameters.iter();
        let parameters =
            parameters.map(|one| (one.name, one.default, one.low, one.high, one.summary));
        (T::NAME, policy.name, policy.summary, policy.source, parameters.collect())
    };
    T::policies().iter().map(line).collect()
}

/// The machine's own policies, and those that were chosen for a slot.
pub(crate) fn policy_set(
    machine: &SimMachine,
    chosen: &[(String, GivenPolicy)],
    stop: &Arc<Stop>,
) -> PyResult<PolicySet> {
    let own = PolicySet::of(&machine.kernel());
    let mut set = own.map_err(|(key, error)| {
        PyValueError::new_err(format!("machine '{}', {key}: {error}", machine.name()))
    })?;
    for (slot, given) in chosen {
        match given {
            GivenPolicy::Named(text) => name_policy(&mut set, slot, text)?,
            GivenPolicy::Written(class) => policy::fill(&mut set.own, slot, class, stop)?,
        }
    }
    match set.contradiction(machine.page_cache_bytes()) {
        Some(why) => Err(PyValueError::new_err(why)),
        None => Ok(set),
    }
}

fn name_policy(set: &mut PolicySet, slot: &str, text: &str) -> PyResult<()> {
    fn parsed<T: Slot + ?Sized>(text: &str) -> PyResult<Spec<T>> {
        Spec::parse(text).map_err(|error| of_spec(&error))
    }
    match slot {
        <dyn Readahead as Slot>::NAME => set.readahead = parsed(text)?,
        <dyn Flush as Slot>::NAME => set.flush = parsed(text)?,
        <dyn Controller as Slot>::NAME => set.controller = parsed(text)?,
        <dyn Throttle as Slot>::NAME => set.throttle = parsed(text)?,
        <dyn Elevator as Slot>::NAME => set.elevator = parsed(text)?,
        <dyn Dispatch as Slot>::NAME => set.dispatch = parsed(text)?,
        <dyn Reclaim as Slot>::NAME => set.reclaim = parsed(text)?,
        other => return Err(PyValueError::new_err(format!("no slot is named '{other}'"))),
    }
    Ok(())
}

/// Refuses policies of a replay below the page cache, where only the elevator decides.
pub(crate) fn elevator_alone(chosen: &[(String, GivenPolicy)]) -> PyResult<()> {
    match chosen.iter().find(|(slot, _)| slot != <dyn Elevator as Slot>::NAME) {
        None => Ok(()),
        Some((slot, _)) => Err(PyValueError::new_err(format!(
            "a block trace enters below the page cache, where only the elevator decides, not \
             '{slot}'; layer='cache' replays it above"
        ))),
    }
}

fn of_spec(error: &SpecError) -> PyErr {
    let known = match error {
        SpecError::UnknownPolicy { known, .. } | SpecError::UnknownParameter { known, .. } => {
            format!(" (known: {})", known.join(", "))
        }
        SpecError::BadValue { .. } | SpecError::Twice { .. } | SpecError::Contradiction { .. } => {
            String::new()
        }
    };
    PyValueError::new_err(format!("{error}{known}"))
}

/// An error of what was given, as Python has it.
pub(crate) fn bad(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
