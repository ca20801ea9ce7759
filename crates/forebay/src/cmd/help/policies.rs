//! The policies of each slot, from the tables that they are built by.

use forebay_core::control::Controller;
use forebay_core::dispatch::Dispatch;
use forebay_core::elevator::Elevator;
use forebay_core::flush::Flush;
use forebay_core::packed::Fill;
use forebay_core::policy::{Parameter, Slot};
use forebay_core::readahead::Readahead;
use forebay_core::reclaim::Reclaim;
use forebay_core::throttle::Throttle;

use super::sheet::Sheet;
use crate::cmd::policies::NOTES;

pub(super) fn text(text: &mut Sheet) {
    text.lines(
        "A slot is a question of the I/O path, and a policy is an answer to it.\n\n\
         \x20 forebay simulate JOB --policy readahead=fixed:max=64\n\
         \x20 forebay simulate JOB --compare throttle=off,paced\n\
         \x20 forebay policies                                 the same as a table",
    );
    slot::<dyn Readahead>(text, "which absent pages come in");
    slot::<dyn Flush>(text, "when dirty pages are written, and how many");
    slot::<dyn Controller>(text, "how the flush rule's knobs follow the load");
    slot::<dyn Throttle>(text, "how long a writer pauses");
    slot::<dyn Reclaim>(text, "which pages leave when memory is short");
    slot::<dyn Elevator>(text, "in which order a device gets its requests");
    slot::<dyn Dispatch>(text, "who runs while a device works");
    slot::<dyn Fill>(text, "what is decoded of a packed file, and when");
    text.lines("\n");
    for note in NOTES {
        text.paragraph("- ", note);
    }
}

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
