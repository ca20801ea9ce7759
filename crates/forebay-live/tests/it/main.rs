//! The running kernel, from outside of the crate.

mod crash;
mod daemon;
mod model;
mod steering;
