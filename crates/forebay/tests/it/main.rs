//! The command line as its users meet it: full transcripts, exit codes, limits.
//!
//! A transcript is compared with a file in `snapshots/`; `SNAPSHOTS=overwrite cargo test` writes
//! the files anew, and the difference is to be reviewed.

mod advise;
mod bad_jobs;
mod bad_machines;
mod bad_words;
mod doctor;
mod examples;
mod generated;
mod help;
mod image;
mod limits;
mod lists;
mod mount;
mod objects;
mod page;
mod page_cells;
mod pictures;
mod plan;
mod probe;
mod readme;
mod record;
mod reproduce;
mod run;
mod screens;
mod serve;
mod serve_ends;
mod serve_folder;
mod serve_limits;
mod serve_loop;
mod serve_overlay;
mod serve_remote;
mod serve_seen;
mod serve_sockets;
mod serve_tls;
mod simulate;
mod simulate_mount;
mod streams;
mod support;
mod sweep;
mod sweep_engines;
mod sweep_page;
mod trace;
mod tune;
mod tune_undo;
mod typed_jobs;
mod watch;

/// The program under test: its name and its path.
const PROGRAM: (&str, &str) = ("forebay", env!("CARGO_BIN_EXE_forebay"));
