//! The series: each mechanism as a commit on Debian's source, as `git am` takes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::hooks::{self, Patch};
use super::source::{self, Source};
use super::{build, hooks::apply};
use crate::process::{find_program, finish, output_of, root, say, target};

/// Writes the series and checks it. The exit code is 1 if `checkpatch.pl` says anything.
pub(super) fn run(to: Option<&Path>) -> Result<u8> {
    for program in ["git", "perl"] {
        ensure!(find_program(program).is_some(), "{program} is missing");
    }
    let source = source::provide()?;
    let patches: Vec<Patch> =
        hooks::read_patches()?.into_iter().filter(|patch| !patch.lab_only).collect();
    let own = target().join("kernel/patches");
    if to.is_none() && own.exists() {
        fs::remove_dir_all(&own)?;
    }
    let to = to.map_or(own, Path::to_owned);
    ensure!(patches_in(&to)?.is_empty(), "{} has patches already", to.display());
    for folder in [to.clone(), target().join("kernel")] {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let scratch = target().join("kernel/series");
    let series = write(&source, &patches, &scratch, &to)?;
    check_am(&source, &patches, &scratch, &series)?;
    let mut spoken = 0;
    for path in &series {
        let said = checkpatch(&source, path)?;
        let verdict = if said.is_empty() { "accepted without a word" } else { "not accepted" };
        say(&format!("{}: {verdict}", path.display()))?;
        if !said.is_empty() {
            say(&said)?;
            spoken += 1;
        }
    }
    covers(&to)?;
    fs::remove_dir_all(&scratch)?;
    say(&format!(
        "{} patches for linux-source-6.12 {}; git am takes them; {spoken} of them have remarks",
        series.len(),
        source.version
    ))?;
    Ok(u8::from(spoken > 0))
}

/// The patches that lie in a folder, which need not be there.
fn patches_in(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            found.push(path);
        }
    }
    Ok(found)
}

/// Commits the patches one after another, and has git format them.
fn write(source: &Source, patches: &[Patch], scratch: &Path, to: &Path) -> Result<Vec<PathBuf>> {
    begin(source, patches, scratch)?;
    for count in 1..=patches.len() {
        let patch = &patches[count - 1];
        put(scratch, &hooked(source, &patches[..count])?)?;
        for file in &patch.files {
            put_one(scratch, file, &build::ours_text(file)?)?;
        }
        let message =
            format!("{}\n\n{}\n\nSigned-off-by: {}\n", patch.subject, patch.body, author()?);
        git(scratch, &["add", "-A"])?;
        git(scratch, &["commit", "-q", "-m", &message])?;
    }
    let folder = fs::canonicalize(to)?;
    let folder = folder.to_str().context("the folder is no text")?;
    let written = git(scratch, &["format-patch", "-o", folder, "--root", "base..HEAD"])?;
    Ok(written.lines().map(PathBuf::from).collect())
}

/// A repository of the files that the patches change, as Debian has them.
fn begin(source: &Source, patches: &[Patch], scratch: &Path) -> Result<()> {
    if scratch.exists() {
        fs::remove_dir_all(scratch)?;
    }
    fs::create_dir_all(scratch)?;
    let files: BTreeSet<&str> =
        patches.iter().flat_map(|patch| &patch.hooks).map(|hook| hook.file.as_str()).collect();
    for file in files {
        put_one(scratch, file, &original(source, file)?)?;
    }
    git(scratch, &["init", "-q"])?;
    git(scratch, &["add", "-A"])?;
    git(scratch, &["commit", "-q", "-m", "base"])?;
    git(scratch, &["tag", "base"]).map(drop)
}

/// Makes `git am` apply the series to a fresh repository; the result must be the committed one.
fn check_am(source: &Source, patches: &[Patch], scratch: &Path, series: &[PathBuf]) -> Result<()> {
    let tree = git(scratch, &["rev-parse", "HEAD^{tree}"])?;
    begin(source, patches, scratch)?;
    let mut arguments = vec!["am", "-q"];
    for path in series {
        arguments.push(path.to_str().context("the folder is no text")?);
    }
    git(scratch, &arguments)?;
    let applied = git(scratch, &["rev-parse", "HEAD^{tree}"])?;
    ensure!(tree == applied, "git am makes another tree than the hooks do");
    Ok(())
}

fn hooked(source: &Source, patches: &[Patch]) -> Result<BTreeMap<String, String>> {
    apply(patches, |file| original(source, file))
}

/// A file of Linux as Debian has it.
fn original(source: &Source, file: &str) -> Result<String> {
    let kept = source.orig().join(file);
    let path = if kept.is_file() { kept } else { source.tree().join(file) };
    fs::read_to_string(&path)
        .with_context(|| format!("this source has no {file}; is this another release?"))
}

fn put(folder: &Path, files: &BTreeMap<String, String>) -> Result<()> {
    files.iter().try_for_each(|(file, text)| put_one(folder, file, text))
}

fn put_one(folder: &Path, file: &str, text: &str) -> Result<()> {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The signer: git's configuration, which `git am` and `checkpatch.pl` compare with the author.
fn author() -> Result<String> {
    let ask = |key| output_of(crate::process::command("git").args(["config", key]));
    let name = ask("user.name")?.unwrap_or_else(|| "Forebay".into());
    let address = ask("user.email")?.unwrap_or_else(|| "forebay@localhost.localdomain".into());
    Ok(format!("{name} <{address}>"))
}

/// Runs git in a repository, signing and hooks of its user aside.
fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let author = author()?;
    let (name, address) = author.split_once(" <").context("an author has an address")?;
    let address = address.trim_end_matches('>');
    let mut git = Command::new("git");
    git.current_dir(folder).args(["-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"]);
    for (role, value) in
        [("AUTHOR_NAME", name), ("AUTHOR_EMAIL", address), ("COMMITTER_NAME", name)]
    {
        git.env(format!("GIT_{role}"), value);
    }
    git.env("GIT_COMMITTER_EMAIL", address);
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_DATE"), "2024-11-17T22:15:08Z");
    }
    Ok(finish(git.args(arguments))?.trim_end().to_owned())
}

/// The output of `checkpatch.pl --strict` for a patch.
fn checkpatch(source: &Source, patch: &Path) -> Result<String> {
    let mut perl = Command::new("perl");
    perl.current_dir(source.tree()).arg("scripts/checkpatch.pl");
    let output = perl.args(["--strict", "--terse", "--no-summary", "--color=never"]).arg(patch);
    let output = output.output().context("cannot run perl")?;
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// Copies the cover letters to the patches.
fn covers(to: &Path) -> Result<()> {
    let folder = root().join("kernel/cover");
    for entry in fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_patches_of_others_is_told_apart() {
        let folder = std::env::temp_dir().join(format!("forebay-series-{}", std::process::id()));
        assert!(patches_in(&folder).unwrap().is_empty());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("notes.txt"), "").unwrap();
        assert!(patches_in(&folder).unwrap().is_empty());
        let theirs = folder.join("0001-theirs.patch");
        fs::write(&theirs, "").unwrap();
        let found = patches_in(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [theirs]);
    }
}
