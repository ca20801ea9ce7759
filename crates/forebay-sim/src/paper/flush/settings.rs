//! The policies that the experiments compare, by the names of their rows.

use forebay_core::{control, flush, reclaim, throttle};

use crate::machine::Machine;
use crate::scenario::PolicySet;

/// A flush rule, its controller, a throttle, and the reclaim of their kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// As a row has it.
    pub(super) name: &'static str,
    flush: &'static str,
    controller: &'static str,
    throttle: &'static str,
    /// The reclaim of another kernel than the machine's.
    reclaim: Option<&'static str>,
}

/// What the paper measures first.
pub(super) const REDHAT: Setting = controlled("redhat");
/// The paper's second setting.
pub(super) const SOL: Setting = controlled("sol");
/// What the paper proposes.
pub(super) const DYN: Setting = controlled("dyn");
/// The proposal if its nfract stays at 98 or less: one read in fifty writes is enough.
pub(super) const DYN_CAPPED: Setting = controlled("dyn:cap=98");
/// The guide's settings, if the paper did not change the age of buffers.
pub(super) const SOL_YOUNG: Setting = controlled("sol:age=3000");
/// The proposal with a limit that leaves memory to others.
pub(super) const BOUNDED: Setting = controlled("dyn-bounded");
/// Ours: limits as seconds of drain.
pub(super) const DRAIN: Setting = controlled("drain");

/// The distribution's settings with one field of the others', and with the three that the proposal
/// has while only writes happen.
pub(super) const FACTORS: [Setting; 4] = [
    with_rule("nfract=100", "bdflush-2.2.19:nfract=100"),
    with_rule("ndirty=1200", "bdflush-2.2.19:ndirty=1200"),
    with_rule("interval=15", "bdflush-2.2.19:interval=15"),
    with_rule("nfract=100,ndirty=300", "bdflush-2.2.19:nfract=100,ndirty=300"),
];

/// Writeback and reclaim of today's kernels.
pub(super) const TODAY: [Setting; 4] = [
    today("linux-6, paced", "fixed", "paced"),
    today("linux-6, paced, drain", "drain", "paced"),
    today("linux-6, linux-3.18", "fixed", "linux-3.18"),
    today("linux-6, linux-3.18, drain", "drain", "linux-3.18"),
];

impl Setting {
    /// The policies themselves; readahead is the machine's.
    pub(super) fn policies(&self, machine: &Machine) -> PolicySet {
        let kernel = PolicySet::of(&machine.kernel()).expect("a paper's machine names policies");
        let known = "an experiment names its policies";
        PolicySet {
            flush: flush::Spec::parse(self.flush).expect(known),
            controller: control::Spec::parse(self.controller).expect(known),
            throttle: throttle::Spec::parse(self.throttle).expect(known),
            reclaim: self
                .reclaim
                .map_or(kernel.reclaim, |name| reclaim::Spec::parse(name).expect(known)),
            ..kernel
        }
    }
}

const fn controlled(name: &'static str) -> Setting {
    Setting { name, flush: "bdflush-2.2.19", controller: name, throttle: "off", reclaim: None }
}

const fn with_rule(name: &'static str, flush: &'static str) -> Setting {
    Setting { name, flush, controller: "fixed", throttle: "off", reclaim: None }
}

const fn today(name: &'static str, controller: &'static str, throttle: &'static str) -> Setting {
    Setting { name, flush: "linux-6", controller, throttle, reclaim: Some("linux-6.12") }
}
