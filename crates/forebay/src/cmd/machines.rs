//! `forebay machines`: the models, and one model's numbers with their sources.

use std::io;

use anyhow::Result;
use forebay_report::table::Table;
use forebay_sim::machine::Machine;

use crate::args::Machines;
use crate::choice;

/// Prints the machines, or one machine.
pub(crate) fn run(arguments: &Machines) -> Result<u8> {
    let table = match &arguments.name {
        Some(name) => numbers(&choice::machine(name, &[])?),
        None => names()?,
    };
    table.print(arguments.output.format(), &mut io::stdout().lock())?;
    Ok(0)
}

fn names() -> Result<Table> {
    let mut table = Table::new("", &[("name", "name"), ("summary", "what it is")]);
    for name in Machine::names() {
        table.rows.push(vec![name.into(), Machine::builtin(name)?.summary().into()]);
    }
    table.notes.push("`forebay machines NAME` lists a machine's numbers and their sources.".into());
    Ok(table)
}

fn numbers(machine: &Machine) -> Table {
    let columns = [
        ("key", "key"),
        ("value", "value"),
        ("low", "low"),
        ("high", "high"),
        ("unit", "unit"),
        ("source", "source"),
    ];
    let mut table = Table::new(machine.summary(), &columns);
    table.leave_first(&["low", "high"]);
    for parameter in machine.parameters() {
        table.rows.push(vec![
            parameter.key.into(),
            parameter.value.into(),
            parameter.low.into(),
            parameter.high.into(),
            parameter.unit.into(),
            parameter.source.clone().into(),
        ]);
    }
    let texts = machine.texts().map(|(key, value)| format!("{key} = \"{value}\""));
    table.notes.push(format!("Texts: {}.", texts.collect::<Vec<_>>().join(", ")));
    table.notes.push(
        "Sources: D datasheet or kernel source, P printed in a paper, M measured, C computed from \
         such numbers, A assumed."
            .to_owned(),
    );
    table
}
