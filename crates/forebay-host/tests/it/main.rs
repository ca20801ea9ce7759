//! Real bytes through the engine: files, failures, edges, devices and tasks.

mod access;
mod access_errors;
mod block_device;
mod edges;
mod failures;
mod mount;
mod mount_ahead;
mod mount_stat;
mod mount_support;
mod mount_xattrs;
mod serve;
mod serve_probes;
mod serve_reattach;
mod serve_shrink;
mod support;
mod tasks;
mod truth;
mod writes;
