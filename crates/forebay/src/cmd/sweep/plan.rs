//! The points of a sweep: their settings, their names, and their chunks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use forebay_report::messages::{Complaint, shown};
use forebay_report::whole;
use serde_json::{Value, json};

use super::read_json;
use crate::args::simulate::Simulate;
use crate::args::trace::EntryLayer;
use crate::args::{Arguments, Command};
use crate::cmd::simulate;
use crate::progress::Progress;
use crate::slots::SLOTS;

/// What a folder is to have done.
pub(super) struct Plan {
    /// The version of the program, whose results do not mix with those of others.
    pub(super) version: String,
    /// The keys of the grids, in the order in which they were typed.
    pub(super) keys: Arc<[String]>,
    /// How traces are replayed: options of `forebay simulate`.
    options: Arc<[String]>,
    pub(super) points: Vec<Point>,
    /// Runs of points that had no result when the plan was made.
    pub(super) chunks: Vec<Range<usize>>,
    /// The hash of each file that points read.
    files: BTreeMap<String, String>,
}

/// One run.
#[derive(Clone)]
pub(super) struct Point {
    /// A hash of all that determines the result.
    pub(super) name: String,
    pub(super) input: String,
    pub(super) machine: String,
    /// A value for each key.
    pub(super) values: Vec<String>,
    pub(super) seed: u64,
    keys: Arc<[String]>,
    options: Arc<[String]>,
}

impl Plan {
    /// A plan of this version without points. `options` are those of traces.
    pub(super) fn new(keys: &[String], options: &[String]) -> Self {
        let (keys, options) = (keys.into(), options.into());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let (points, chunks, files) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { version, keys, options, points, chunks, files }
    }

    /// The plan of a folder, which this version has made.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(PLAN);
        let plan = read_json(&path)?;
        let parsed = Self::of_json(&plan).ok_or_else(|| {
            Complaint::new(format!("{}: not the plan of a sweep", shown(&path)))
                .hint("`forebay sweep plan ... -o DIR` writes one")
        })?;
        if parsed.version != env!("CARGO_PKG_VERSION") {
            let what = format!(
                "{}: made by forebay {}, and this is {}",
                shown(&path),
                parsed.version,
                env!("CARGO_PKG_VERSION")
            );
            bail!(
                Complaint::new(what).hint("results of two versions do not mix: use a new folder")
            );
        }
        Ok(parsed)
    }

    /// Writes the plan into its folder.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        whole::write(&folder.join(PLAN), format!("{:#}\n", self.to_json()).as_bytes())
    }

    /// The file of a chunk's result, named by its points.
    pub(super) fn result_file(&self, folder: &Path, chunk: &Range<usize>) -> PathBuf {
        let mut hash = Hash::new();
        self.points[chunk.clone()].iter().for_each(|point| hash.add(point.name.as_bytes()));
        folder.join(RESULTS).join(format!("{}.json", hash.name()))
    }

    /// Takes in a file that points read.
    pub(super) fn add_file(&mut self, path: &str) -> Result<()> {
        if !self.files.contains_key(path) {
            let hash = Hash::of_file(Path::new(path))?;
            self.files.insert(path.to_owned(), hash);
        }
        Ok(())
    }

    /// Adds a point for each seed; a combination that cannot be run is an error.
    pub(super) fn add_points(
        &mut self,
        (input, entry): (&str, EntryLayer),
        machine: &str,
        values: &[String],
        seeds: &[u64],
    ) -> Result<()> {
        for (place, seed) in seeds.iter().enumerate() {
            let mut point = Point {
                name: String::new(),
                input: input.to_owned(),
                machine: machine.to_owned(),
                values: values.to_vec(),
                seed: *seed,
                keys: self.keys.clone(),
                options: self.options.clone(),
            };
            if place == 0 {
                let arguments = point.arguments()?;
                simulate::check(&arguments, entry).with_context(|| point.settings())?;
            }
            let mut hash = Hash::new();
            let machine_hash = self.files.get(machine);
            for part in [&self.version, &self.files[input], machine_hash.unwrap_or(&point.machine)]
            {
                hash.add(part.as_bytes());
            }
            // The order in which keys were typed changes nothing.
            let mut settings: Vec<_> = point.keys.iter().zip(&point.values).collect();
            settings.sort();
            for (key, value) in settings {
                hash.add(key.as_bytes());
                hash.add(value.as_bytes());
            }
            for word in point.options.iter() {
                hash.add(word.as_bytes());
            }
            hash.add(&seed.to_le_bytes());
            point.name = hash.name();
            self.points.push(point);
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        let point = |point: &Point| {
            let Point { name, input, machine, values, seed, .. } = point;
            json!([name, input, machine, values, seed])
        };
        let chunk = |chunk: &Range<usize>| json!([chunk.start, chunk.end]);
        json!({
            "version": self.version,
            "keys": self.keys[..],
            "options": self.options[..],
            "files": self.files,
            "chunks": self.chunks.iter().map(chunk).collect::<Value>(),
            "points": self.points.iter().map(point).collect::<Value>(),
        })
    }

    fn of_json(value: &Value) -> Option<Self> {
        let texts = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|one| one.as_str().map(str::to_owned)).collect()
        };
        let keys: Arc<[String]> = texts(&value["keys"])?.into();
        let options: Arc<[String]> = texts(&value["options"])?.into();
        let point = |one: &Value| -> Option<Point> {
            Some(Point {
                name: one[0].as_str()?.to_owned(),
                input: one[1].as_str()?.to_owned(),
                machine: one[2].as_str()?.to_owned(),
                values: texts(&one[3]).filter(|values| values.len() == keys.len())?,
                seed: one[4].as_u64()?,
                keys: keys.clone(),
                options: options.clone(),
            })
        };
        let points: Vec<Point> =
            value["points"].as_array()?.iter().map(point).collect::<Option<_>>()?;
        let chunk = |one: &Value| -> Option<Range<usize>> {
            let (start, end) = (one[0].as_u64()? as usize, one[1].as_u64()? as usize);
            (start < end && end <= points.len()).then_some(start..end)
        };
        let chunks = value["chunks"].as_array()?.iter().map(chunk).collect::<Option<_>>()?;
        let file =
            |(path, hash): (&String, &Value)| Some((path.clone(), hash.as_str()?.to_owned()));
        let files = value["files"].as_object()?.iter().map(file).collect::<Option<_>>()?;
        let version = value["version"].as_str()?.to_owned();
        Some(Self { version, keys, options, points, chunks, files })
    }
}

impl Point {
    /// The row of the run as a whole.
    pub(super) fn run(&self) -> Result<Value> {
        let results = simulate::results(&self.arguments()?, Progress::hidden())?;
        let row = results.objects().pop().map(Value::Object);
        row.ok_or_else(|| anyhow!("the run has no row"))
    }

    /// The files that the point reads are those that it was named by.
    pub(super) fn verify(&self, plan: &Plan) -> Result<()> {
        for path in [&self.input, &self.machine] {
            let Some(planned) = plan.files.get(path) else { continue };
            if Hash::of_file(Path::new(path))? != *planned {
                let what = format!("'{path}' was changed since the sweep was planned");
                bail!(Complaint::new(what).hint("plan the sweep again"));
            }
        }
        Ok(())
    }

    /// The call of `forebay simulate` that the point is.
    fn arguments(&self) -> Result<Simulate> {
        let mut words = vec!["forebay".to_owned(), "simulate".to_owned(), self.input.clone()];
        words.extend(["--machine".to_owned(), self.machine.clone()]);
        words.extend(["--seed".to_owned(), self.seed.to_string()]);
        words.extend(self.options.iter().cloned());
        for (key, value) in self.keys.iter().zip(&self.values) {
            let option = if SLOTS.contains(&key.as_str()) { "--policy" } else { "--set" };
            words.extend([option.to_owned(), format!("{key}={value}")]);
        }
        let Command::Simulate(arguments) = Arguments::try_parse_from(words)?.command else {
            unreachable!("the words are those of simulate")
        };
        Ok(arguments)
    }

    fn settings(&self) -> String {
        let pairs = self.keys.iter().zip(&self.values).map(|(key, value)| format!("{key}={value}"));
        let pairs: Vec<String> = pairs.collect();
        format!("machine {} {}", self.machine, pairs.join(" ")).trim_end().to_owned()
    }
}

/// A hash of 128 bits (FNV-1a): names do not collide by chance. It is no defence against forgery.
struct Hash(u128);

impl Hash {
    fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Adds a part; its length keeps parts apart.
    fn add(&mut self, part: &[u8]) {
        self.bytes(&(part.len() as u64).to_le_bytes());
        self.bytes(part);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    }

    fn name(&self) -> String {
        format!("{:032x}", self.0)
    }

    fn of_file(path: &Path) -> Result<String> {
        let context = || format!("cannot read '{}'", shown(path));
        let mut file = File::open(path).with_context(context)?;
        let (mut hash, mut buffer) = (Self::new(), vec![0; 1 << 16]);
        loop {
            let read = file.read(&mut buffer).with_context(context)?;
            if read == 0 {
                return Ok(hash.name());
            }
            hash.bytes(&buffer[..read]);
        }
    }
}

/// The plan, and the folder of results.
const PLAN: &str = "plan.json";
pub(super) const RESULTS: &str = "results";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_hash_stay_apart() {
        let of = |parts: &[&[u8]]| {
            let mut hash = Hash::new();
            parts.iter().for_each(|part| hash.add(part));
            hash.name()
        };
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_eq!(of(&[b"ab"]).len(), 32);
    }
}
