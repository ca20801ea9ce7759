//! Rows as a Parquet file: a column for each key, compressed with zstd.
//!
//! A column in which all numbers are whole is of whole numbers, any other one with numbers alone is
//! of doubles, and the rest are texts. What is not known is null.

use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::{Map, Value};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Double,
    Text,
}

/// The bytes of a file with these rows, which have the keys of the first one.
pub(super) fn file(rows: &[Map<String, Value>]) -> Result<Vec<u8>> {
    let keys: Vec<&String> = rows.first().map_or_else(Vec::new, |row| row.keys().collect());
    let kinds: Vec<Kind> = keys.iter().map(|key| kind(rows, key)).collect();
    let fields = keys.iter().zip(&kinds).map(|(key, kind)| {
        let (physical, logical) = match kind {
            Kind::Whole => (Physical::INT64, None),
            Kind::Double => (Physical::DOUBLE, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(key, physical).with_logical_type(logical);
        field.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>, _>>().context(FORMED)?;
    let schema = Type::group_type_builder("points").with_fields(fields).build().context(FORMED)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(format!("forebay {}", env!("CARGO_PKG_VERSION")));
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties.build()))
            .context(FORMED)?;
    let mut group = writer.next_row_group().context(FORMED)?;
    for key in keys {
        let Some(mut column) = group.next_column().context(FORMED)? else { break };
        put(column.untyped(), rows, key)?;
        column.close().context(FORMED)?;
    }
    group.close().context(FORMED)?;
    writer.close().context(FORMED)?;
    Ok(bytes)
}

const FORMED: &str = "cannot form the Parquet file";

/// What all values of a column are.
fn kind(rows: &[Map<String, Value>], key: &str) -> Kind {
    let mut values = rows.iter().filter_map(|row| row.get(key)).filter(|it| !it.is_null());
    if values.clone().any(|value| !value.is_number()) {
        return Kind::Text;
    }
    let is_known = values.clone().next().is_some();
    if is_known && values.all(|value| value.as_i64().is_some()) {
        Kind::Whole
    } else {
        Kind::Double
    }
}

/// Writes the values of a column, and which rows have one.
fn put(column: &mut ColumnWriter<'_>, rows: &[Map<String, Value>], key: &str) -> Result<()> {
    let cells: Vec<Option<&Value>> =
        rows.iter().map(|row| row.get(key).filter(|value| !value.is_null())).collect();
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let known = cells.into_iter().flatten();
    let levels = Some(&levels[..]);
    match column {
        ColumnWriter::Int64ColumnWriter(writer) => {
            let values: Vec<i64> = known.filter_map(Value::as_i64).collect();
            writer.write_batch(&values, levels, None)
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let values: Vec<f64> = known.filter_map(Value::as_f64).collect();
            writer.write_batch(&values, levels, None)
        }
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let text =
                |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let values: Vec<ByteArray> =
                known.map(|value| ByteArray::from(text(value).into_bytes())).collect();
            writer.write_batch(&values, levels, None)
        }
        ColumnWriter::BoolColumnWriter(_)
        | ColumnWriter::Int32ColumnWriter(_)
        | ColumnWriter::Int96ColumnWriter(_)
        | ColumnWriter::FloatColumnWriter(_)
        | ColumnWriter::FixedLenByteArrayColumnWriter(_) => {
            unreachable!("the schema has three kinds of columns")
        }
    }
    .context(FORMED)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use serde_json::json;

    use super::*;

    fn rows(values: Value) -> Vec<Map<String, Value>> {
        serde_json::from_value(values).unwrap()
    }

    /// The rows that a reader of the file finds.
    fn found(rows: &[Map<String, Value>]) -> Vec<String> {
        let mut place = tempfile::tempfile().unwrap();
        place.write_all(&file(rows).unwrap()).unwrap();
        let reader = SerializedFileReader::new(place).unwrap();
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
    }

    #[test]
    fn every_value_is_in_the_file_with_its_kind() {
        let rows = rows(json!([
            {"name": "a", "count": 1, "mean": 1.5, "none": null, "mixed": 1},
            {"name": "b", "count": null, "mean": 2, "none": null, "mixed": "x"},
        ]));
        let kinds = ["name", "count", "mean", "none", "mixed"].map(|key| kind(&rows, key));
        let expected = [Kind::Text, Kind::Whole, Kind::Double, Kind::Double, Kind::Text];
        assert_eq!(kinds, expected);
        assert_eq!(
            found(&rows),
            [
                "{name: \"a\", count: 1, mean: 1.5, none: null, mixed: \"1\"}",
                "{name: \"b\", count: null, mean: 2.0, none: null, mixed: \"x\"}",
            ]
        );
    }

    #[test]
    fn the_same_rows_are_the_same_bytes_and_no_rows_are_a_file() {
        let rows = rows(json!([{"a": 1}, {"a": 2}]));
        assert_eq!(file(&rows).unwrap(), file(&rows).unwrap());
        assert!(file(&[]).is_err() || found(&[]).is_empty());
    }
}
