//! Memory that threads hand to each other stays together.
#![expect(unsafe_code, reason = "the allocator is told something that has no safe call")]

/// Has all threads of this process allocate from four places, and large blocks from the kernel,
/// before any of them allocates.
///
/// By default glibc has eight places for each processor, and what is freed goes back to where it
/// came from. Blocks that one thread decodes are dropped by whichever makes room, so each place
/// grows to its own largest extent: 27 MiB beside a budget of 16, with four places 21, with two 19,
/// where two threads that decode wait for each other. Once a large block was freed, glibc takes
/// those of its size from the places too: with blocks of a megabyte and eight threads that came to
/// 46 to 50 MiB beside the budget, without to 32.
pub fn allocate_together() {
    #[cfg(target_env = "gnu")]
    for (what, value) in [(libc::M_ARENA_MAX, 4), (libc::M_MMAP_THRESHOLD, 256 << 10)] {
        // SAFETY: it takes two numbers and changes the allocator's settings under its lock. If it
        // does not know the first, nothing happens.
        unsafe { libc::mallopt(what, value) };
    }
}
