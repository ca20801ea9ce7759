//! Knobs that stay as they are.
//!
//! Source:     `fixed`: the defaults of every kernel. `redhat` and `sol`: S. Park, T. Kim, H. Shin,
//!             "An adaptive buffer flush policy for Linux-based storage servers", table of the
//!             parameters; G. Mourani, "Securing and Optimizing Linux", for the whole line of
//!             `sol`.
//! Behaviour:  from the beginning to the end the flush rule's own knobs, or those that the
//!             distribution or the tuning guide wrote to /proc/sys/vm/bdflush.
//! Differs:    nothing. The paper gives three of the nine fields; that the others are those of the
//!             guide is taken from the guide.
//! Not for:    loads that change.

use alloc::boxed::Box;

use super::{Controller, Policy, Sample};
use crate::flush::bdflush_vector::Vector;
use crate::policy::Parameter;
use crate::writeback::Knobs;

/// The table's line without a preset.
pub(super) const POLICY: Policy = Policy {
    name: "fixed",
    summary: "the flush rule's own knobs, unchanged",
    source: "Forebay",
    parameters: &[],
    build: |_| Box::new(Fixed { preset: None }),
};

/// The table's line of the distribution.
pub(super) const REDHAT: Policy = Policy {
    name: "redhat",
    summary: "bdflush of Red Hat Linux 6.2: nfract 40, ndirty 500, interval 500",
    source: "Park, Kim, Shin",
    parameters: &[],
    build: |_| Box::new(Fixed { preset: Some(Vector::DEFAULT) }),
};

/// The table's line of the tuning guide.
pub(super) const SOL: Policy = Policy {
    name: "sol",
    summary: "bdflush of a tuning guide: nfract 100, ndirty 1200, interval 15",
    source: "Park, Kim, Shin; Mourani",
    parameters: &[Parameter {
        name: "age",
        default: 5_000,
        low: 3_000,
        high: 5_000,
        summary: "age_buffer in jiffies: 5000 in the guide, 3000 if the paper did not change it",
    }],
    build: |values| {
        let age = values.of("age");
        Box::new(Fixed { preset: Some(Vector([100, 1_200, 128, 512, 15, age, 500, 1_884, 2])) })
    },
};

#[derive(Debug)]
struct Fixed {
    preset: Option<Vector>,
}

impl Controller for Fixed {
    fn begin(&mut self, own: Knobs, _total: u64) -> Knobs {
        match self.preset {
            Some(vector) => Knobs { in_flight: own.in_flight, ..vector.knobs() },
            None => own,
        }
    }

    fn observes(&self) -> bool {
        false
    }

    fn observe(&mut self, _samples: &[Sample], knobs: Knobs) -> Knobs {
        knobs
    }
}

#[cfg(test)]
mod tests {
    use super::super::Spec;
    use crate::time::Duration;
    use crate::writeback::{Amount, Knobs};

    fn begin(spec: &str) -> Knobs {
        Spec::parse(spec).unwrap().build().begin(Knobs::LINUX, 1 << 20)
    }

    #[test]
    fn fixed_leaves_the_rules_own_knobs() {
        assert_eq!(begin("fixed"), Knobs::LINUX);
    }

    #[test]
    fn presets_are_what_was_written_to_bdflush() {
        let redhat = Knobs {
            background: Amount::Share(200_000),
            limit: Amount::Share(400_000),
            batch: Some(500),
            in_flight: Knobs::LINUX.in_flight,
            interval: Duration::from_secs(5),
            expire: Duration::from_secs(30),
            expire_new: Some(Duration::from_secs(5)),
        };
        assert_eq!(begin("redhat"), redhat);
        let sol = Knobs {
            background: Amount::Share(500_000),
            limit: Amount::Share(1_000_000),
            batch: Some(1_200),
            interval: Duration::from_millis(150),
            expire: Duration::from_secs(50),
            ..redhat
        };
        assert_eq!(begin("sol"), sol);
        assert_eq!(begin("sol:age=3000"), Knobs { expire: Duration::from_secs(30), ..sol });
    }
}
