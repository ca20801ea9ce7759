//! Whether two descriptors are of one open file description.
//!
//! Source:     kcmp(2): `KCMP_FILE` compares `struct file` of two descriptors of any two processes.
//! Behaviour:  descriptors that fork(2), dup(2) or `SCM_RIGHTS` copied are one description, with
//!             one window; files that were opened twice are two.
//! Differs:    nothing.
//! Not for:    kernels without `CONFIG_KCMP`, and processes that the caller may not trace: both are
//!             errors.
#![expect(unsafe_code, reason = "no safe wrapper of kcmp(2)")]

use std::io;

/// A descriptor of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) pid: u32,
    pub(crate) fd: u32,
}

/// Whether both are of one description.
///
/// # Errors
///
/// ENOSYS without `CONFIG_KCMP`, EPERM for processes that may not be traced, ESRCH and EBADF for
/// those that are gone.
pub(crate) fn is_same(one: Descriptor, other: Descriptor) -> io::Result<bool> {
    let number = |number: u32| libc::c_ulong::from(number);
    // SAFETY: the call takes five numbers, and reads and writes no memory of this process.
    let order = unsafe {
        libc::syscall(
            libc::SYS_kcmp,
            number(one.pid),
            number(other.pid),
            KCMP_FILE,
            number(one.fd),
            number(other.fd),
        )
    };
    match order {
        0 => Ok(true),
        1.. => Ok(false),
        ..0 => Err(io::Error::last_os_error()),
    }
}

/// `enum kcmp_type` of `include/uapi/linux/kcmp.h`.
const KCMP_FILE: libc::c_ulong = 0;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::process::Command;

    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

    use super::*;

    fn ours(file: &impl AsRawFd) -> Descriptor {
        Descriptor { pid: std::process::id(), fd: file.as_raw_fd().unsigned_abs() }
    }

    #[test]
    fn copies_are_one_description_and_a_second_open_is_another() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let one = File::open(file.path()).unwrap();
        let (copy, other) = (one.try_clone().unwrap(), File::open(file.path()).unwrap());
        assert!(is_same(ours(&one), ours(&copy)).unwrap(), "dup");
        assert!(!is_same(ours(&one), ours(&other)).unwrap(), "opened twice");
        let mut child = Command::new("sleep").arg("60").stdin(one).spawn().unwrap();
        let theirs = Descriptor { pid: child.id(), fd: 0 };
        let pid = Pid::from_child(&child);
        let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        // What another process passes on, as by SCM_RIGHTS.
        let passed: OwnedFd = pidfd_getfd(&process, 0, PidfdGetfdFlags::empty()).unwrap();
        let found = (is_same(theirs, ours(&passed)), is_same(theirs, ours(&other)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((found.0.unwrap(), found.1.unwrap()), (true, false));
        assert!(is_same(theirs, ours(&other)).is_err(), "it has ended");
    }
}
