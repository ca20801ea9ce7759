//! Workloads: what the tasks of a run ask for.
//!
//! A workload is a sequence of requests that depends on nothing but its own description, so that
//! two policies are compared under the same questions. One file below this one holds one program:
//!
//! | file | program |
//! | --- | --- |
//! | [`job`] | a fio job, with its pauses and its end |
//! | [`reads`] | any sequence of calls; sequential and interleaved readers |
//! | [`sysbench`] | the random reads of sysbench 0.4 `fileio`, request by request |

pub mod job;
pub mod reads;
pub mod sysbench;
