//! The results of a sweep, by the names of points.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail};
use forebay_report::messages::{self, Complaint, shown};
use serde_json::{Map, Value};

use super::plan::{Plan, Point, RESULTS};

/// The rows of one result, by the names of its points.
///
/// # Errors
/// It cannot be read, is damaged, or is of another version.
pub(super) fn rows_of(path: &Path, plan: &Plan) -> Result<Vec<(String, Map<String, Value>)>> {
    const HINT: &str = "`forebay sweep submit DIR` runs its points again";
    let name = shown(path);
    let text = fs::read_to_string(path).with_context(|| format!("cannot read '{name}'"))?;
    let damaged = |why: &str| Complaint::new(format!("{name}: a damaged result: {why}")).hint(HINT);
    let result: Value = serde_json::from_str(&text).map_err(|error| damaged(&error.to_string()))?;
    let Some(version) = result["version"].as_str() else {
        bail!(damaged("it names no version"));
    };
    if version != plan.version {
        let what =
            format!("{name}: a result of forebay {version}, and the plan is of {}", plan.version);
        bail!(Complaint::new(what).hint("results of two versions do not mix: use a new folder"));
    }
    let one =
        |one: &Value| Some((one["point"].as_str()?.to_owned(), one["row"].as_object()?.clone()));
    let points = result["points"].as_array();
    let rows = points.and_then(|points| points.iter().map(one).collect::<Option<Vec<_>>>());
    Ok(rows.ok_or_else(|| damaged("it has no points"))?)
}

/// The rows of all points that have one.
pub(super) struct PointResults(HashMap<String, Map<String, Value>>);

impl PointResults {
    /// Reads every result of a folder, of this version and no other. One that cannot be used counts
    /// as missing, and is named on standard error.
    pub(super) fn read(folder: &Path, plan: &Plan) -> Result<Self> {
        let mut rows = HashMap::new();
        let place = folder.join(RESULTS);
        let entries = match fs::read_dir(&place) {
            // As long as nothing has run.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self(rows)),
            entries => entries.with_context(|| format!("cannot read '{}'", shown(&place)))?,
        };
        for entry in entries {
            let path = entry.with_context(|| shown(&place))?.path();
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
            // What a process has left that was killed has no part in it.
            if is_hidden || path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match rows_of(&path, plan) {
                Ok(found) => rows.extend(found),
                Err(error) => messages::note(&format!("left out: {error:#}")),
            }
        }
        Ok(Self(rows))
    }

    /// The row of a point.
    pub(super) fn of(&self, name: &str) -> Option<&Map<String, Value>> {
        self.0.get(name)
    }

    /// Every point with its row; an error if one has none.
    pub(super) fn complete<'a>(
        &'a self,
        plan: &'a Plan,
    ) -> Result<Vec<(&'a Point, &'a Map<String, Value>)>> {
        let rows = plan.points.iter().map(|point| (point, self.of(&point.name)));
        let missing = rows.clone().filter(|(_, row)| row.is_none()).count();
        if missing > 0 {
            let what = format!("{missing} of {} points have no result", plan.points.len());
            let chunks: usize = plan.chunks.iter().map(Range::len).sum();
            let hint = match missing <= chunks {
                true => "`forebay sweep submit DIR` runs what is missing",
                false => "results have been lost: `forebay sweep plan` takes in what to run again",
            };
            bail!(Complaint::new(what).hint(hint));
        }
        let mut complete: Vec<_> = rows.filter_map(|(point, row)| Some((point, row?))).collect();
        // The order does not tell which points were new when the plan was made.
        complete.sort_by(|(one, _), (other, _)| {
            let key = |point: &'a Point| (&point.input, &point.machine, &point.values, point.seed);
            key(one).cmp(&key(other))
        });
        Ok(complete)
    }
}

impl Plan {
    /// Whether a chunk has its result: a whole one, of this version and of all its points.
    pub(super) fn has_result(&self, folder: &Path, chunk: &Range<usize>) -> bool {
        let rows = rows_of(&self.result_file(folder, chunk), self);
        rows.is_ok_and(|rows| {
            let names = self.points[chunk.clone()].iter().map(|point| &point.name);
            rows.iter().map(|(name, _)| name).eq(names)
        })
    }

    /// Chunks without a result.
    pub(super) fn missing(&self, folder: &Path) -> Vec<usize> {
        let chunks = self.chunks.iter().enumerate();
        let missing = chunks.filter(|(_, chunk)| !self.has_result(folder, chunk));
        missing.map(|(place, _)| place).collect()
    }
}
