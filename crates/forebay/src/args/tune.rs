//! Arguments of `tune`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use forebay_live::journal::STATE_FOLDER;
use forebay_live::profile::Profile;
use forebay_report::units::within;

/// Arguments of `tune`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Tune {
    #[command(subcommand)]
    pub(crate) what: Option<What>,
    #[command(flatten)]
    pub(crate) steer: Steer,
}

/// Subcommands of `tune`.
#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// Show the changes in effect, and the process that made them
    ///
    /// Exit code 1 if changes are left without a daemon, or if the journal is damaged, so that
    /// their state is unknown.
    Status(Status),
    /// Restore every changed value
    ///
    /// Asks a running `forebay tune` to end, which restores every value. Restores the values that a
    /// killed one has left. A value that another program has written since is not changed. Exit
    /// code 1 if a value could not be restored, or if the journal is damaged, so that the state is
    /// unknown; the damaged journal is kept beside the new one.
    Undo(Undo),
    /// Show the changes on record, the latest 256 KiB of them at least
    Log(Log),
    /// Name the profile that fits this machine, why, and what it sets
    ///
    /// The running programs decide: databases, file servers, desktops, and last whether the machine
    /// is virtual. Exit code 1 if no profile fits.
    Recommend(Recommend),
}

/// The location of the journal.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The folder of the journal; a folder in memory never waits for the device that is tuned
    #[arg(long, value_name = "DIR", default_value = STATE_FOLDER)]
    pub(crate) state: PathBuf,
    /// A folder with another `/proc` and `/sys` instead of those of this machine
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) root: Option<PathBuf>,
}

/// Arguments of the tuning itself.
#[derive(Debug, Args)]
pub(crate) struct Steer {
    /// Change nothing; print which changes would be made, and why, or at the end that there would
    /// have been none
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// End after this time, and restore every value: `90s`, `10min`, `2h`
    #[arg(long = "for", value_name = "DURATION", value_parser = within("10ms", "8760h"))]
    pub(crate) length: Option<Duration>,
    /// Tune only this
    #[arg(long, value_name = "SLOT", value_enum)]
    pub(crate) only: Option<Slot>,
    /// Never change this: a device by name or number (`sda`, `8:0`), or a process by number
    #[arg(long, value_name = "DEVICE|PID")]
    pub(crate) protect: Vec<String>,
    /// Tune only this: a process by number, a cgroup by path, a device by name or number
    #[arg(long, value_name = "PID|CGROUP|DEVICE")]
    pub(crate) scope: Vec<String>,
    /// Settings for a kind of machine; settings of `--policy` override them
    #[arg(long, value_name = "PROFILE", value_enum)]
    pub(crate) profile: Option<ProfileName>,
    /// A TOML file with limits and choices
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// The interval between two samples of the machine; by default that of the policy file, or 1s
    #[arg(long, value_name = "DURATION", value_parser = within("100ms", "60s"))]
    pub(crate) interval: Option<Duration>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// What can be tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Slot {
    /// Readahead windows of open files
    Readahead,
    /// Limits of dirty memory, device by device
    Writeback,
}

/// Names of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileName {
    /// Lookups of rows and keys, and commits
    Database,
    /// Whole files, read and written for clients
    FileServer,
    /// A desktop user: USB sticks, copies, program starts
    Desktop,
    /// A virtual machine whose disks have limits
    VmGuest,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Database => Self::Database,
            ProfileName::FileServer => Self::FileServer,
            ProfileName::Desktop => Self::Desktop,
            ProfileName::VmGuest => Self::VmGuest,
        }
    }
}

/// Arguments of `tune recommend`.
#[derive(Debug, Args)]
pub(crate) struct Recommend {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `tune status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Arguments of `tune undo`.
#[derive(Debug, Args)]
pub(crate) struct Undo {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// How long to wait for a running `forebay tune` to end
    #[arg(long, value_name = "DURATION", default_value = "30s",
          value_parser = within("10ms", "8760h"))]
    pub(crate) patience: Duration,
    /// Forget which knobs another program has written, so that they may be tuned again, and forget
    /// damaged journals, whose changes then stay
    #[arg(long)]
    pub(crate) forget: bool,
    /// Restore nothing while a `forebay tune` runs, which goes on; exit code 0
    #[arg(long, conflicts_with = "forget")]
    pub(crate) if_ended: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Arguments of `tune log`.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Only the changes at this time, with their results: `03:07`, `03:07:15`, or with a date,
    /// `2026-11-23 03:07`; in UTC, as in the log. Exit code 1 if nothing was changed
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) at: Option<String>,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// A time of day, perhaps with a date, as a prefix of the log's times.
fn moment(text: &str) -> Result<String, String> {
    let wrong = || format!("'{text}' is not a time such as 03:07, 03:07:15 or 2026-11-23 03:07");
    let shape = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0");
    let (date, time) = match text.rsplit_once(' ') {
        Some((date, time)) if shape(date) == "0000-00-00" => (format!("{date} "), time),
        Some(_) => return Err(wrong()),
        None => (String::new(), text),
    };
    // Hours of one digit, as people write them.
    let time = if shape(time).starts_with("0:") { format!("0{time}") } else { time.to_owned() };
    let is_time = ["00:00", "00:00:00"].contains(&shape(&time).as_str());
    let hour = time.split(':').next().and_then(|hour| hour.parse::<u32>().ok());
    if is_time && hour.is_some_and(|hour| hour < 24) {
        Ok(format!("{date}{time}"))
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_beginning_of_what_a_log_shows() {
        assert_eq!(moment("3:07"), Ok("03:07".to_owned()));
        assert_eq!(moment("23:07:15"), Ok("23:07:15".to_owned()));
        assert_eq!(moment("2026-11-23 03:07"), Ok("2026-11-23 03:07".to_owned()));
        for text in ["", "3", "24:00", "3:7", "2026-11-23", "2026-11-23T03:07", "é:07"] {
            assert!(moment(text).unwrap_err().contains("is not a time"), "{text}");
        }
    }

    #[test]
    fn profiles_are_typed_as_they_are_called() {
        let named = ProfileName::value_variants().iter().map(|name| {
            let typed = name.to_possible_value().unwrap().get_name().to_owned();
            (Profile::from(*name), typed)
        });
        let expected = Profile::ALL.map(|profile| (profile, profile.name().to_owned()));
        assert_eq!(named.collect::<Vec<_>>(), expected);
    }
}
