//! Policies of the caller's own, which no table need have.

use std::fmt;
use std::sync::Arc;

use forebay_core::policy::{Slot, Spec};
use forebay_core::readahead::Readahead;
use forebay_core::reclaim::Reclaim;
use forebay_core::throttle::Throttle;

/// Makes a policy of a slot.
pub type MakePolicy<T> = Arc<dyn Fn() -> Box<T> + Send + Sync>;

/// What makes a policy, for each slot that takes one without a name. It replaces the slot's named
/// one.
#[derive(Clone, Default)]
pub struct OwnPolicies {
    /// Is called for each open file.
    pub readahead: Option<MakePolicy<dyn Readahead>>,
    /// Is called for each run.
    pub throttle: Option<MakePolicy<dyn Throttle>>,
    /// Is called for each run.
    pub reclaim: Option<MakePolicy<dyn Reclaim>>,
}

/// A policy of the caller's own, or else the named one.
pub(super) fn build<T: Slot + ?Sized>(own: Option<&MakePolicy<T>>, named: &Spec<T>) -> Box<T> {
    own.map_or_else(|| named.build(), |make| make())
}

impl fmt::Debug for OwnPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnPolicies")
            .field("readahead", &self.readahead.is_some())
            .field("throttle", &self.throttle.is_some())
            .field("reclaim", &self.reclaim.is_some())
            .finish()
    }
}
