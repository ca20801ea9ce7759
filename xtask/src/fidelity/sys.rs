//! The system calls that std lacks. The only unsafe code of these commands.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use forebay_core::units::{PAGE_SIZE, PageIndex};
use forebay_sim::plan::Advice;

/// A file mapped for reading.
#[derive(Debug)]
pub(super) struct Mapping {
    start: *mut libc::c_void,
    pages: usize,
}

impl Mapping {
    pub(super) fn new(file: &File, pages: u64) -> io::Result<Self> {
        let pages = usize::try_from(pages).map_err(io::Error::other)?;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced; the descriptor
        // is open.
        let start = unsafe {
            let (prot, flags) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(ptr::null_mut(), pages * PAGE_BYTES, prot, flags, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start, pages })
    }

    /// Reads one byte of the page.
    pub(super) fn touch(&self, page: PageIndex) {
        let page = usize::try_from(page).expect("a page of the mapping fits memory");
        assert!(page < self.pages, "only mapped pages are touched");
        // SAFETY: the page is inside the mapping and the file, which no other process changes.
        unsafe { ptr::read_volatile(self.start.cast::<u8>().add(page * PAGE_BYTES)) };
    }

    /// Which pages are in the page cache and up to date.
    pub(super) fn residency(&self) -> io::Result<Vec<bool>> {
        let mut flags = vec![0_u8; self.pages];
        // SAFETY: the range is the mapping, and there is a byte for each of its pages.
        let result =
            unsafe { libc::mincore(self.start, self.pages * PAGE_BYTES, flags.as_mut_ptr()) };
        checked(result)?;
        Ok(flags.into_iter().map(|flag| flag & 1 == 1).collect())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and `self` was its only name.
        let result = unsafe { libc::munmap(self.start, self.pages * PAGE_BYTES) };
        assert_eq!(result, 0, "a mapping can be taken away");
    }
}

/// Advises about the whole file.
pub(super) fn advise(file: &File, advice: Advice) -> io::Result<()> {
    let advice = match advice {
        Advice::Normal => libc::POSIX_FADV_NORMAL,
        Advice::Random => libc::POSIX_FADV_RANDOM,
        Advice::Sequential => libc::POSIX_FADV_SEQUENTIAL,
        Advice::WillNeed => libc::POSIX_FADV_WILLNEED,
        Advice::DontNeed => libc::POSIX_FADV_DONTNEED,
        Advice::NoReuse => libc::POSIX_FADV_NOREUSE,
    };
    // SAFETY: the call takes numbers only, and the descriptor is open.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) } {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// The file's pages in the page cache, up to date or not.
pub(super) fn cached_pages(file: &File) -> io::Result<u64> {
    // The call's arguments are a range (offset, length; a length of zero means the whole file)
    // and five counts, of which the first is that of the cached pages.
    let range = [0_u64; 2];
    let mut counts = [0_u64; 5];
    // SAFETY: both arrays have the layout of the call's structures and outlive it.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0)
    };
    checked(result)?;
    Ok(counts[0])
}

/// Whether this process may do everything.
pub(super) fn is_root() -> bool {
    // SAFETY: the call has no arguments and always succeeds.
    unsafe { libc::geteuid() == 0 }
}

fn checked(result: impl Into<i64>) -> io::Result<()> {
    if result.into() == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const PAGE_BYTES: usize = PAGE_SIZE as usize;

/// Of cachestat(2), the same on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;
