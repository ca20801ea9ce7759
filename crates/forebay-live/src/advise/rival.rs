//! Other programs that set the same knobs.
//!
//! Source:     udev(7), sysctl.d(5), tuned-profiles(7), tlp(8)
//! Behaviour:  what two write, the later has; a rule of udev writes again at every event of its
//!             device. An administrator who changes a knob by hand has to know.
//! Differs:    nothing.
//! Not for:    judging whose value is better.

use std::collections::BTreeMap;

use super::{Claim, EffectBasis, Evidence, Finding, RemedyCost, Rule, Seen, Severity, Subject};

pub(super) const RULE: Rule = Rule {
    id: "rival-tuner",
    about: "another program or rule that sets knobs of the I/O path",
    find,
};

fn find(seen: &Seen) -> Vec<Finding> {
    let mut files: BTreeMap<&str, Vec<&Claim>> = BTreeMap::new();
    for claim in &seen.claims {
        files.entry(&claim.file).or_default().push(claim);
    }
    files.into_iter().map(|(file, claims)| finding(file, &claims)).collect()
}

fn finding(file: &str, claims: &[&Claim]) -> Finding {
    let owner = claims.first().map_or("", |claim| claim.owner.as_str());
    let shown = claims.iter().take(SHOWN_MAX);
    let mut evidence: Vec<Evidence> =
        shown.map(|claim| Evidence::word(&claim.knob, &claim.value)).collect();
    if claims.len() > SHOWN_MAX {
        evidence.push(Evidence::count("more knobs", (claims.len() - SHOWN_MAX) as u64, ""));
    }
    Finding {
        id: RULE.id,
        subject: Subject::File { path: file.to_owned() },
        severity: Severity::Note,
        summary: format!(
            "{owner} sets these knobs: a value written by hand does not last, and `forebay tune` \
             does not touch a knob that another program writes."
        ),
        evidence,
        gain: None,
        cost: RemedyCost::new(EffectBasis::NotMeasured, "the other program's values go"),
        remedy: vec![format!("change the values in {file}, or keep them there only")],
    }
}

/// Knobs that a page has room for.
const SHOWN_MAX: usize = 8;
