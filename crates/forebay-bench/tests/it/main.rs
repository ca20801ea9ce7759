//! The benchmarks as their users meet them: tables, refusals, and that nothing stays behind.
//!
//! A transcript is compared with a file in `snapshots/`; `SNAPSHOTS=overwrite cargo test` writes
//! the files anew, and the difference is to be reviewed.

mod benchmarks;
mod live;
#[path = "../../../forebay/tests/it/page_cells.rs"]
mod page_cells;
#[expect(dead_code, reason = "it serves the tests of the command line too")]
#[path = "../../../forebay/tests/it/support.rs"]
mod support;

/// The program under test: its name and its path.
const PROGRAM: (&str, &str) = ("forebay-bench", env!("CARGO_BIN_EXE_forebay-bench"));
