//! The running kernel: recorded, modelled, and on devices that the tests make themselves.

mod crash;
mod daemon;
mod disk;
mod full_disk;
mod killed;
mod machine;
mod model;
mod random;
mod steering;
mod trace;
