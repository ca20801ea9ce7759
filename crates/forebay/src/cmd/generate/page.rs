//! Pages of the manual: of a command, from the definition of the command line; of a topic of help,
//! from its text.
//!
//! ```text
//!   forebay.1  forebay-tune.1  forebay-tune-undo.1     NAME SYNOPSIS DESCRIPTION OPTIONS ...
//!   forebay-safety.7  forebay-units.7                  NAME, then the topic's own headings
//! ```

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::examples;
use super::synopsis::synopsis;
use crate::cmd::help::{TOPICS, Topic};

/// Where commands are in the manual.
pub(super) const COMMANDS_SECTION: &str = "1";

/// Where topics are.
pub(super) const TOPICS_SECTION: &str = "7";

/// The name of a command's page, without its section.
pub(super) fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// The name of a topic's page, without its section.
pub(super) fn topic_name(topic: &Topic) -> String {
    format!("forebay-{}", topic.name)
}

/// The page of a command.
pub(super) fn of_command(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).source(SOURCE).manual(MANUAL).date(NO_DATE);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    examples::sections(name(command)).to_writer(&mut page)?;
    if command.get_version().is_some() {
        topics().to_writer(&mut page)?;
        man.render_version_section(&mut page)?;
    } else {
        see_also().to_writer(&mut page)?;
    }
    Ok(whole(&String::from_utf8_lossy(&page)))
}

/// The page of a topic.
pub(super) fn of_topic(topic: &Topic) -> Vec<u8> {
    let name = topic_name(topic);
    let mut head = Roff::new();
    head.control("TH", [name.as_str(), TOPICS_SECTION, NO_DATE, SOURCE, MANUAL]);
    head.control("SH", ["NAME"]);
    head.text([roman(format!("{name} - {}", topic.about))]);
    // Names of files and options are not broken, and labels not stretched.
    head.control("ad", ["l"]);
    head.control("nh", []);
    let pages = [head, topic.sheet().page(), see_also()];
    whole(&pages.iter().map(Roff::render).collect::<String>())
}

/// A page of parts, each of which came with the begin of a page.
fn whole(parts: &str) -> Vec<u8> {
    let begin = Roff::new().render();
    (begin.clone() + &parts.replace(&begin, "")).into_bytes()
}

/// A line for each topic of help.
fn topics() -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["TOPICS"]);
    for topic in &TOPICS {
        section.control("TP", []);
        section.text([roman(format!("{}({TOPICS_SECTION})", topic_name(topic)))]);
        section.text([roman(topic.about)]);
    }
    section
}

fn see_also() -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["SEE ALSO"]);
    section.text([roman(format!("forebay({COMMANDS_SECTION})"))]);
    section
}

const SOURCE: &str = concat!("forebay ", env!("CARGO_PKG_VERSION"));

const MANUAL: &str = "Forebay manual";

/// Pages of one version are the same bytes whenever they are made. An argument that is empty would
/// not be one.
const NO_DATE: &str = " ";
