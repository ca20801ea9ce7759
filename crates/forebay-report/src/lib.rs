//! How Forebay shows what it has found: tables for the terminal and for programs, pages with
//! figures, messages with a way out, and files that are written whole or not at all.
//!
//! ```text
//!   Table --> text, Markdown, CSV, JSON        fitted to the screen
//!     '-----> Page <-- Figure, prose           one file of HTML, without a network
//!               '--> whole::write              renamed into its place
//!   Complaint --> error, hint                  on standard error
//! ```
#![forbid(unsafe_code)]

pub mod messages;
pub mod page;
pub mod screen;
pub mod table;
pub mod whole;
