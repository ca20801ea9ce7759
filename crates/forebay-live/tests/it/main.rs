//! The running kernel, on devices that the tests make themselves.

mod disk;
mod trace;
