//! Pages of the trace buffer become events.

use super::decode::{Decoder, KINDS, OPTIONAL};
use super::ring::{Entries, PageLayout};
use super::{Drained, Event};

/// What the texts of tracefs say of pages and events.
#[derive(Debug)]
pub struct PageDecoder {
    layout: PageLayout,
    events: Decoder,
}

impl PageDecoder {
    /// From the texts of `events/header_page` and `events/header_event`.
    pub fn new(header_page: &str, header_event: &str) -> Result<Self, String> {
        let layout = PageLayout::parse(header_page, header_event)?;
        Ok(Self { layout, events: Decoder::default() })
    }

    /// Takes the `format` file of an event, which is named with or without its group.
    pub fn learn(&mut self, event: &str, format: &str) -> Result<(), String> {
        let mut known = KINDS.into_iter().chain(OPTIONAL);
        let is = |known: &str| known == event || known.rsplit('/').next() == Some(event);
        let found = known.find(|(known, _)| is(known));
        let (_, kind) = found.ok_or_else(|| format!("no event '{event}' is recorded"))?;
        self.events.learn(kind, format)
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> usize {
        self.layout.size()
    }

    /// Hands out the events of a page, and counts them and those that were lost before it.
    pub fn decode(&self, page: &[u8], each: &mut impl FnMut(Event), drained: &mut Drained) {
        let Some(entries) = Entries::new(page, &self.layout) else { return };
        drained.lost = drained.lost.saturating_add(entries.lost());
        for (at, bytes) in entries {
            if let Some(event) = self.events.decode(at, bytes) {
                drained.events += 1;
                each(event);
            }
        }
    }
}
