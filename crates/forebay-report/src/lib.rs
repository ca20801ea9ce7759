//! How Forebay shows what it has found: tables for the terminal and for programs, pages with
//! figures, messages with a way out, and files that are written whole or not at all.
//!
//! ```text
//!   Table --> text, Markdown, CSV, JSON        fitted to the screen
//!     '-----> Page <-- Figure, prose           one file of HTML, without a network
//!               '--> whole::write              renamed into its place
//!   Complaint --> error, hint                  on standard error
//!   answer of a command --> exit code          the same for every program
//! ```
//!
//! What several programs take on their command lines is here too: flags and units.
#![forbid(unsafe_code)]

pub mod hints;
pub mod messages;
pub mod page;
pub mod program;
pub mod screen;
pub mod table;
pub mod units;
pub mod whole;
