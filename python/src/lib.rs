//! The compiled half of the Python package `forebay`.
//!
//! ```text
//!   package/forebay/__init__.py    what users see: names, defaults, NumPy arrays
//!           |
//!   _forebay (this crate) --machine, policy--> forebay-sim --> forebay-core
//!           |                                     ^
//!           '--trace--> forebay-trace --> forebay-replay
//! ```
//!
//! Every function that works for longer than a moment releases the interpreter's lock; a policy
//! that is written in Python takes it again for each question. Columns go to Python as bytes, which
//! `numpy.frombuffer` reads in place.

use pyo3::prelude::*;

mod columns;
mod machine;
mod policy;
mod replay;
mod rows;
mod run;
mod stop;
mod sweep;
mod trace;

/// The module.
#[pymodule]
fn _forebay(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("OPS", trace::ops())?;
    module.add_class::<machine::Machine>()?;
    module.add_class::<policy::Access>()?;
    module.add_class::<policy::Dirtied>()?;
    module.add_class::<trace::TraceReader>()?;
    module.add_function(wrap_pyfunction!(machine::machines, module)?)?;
    module.add_function(wrap_pyfunction!(machine::policies, module)?)?;
    module.add_function(wrap_pyfunction!(run::run_job, module)?)?;
    module.add_function(wrap_pyfunction!(replay::run_trace, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::run_points, module)?)?;
    module.add_function(wrap_pyfunction!(trace::is_trace, module)?)
}
