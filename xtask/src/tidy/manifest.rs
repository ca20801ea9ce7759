//! Rules for one manifest, and for the core's promise to be pure: arrows point inward.
//!
//! ```text
//!                 forebay ----> forebay-replay --> forebay-trace <--- forebay-python
//!       +-----------+-+---------+-------------+
//!       |           |           |             |
//!  forebay-sim forebay-live forebay-host -> forebay-image, forebay-nbd
//!       |           |           |
//!       +-----------+-----------+
//!                   |
//!              forebay-core <--- forebay-replay, forebay-python: both see forebay-sim too
//!
//!  forebay-bench --> forebay-host, forebay-live, forebay-report
//! ```

use toml::{Table, Value};

use super::{Finding, Rule};

/// One rule per line.
pub(super) const RULES: &[Rule] = &[arrows, purity];

/// What a crate may depend on.
#[derive(Debug)]
struct Crate {
    name: &'static str,
    /// Crates of the project.
    sees: &'static [&'static str],
}

/// A new arrow needs a note in docs/decisions.
const CRATES: &[Crate] = &[
    Crate { name: CORE, sees: &[] },
    Crate { name: "forebay-image", sees: &[] },
    Crate { name: "forebay-nbd", sees: &[] },
    Crate { name: "forebay-trace", sees: &[] },
    Crate { name: "forebay-sim", sees: &[CORE] },
    Crate { name: "forebay-replay", sees: &[CORE, "forebay-sim", "forebay-trace"] },
    Crate { name: "forebay-host", sees: &[CORE, "forebay-image", "forebay-nbd"] },
    Crate { name: "forebay-live", sees: &[CORE] },
    Crate { name: "forebay-report", sees: &[CORE, "forebay-sim", "forebay-host", "forebay-live"] },
    Crate {
        name: "forebay",
        sees: &[
            CORE,
            "forebay-image",
            "forebay-sim",
            "forebay-host",
            "forebay-live",
            "forebay-replay",
            "forebay-report",
            "forebay-trace",
        ],
    },
    Crate { name: "forebay-bench", sees: &["forebay-host", "forebay-live", "forebay-report"] },
    Crate { name: PYTHON, sees: &[CORE, "forebay-sim", "forebay-replay", "forebay-trace"] },
];

/// The crate below the Python package, which is not among the others.
const PYTHON: &str = "forebay-python";

/// The crate that depends on nothing at all outside its tests.
const CORE: &str = "forebay-core";

/// Dependencies of the crates, those of their tests included, go along the arrows.
fn arrows(path: &str, text: &str) -> Vec<Finding> {
    if !path.ends_with("Cargo.toml") {
        return Vec::new();
    }
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, 1, format!("not TOML: {error}"))],
    };
    let found = dependencies(&manifest);
    let mut findings = renamed(path, text, &found);
    let name = match path {
        "python/Cargo.toml" => Some(PYTHON),
        _ => path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml")),
    };
    let Some(name) = name else { return findings };
    let Some(allowed) = CRATES.iter().find(|known| known.name == name) else {
        let remedy = "unknown crate; add it to CRATES in xtask, and a note to docs/decisions";
        findings.push(Finding::new(path, 1, remedy));
        return findings;
    };
    for dependency in found {
        if let Some(remedy) = allowed.judge(&dependency) {
            findings.push(Finding::new(path, line_of(text, dependency.key), remedy));
        }
    }
    findings
}

impl Crate {
    /// The error of a dependency of this crate, if there is one.
    fn judge(&self, dependency: &Dependency<'_>) -> Option<String> {
        let (this, name) = (self.name, dependency.package);
        if is_ours(name) {
            let allowed = self.sees.contains(&name);
            return (!allowed).then(|| format!("{this} may not see {name}; remove the dependency"));
        }
        let allowed = this != CORE || dependency.for_tests;
        (!allowed).then(|| format!("{this} depends on nothing; write what it needs of {name}"))
    }
}

/// The arrows are read from names, so a crate of the project keeps its name.
fn renamed(path: &str, text: &str, found: &[Dependency<'_>]) -> Vec<Finding> {
    found
        .iter()
        .filter(|dependency| is_ours(dependency.package) && dependency.key != dependency.package)
        .map(|dependency| {
            let remedy = format!("call {} by its own name", dependency.package);
            Finding::new(path, line_of(text, dependency.key), remedy)
        })
        .collect()
}

/// The core is compiled without std and without unsafe code.
fn purity(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if path == "crates/forebay-core/src/lib.rs" {
        for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
            if !text.lines().any(|line| line == attribute) {
                findings.push(Finding::new(path, 1, format!("add the line {attribute}")));
            }
        }
    }
    if path.starts_with("crates/forebay-core/src/") {
        let mut before = "";
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.starts_with("extern crate std") && before != "#[cfg(test)]" {
                let remedy = "std is for tests; write #[cfg(test)] on the line above";
                findings.push(Finding::new(path, index + 1, remedy));
            }
            before = line;
        }
    }
    findings
}

/// One dependency of a manifest.
#[derive(Debug)]
struct Dependency<'a> {
    /// The name that the manifest gives it.
    key: &'a str,
    /// The name that it has.
    package: &'a str,
    for_tests: bool,
}

/// Every dependency of a manifest, in whichever table.
fn dependencies(manifest: &Table) -> Vec<Dependency<'_>> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let workspace = manifest.get("workspace").and_then(Value::as_table);
    let mut found = Vec::new();
    for holder in [manifest].into_iter().chain(workspace).chain(targets) {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let section_table = holder.get(section).and_then(Value::as_table);
            for (key, value) in section_table.into_iter().flatten() {
                let package = value.get("package").and_then(Value::as_str).unwrap_or(key);
                found.push(Dependency { key, package, for_tests: section == "dev-dependencies" });
            }
        }
    }
    found
}

fn is_ours(name: &str) -> bool {
    name == "forebay" || name.starts_with("forebay-")
}

/// The line that names a dependency: `key = ...`, `key.workspace = ...` or `[dependencies.key]`.
fn line_of(text: &str, key: &str) -> usize {
    let names_it = |line: &str| {
        let line = line.trim_start().trim_start_matches('"');
        let ends = |rest: &str| rest.starts_with([' ', '.', '=', '"']);
        line.strip_prefix(key).is_some_and(ends)
            || (line.starts_with('[') && line.trim_end().ends_with(&format!("dependencies.{key}]")))
    };
    text.lines().position(names_it).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        let findings = arrows(&format!("crates/{name}/Cargo.toml"), text);
        findings
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.remedy))
            .collect()
    }

    #[test]
    fn arrows_of_the_table_are_drawn() {
        for this in CRATES {
            for other in CRATES {
                for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
                    let text = format!("[{kind}]\n{}.workspace = true\n", other.name);
                    let expected = usize::from(!this.sees.contains(&other.name));
                    assert_eq!(found(this.name, &text).len(), expected, "{this:?}: {text}");
                }
            }
        }
    }

    #[test]
    fn siblings_do_not_meet_in_any_spelling() {
        let remedy = "forebay-sim may not see forebay-host; remove the dependency";
        for (line, text) in [
            (2, "[dependencies]\nforebay-host = { path = \"../forebay-host\" }"),
            (2, "[dependencies]\n\"forebay-host\".workspace = true"),
            (1, "[dependencies.forebay-host]\nworkspace = true"),
            (3, "[target.'cfg(unix)'.dependencies]\n\nforebay-host.workspace = true"),
            (1, "[target.'cfg(unix)'.dev-dependencies.forebay-host]\nworkspace = true"),
        ] {
            assert_eq!(found("forebay-sim", text), [format!("{line}: {remedy}")], "{text}");
        }
    }

    #[test]
    fn the_python_package_sees_what_runs_in_virtual_time() {
        let text = "[dependencies]\nforebay-sim.workspace = true\nforebay-host.workspace = true";
        let findings = arrows("python/Cargo.toml", text);
        let remedy = "forebay-python may not see forebay-host; remove the dependency";
        assert_eq!(findings, [Finding::new("python/Cargo.toml", 3, remedy)]);
    }

    #[test]
    fn a_crate_of_the_project_keeps_its_name() {
        let text = "[workspace.dependencies]\nx = { path = \"x\", package = \"forebay-host\" }";
        let findings = arrows("Cargo.toml", text);
        assert_eq!(findings, [Finding::new("Cargo.toml", 2, "call forebay-host by its own name")]);
    }

    #[test]
    fn the_core_depends_on_no_crate_outside_its_tests() {
        let outside = "[dependencies]\nserde = \"1\"\n[dev-dependencies]\ninsta = \"1\"";
        let expected = format!("2: {CORE} depends on nothing; write what it needs of serde");
        assert_eq!(found(CORE, outside), [expected]);
        assert_eq!(found("forebay-live", outside), [""; 0]);
    }

    #[test]
    fn an_unknown_crate_needs_its_row() {
        assert_eq!(found("forebay-extra", "").len(), 1);
        assert_eq!(arrows("fuzz/Cargo.toml", "[dependencies]\nforebay-core = \"1\""), []);
    }

    #[test]
    fn what_is_not_toml_is_said() {
        assert!(found("forebay", "[dependencies")[0].starts_with("1: not TOML: "));
    }

    #[test]
    fn the_core_has_its_attributes() {
        let lib = "crates/forebay-core/src/lib.rs";
        assert_eq!(purity(lib, "//! A.\n#![no_std]\n#![forbid(unsafe_code)]\n"), []);
        let findings = purity(lib, "//! A.\n// #![no_std]\n#![forbid(unsafe_code)]\n");
        assert_eq!(findings, [Finding::new(lib, 1, "add the line #![no_std]")]);
        assert_eq!(purity("crates/forebay-sim/src/lib.rs", "//! A.\n"), []);
    }

    #[test]
    fn the_core_takes_std_for_tests_only() {
        let path = "crates/forebay-core/src/time.rs";
        assert_eq!(purity(path, "#[cfg(test)]\nextern crate std;\n"), []);
        let findings = purity(path, "extern crate alloc;\nextern crate std as s;\n");
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
    }
}
