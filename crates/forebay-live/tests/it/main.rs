//! The running kernel: recorded, modelled, and on devices that the tests make themselves.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod any_bytes;
mod broken;
mod crash;
mod daemon;
mod disk;
mod full_disk;
mod killed;
mod machine;
mod model;
mod pages;
mod random;
mod remedies;
mod sampler;
mod script;
mod steering;
mod trace;
mod traced;
mod turns;
