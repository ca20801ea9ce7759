//! What a journal promises.
