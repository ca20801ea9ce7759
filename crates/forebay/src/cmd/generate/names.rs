//! The names that a shell offers for an argument: papers, machines, policies, parameters.

use std::collections::BTreeSet;

use clap::builder::{PossibleValue, PossibleValuesParser, Str};
use clap::{Arg, Command};
use forebay_core::control::Controller;
use forebay_core::dispatch::Dispatch;
use forebay_core::elevator::Elevator;
use forebay_core::flush::Flush;
use forebay_core::packed::Fill;
use forebay_core::policy::Slot;
use forebay_core::readahead::Readahead;
use forebay_core::reclaim::Reclaim;
use forebay_core::throttle::Throttle;
use forebay_sim::machine::Machine;
use forebay_sim::paper::PAPERS;

/// The commands with names instead of free text. This is only for completions: the parser accepts
/// files and parameters too.
pub(super) fn known(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.mut_args(|arg| with_names(&name, arg)).mut_subcommands(known)
}

fn with_names(command: &str, arg: Arg) -> Arg {
    let value = arg.get_value_names().and_then(|names| names.first());
    let names: Vec<String> = match (arg.get_id().as_str(), value.map(Str::as_str)) {
        ("paper", _) => PAPERS.iter().map(|paper| paper.name.to_owned()).collect(),
        ("policy", Some("NAME")) => of_slot::<dyn Fill>("").collect(),
        ("name", _) if command == "machines" => Machine::names().map(str::to_owned).collect(),
        (_, Some("NAME|FILE")) => Machine::names().map(str::to_owned).collect(),
        (_, Some("SLOT=NAME" | "SLOT=A,B,C")) => {
            let mut all = policies();
            // A server has no queue of its own.
            all.retain(|policy| command != "serve" || !policy.starts_with("elevator="));
            all
        }
        (_, Some("KEY=VALUE")) => parameters(),
        _ => return arg,
    };
    arg.value_parser(PossibleValuesParser::new(names.into_iter().map(|name| {
        // A program that prints completions ends then.
        PossibleValue::new(&*name.leak())
    })))
}

fn policies() -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    all.extend(of_slot::<dyn Readahead>("readahead="));
    all.extend(of_slot::<dyn Flush>("flush="));
    all.extend(of_slot::<dyn Controller>("controller="));
    all.extend(of_slot::<dyn Throttle>("throttle="));
    all.extend(of_slot::<dyn Reclaim>("reclaim="));
    all.extend(of_slot::<dyn Elevator>("elevator="));
    all.extend(of_slot::<dyn Dispatch>("dispatch="));
    all
}

/// The policies of a slot, and each parameter of each.
fn of_slot<T: Slot + ?Sized>(slot: &str) -> impl Iterator<Item = String> {
    T::policies().iter().flat_map(move |policy| {
        let name = format!("{slot}{}", policy.name);
        let parameters = policy.parameters.iter().map(|one| format!("{name}:{}=", one.name));
        let parameters: Vec<String> = parameters.collect();
        [name].into_iter().chain(parameters)
    })
}

/// The parameters of all machines, each once.
fn parameters() -> Vec<String> {
    let machines = Machine::names().filter_map(|name| Machine::builtin(name).ok());
    let keys = |machine: Machine| -> Vec<String> {
        machine.parameters().map(|parameter| format!("{}=", parameter.key)).collect()
    };
    machines.flat_map(keys).collect::<BTreeSet<_>>().into_iter().collect()
}
