//! The bytes of an event as a value.
//!
//! Source:     Linux `include/trace/events/readahead.h` and `include/trace/events/writeback.h`.
//! Behaviour:  the number that every event begins with names its kind; fields lie where the
//!             kind's `format` file says.
//! Differs:    rates, which the kernel shows in KiB/s, become bytes a second.
//! Not for:    events that are not in [`KINDS`].

use super::format::{Field, Format};
use super::{Event, Pause, Readahead, What, Why};
use crate::number::{DevNumber, FileKey};

/// An event that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of the group `readahead`.
    Readahead(Why),
    /// `balance_dirty_pages`.
    Pause,
    /// `bdi_dirty_ratelimit`.
    Bandwidth,
    /// A call of fsync(2) or fdatasync(2), as the file system traces it.
    Sync,
}

/// The events that are recorded and that every kernel since 6.18 has, by their folder below
/// `events`. None of them fires on a read that the cache answers.
pub(super) const KINDS: [(&str, Kind); 6] = [
    ("readahead/page_cache_sync_ra", Kind::Readahead(Why::Sync)),
    ("readahead/page_cache_async_ra", Kind::Readahead(Why::Async)),
    ("readahead/page_cache_ra_order", Kind::Readahead(Why::Order)),
    ("readahead/page_cache_ra_unbounded", Kind::Readahead(Why::Unbounded)),
    ("writeback/balance_dirty_pages", Kind::Pause),
    ("writeback/bdi_dirty_ratelimit", Kind::Bandwidth),
];

/// Events of file systems, which are there only if the file system is. Btrfs traces fsync too, but
/// names no device.
pub(super) const OPTIONAL: [(&str, Kind); 3] = [
    ("ext4/ext4_sync_file_enter", Kind::Sync),
    ("xfs/xfs_file_fsync", Kind::Sync),
    ("f2fs/f2fs_sync_file_enter", Kind::Sync),
];

/// Knows where the fields of each kind lie.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    layouts: Vec<Layout>,
}

#[derive(Debug)]
struct Layout {
    id: u16,
    kind_id: Field,
    pid: Field,
    fields: Fields,
}

#[derive(Debug)]
enum Fields {
    Readahead {
        why: Why,
        dev: Field,
        ino: Field,
        index: Field,
        pages: Field,
        window: Option<Field>,
    },
    Pause {
        bdi: Field,
        pause: Field,
    },
    Bandwidth {
        bdi: Field,
        bandwidth: Field,
    },
    Sync {
        dev: Field,
    },
}

impl Decoder {
    /// Learns a kind from its `format` file.
    pub(super) fn learn(&mut self, kind: Kind, text: &str) -> Result<(), String> {
        let format = Format::parse(text)?;
        let fields = match kind {
            Kind::Readahead(why) => Fields::Readahead {
                why,
                dev: format.number("s_dev")?,
                ino: format.number("i_ino")?,
                index: format.number("index")?,
                pages: format.number(match why {
                    Why::Sync | Why::Async => "req_count",
                    Why::Order => "size",
                    Why::Unbounded => "nr_to_read",
                })?,
                window: format.number("ra_pages").ok(),
            },
            Kind::Pause => {
                Fields::Pause { bdi: format.field("bdi")?, pause: format.number("pause")? }
            }
            Kind::Bandwidth => Fields::Bandwidth {
                bdi: format.field("bdi")?,
                bandwidth: format.number("avg_write_bw")?,
            },
            Kind::Sync => Fields::Sync { dev: format.number("dev")? },
        };
        let (kind_id, pid) = (format.number("common_type")?, format.number("common_pid")?);
        self.layouts.push(Layout { id: format.id, kind_id, pid, fields });
        Ok(())
    }

    /// What the bytes say; none if they are too short or of another kind.
    pub(super) fn decode(&self, at: u64, event: &[u8]) -> Option<Event> {
        let is = |layout: &&Layout| layout.kind_id.value(event) == Some(layout.id.into());
        let layout = self.layouts.iter().find(is)?;
        let pid = u32::try_from(layout.pid.value(event)?).ok()?;
        let what = match &layout.fields {
            Fields::Readahead { why, dev, ino, index, pages, window } => {
                let dev = DevNumber::from_kernel(u32::try_from(dev.value(event)?).ok()?);
                What::Readahead(Readahead {
                    why: *why,
                    file: FileKey { dev, ino: ino.value(event)? },
                    index: index.value(event)?,
                    pages: pages.value(event)?,
                    window: window.map_or(Some(0), |window| window.value(event))?,
                })
            }
            Fields::Pause { bdi, pause } => {
                // Writers that do not pause show 0 or less.
                let pause = u32::try_from(pause.value(event)?.cast_signed()).ok();
                let pause_ms = pause.filter(|pause| *pause > 0)?;
                What::Pause(Pause { bdi: bdi_number(bdi.bytes(event)?), pause_ms })
            }
            Fields::Bandwidth { bdi, bandwidth } => What::Bandwidth {
                bdi: bdi_number(bdi.bytes(event)?),
                bandwidth: bandwidth.value(event)?.saturating_mul(1024),
            },
            Fields::Sync { dev } => {
                What::Sync { dev: DevNumber::from_kernel(u32::try_from(dev.value(event)?).ok()?) }
            }
        };
        Some(Event { at, pid, what })
    }
}

/// The number that a bdi is named by: `8:0`, `0:45-fuseblk`. One that has a name instead
/// (`btrfs-1`) is 0:0.
fn bdi_number(name: &[u8]) -> DevNumber {
    let end = name.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b':'));
    let number = &name[..end.unwrap_or(name.len())];
    std::str::from_utf8(number).ok().and_then(DevNumber::parse).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::recorded;

    #[test]
    fn a_bdi_is_known_by_its_number() {
        let number = |text: &str| bdi_number(text.as_bytes());
        assert_eq!(number("254:0\0\0junk"), DevNumber { major: 254, minor: 0 });
        assert_eq!(number("0:45-fuseblk\0"), DevNumber { major: 0, minor: 45 });
        assert_eq!(number("btrfs-1\0"), DevNumber::default());
        assert_eq!(number("7:0:\0"), DevNumber::default());
        assert_eq!(number(""), DevNumber::default());
    }

    #[test]
    fn fields_move_with_their_format() {
        let text = recorded::format("readahead/page_cache_ra_unbounded");
        let moved = text.replace("offset:32", "offset:48").replace("ID: 619", "ID: 7");
        let mut decoder = Decoder::default();
        decoder.learn(Kind::Readahead(Why::Unbounded), &moved).unwrap();
        let mut event = [0; 56];
        event[0] = 7;
        event[4] = 77;
        event[8] = 12;
        event[18] = 0x70; // 7:0 is 7 << 20.
        event[24] = 4;
        event[48] = 33;
        let file = FileKey { dev: DevNumber { major: 7, minor: 0 }, ino: 12 };
        let readahead = Readahead { why: Why::Unbounded, file, index: 4, pages: 33, window: 0 };
        let expected = Event { at: 5, pid: 77, what: What::Readahead(readahead) };
        assert_eq!(decoder.decode(5, &event), Some(expected));
        for end in 0..event.len() {
            assert_eq!(decoder.decode(5, &event[..end]), None);
        }
        event[0] = 8;
        assert_eq!(decoder.decode(5, &event), None);
    }

    #[test]
    fn a_sync_names_its_file_system() {
        let text = "name: ext4_sync_file_enter\nID: 1232\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n";
        let mut decoder = Decoder::default();
        decoder.learn(Kind::Sync, text).unwrap();
        let event = [0xd0, 4, 0, 0, 77, 0, 0, 0, 3, 0, 0x70, 0];
        let dev = DevNumber { major: 7, minor: 3 };
        let expected = Event { at: 9, pid: 77, what: What::Sync { dev } };
        assert_eq!(decoder.decode(9, &event), Some(expected));
        assert_eq!(decoder.decode(9, &event[..11]), None);
    }

    #[test]
    fn a_format_without_a_field_is_refused_by_the_field() {
        let text = recorded::format("readahead/page_cache_sync_ra").replace("req_count;", "count;");
        let refused = Decoder::default().learn(Kind::Readahead(Why::Sync), &text);
        assert!(refused.unwrap_err().contains("req_count"));
    }
}
