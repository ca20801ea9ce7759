//! The policies of each slot, from the tables of the core.

use anyhow::{Result, bail};
use forebay_core::control::Controller;
use forebay_core::dispatch::Dispatch;
use forebay_core::elevator::Elevator;
use forebay_core::flush::Flush;
use forebay_core::packed::Fill;
use forebay_core::policy::{Parameter, Slot};
use forebay_core::readahead::Readahead;
use forebay_core::reclaim::Reclaim;
use forebay_core::throttle::Throttle;
use forebay_report::messages::Complaint;

use super::sheet::Sheet;
use crate::cmd::policies::NOTES;

pub(super) fn text(text: &mut Sheet) {
    text.lines(
        "A slot is a decision of the I/O path, and a policy makes that decision.\n\n\
         \x20 forebay simulate JOB --policy readahead=fixed:max=64\n\
         \x20 forebay simulate JOB --compare throttle=off,paced\n\
         \x20 forebay help policies SLOT                       the policies of one slot\n\
         \x20 forebay policies                                 a list of all",
    );
    SLOTS.iter().for_each(|(_, add)| add(text));
    text.lines("\n");
    for note in NOTES {
        text.paragraph("- ", note);
    }
}

/// The policies of one slot.
///
/// # Errors
/// No slot has the name.
pub(super) fn of_slot(name: &str) -> Result<Sheet> {
    let Some((_, add)) = SLOTS.iter().find(|(slot, _)| *slot == name) else {
        let slots = SLOTS.iter().map(|(slot, _)| *slot);
        bail!(Complaint::new(format!("no slot is named '{name}'")).nearest(name, slots));
    };
    let mut text = Sheet::default();
    add(&mut text);
    Ok(text)
}

/// Adds the policies of a slot to a text.
type AddPolicies = fn(&mut Sheet);

/// The slots by their names.
const SLOTS: [(&str, AddPolicies); 8] = [
    ("readahead", |text| slot::<dyn Readahead>(text, "which absent pages are read")),
    ("flush", |text| slot::<dyn Flush>(text, "when dirty pages are written, and how many")),
    ("controller", |text| {
        slot::<dyn Controller>(text, "how the flush rule's knobs follow the load");
    }),
    ("throttle", |text| slot::<dyn Throttle>(text, "how long a writer pauses")),
    ("reclaim", |text| slot::<dyn Reclaim>(text, "which pages are evicted when memory is short")),
    ("elevator", |text| slot::<dyn Elevator>(text, "in which order requests go to a device")),
    ("dispatch", |text| {
        slot::<dyn Dispatch>(text, "whether a request runs inline, or the caller sleeps");
    }),
    ("fill", |text| slot::<dyn Fill>(text, "which parts of a packed file are decoded, and when")),
];

fn slot<T: Slot + ?Sized>(text: &mut Sheet, decides: &str) {
    text.heading(&format!("{}: {decides}", T::NAME.to_uppercase()));
    for policy in T::policies() {
        text.name(policy.name);
        text.paragraph("    ", policy.summary);
        for parameter in policy.parameters {
            let label = format!("    {:<18}", parameter.name);
            text.paragraph(&label, &format!("{}; {}", parameter.summary, range(parameter)));
        }
        text.paragraph("    from ", policy.source);
    }
}

fn range(parameter: &Parameter) -> String {
    let Parameter { default, low, high, .. } = parameter;
    match (low, high, default) {
        (0, 1, 0) => "on or off, off".to_owned(),
        (0, 1, _) => "on or off, on".to_owned(),
        (low, &u64::MAX, default) => format!("from {low}, {default}"),
        (low, high, default) => format!("{low} to {high}, {default}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_found_by_the_name_that_is_typed() {
        for (name, _) in SLOTS {
            let text = of_slot(name).unwrap().screen();
            assert!(text.starts_with(&format!("{}: ", name.to_uppercase())), "{text}");
        }
        let error = of_slot("redahead").err().unwrap();
        assert_eq!(
            error.to_string(),
            "no slot is named 'redahead'\nhint: did you mean 'readahead'?"
        );
    }
}
