//! The running kernel, from outside of the crate.

mod crash;
mod full_disk;
mod killed;
mod machine;
mod model;
mod random;
mod steering;
