//! Counters that threads increment and another process reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A struct of counters, whose names and values can be listed.
macro_rules! counters {
    ($(#[$of:meta])* $struct:ident: $($(#[$about:meta])* $name:ident,)*) => {
        $(#[$of])*
        #[derive(Debug, Default)]
        pub(crate) struct $struct {
            $($(#[$about])* pub(crate) $name: $crate::counters::Counter,)*
        }

        impl $struct {
            /// Names and values, in the order of the declaration.
            pub(crate) fn pairs(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.read()),)*]
            }
        }
    };
}

pub(crate) use counters;
