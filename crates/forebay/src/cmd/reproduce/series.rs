//! Values over time as a separate file: one line for each point.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use forebay_report::messages::{Complaint, shown};
use forebay_report::table::{Cell, Format, Table};
use forebay_report::whole;
use forebay_sim::paper::{Measured, Paper};

const COLUMNS: [(&str, &str); 7] = [
    ("paper", "paper"),
    ("row", "row"),
    ("policy", "policy"),
    ("metric", "metric"),
    ("unit", "unit"),
    ("second", "second"),
    ("value", "value"),
];

/// A file to be written, whose name has been looked at.
pub(super) struct File {
    path: PathBuf,
    format: Format,
    table: Table,
}

impl File {
    /// A file whose name determines its format.
    pub(super) fn named(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let format = match extension {
            Some("csv") => Format::Csv,
            Some("json") => Format::Json,
            Some(_) | None => bail!(
                Complaint::new(format!("--series {}: not known how to write it", shown(path)))
                    .hint("the name ends in .csv or .json")
            ),
        };
        whole::has_folder("--series", path)?;
        if let Err(error) = whole::try_out(path) {
            let what = format!("--series {}: no file can be made there: {error}", shown(path));
            bail!(Complaint::new(what).hint("name a file in a folder that you may write"));
        }
        Ok(Self { path: path.to_owned(), format, table: Table::new("", &COLUMNS) })
    }

    /// Adds what a paper's measurements hold.
    pub(super) fn add(&mut self, paper: &Paper, measured: &[Measured]) {
        for series in measured.iter().flat_map(Measured::series) {
            for (second, value) in &series.points {
                self.table.rows.push(vec![
                    paper.name.into(),
                    series.row.clone().into(),
                    series.policy.clone().into(),
                    series.metric.into(),
                    series.unit.into(),
                    Cell::Number(*second, 1),
                    Cell::Number(*value, 1),
                ]);
            }
        }
    }

    /// Writes the file.
    pub(super) fn write(&self) -> Result<()> {
        let mut text = Vec::new();
        self.table.print(self.format, &mut text)?;
        whole::write(&self.path, &text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn points(path: &Path) -> File {
        let mut file = File::named(path).unwrap();
        let row = ["flush", "bonnie -s 100", "dyn", "load", "%"].map(Cell::from);
        let numbers = [Cell::Number(3.0, 1), Cell::Number(12.3456, 1)];
        file.table.rows.push(row.into_iter().chain(numbers).collect());
        file
    }

    #[test]
    fn a_file_is_there_as_a_whole_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures.csv");
        fs::write(&path, "old").unwrap();
        points(&path).write().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let expected = "paper,row,policy,metric,unit,second,value\n\
                        flush,bonnie -s 100,dyn,load,%,3,12.346\n";
        assert_eq!(text, expected);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let path = folder.path().join("figures.json");
        points(&path).write().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with('[') && text.contains("\"second\": 3.0"), "{text}");
    }

    #[test]
    fn an_error_names_the_path_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures.csv");
        let file = points(&path);
        fs::create_dir(&path).unwrap();
        let error = file.write().unwrap_err();
        assert_eq!(error.to_string(), format!("cannot write {}", path.display()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(File::named(&path).is_err(), "said before anything runs");
        let absent = folder.path().join("absent").join("figures.csv");
        assert!(File::named(&absent).is_err(), "said before anything runs");
    }

    #[test]
    fn other_names_are_refused_with_those_that_would_do() {
        for name in ["figures.txt", "figures", ".csv", ""] {
            let error = File::named(Path::new(name)).err().unwrap().to_string();
            assert!(error.contains(".csv or .json"), "{error}");
        }
    }
}
