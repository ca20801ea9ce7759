//! Files that become dirty: which one it is, and whether it is likely to be removed before it is
//! written.
//!
//! The event that wakes us comes when a file is created, a little before the process has the
//! descriptor by which it is found, so that a file that is not found is looked for again.

use std::path::Path;

use forebay_core::time::Instant;

use super::{Daemon, World};
use crate::number::DevNumber;
use crate::steer::User;
use crate::steer::temporary::SparedBytes;
use crate::trace::DirtiedInode;

impl Daemon<'_> {
    /// Takes in the files that became dirty since the last call, and looks for those that were not
    /// found then. Whether there were any.
    pub(super) fn note_dirtied(&mut self, world: &mut impl World, now: Instant) -> bool {
        let mut dirtied: Vec<DirtiedInode> = Vec::new();
        world.dirtied(&mut |file| {
            if dirtied.len() >= DIRTIED_MAX {
                dirtied.remove(0);
            }
            dirtied.push(file);
        });
        let is_any = !dirtied.is_empty();
        for DirtiedInode { file, thread } in dirtied {
            let Some(process) = world.process(thread) else { continue };
            if process != std::process::id() && self.unfound.len() < DIRTIED_MAX {
                self.unfound.insert(User { file, process }, LOOKS);
            }
        }
        for (user, looks) in std::mem::take(&mut self.unfound) {
            if !self.note_file(world, now, user) && looks > 1 {
                self.unfound.insert(user, looks - 1);
            }
        }
        is_any
    }

    /// Whether a file was found, or need not be.
    fn note_file(&mut self, world: &mut impl World, now: Instant, user: User) -> bool {
        let Some(device) = self.machine.device_of(user.file.dev) else { return true };
        if !self.has_waiters(device.number, now) {
            // It gets no limit, whatever is written.
            return true;
        }
        let Some(found) = world.written_file(&user) else { return false };
        let mounts = self.machine.mounts_on(device).map(|mount| mount.point.as_path());
        let holds = |point: &&Path| found.path.starts_with(point);
        let mount = mounts.filter(holds).max_by_key(|point| point.as_os_str().len());
        self.temporaries.record(now, device.number, user, mount, found);
        true
    }

    /// What temporary files may keep dirty on a device.
    pub(super) fn spared(
        &mut self,
        world: &mut impl World,
        now: Instant,
        of: DevNumber,
    ) -> SparedBytes {
        if self.limits.drops(of) {
            self.temporaries.learn(now, of);
        }
        self.temporaries.spared(now, of, |user, found| world.file_now(user, found))
    }
}

/// Files that became dirty at once: the latest ones.
const DIRTIED_MAX: usize = 32;

/// How often a file is looked for: while the processors are busy, a process may stop for long
/// between the creation of a file and its descriptor.
const LOOKS: u32 = 9;
