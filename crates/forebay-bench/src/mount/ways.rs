//! The contestants: our mount with each policy, other servers, the kernel; and their works.

use super::is_listed;
use super::process;
use super::set::Format;
use crate::args::MountWorkload as Workload;

/// How an image is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// By ourselves.
    Ours(Ours),
    /// By a server that stays in the foreground.
    Server(&'static str),
    /// By the kernel, over a loop device.
    Kernel {
        /// The loop device reads past the page cache.
        direct: bool,
    },
}

/// How our own mount is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ours {
    pub(super) policy: &'static str,
    /// The image is read past the page cache.
    pub(super) direct: bool,
    /// One start is recorded, and those that are measured are led by it.
    pub(super) profile: bool,
    /// One start is recorded, and the image is made anew, sorted by it.
    pub(super) sorted: bool,
}

/// One line of the table in each workload that it takes part in.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) name: String,
    pub(super) format: Format,
    pub(super) how: How,
}

impl Workload {
    /// Those that are measured in rounds, in the order of the table.
    pub(super) const ROUNDS: [Self; 12] = [
        Self::Faults,
        Self::FaultsDirect,
        Self::FaultsSlow,
        Self::Mapped,
        Self::Preads,
        Self::Preads4,
        Self::PreadsSlow,
        Self::Sequential,
        Self::Tree,
        Self::Tree4,
        Self::Start,
        Self::StartSlow,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Faults => "faults",
            Self::FaultsDirect => "faults-direct",
            Self::FaultsSlow => "faults-slow",
            Self::Mapped => "mapped",
            Self::Preads => "preads",
            Self::Preads4 => "preads-4",
            Self::PreadsSlow => "preads-slow",
            Self::Sequential => "sequential",
            Self::Tree => "tree",
            Self::Tree4 => "tree-4",
            Self::Start => "start",
            Self::StartSlow => "start-slow",
            Self::Pushes => "pushes",
            Self::Codec => "codec",
        }
    }

    /// How many processes do it.
    pub(super) fn processes(self) -> usize {
        match self {
            Self::Preads4 | Self::Tree4 => 4,
            Self::Faults
            | Self::FaultsDirect
            | Self::FaultsSlow
            | Self::Mapped
            | Self::Preads
            | Self::PreadsSlow
            | Self::Sequential
            | Self::Tree
            | Self::Start
            | Self::StartSlow
            | Self::Pushes
            | Self::Codec => 1,
        }
    }

    /// Whether a program of the image is started.
    pub(super) fn is_start(self) -> bool {
        matches!(self, Self::Start | Self::StartSlow)
    }

    /// Whether the image lies on the slow device.
    pub(super) fn is_slow(self) -> bool {
        matches!(self, Self::FaultsSlow | Self::PreadsSlow | Self::StartSlow)
    }
}

impl Way {
    /// Whether it takes part. Policies other than our default are compared where they matter: in
    /// the format of the targets, with one process.
    pub(super) fn takes_part(&self, workload: Workload) -> bool {
        let direct = workload == Workload::FaultsDirect;
        let is_peer = match self.how {
            How::Ours(ours) => !ours.direct && !ours.profile && ours.policy != "eager",
            How::Server(name) => name == SQUASHFUSE_LL,
            How::Kernel { .. } => false,
        };
        if workload == Workload::StartSlow {
            // Only images of our own writer can be sorted here.
            return self.is_ours() && self.format == Format::Cramfs;
        }
        if workload.is_slow() {
            return is_peer && self.format == Format::SquashZlib;
        }
        match self.how {
            How::Ours(Ours { profile: true, .. } | Ours { sorted: true, .. }) => {
                workload == Workload::Start
            }
            How::Ours(Ours { direct: is_direct, .. }) | How::Kernel { direct: is_direct }
                if is_direct || direct =>
            {
                is_direct && direct
            }
            How::Ours(Ours { policy, .. }) if policy != DEFAULT => match workload {
                Workload::Faults | Workload::Preads | Workload::Sequential | Workload::Start => {
                    true
                }
                Workload::FaultsDirect
                | Workload::FaultsSlow
                | Workload::Mapped
                | Workload::Preads4
                | Workload::PreadsSlow
                | Workload::Tree
                | Workload::Tree4
                | Workload::StartSlow
                | Workload::Pushes
                | Workload::Codec => false,
            },
            How::Ours(_) | How::Kernel { .. } | How::Server(_) => !direct,
        }
    }

    /// Whether it is one of ours.
    pub(super) fn is_ours(&self) -> bool {
        match self.how {
            How::Ours(_) => true,
            How::Server(_) | How::Kernel { .. } => false,
        }
    }

    fn ours(name: &str, format: Format, ours: Ours) -> Self {
        Self { name: name.to_owned(), format, how: How::Ours(ours) }
    }
}

/// Every way that this machine has for these formats, and why others are missing.
pub(super) fn all(formats: &[Format]) -> (Vec<Way>, Vec<String>) {
    let (mut ways, mut missing) = (Vec::new(), Vec::new());
    let kernel = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let plain = Ours { policy: DEFAULT, direct: false, profile: false, sorted: false };
    for &format in formats {
        if format != Format::Ext4 {
            ways.push(Way::ours(OURS, format, plain));
        }
        if format == Format::Cramfs {
            ways.push(Way::ours(REPLAY, format, Ours { profile: true, ..plain }));
            ways.push(Way::ours(SORTED, format, Ours { sorted: true, ..plain }));
        }
        if format == Format::SquashZlib {
            for &policy in POLICIES.iter().filter(|policy| **policy != DEFAULT) {
                let name = format!("{OURS} {policy}");
                ways.push(Way::ours(&name, format, Ours { policy, ..plain }));
            }
            ways.push(Way::ours(REPLAY, format, Ours { profile: true, ..plain }));
            for &policy in POLICIES {
                let name = format!("{OURS} {policy}");
                let name = if policy == DEFAULT { OURS } else { &name };
                ways.push(Way::ours(name, format, Ours { policy, direct: true, ..plain }));
            }
        }
        for &(server, package) in servers(format) {
            if process::find(server) {
                ways.push(Way { name: server.to_owned(), format, how: How::Server(server) });
            } else {
                let format = format.name();
                let what = format!("skip: {server} on {format}: apt-get install {package}");
                missing.push(what);
            }
        }
        if has_kernel(&kernel, format.kernel_name()) {
            let kernel =
                |direct| Way { name: KERNEL.to_owned(), format, how: How::Kernel { direct } };
            ways.push(kernel(false));
            if format == Format::SquashZlib || format == Format::Ext4 {
                ways.push(kernel(true));
            }
        } else {
            missing.push(format!("skip: the kernel has no {}", format.kernel_name()));
        }
    }
    if formats.contains(&Format::SquashZlib) {
        missing.push(
            "faults-direct: squashfuse has no way to read its image past the page cache; the \
             kernel does it by its loop device"
                .to_owned(),
        );
    }
    (ways, missing)
}

/// The servers that others wrote for a format, and their Debian packages.
pub(super) fn servers(format: Format) -> &'static [(&'static str, &'static str)] {
    match format {
        Format::SquashZlib | Format::SquashZstd => {
            &[(SQUASHFUSE_LL, "squashfuse"), ("squashfuse", "squashfuse")]
        }
        Format::Erofs => &[("erofsfuse", "erofsfuse")],
        Format::Ext4 | Format::Cramfs => &[],
    }
}

/// Whether a file system is in the list of the kernel; modules are in it once they are loaded.
fn has_kernel(list: &str, name: &str) -> bool {
    if is_listed(list, name) {
        return true;
    }
    let loaded = process::program("modprobe").args(["-q", name]).status();
    loaded.is_ok_and(|status| status.success())
        && is_listed(&std::fs::read_to_string("/proc/filesystems").unwrap_or_default(), name)
}

/// The policies of our mount.
pub(super) const POLICIES: &[&str] = &["eager", "off", "selective", DEFAULT];

/// The policy that the targets are about.
pub(super) const DEFAULT: &str = "selective-then-idle";

/// Our mount with [`DEFAULT`].
pub(super) const OURS: &str = "forebay";

/// Our mount led by a recorded start.
pub(super) const REPLAY: &str = "forebay replay";

/// Our mount of an image that is sorted by a recorded start.
pub(super) const SORTED: &str = "forebay sorted";

/// The server that the targets are about.
pub(super) const SQUASHFUSE_LL: &str = "squashfuse_ll";

/// A mount by the kernel.
pub(super) const KERNEL: &str = "kernel";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_a_row_of_its_own_in_each_workload() {
        let (ways, _) = all(&Format::ALL);
        for workload in Workload::ROUNDS {
            let part = ways.iter().filter(|way| way.takes_part(workload));
            let mut names: Vec<_> = part.map(|way| (way.format, way.name.clone())).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{workload:?}");
        }
    }

    #[test]
    fn a_replay_only_starts_and_a_direct_way_only_faults() {
        let (ways, _) = all(&[Format::SquashZlib]);
        let workloads = |way: &Way| -> Vec<Workload> {
            Workload::ROUNDS.into_iter().filter(|workload| way.takes_part(*workload)).collect()
        };
        for way in ways.iter().filter(|way| way.is_ours()) {
            let How::Ours(ours) = way.how else { continue };
            let found = workloads(way);
            match (ours.profile, ours.direct, ours.policy == DEFAULT) {
                (true, ..) => assert_eq!(found, [Workload::Start]),
                (_, true, _) => assert_eq!(found, [Workload::FaultsDirect]),
                (.., true) => assert_eq!(found.len(), Workload::ROUNDS.len() - 2),
                (.., false) if ours.policy == "eager" => assert_eq!(found.len(), 4),
                (.., false) => assert_eq!(found.len(), 6, "slow devices too"),
            }
        }
    }

    #[test]
    fn a_slow_start_is_plain_replayed_and_sorted() {
        let (ways, _) = all(&Format::ALL);
        let part = ways.iter().filter(|way| way.takes_part(Workload::StartSlow));
        let names: Vec<_> = part.map(|way| (way.format, way.name.as_str())).collect();
        assert_eq!(names, [OURS, REPLAY, SORTED].map(|name| (Format::Cramfs, name)));
    }

    #[test]
    fn the_last_word_of_a_line_is_the_file_system() {
        assert!(has_kernel("nodev\tproc\n\text4\n", "ext4"));
    }
}
