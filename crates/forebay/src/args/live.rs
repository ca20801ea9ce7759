//! What can be typed about the running kernel.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_live::journal::FIXES_FOLDER;

use super::duration::within;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Look at a recorded machine: a folder with its proc and sys; what it would have to be asked
    /// is unknown
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

/// Arguments of `advise`.
#[derive(Debug, Args)]
pub(crate) struct Advise {
    /// Watch the machine first: what processes read, and what devices can do
    #[arg(long, value_name = "DURATION", value_parser = within("1s", "1h"))]
    pub(crate) watch: Option<Duration>,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Read a recorded machine: a folder with its proc and sys
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Show the changes of knobs that the remedies of an advice (`ID`) or a device consist of, ask,
    /// and make them; without a name, of all. They stay until `--undo` or a restart. Exit code 1 if
    /// nothing was changed
    #[arg(long, value_name = "ID|DEVICE", num_args = 0..=1, default_missing_value = "",
          conflicts_with_all = ["json", "root", "record"])]
    pub(crate) fix: Option<String>,
    /// With `--fix`: do not ask
    #[arg(long, requires = "fix")]
    pub(crate) yes: bool,
    /// Put back what `--fix` has changed
    #[arg(long, conflicts_with_all = ["watch", "json", "root", "record", "fix"])]
    pub(crate) undo: bool,
    /// The folder of the journal of `--fix`
    #[arg(long, value_name = "DIR", default_value = FIXES_FOLDER)]
    pub(crate) state: PathBuf,
    /// Record what is read of this machine into a new folder, and say nothing else
    #[arg(long, value_name = "DIR", conflicts_with_all = ["watch", "json", "root"])]
    pub(crate) record: Option<PathBuf>,
}
