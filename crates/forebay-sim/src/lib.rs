//! Virtual time: modelled machines, devices and workloads around the one I/O path.

pub mod checked;
mod cpu;
pub mod device;
pub mod machine;
pub mod price;
pub mod rng;
pub mod stats;
pub mod swarm;
pub mod workload;
pub mod world;
