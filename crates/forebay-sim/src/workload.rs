//! Workloads: the calls of the tasks of a run.
//!
//! A workload is a sequence of requests that depends on nothing but its own description, so that
//! two policies are compared under the same questions. One file below this one holds one program:
//!
//! | file | program |
//! | --- | --- |
//! | [`job`] | a fio job, with its pauses and its end |
//! | [`bonnie`] | bonnie 1.x: characters, blocks and seeks on one file |
//! | [`burst`] | a backup: many sequential writers, beside a light writer and a reader |
//! | [`company`] | none: tasks that compute or reread beside a measured one |
//! | `nfs_server` | none: threads that carry out the requests of a burst's clients |
//! | [`overwrite`] | random writes over a hot file |
//! | [`faults`] | none: pages of mapped files, touched by a trace |
//! | [`marks`] | none: what a workload notes down for its caller |
//! | [`reads`] | any sequence of calls; sequential and interleaved readers |
//! | [`sysbench`] | the random reads of sysbench 0.4 `fileio`, request by request |

pub mod bonnie;
pub mod burst;
pub mod company;
pub mod faults;
pub mod job;
mod libc;
pub mod marks;
mod nfs_server;
pub mod overwrite;
pub mod reads;
pub mod sysbench;
