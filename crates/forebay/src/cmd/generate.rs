//! `forebay completions` and `forebay man`: what others need of the one definition of the command
//! line.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use forebay_live::input;
use forebay_report::messages::{Complaint, shown};
use forebay_report::whole;

use crate::args::{Arguments, Completions, Man, Shell};
use crate::cmd::help::{TOPICS, Topic};

mod examples;
mod names;
mod page;
mod synopsis;

/// Prints a shell's completions.
pub(crate) fn completions(arguments: &Completions) -> Result<u8> {
    let mut command = Arguments::command();
    command.build();
    // The parser lists only commands after `help`.
    let topics = TOPICS.iter().filter(|topic| command.find_subcommand(topic.name).is_none());
    let topic = |topic: &Topic| {
        let call = format!("forebay help {}", topic.name);
        Command::new(topic.name).about(topic.about).bin_name(call)
    };
    let topics: Vec<_> = topics.map(topic).collect();
    let mut command = names::known(command.mut_subcommand("help", |help| help.subcommands(topics)));
    let shell = match arguments.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "forebay", &mut text);
    io::stdout().lock().write_all(&text).context("cannot write the completions")?;
    Ok(0)
}

/// Writes a page for each command, and one for each topic of help.
pub(crate) fn man(arguments: &Man) -> Result<u8> {
    let folder = &arguments.folder;
    let cannot = || format!("cannot write to '{}'", shown(folder));
    fs::create_dir_all(folder).with_context(cannot)?;
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    commands(&command, folder, &mut pages).context("cannot make the pages")?;
    for topic in &TOPICS {
        let name = format!("{}.{}", page::topic_name(topic), page::TOPICS_SECTION);
        pages.push((folder.join(name), page::of_topic(topic)));
    }
    pages.iter().try_for_each(|(path, _)| is_free_or_page(path))?;
    pages.iter().try_for_each(|(path, page)| whole::write(path, page))?;
    Ok(0)
}

/// A file and its contents.
type Page = (PathBuf, Vec<u8>);

/// The pages of a command and of all below it.
fn commands(command: &Command, folder: &Path, pages: &mut Vec<Page>) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        commands(below, folder, pages)?;
    }
    let name = format!("{}.{}", page::name(command), page::COMMANDS_SECTION);
    pages.push((folder.join(name), page::of_command(command)?));
    Ok(())
}

/// Refuses an existing file that is no page of ours.
fn is_free_or_page(path: &Path) -> Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let text = if found.is_file() { input::text(path).ok() } else { None };
    if text.is_some_and(|text| text.contains("\n.TH forebay")) {
        return Ok(());
    }
    let what = format!("{}: it exists, and is no page of Forebay", shown(path));
    Err(Complaint::new(what).hint("name another folder, or remove it").into())
}
