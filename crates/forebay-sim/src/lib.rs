//! Virtual time: modelled machines, devices and workloads around the one I/O path.

pub mod device;
pub mod machine;
pub mod rng;
pub mod stats;
pub mod workload;
