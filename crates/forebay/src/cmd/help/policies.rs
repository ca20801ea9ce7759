//! The policies of each slot, from the tables that they are built by.

use forebay_core::control::Controller;
use forebay_core::dispatch::Dispatch;
use forebay_core::elevator::Elevator;
use forebay_core::flush::Flush;
use forebay_core::packed::Fill;
use forebay_core::policy::{Parameter, Slot};
use forebay_core::readahead::Readahead;
use forebay_core::throttle::Throttle;

use crate::cmd::policies::NOTES;
use crate::messages::paragraph;

pub(super) fn text() -> String {
    let mut text =
        "A slot is a question of the I/O path, and a policy is an answer to it.\n".to_owned();
    text += "\n  forebay simulate JOB --policy readahead=fixed:max=64\n";
    text += "  forebay simulate JOB --compare throttle=off,paced\n";
    text += "  forebay policies                                 the same as a table\n";
    slot::<dyn Readahead>(&mut text, "which absent pages come in");
    slot::<dyn Flush>(&mut text, "when dirty pages are written, and how many");
    slot::<dyn Controller>(&mut text, "how the flush rule's knobs follow the load");
    slot::<dyn Throttle>(&mut text, "how long a writer pauses");
    slot::<dyn Elevator>(&mut text, "in which order a device gets its requests");
    slot::<dyn Dispatch>(&mut text, "who runs while a device works");
    slot::<dyn Fill>(&mut text, "what is decoded of a packed file, and when");
    text.push('\n');
    for note in NOTES {
        text += &paragraph("- ", note);
    }
    text
}

fn slot<T: Slot + ?Sized>(text: &mut String, decides: &str) {
    *text += &format!("\n{}: {decides}\n", T::NAME.to_uppercase());
    for policy in T::policies() {
        *text += &format!("\n  {}\n", policy.name);
        *text += &paragraph("    ", policy.summary);
        for parameter in policy.parameters {
            let label = format!("    {:<18}", parameter.name);
            *text += &paragraph(&label, &format!("{}; {}", parameter.summary, range(parameter)));
        }
        *text += &paragraph("    from ", policy.source);
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
