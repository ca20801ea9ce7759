//! The running kernel, from outside of the crate.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod broken;
mod sampler;
