//! Traces as their tools write them, damaged in every way, and written again.

mod abuse;
mod any_trace;
mod compressed;
mod fio;
mod formats;
mod round_trip;
mod samples;
mod sorted;
