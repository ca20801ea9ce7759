//! The requests of all devices, by id.

use alloc::vec::Vec;

use crate::elevator::Queued;
use crate::io::{Request, RequestKind};
use crate::time::Instant;
use crate::units::{CallId, DeviceId, FrameId, RequestId};

use super::bio::Bio;
use crate::dispatch::Handling;
use crate::io::NO_FILE;

/// A request that waits or is at its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) request: Request,
    /// The frame of its first page, if it is known.
    pub(super) frame: Option<FrameId>,
    pub(super) ahead: bool,
    /// Whether it went through the elevator, which has to be notified of its completion.
    pub(super) queued: bool,
    /// Since when it is at the device.
    pub(super) given: Option<Instant>,
    /// The calls that bypass the page cache and have a part in it.
    pub(super) owners: Option<Owners>,
}

/// A chain of calls, by the places of its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owners {
    first: u32,
    last: u32,
}

/// A call that has a part in a request, and the next one.
#[derive(Clone, Copy, Debug)]
struct Owner {
    call: CallId,
    next: Option<u32>,
}

/// Requests by id; a free slot holds nothing.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Option<Held>>,
    free: Vec<RequestId>,
    owners: Vec<Owner>,
    free_owners: Vec<u32>,
    /// The requests that calls have parts in, by the number of the call.
    parts: Vec<u32>,
}

impl Held {
    /// As an elevator sees it.
    pub(super) fn as_queued(&self) -> Queued {
        let Request { id, sector, sectors, kind, task, .. } = self.request;
        let (write, sync) = match kind {
            RequestKind::Read => (false, true),
            RequestKind::Write | RequestKind::Inode | RequestKind::Discard => (true, false),
            RequestKind::DurableWrite | RequestKind::Flush => (true, true),
        };
        Queued { id, sector, sectors, write, sync, task }
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
        let held = Held { request, frame, ahead, queued: false, given: None, owners: None };
        self.slots[id.index()] = Some(held);
        self.own(id, bio);
        id
    }

    /// The call of a bio that bypasses the page cache has a part in a request.
    pub(super) fn own(&mut self, id: RequestId, bio: &Bio) {
        let (NO_FILE, Some(call)) = (bio.file, bio.task) else { return };
        let owner = Owner { call, next: None };
        let place = match self.free_owners.pop() {
            Some(place) => {
                self.owners[place as usize] = owner;
                place
            }
            None => {
                self.owners.push(owner);
                self.owners.len() as u32 - 1
            }
        };
        if self.parts.len() <= call.index() {
            self.parts.resize(call.index() + 1, 0);
        }
        self.parts[call.index()] += 1;
        self.chain(id, Owners { first: place, last: place });
    }

    /// The calls that have parts in a request that is gone have them in another one.
    pub(super) fn chain(&mut self, id: RequestId, more: Owners) {
        let owners = match self.get(id).owners {
            Some(owners) => {
                self.owners[owners.last as usize].next = Some(more.first);
                Owners { first: owners.first, last: more.last }
            }
            None => more,
        };
        self.get_mut(id).owners = Some(owners);
    }

    /// Takes the first call out of a chain; returns whether it has no part in a request any more.
    pub(super) fn pop_owner(&mut self, owners: &mut Option<Owners>) -> Option<(CallId, bool)> {
        let Owners { first, last } = (*owners)?;
        let Owner { call, next } = self.owners[first as usize];
        self.free_owners.push(first);
        *owners = next.map(|next| Owners { first: next, last });
        let parts = &mut self.parts[call.index()];
        *parts -= 1;
        Some((call, *parts == 0))
    }

    /// How many calls have parts in requests.
    pub(super) fn owning_calls(&self) -> usize {
        self.parts.iter().filter(|parts| **parts > 0).count()
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
