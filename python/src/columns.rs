//! Columns of equal length, as Python gets them: the name of an element's type and bytes, or a list
//! of texts.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// The values of a column.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    Whole(Vec<i64>),
    /// Not a number where nothing is known.
    Number(Vec<f64>),
    Byte(Vec<u8>),
    Text(Vec<String>),
}

/// Columns by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns(pub(crate) Vec<(String, Column)>);

impl Columns {
    pub(crate) fn add(&mut self, name: &str, column: Column) {
        self.0.push((name.to_owned(), column));
    }

    /// A dictionary in the order of the columns.
    pub(crate) fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        for (name, column) in self.0 {
            match column {
                Column::Whole(values) => {
                    dict.set_item(name, ("<i8", bytes(py, &values, i64::to_le_bytes)?))?;
                }
                Column::Number(values) => {
                    dict.set_item(name, ("<f8", bytes(py, &values, f64::to_le_bytes)?))?;
                }
                Column::Byte(values) => {
                    dict.set_item(name, ("|u1", PyBytes::new(py, &values)))?;
                }
                Column::Text(values) => dict.set_item(name, values)?,
            }
        }
        Ok(dict)
    }
}

/// Numbers of eight bytes, the lowest byte first, whatever the machine.
fn bytes<'py, T: Copy>(
    py: Python<'py>,
    values: &[T],
    to_bytes: fn(T) -> [u8; 8],
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, values.len() * 8, |buffer| {
        for (place, value) in buffer.chunks_exact_mut(8).zip(values) {
            place.copy_from_slice(&to_bytes(*value));
        }
        Ok(())
    })
}

/// A count as Python's arrays of whole numbers hold it.
pub(crate) fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
