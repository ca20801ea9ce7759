//! Programs of others that build and check what we ship: found, or built from their source.
//!
//! Versions are pinned, because the tools' output is compared byte for byte. They are installed
//! below the target directory, so that `cargo clean` removes them and nothing outside changes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::process::{cargo, exit_code, find_program, output_of, target};

/// A program that cargo can install.
#[derive(Debug)]
pub(crate) struct Tool {
    /// Its name, which is the crate's too.
    name: &'static str,
    version: &'static str,
    /// Leaves out parts that are not needed and take long to build.
    arguments: &'static [&'static str],
}

impl Tool {
    /// The program, installed if it is missing.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        if let Some(found) = self.found() {
            return Ok(found);
        }
        let started = Instant::now();
        eprintln!("tool: {self}");
        let mut install = cargo();
        install.args(self.install()).arg("--quiet");
        // A separate target directory, which cargo removes: nothing in it is used again.
        install.env_remove("CARGO_TARGET_DIR");
        ensure!(exit_code(&mut install)? == 0, "{} cannot be installed", self.name);
        eprintln!("tool: {} built in {:.0} s", self.name, started.elapsed().as_secs_f64());
        Ok(self.own())
    }

    /// The program, if it is installed in this version.
    pub(crate) fn found(&self) -> Option<PathBuf> {
        let own = self.own();
        let own = own.is_file().then_some(own);
        own.or_else(|| find_program(self.name)).filter(|path| self.is_this(path))
    }

    fn is_this(&self, path: &Path) -> bool {
        // Subcommands of cargo expect their name first; those that do not, ignore it.
        let subcommand = self.name.strip_prefix("cargo-");
        let mut ask = Command::new(path);
        ask.args(subcommand).arg("--version");
        let said = output_of(&mut ask).ok().flatten().unwrap_or_default();
        said.split_whitespace().any(|word| word.trim_start_matches('v') == self.version)
    }

    fn own(&self) -> PathBuf {
        target().join("tools/bin").join(self.name)
    }

    /// The arguments of cargo to install it.
    fn install(&self) -> Vec<String> {
        let root = target().join("tools").display().to_string();
        let mut words = vec!["install", "--locked", "--root", &root, "--version", self.version];
        words.extend(self.arguments);
        words.push(self.name);
        words.into_iter().map(Into::into).collect()
    }
}

impl fmt::Display for Tool {
    /// The line that installs it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cargo {}", self.install().join(" "))
    }
}

/// Makes Debian packages from a manifest, with systemd's units and scripts as debhelper has them.
pub(crate) const DEB: Tool = Tool { name: "cargo-deb", version: "3.7.0", arguments: &[] };

/// Writes a bill of materials; kept by the project that keeps the format.
pub(crate) const CYCLONEDX: Tool =
    Tool { name: "cargo-cyclonedx", version: "0.5.9", arguments: &[] };

/// Licences, sources, duplicates and advisories of the dependencies.
pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", arguments: &[] };

/// Makes a book of Markdown; rust-lang's own. Without its server and its watcher.
pub(crate) const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    arguments: &["--no-default-features", "--features", "search"],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_prints_the_line_that_installs_it() {
        let line = DENY.to_string();
        assert!(line.starts_with("cargo install --locked --root /"), "{line}");
        assert!(line.ends_with("/tools --version 0.20.2 cargo-deny"), "{line}");
    }

    #[test]
    fn a_program_of_another_version_is_not_the_tool() {
        let other = Tool { name: "cargo", version: "0.0.0", arguments: &[] };
        assert_eq!(other.found(), None);
    }
}
