//! The running kernel, from outside of the crate.

mod crash;
mod model;
mod random;
mod steering;
