//! Arguments of the commands that examine the running kernel.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_live::journal::FIXES_FOLDER;
use forebay_report::units::within;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Check a recorded machine: a folder with its proc and sys; features that need a test on the
    /// machine are unknown
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

/// Arguments of `advise`.
#[derive(Debug, Args)]
pub(crate) struct Advise {
    /// Watch the machine first, to learn what processes read and what devices can do
    #[arg(long, value_name = "DURATION", value_parser = within("1s", "1h"))]
    pub(crate) watch: Option<Duration>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Read a recorded machine: a folder with its proc and sys
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Show the knob changes of the remedies of a finding (`ID`) or a device, ask for confirmation,
    /// and make them; by default those of all findings. The changes stay until `--undo` or a
    /// restart. Exit code 1 if nothing was changed
    #[arg(long, value_name = "ID|DEVICE", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["json", "root", "record"])]
    pub(crate) fix: Option<String>,
    /// With `--fix`: do not ask for confirmation
    #[arg(long, requires = "fix")]
    pub(crate) yes: bool,
    /// Revert the changes of `--fix`
    #[arg(long, conflicts_with_all = ["watch", "json", "root", "record", "fix"])]
    pub(crate) undo: bool,
    /// The folder of the journal of `--fix`
    #[arg(long, value_name = "DIR", default_value = FIXES_FOLDER)]
    pub(crate) state: PathBuf,
    /// Record what `advise` reads of this machine into a new folder, and print nothing else
    #[arg(long, value_name = "DIR", conflicts_with_all = ["watch", "json", "root"])]
    pub(crate) record: Option<PathBuf>,
}
