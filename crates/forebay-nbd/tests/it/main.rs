//! The protocol under bytes that were found by fuzzing, and under random ones.

mod corpus;
mod talk;
