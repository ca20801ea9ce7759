//! One verdict for each thing that Forebay asks of a machine.

use std::io;

use forebay_core::units::PAGE_SIZE;
use forebay_live::rights::Capability;
use rustix::io::Errno;

use super::facts::{Asked, Facts};

/// A feature, whether it is available, and what depends on it.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) what: &'static str,
    pub(super) state: State,
    /// The finding.
    pub(super) found: String,
    /// What Forebay does with it.
    pub(super) gives: &'static str,
    /// The one line that would bring it, if it is not there.
    pub(super) way: Option<String>,
    /// Commands that do not work without it.
    pub(super) all: &'static [&'static str],
    /// Commands that do less without it.
    pub(super) part: &'static [&'static str],
}

/// Whether it is available, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Yes,
    Partly,
    /// Not to be known, as of a recorded machine.
    Unknown,
    No,
}

impl State {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Partly => "partly",
            Self::Unknown => "unknown",
            Self::No => "no",
        }
    }
}

impl Check {
    pub(super) fn new(what: &'static str, state: State, found: impl Into<String>) -> Self {
        let found = found.into();
        Self { what, state, found, gives: "", way: None, all: &[], part: &[] }
    }

    /// There, or not.
    fn of(what: &'static str, is_there: bool, found: impl Into<String>) -> Self {
        Self::new(what, if is_there { State::Yes } else { State::No }, found)
    }

    fn gives(self, gives: &'static str) -> Self {
        Self { gives, ..self }
    }

    /// How to get it; none if it is available or unknown.
    fn way(self, way: impl Into<String>) -> Self {
        let is_wanted = matches!(self.state, State::No | State::Partly);
        Self { way: is_wanted.then(|| way.into()), ..self }
    }

    fn all(self, all: &'static [&'static str]) -> Self {
        Self { all, ..self }
    }

    fn part(self, part: &'static [&'static str]) -> Self {
        Self { part, ..self }
    }
}

/// All checks, in the order in which commands need them.
pub(super) fn all(facts: &Facts) -> Vec<Check> {
    let asked = facts.asked.as_ref();
    vec![
        kernel(facts),
        counters(facts),
        devices(facts),
        pressure(facts),
        tracepoints(asked),
        writeback(facts),
        knobs(asked),
        dirty_limits(facts),
        files_of_others(facts),
        descriptions(asked),
        fuse(asked),
        mounting(facts),
        for_others(facts),
        uring(facts),
    ]
}

fn kernel(facts: &Facts) -> Check {
    let version = facts.machine.version();
    let missing: Vec<&str> =
        SINCE.iter().filter(|(since, _)| version < *since).map(|(_, what)| *what).collect();
    let state = match missing.as_slice() {
        _ if version == (0, 0) => State::Unknown,
        [] => State::Yes,
        _ => State::Partly,
    };
    let found = match missing.as_slice() {
        _ if version == (0, 0) => "it does not say its version".to_owned(),
        [] => format!("Linux {}.{}", version.0, version.1),
        missing => format!("Linux {}.{}: no {}", version.0, version.1, missing.join(", no ")),
    };
    Check::new("kernel", state, found)
        .gives("tune, watch: what came with Linux 5.6, 6.2 and 6.18")
        .way("Linux 6.18 or later")
        .part(&["watch", "tune"])
}

/// What came with which version.
const SINCE: &[((u32, u32), &str)] = &[
    ((5, 6), "copies of descriptors"),
    ((6, 2), "dirty limits of single devices"),
    ((6, 18), "tracepoints of readahead"),
];

fn counters(facts: &Facts) -> Check {
    let found = match &facts.sample {
        Ok(_) => "/proc can be read".to_owned(),
        Err(why) => why.clone(),
    };
    Check::of("counters", facts.sample.is_ok(), found)
        .gives("advise, watch, tune: what happens at all")
        .way("mount -t proc proc /proc")
        .all(&["advise", "watch", "tune"])
}

fn devices(facts: &Facts) -> Check {
    let devices = &facts.machine.devices;
    let count = devices.iter().filter(|device| device.queue.is_some()).count();
    Check::of("devices", count > 0, format!("{count} block devices in /sys"))
        .gives("advise, tune: knobs as they stand")
        .way("mount -t sysfs sysfs /sys")
        .all(&["advise", "tune"])
        .part(&["watch"])
}

fn pressure(facts: &Facts) -> Check {
    let has = facts.sample.as_ref().is_ok_and(|sample| sample.io_pressure.is_some());
    let found = if has { "/proc/pressure/io can be read" } else { "no /proc/pressure/io" };
    Check::of("pressure (PSI)", has, found)
        .gives("watch: how long tasks stand still for storage")
        .way("boot with psi=1, or a kernel with CONFIG_PSI")
        .part(&["watch"])
}

fn tracepoints(asked: Option<&Asked>) -> Check {
    let what = "tracepoints";
    let check = match asked.map(|asked| &asked.events) {
        None => Check::new(what, State::Unknown, NOT_ASKED),
        Some(Ok(absent)) if absent.is_empty() => {
            Check::new(what, State::Yes, "readahead and writeback, all that are used")
        }
        Some(Ok(absent)) => {
            let found = format!("absent: {}", absent.join(", "));
            Check::new(what, State::Partly, found).way("Linux 6.18 or later has all of them")
        }
        Some(Err(error)) if error.is_denied() => {
            Check::new(what, State::No, "tracefs is not for this user").way(AS_ROOT)
        }
        Some(Err(error)) => Check::new(what, State::No, error.to_string())
            .way("a kernel with CONFIG_FTRACE; a container needs the host's tracefs"),
    };
    check.gives("watch: files and pauses; tune: windows of files").part(&["watch", "tune"])
}

fn writeback(facts: &Facts) -> Check {
    let what = "writeback by device";
    let is_mounted = facts.machine.mounts.iter().any(|mount| mount.kind == "debugfs");
    let is_sampled = facts.sample.as_ref().is_ok_and(|sample| !sample.bdis.is_empty());
    let opened = facts.asked.as_ref().map(|asked| asked.writeback.is_ok());
    let check = match (is_sampled, opened) {
        (true, _) => Check::new(what, State::Yes, "debugfs is mounted and can be read"),
        (false, None) => Check::new(what, State::Unknown, "no debugfs was recorded"),
        (false, Some(true)) => {
            Check::new(what, State::Partly, "debugfs is not mounted; tune opens its own")
                .way("mount -t debugfs debugfs /sys/kernel/debug")
        }
        (false, Some(false)) if is_mounted => {
            Check::new(what, State::No, "debugfs is not for this user").way(AS_ROOT)
        }
        (false, Some(false)) => {
            Check::new(what, State::No, "debugfs is not mounted, or not for this user")
                .way("as root: mount -t debugfs debugfs /sys/kernel/debug")
        }
    };
    check.gives("watch: unwritten data; tune: judges limits").part(&["watch", "tune"])
}

fn knobs(asked: Option<&Asked>) -> Check {
    let what = "knobs";
    let check = match asked.map(|asked| asked.knobs) {
        None => Check::new(what, State::Unknown, NOT_ASKED),
        Some(None) => Check::new(what, State::No, "no backing device in /sys")
            .way("mount -t sysfs sysfs /sys"),
        Some(Some(Ok(()))) => Check::new(what, State::Yes, "/sys/class/bdi can be written"),
        Some(Some(Err(Errno::ROFS))) => {
            Check::new(what, State::No, "sysfs is read-only, as in containers")
                .way("run it on the host")
        }
        Some(Some(Err(_))) => Check::new(what, State::No, "they are not for this user")
            .way("run as root; `forebay tune --dry-run` works without"),
    };
    check.gives("tune: all that it does").all(&["tune"])
}

fn dirty_limits(facts: &Facts) -> Check {
    let mut bdis = facts.machine.devices.iter().filter_map(|device| device.bdi.as_ref());
    let has = bdis.any(|bdi| bdi.strict_limit.is_some());
    let (is_there, found) = match (has, facts.machine.page_size == PAGE_SIZE) {
        (true, true) => (true, "strict_limit, max_ratio_fine".to_owned()),
        (true, false) => {
            let kib = facts.machine.page_size >> 10;
            (false, format!("pages of {kib} KiB, and limits are computed in 4 KiB"))
        }
        (false, _) => (false, "no strict_limit in /sys/class/bdi".to_owned()),
    };
    Check::of("dirty limits", is_there, found)
        .gives("tune: a limit for each slow device")
        .way("Linux 6.2 or later, with pages of 4 KiB")
        .part(&["tune"])
}

fn files_of_others(facts: &Facts) -> Check {
    let what = "files of others";
    let (Some(rights), Some(asked)) = (facts.rights, &facts.asked) else {
        return Check::new(what, State::Unknown, NOT_ASKED).gives(OTHERS).part(&["tune"]);
    };
    let scope = rights.ptrace_scope.unwrap_or(0);
    let name = Capability::SysPtrace.name();
    let check = match (&asked.copies, rights.has(Capability::SysPtrace), scope) {
        (Err(error), ..) => Check::new(what, State::No, format!("pidfd_getfd: {}", said(error)))
            .way("Linux 5.6 or later, and a container that allows pidfd_getfd"),
        (Ok(()), _, 3..) => Check::new(what, State::No, "kernel.yama.ptrace_scope is 3")
            .way("boot with a kernel.yama.ptrace_scope below 3"),
        (Ok(()), true, _) => Check::new(what, State::Yes, format!("pidfd_getfd, with {name}")),
        (Ok(()), false, 0) => {
            Check::new(what, State::Partly, format!("this user's own; no {name}")).way(AS_ROOT)
        }
        (Ok(()), false, _) => {
            let found = format!("children's alone; no {name}, ptrace_scope {scope}");
            Check::new(what, State::Partly, found).way(AS_ROOT)
        }
    };
    check.gives(OTHERS).part(&["tune"])
}

fn descriptions(asked: Option<&Asked>) -> Check {
    let what = "shared descriptions";
    let check = match asked.map(|asked| &asked.descriptions) {
        None => Check::new(what, State::Unknown, NOT_ASKED),
        Some(Ok(())) => Check::new(what, State::Yes, "kcmp tells them apart"),
        Some(Err(error)) => {
            let found = format!("kcmp: {}; processes are grouped by how they read", said(error));
            Check::new(what, State::Partly, found)
                .way("a kernel with CONFIG_KCMP, and a container that allows kcmp")
        }
    };
    check.gives("tune: one trial for each description").part(&["tune"])
}

fn fuse(asked: Option<&Asked>) -> Check {
    let what = "/dev/fuse";
    let check = match asked.map(|asked| &asked.mounts.device) {
        None => Check::new(what, State::Unknown, NOT_ASKED),
        Some(Ok(())) => Check::new(what, State::Yes, "it opens"),
        Some(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            Check::new(what, State::No, said(error)).way("as root: chmod 666 /dev/fuse")
        }
        Some(Err(error)) => Check::new(what, State::No, said(error))
            .way("modprobe fuse; a container needs --device /dev/fuse"),
    };
    check.gives("mount").all(&["mount"])
}

fn mounting(facts: &Facts) -> Check {
    let what = "mounting";
    let (Some(rights), Some(asked)) = (facts.rights, &facts.asked) else {
        return Check::new(what, State::Unknown, NOT_ASKED).gives(MOUNTING).all(&["mount"]);
    };
    let check = match (rights.has(Capability::SysAdmin), &asked.mounts.helper) {
        (true, _) => Check::new(what, State::Yes, Capability::SysAdmin.name()),
        (false, Some(helper)) => Check::new(what, State::Yes, format!("by {}", helper.display())),
        (false, None) => Check::new(what, State::No, "no fusermount3 that may mount")
            .way("as root: apt-get install fuse3"),
    };
    check.gives(MOUNTING).all(&["mount"])
}

fn for_others(facts: &Facts) -> Check {
    let what = "mounts for others";
    let (Some(rights), Some(asked)) = (facts.rights, &facts.asked) else {
        return Check::new(what, State::Unknown, NOT_ASKED).gives(FOR_OTHERS);
    };
    let check = match (rights.has(Capability::SysAdmin), asked.mounts.for_others) {
        (true, _) => Check::new(what, State::Yes, "root lets others in"),
        (false, true) => Check::new(what, State::Yes, "user_allow_other in /etc/fuse.conf"),
        (false, false) => Check::new(what, State::No, "no user_allow_other in /etc/fuse.conf")
            .way("as root: echo user_allow_other >> /etc/fuse.conf"),
    };
    check.gives(FOR_OTHERS)
}

fn uring(facts: &Facts) -> Check {
    let what = "io_uring";
    let check = match facts.asked.as_ref().map(|asked| &asked.uring) {
        None => Check::new(what, State::Unknown, NOT_ASKED),
        Some(Ok(())) => Check::new(what, State::Yes, "a ring was made and entered"),
        Some(Err(error)) if facts.uring_disabled > 0 => {
            let found =
                format!("{}; kernel.io_uring_disabled is {}", said(error), facts.uring_disabled);
            Check::new(what, State::No, found).way("as root: sysctl kernel.io_uring_disabled=0")
        }
        Some(Err(error)) => Check::new(what, State::No, said(error))
            .way("Linux 5.1 or later, and a container that allows io_uring"),
    };
    check
        .gives("serve, probe: many reads in flight without a thread for each")
        .part(&["serve", "probe"])
}

/// What the system said, without its number.
fn said(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

const NOT_ASKED: &str = "a recorded machine is not asked";
const AS_ROOT: &str = "run as root";
const OTHERS: &str = "tune: windows of open files of other users";
const MOUNTING: &str = "mount: images as folders";
const FOR_OTHERS: &str = "mount --allow-other without root";
