//! What the tests of all slots share: numbers that look random, and policies at their limits.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::policy::{Slot, Spec};

/// A small generator of numbers (splitmix64). A stream is named by its seed.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % bound
    }
}

/// Each policy of a slot with its defaults, and with each parameter at its ends and next to the
/// lower one, where that is valid. `with` precedes the parameter: `""`, or `"map=1,"`.
pub(crate) fn specs<T: Slot + ?Sized>(with: &str) -> Vec<String> {
    let mut specs = Vec::new();
    for policy in T::policies() {
        specs.push(String::from(policy.name));
        for parameter in policy.parameters {
            for value in [parameter.low, parameter.low + 1, parameter.high] {
                specs.push(format!("{}:{with}{}={value}", policy.name, parameter.name));
            }
        }
    }
    specs.retain(|spec| Spec::<T>::parse(spec).is_ok());
    specs
}
