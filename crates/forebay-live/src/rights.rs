//! The rights of this process: user, capabilities, and whether files of others can be reached.
//!
//! Source:     proc(5) on `/proc/self/status`, capabilities(7), pidfd_getfd(2), and the kernel's
//!             documentation of Yama.
//! Behaviour:  the effective set counts, which is what the kernel asks for. A user namespace gives
//!             its root all capabilities within it; what they are worth outside is not known here.
//! Differs:    nothing.
//! Not for:    deciding: code that needs a right tries, and reports the kernel's answer.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use crate::kcmp::{self, Descriptor};
use crate::tree::Tree;

/// The rights of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The effective user's number.
    pub user: u32,
    /// The effective capabilities, a bit each.
    pub capabilities: u64,
    /// `kernel.yama.ptrace_scope`: 0 for users' own processes, 1 for children, 2 for
    /// administrators, 3 for no process; none without Yama, which is as 0.
    pub ptrace_scope: Option<u8>,
}

/// A capability that something here asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Descriptors of other users' processes.
    SysPtrace,
    /// Mounts, tracing, knobs.
    SysAdmin,
}

impl Rights {
    /// The rights of the process that asks; none if the kernel does not say.
    pub fn read(tree: &Tree) -> Option<Self> {
        let ptrace_scope = tree.text("/proc/sys/kernel/yama/ptrace_scope").ok();
        let ptrace_scope = ptrace_scope.and_then(|text| text.trim().parse().ok());
        let found = Self::parse(&tree.text("/proc/self/status").ok()?)?;
        Some(Self { ptrace_scope, ..found })
    }

    /// Whether the effective user is root.
    pub const fn is_root(self) -> bool {
        self.user == 0
    }

    /// Whether a capability is in effect.
    pub const fn has(self, capability: Capability) -> bool {
        self.capabilities & (1 << capability.number()) != 0
    }

    fn parse(status: &str) -> Option<Self> {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        // Real, effective, saved, of file systems.
        let user = field("Uid:")?.split_ascii_whitespace().nth(1)?.parse().ok()?;
        let capabilities = u64::from_str_radix(field("CapEff:")?.trim(), 16).ok()?;
        Some(Self { user, capabilities, ptrace_scope: None })
    }
}

impl Capability {
    /// Its name, as capabilities(7) has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
        }
    }

    /// `include/uapi/linux/capability.h`.
    const fn number(self) -> u32 {
        match self {
            Self::SysPtrace => 19,
            Self::SysAdmin => 21,
        }
    }
}

/// Whether the kernel gives copies of descriptors, tried on this process itself, which every user
/// may.
///
/// # Errors
///
/// Linux before 5.6, or a filter of system calls.
pub fn copies_descriptors() -> io::Result<()> {
    let process: OwnedFd = pidfd_open(getpid(), PidfdFlags::empty())?;
    pidfd_getfd(&process, process.as_raw_fd(), PidfdGetfdFlags::empty())?;
    Ok(())
}

/// Whether the kernel tells which descriptors are of one open file description, tried on this
/// process itself, which every user may.
///
/// # Errors
///
/// A kernel without `CONFIG_KCMP`, or a filter of system calls.
pub fn compares_descriptions() -> io::Result<()> {
    let process: OwnedFd = pidfd_open(getpid(), PidfdFlags::empty())?;
    let fd = process.as_raw_fd().unsigned_abs();
    let own = Descriptor { pid: std::process::id(), fd };
    kcmp::is_same(own, own).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_user_and_set_count() {
        let status =
            "Name:\tcat\nUid:\t1000\t0\t1000\t1000\nCapPrm:\t0\nCapEff:\t0000000000280000\n";
        let rights = Rights::parse(status).unwrap();
        assert!(rights.is_root());
        assert!(rights.has(Capability::SysPtrace) && rights.has(Capability::SysAdmin));
        let less = Rights::parse(&status.replace("280000", "200000")).unwrap();
        assert_eq!(
            [Capability::SysPtrace, Capability::SysAdmin].map(|it| less.has(it)),
            [false, true]
        );
        for broken in ["", "Uid:\t1\nCapEff:\t0\n", "Uid:\t1\t1\t1\t1\nCapEff:\tx\n"] {
            assert_eq!(Rights::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn this_process_has_rights_of_some_kind() {
        let rights = Rights::read(&Tree::machine()).unwrap();
        assert_eq!(rights.user, rustix::process::geteuid().as_raw());
    }
}
