//! Policy files for kinds of machines, and which of them fits one.

use std::collections::BTreeSet;
use std::fmt;

use crate::policy_file::{PolicyFile, PolicyFileError};
use crate::tree::Tree;

/// A policy file that comes with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Lookups and commits.
    Database,
    /// Whole files, read and written for others.
    FileServer,
    /// A person in front of the machine.
    Desktop,
    /// A virtual machine.
    VmGuest,
}

/// What tells the kind of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSigns {
    /// Commands of running processes.
    pub commands: BTreeSet<String>,
    /// Whether a hypervisor shows itself to the processor's users.
    pub is_guest: bool,
}

impl Profile {
    /// All of them, in the order in which they are recommended.
    pub const ALL: [Self; 4] = [Self::Database, Self::FileServer, Self::Desktop, Self::VmGuest];

    /// As it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::FileServer => "file-server",
            Self::Desktop => "desktop",
            Self::VmGuest => "vm-guest",
        }
    }

    /// The policy file.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Database => include_str!("profile/database.toml"),
            Self::FileServer => include_str!("profile/file-server.toml"),
            Self::Desktop => include_str!("profile/desktop.toml"),
            Self::VmGuest => include_str!("profile/vm-guest.toml"),
        }
    }

    /// What it says.
    pub fn policy(self) -> Result<PolicyFile, PolicyFileError> {
        PolicyFile::parse(self.text(), &format!("profile {}", self.name()))
    }

    /// Commands that speak for it, as the kernel cuts them: at most 15 bytes.
    const fn commands(self) -> &'static [&'static str] {
        match self {
            Self::Database => &[
                "postgres",
                "mysqld",
                "mariadbd",
                "mongod",
                "beam.smp",
                "redis-server",
                "valkey-server",
                "clickhouse-serv",
                "slapd",
                "etcd",
                "influxd",
                "cockroach",
            ],
            Self::FileServer => &["smbd", "nfsd", "rpc.mountd", "minio", "vsftpd", "proftpd"],
            Self::Desktop => &[
                "gnome-shell",
                "plasmashell",
                "kwin_wayland",
                "kwin_x11",
                "xfce4-session",
                "cinnamon",
                "mate-session",
                "sway",
                "Xorg",
                "Hyprland",
            ],
            Self::VmGuest => &[],
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl MachineSigns {
    /// The signs of a machine.
    pub fn read(tree: &Tree) -> Self {
        let names = tree.names("/proc").unwrap_or_default();
        let is_process = |name: &&String| name.bytes().all(|byte| byte.is_ascii_digit());
        let command = |name: &String| tree.text(&format!("/proc/{name}/comm")).ok();
        let commands = names.iter().filter(is_process).filter_map(command);
        let info = tree.text("/proc/cpuinfo").unwrap_or_default();
        let mut flags = info.lines().filter(|line| line.starts_with("flags"));
        Self {
            commands: commands.map(|command| command.trim().to_owned()).collect(),
            is_guest: flags.any(|line| line.split_ascii_whitespace().any(|it| it == "hypervisor")),
        }
    }
}

/// The profile that fits a machine, and why; none if nothing speaks for one.
pub fn recommend(signs: &MachineSigns) -> Option<(Profile, String)> {
    for profile in Profile::ALL {
        let known = profile.commands().iter().copied();
        let running: Vec<&str> = known.filter(|name| signs.commands.contains(*name)).collect();
        if !running.is_empty() {
            let verb = if running.len() == 1 { "runs" } else { "run" };
            return Some((profile, format!("{} {verb} here", running.join(", "))));
        }
    }
    let guest = "the machine is virtual, and no database, file server or desktop runs on it";
    signs.is_guest.then(|| (Profile::VmGuest, guest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recommended(commands: &[&str], is_guest: bool) -> Option<(&'static str, String)> {
        let commands = commands.iter().map(|name| (*name).to_owned()).collect();
        let found = recommend(&MachineSigns { commands, is_guest })?;
        Some((found.0.name(), found.1))
    }

    #[test]
    fn every_profile_is_a_policy_that_differs_from_the_defaults_and_from_the_others() {
        let policies = Profile::ALL.map(|profile| profile.policy().unwrap());
        for (place, policy) in policies.iter().enumerate() {
            assert_ne!(*policy, PolicyFile::default(), "{}", Profile::ALL[place]);
            assert!(!policies[..place].contains(policy), "{}", Profile::ALL[place]);
            assert!(policy.readahead && policy.writeback && policy.read_latency == 0);
            assert!((policy.within.is_empty(), policy.protect.is_empty()) == (true, true));
        }
        let [database, server, desktop, guest] = policies;
        assert!(database.controller.contains("limit_ms=500") && !database.stream_default);
        assert!(server.bounds.cap > database.bounds.cap && server.stream_default);
        assert!(desktop.limits.slow_seconds < PolicyFile::default().limits.slow_seconds);
        assert!(guest.interval > PolicyFile::default().interval);
    }

    #[test]
    fn what_runs_decides_before_where_it_runs() {
        let postgres = Some(("database", "postgres runs here".to_owned()));
        assert_eq!(recommended(&["systemd", "postgres", "Xorg"], true), postgres);
        let both = Some(("database", "postgres, mysqld run here".to_owned()));
        assert_eq!(recommended(&["mysqld", "postgres"], false), both);
        assert_eq!(recommended(&["smbd"], true).unwrap().0, "file-server");
        assert_eq!(recommended(&["gnome-shell"], false).unwrap().0, "desktop");
        assert_eq!(recommended(&["sshd"], true).unwrap().0, "vm-guest");
        assert_eq!(recommended(&["sshd", "postgresql"], false), None);
    }

    #[test]
    fn commands_are_no_longer_than_the_kernel_shows_them() {
        for name in Profile::ALL.iter().flat_map(|profile| profile.commands()) {
            assert!(name.len() <= 15, "{name}");
        }
    }

    #[test]
    fn signs_are_read_from_proc() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("proc");
        for (process, command) in [("1", "systemd"), ("77", "postgres"), ("self", "no process")] {
            std::fs::create_dir_all(proc.join(process)).unwrap();
            std::fs::write(proc.join(process).join("comm"), format!("{command}\n")).unwrap();
        }
        std::fs::write(proc.join("cpuinfo"), "flags\t\t: fpu hypervisor lahf_lm\n").unwrap();
        let signs = MachineSigns::read(&Tree::recorded(folder.path()).unwrap());
        let commands = ["postgres", "systemd"].map(str::to_owned).into();
        assert_eq!(signs, MachineSigns { commands, is_guest: true });
    }
}
