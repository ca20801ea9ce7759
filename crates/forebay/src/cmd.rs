//! One file per command.

pub(crate) mod machines;
pub(crate) mod policies;
pub(crate) mod reproduce;
