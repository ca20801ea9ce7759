//! The running, stock Linux kernel: its I/O path seen, judged, steered, and put back.
//!
//! ```text
//!   /proc, /sys ---> tree ---> machine    what there is: devices, mounts, knobs
//!                        \---> signal     what happens, once a second
//!   tracefs -----------> trace -> pattern what each file is being asked
//!                                   |
//!                  advise <---------+---------> steer   what should be otherwise
//!                  (findings)                     |
//!                                               knob    the one place that writes,
//!                                              journal  and can take it back
//! ```
//!
//! Reading needs no privilege beyond that of the file that is read, and changes nothing. Whatever
//! is written goes through one function that has put the old value on record before. Nothing here
//! needs BPF, kprobes or another daemon.

pub mod advise;
pub mod daemon;
pub mod journal;
pub mod knob;
pub mod machine;
pub mod model;
pub mod number;
pub mod pattern;
pub mod policy_file;
pub mod process;
pub mod prove;
pub mod rights;
pub mod scope;
pub mod signal;
pub mod steer;
pub mod trace;
pub mod tree;
pub mod undo;
pub mod view;
