//! Tuning with the typed options and the policy file, until a signal ends it.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use forebay_core::time::Duration;
use forebay_core::units::PAGE_SIZE;
use forebay_image::Time;
use forebay_live::daemon::{Daemon, Live, Notify};
use forebay_live::knob::{Steering, Terms, sentences};
use forebay_live::machine::{Device, Kind, Machine};
use forebay_live::number::DevNumber;
use forebay_live::policy_file::{PolicyFile, PolicyFileError};
use forebay_live::profile::Profile;
use forebay_live::scope::{self, Named, Scope};
use forebay_live::signal::Sampler;
use forebay_live::trace::{self, Tracer, Wakeup};
use forebay_live::tree::Tree;
use forebay_report::messages::{self, Complaint, note};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::low_level::pipe;

use crate::NO;
use crate::args::tune::{Slot, Steer};
use crate::choice;

/// Tunes until a signal, or until its time is over.
pub(super) fn run(arguments: &Steer) -> Result<u8> {
    let policy = policy(arguments)?;
    let tree = super::tree(&arguments.place)?;
    let machine = Machine::read(&tree);
    let scope = scope(arguments, &policy, &machine, &tree)?;
    let stop = stop().context("cannot wait for signals")?;
    if !arguments.dry_run {
        may_write(&machine, &scope, &tree)?;
    }
    let steering = match arguments.dry_run {
        true => None,
        false => Some(start(&tree, &arguments.place.state, &policy)?),
    };
    let sampler = Sampler::of_levels(&tree).map_err(|error| {
        Complaint::new(error.to_string()).hint("`forebay doctor` says what this machine allows")
    })?;
    let tracer = tracer(arguments, &policy, &scope, &machine)?;
    missing_limits(&policy, &scope, &machine);
    let dry = match arguments.dry_run {
        true => {
            " (dry run: no knob is written; requests are seen by a tracefs instance of its own)"
        }
        false => "",
    };
    say(&format!("tuning {scope}{dry}"));
    let notify = Notify::new(
        env::var_os("NOTIFY_SOCKET").as_deref(),
        env::var("WATCHDOG_USEC").ok().as_deref(),
    )
    .context("NOTIFY_SOCKET")?;
    let mut say = |what: &str| say(what);
    let wakeup = wakeup(&scope, &machine);
    let mut world = Live::new(tree.clone(), sampler, tracer, wakeup, stop);
    let mut daemon =
        Daemon::new(scope, policy, tree, steering, &mut say).map_err(Complaint::from)?;
    let length = arguments.length.map(nanos);
    Ok(if daemon.run(&mut world, &notify, length) { 0 } else { NO })
}

/// One sentence on standard error, where a service manager's log takes it and adds the time; on a
/// terminal with the time of day, by the same clock as `tune log`.
fn say(what: &str) {
    let mut out = io::stderr().lock();
    let time = out.is_terminal().then(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(now.as_secs()).unwrap_or(0);
        format!("{} ", time_of_day(seconds))
    });
    // Standard error may be closed, and nothing depends on it.
    let _ = writeln!(out, "{}{what}", time.unwrap_or_default());
}

/// `14:28:45`, in UTC.
fn time_of_day(seconds: i64) -> String {
    let shown = Time { seconds, nanos: 0 }.to_string();
    shown.split_once(' ').map_or(String::new(), |(_, time)| time.to_owned())
}

fn policy(arguments: &Steer) -> Result<PolicyFile> {
    let base = match arguments.profile {
        None => PolicyFile::default(),
        Some(name) => Profile::from(name).policy().map_err(complaint)?,
    };
    let mut policy = match &arguments.policy {
        None => base,
        Some(path) => {
            let (text, file) = (choice::file(path)?, messages::shown(path));
            PolicyFile::parse_over(base, &text, &file).map_err(complaint)?
        }
    };
    messages::detail(|| {
        let profile = arguments.profile.map_or("no profile".to_owned(), |name| {
            format!("profile {}", Profile::from(name).name())
        });
        let file = arguments.policy.as_deref().map_or("no file".to_owned(), messages::shown);
        format!("policy: {profile}, {file}; what neither names has its default")
    });
    if let Some(interval) = arguments.interval {
        policy.interval = nanos(interval);
    }
    Ok(policy)
}

fn complaint(error: PolicyFileError) -> Complaint {
    let complaint = Complaint::new(error.to_string());
    match error {
        PolicyFileError::UnknownKey { nearest: Some(nearest), .. } => {
            complaint.hint(format!("did you mean '{nearest}'?"))
        }
        PolicyFileError::UnknownKey { nearest: None, known, .. } => {
            complaint.hint(format!("known are {}", known.join(", ")))
        }
        PolicyFileError::Syntax { .. } | PolicyFileError::BadValue { .. } => complaint
            .hint("examples/tune.toml has every key with its range; `forebay help policies`"),
    }
}

fn scope(arguments: &Steer, policy: &PolicyFile, machine: &Machine, tree: &Tree) -> Result<Scope> {
    let file = arguments.policy.as_deref().map(messages::shown).unwrap_or_default();
    let named = |typed: &[String], written: &[String], key: &str, flag: &str| {
        let key = format!("{file}: {key}");
        let words = typed.iter().map(|word| (word, flag));
        let words = words.chain(written.iter().map(|word| (word, key.as_str())));
        words.map(|(word, place)| name(word, place, machine, tree)).collect::<Result<Vec<_>>>()
    };
    let within = named(&arguments.scope, &policy.within, "scope.within", "--scope")?;
    let protected = named(&arguments.protect, &policy.protect, "scope.protect", "--protect")?;
    let only = arguments.only.map(|only| match only {
        Slot::Readahead => scope::Slot::Readahead,
        Slot::Writeback => scope::Slot::Writeback,
    });
    let scope = Scope::new(within, protected, only);
    if let Some(both) = scope.contradiction() {
        let what = format!("{both} is to be tuned and to be left alone");
        return Err(Complaint::new(what).hint("name it with --scope or with --protect").into());
    }
    Ok(scope)
}

fn name(word: &str, place: &str, machine: &Machine, tree: &Tree) -> Result<Named> {
    Named::parse(word, machine, tree).map_err(|unknown| {
        let complaint = Complaint::new(unknown.to_string()).at(place);
        let known: Vec<&str> = machine.devices.iter().map(|device| device.name.as_str()).collect();
        let hint = match messages::nearest(word, &known) {
            Some(name) => format!("did you mean '{name}'?"),
            None => {
                "it takes a process by number, a control group by path, or a device by name or \
                     number (MAJ:MIN)"
                    .to_owned()
            }
        };
        complaint.hint(hint).into()
    })
}

/// Becomes readable at the first signal that requests an end. Signals that would end the process
/// silently are included, so that no stray one leaves knobs changed.
fn stop() -> io::Result<OwnedFd> {
    let (read, write) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2] {
        pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read.into())
}

/// Refuses early where no knob could be written.
fn may_write(machine: &Machine, scope: &Scope, tree: &Tree) -> Result<()> {
    let mut within = machine.devices.iter().filter(|device| scope.has_device(device.number));
    let Some(device) = within.next() else { return Ok(()) };
    let dry = "`forebay tune --dry-run` says what would be done, and `forebay advise` what should";
    match super::knob_access(tree, device.number) {
        Err(Errno::ACCESS | Errno::PERM) => {
            let what = "tune writes knobs of the kernel, which only root may";
            Err(Complaint::new(what).hint(dry).into())
        }
        Err(Errno::ROFS) => {
            let what = format!(
                "the knobs of {} cannot be written: sysfs is read-only here, as it is in \
                 containers",
                device.name
            );
            Err(Complaint::new(what).hint(format!("run it on the host; {dry}")).into())
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn start(tree: &Tree, state: &Path, policy: &PolicyFile) -> Result<Steering> {
    // Looks come once a second, and one that is early must not be in vain.
    let (period, wbt) = (Duration::from_millis(900), policy.read_latency > 0);
    let terms = Terms { period, wbt, ..Terms::default() };
    let held = "`forebay tune status` shows which process runs it";
    let (steering, began) = Steering::start(tree, state, terms)
        .map_err(|error| super::start_complaint(&error, state, held))?;
    for found in &began.notes {
        note(&found.to_string());
    }
    sentences(&began.undone).iter().for_each(|what| say(what));
    Ok(steering)
}

/// The trace, or a note of the features that are missing without it.
fn tracer(
    arguments: &Steer,
    policy: &PolicyFile,
    scope: &Scope,
    machine: &Machine,
) -> Result<Option<Tracer>> {
    let mut devices = named(scope, machine);
    if devices.len() > trace::SCOPE_MAX {
        devices.clear();
    }
    let within = trace::Scope { devices, threads: Vec::new() };
    let without = "files are left alone, because what they are asked is not seen";
    match Tracer::new(&within) {
        Ok(tracer) if tracer.sees_files() => Ok(Some(tracer)),
        Ok(tracer) => {
            let absent = tracer.absent().join(", ");
            note(&format!("{without}: this kernel has no tracepoints {absent}"));
            Ok(Some(tracer))
        }
        Err(error) => {
            let files = scope.has(scope::Slot::Readahead) && policy.readahead;
            if arguments.only == Some(Slot::Readahead) {
                let complaint = Complaint::new(format!("{without}: {error}"));
                return Err(complaint.hint("readahead alone is steered by tracepoints").into());
            }
            if files {
                let limits = scope.has(scope::Slot::Writeback) && policy.writeback;
                let rest = match (limits, arguments.dry_run) {
                    (false, _) => "",
                    (true, true) => "; what would become of dirty limits is said all the same",
                    (true, false) => "; dirty limits are steered all the same",
                };
                note(&format!("{without}: {error}{rest}"));
            }
            Ok(None)
        }
    }
}

/// Wakes us when a file becomes dirty on a device that may get a dirty limit; where there is none,
/// limits stand from the first fsync on. Of more devices than the kernel can filter by, those that
/// were named or can be pulled out.
fn wakeup(scope: &Scope, machine: &Machine) -> Option<Wakeup> {
    let numbers = |is: &dyn Fn(&Device) -> bool| -> Vec<DevNumber> {
        let devices = machine.devices.iter().filter(|device| is(device));
        devices.flat_map(|it| [it.number].into_iter().chain(it.partitions.clone())).collect()
    };
    let mut devices = numbers(&|device| scope.has_limit_of(device) && device.size > 0);
    if devices.len() > trace::SCOPE_MAX {
        devices = numbers(&|device| {
            let removable = device.removable || device.kind == Kind::Mmc;
            scope.names_device(device.number) || (removable && scope.has_limit_of(device))
        });
    }
    if devices.is_empty() {
        return None;
    }
    Wakeup::new(&trace::Scope { devices, threads: Vec::new() }).ok()
}

/// Numbers of file systems on the devices that were named.
fn named(scope: &Scope, machine: &Machine) -> Vec<DevNumber> {
    let named = machine.devices.iter().filter(|device| scope.names_device(device.number));
    named.flat_map(|device| [device.number].into_iter().chain(device.partitions.clone())).collect()
}

/// Reports devices whose dirty limits are not tuned because the kernel has none for single devices.
fn missing_limits(policy: &PolicyFile, scope: &Scope, machine: &Machine) {
    let slot = scope::Slot::Writeback;
    if !policy.has(slot) || !scope.has(slot) {
        return;
    }
    if machine.page_size != PAGE_SIZE {
        let page = machine.page_size / 1_024;
        note(&format!(
            "dirty limits are left alone: they are computed in pages of 4 KiB, and this machine's \
             have {page} KiB"
        ));
        return;
    }
    let mut strict = machine.devices.iter().filter_map(|device| {
        let bdi = device.bdi.as_ref().filter(|_| scope.has_device(device.number))?;
        Some(bdi.strict_limit.is_some())
    });
    if strict.next() == Some(false) {
        note(
            "dirty limits are left alone: a limit of a device's own takes Linux 6.2, and one for \
             all devices would slow the fast ones",
        );
    }
}

fn nanos(length: std::time::Duration) -> Duration {
    Duration(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_is_that_of_the_log() {
        assert_eq!(time_of_day(1_795_403_235), "03:07:15");
    }
}
