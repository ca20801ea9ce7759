//! Virtual time: modelled machines, devices and workloads around the one I/O path.

pub mod fio;
