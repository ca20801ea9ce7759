//! Virtual time: modelled machines, devices and workloads around the one I/O path.
#![forbid(unsafe_code)]

pub mod checked;
mod cpu;
pub mod device;
pub mod fio;
pub mod machine;
pub mod packed;
pub mod paper;
pub mod plan;
pub mod price;
pub mod report;
pub mod rng;
pub mod scenario;
pub mod stats;
pub mod swarm;
pub mod workload;
pub mod world;
