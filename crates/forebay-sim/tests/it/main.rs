//! Tests of the simulator as its users see it.

mod allocations;
mod any_bytes;
mod burst;
mod fio_exact;
mod fio_jobs;
mod libcachesim;
