//! `forebay policies`: what can fill each slot.

use std::io;

use anyhow::Result;
use forebay_core::readahead::POLICIES;

use crate::args::Policies;
use crate::table::Table;

/// Prints the table of policies.
pub(crate) fn run(arguments: &Policies) -> Result<u8> {
    let columns = [
        ("slot", "slot"),
        ("name", "name"),
        ("summary", "what it does"),
        ("parameters", "parameters"),
        ("source", "source"),
    ];
    let mut table = Table::new("", &columns);
    for policy in POLICIES {
        let parameters = policy.parameters.iter();
        let parameters = parameters.map(|one| format!("{}={}", one.name, one.default));
        table.rows.push(vec![
            "readahead".into(),
            policy.name.into(),
            policy.summary.into(),
            parameters.collect::<Vec<_>>().join(",").into(),
            policy.source.into(),
        ]);
    }
    table.notes.push(
        "A policy is typed as NAME or NAME:PARAMETER=VALUE,...; what a device limits (max, io, \
         folios) it sets itself unless it is given. The limits shown are for a device of 128 KiB; \
         under simulate they grow and shrink with the machine's kernel.read_ahead_kb."
            .to_owned(),
    );
    table.print(arguments.format, &mut io::stdout().lock())?;
    Ok(0)
}
