//! The requests of all devices, by id.

use alloc::vec::Vec;

use crate::elevator::Queued;
use crate::io::{Request, RequestKind};
use crate::time::Instant;
use crate::units::{DeviceId, FrameId, PAGE_SECTORS, RequestId};

use super::bio::Bio;
use crate::dispatch::Handling;

/// A request that waits or is at its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) request: Request,
    /// The frame of its first page, if it is known.
    pub(super) frame: Option<FrameId>,
    pub(super) ahead: bool,
    /// Whether it went through the elevator, which wants to hear of its end.
    pub(super) queued: bool,
    /// Since when it is at the device.
    pub(super) given: Option<Instant>,
}

/// Requests by id; a free slot holds nothing.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Option<Held>>,
    free: Vec<RequestId>,
}

impl Held {
    /// As an elevator sees it.
    pub(super) fn as_queued(&self) -> Queued {
        let Request { id, sector, pages, kind, task, .. } = self.request;
        let (write, sync) = match kind {
            RequestKind::Read => (false, true),
            RequestKind::Write | RequestKind::Inode => (true, false),
            RequestKind::DurableWrite | RequestKind::Flush => (true, true),
        };
        Queued { id, sector, sectors: pages * PAGE_SECTORS, write, sync, task }
    }
}

impl Table {
    /// Makes a request of a bio.
    pub(super) fn add(&mut self, device: DeviceId, bio: &Bio, handling: Handling) -> RequestId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            RequestId(self.slots.len() as u32 - 1)
        });
        let request = bio.request(id, device, handling);
        let Bio { frame, ahead, .. } = *bio;
        let held = Held { request, frame, ahead, queued: false, given: None };
        self.slots[id.index()] = Some(held);
        id
    }

    pub(super) fn get(&self, id: RequestId) -> &Held {
        self.slots[id.index()].as_ref().expect("a request is held until it is done")
    }

    pub(super) fn get_mut(&mut self, id: RequestId) -> &mut Held {
        self.slots[id.index()].as_mut().expect("a request is held until it is done")
    }

    /// Takes a request out; its id is free.
    pub(super) fn remove(&mut self, id: RequestId) -> Held {
        let slot = self.slots.get_mut(id.index()).expect("a request is done after its submission");
        let held = slot.take().expect("a request is done once");
        self.free.push(id);
        held
    }

    /// Every request that waits or is at its device.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.slots.iter().flatten()
    }
}
