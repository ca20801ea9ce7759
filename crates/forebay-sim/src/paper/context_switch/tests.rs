//! The paper's experiments at small sizes.
