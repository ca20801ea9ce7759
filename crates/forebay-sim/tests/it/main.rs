//! Tests of the simulator as its users see it.

mod fio_exact;
mod fio_jobs;
