//! One file per command.

pub(crate) mod advise;
pub(crate) mod doctor;
pub(crate) mod first;
pub(crate) mod generate;
pub(crate) mod help;
pub(crate) mod image;
pub(crate) mod machines;
pub(crate) mod mount;
pub(crate) mod overlay;
pub(crate) mod plan;
pub(crate) mod policies;
pub(crate) mod probe;
pub(crate) mod record;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod sweep;
pub(crate) mod trace;
pub(crate) mod tune;
pub(crate) mod unmount;
pub(crate) mod watch;
