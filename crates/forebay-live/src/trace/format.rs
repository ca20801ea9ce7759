//! Where the fields of an event lie, as its `format` file says it.
//!
//! Source:     `Documentation/trace/events.rst` of Linux, section 2.2. A line is
//!             `field:DECLARATION; offset:O; size:S; signed:B;` in bytes.
//! Behaviour:  offsets and sizes are taken from the text alone, which differs from kernel to
//!             kernel. `header_page` has the same lines; `header_event` gives the widths and
//!             types of what stands before each event.
//! Differs:    nothing is read of the line `print fmt`.
//! Not for:    fields of varying length (`__data_loc`), which no event here has.

use std::str::FromStr;

/// The bytes of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) offset: usize,
    pub(super) size: usize,
    pub(super) signed: bool,
}

impl Field {
    /// Its bytes; none if the event is shorter.
    pub(super) fn bytes(self, event: &[u8]) -> Option<&[u8]> {
        event.get(self.offset..)?.get(..self.size)
    }

    /// Its value; negative ones in two's complement of 64 bits.
    pub(super) fn value(self, event: &[u8]) -> Option<u64> {
        let bytes = self.bytes(event)?;
        let mut wide = [0; 8];
        wide.get_mut(..self.size)?.copy_from_slice(bytes);
        let value = u64::from_le_bytes(wide);
        let unused = 64 - 8 * u32::try_from(self.size).ok()?;
        if self.signed && unused < 64 {
            return Some((value.cast_signed() << unused >> unused).cast_unsigned());
        }
        Some(value)
    }
}

/// A `format` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Format {
    /// The number by which events name their kind; 0 if the text has none.
    pub(super) id: u16,
    fields: Vec<(String, Field)>,
}

impl Format {
    /// Reads the text of a `format` file or of `header_page`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut format = Self::default();
        for line in text.lines().map(str::trim) {
            if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().map_err(|_| format!("'{line}' has no number"))?;
            } else if line.starts_with("field:") {
                format.fields.push(field(line).ok_or_else(|| format!("'{line}' is no field"))?);
            }
        }
        Ok(format)
    }

    /// A field by its name.
    pub(super) fn field(&self, name: &str) -> Result<Field, String> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, field)| *field).ok_or_else(|| format!("no field '{name}'"))
    }

    /// A field that must be a number.
    pub(super) fn number(&self, name: &str) -> Result<Field, String> {
        let field = self.field(name)?;
        if !matches!(field.size, 1 | 2 | 4 | 8) {
            return Err(format!("field '{name}' has {} bytes", field.size));
        }
        Ok(field)
    }
}

/// What stands before each event of a page, as `header_event` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryHeader {
    /// Bits of the type, the lowest ones of the first word; the time takes the others.
    pub(super) type_bits: u32,
    /// The largest type that is a length.
    pub(super) data_max: u32,
    /// The type of room without an event.
    pub(super) padding: u32,
    /// The type of a long time since the event before.
    pub(super) time_extend: u32,
    /// The type of a time since boot.
    pub(super) time_stamp: u32,
}

impl EntryHeader {
    /// Reads the text of `header_event`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let find = |name: &str, divider: &str| {
            let missing = || format!("no line '{name} {divider} N'");
            let mut lines = text.lines().filter_map(|line| line.split_once(divider));
            let (_, value) = lines.find(|(word, _)| word.trim() == name).ok_or_else(missing)?;
            let mut words = value.split_whitespace().skip_while(|word| *word == "==");
            words.next().and_then(|word| word.parse::<u32>().ok()).ok_or_else(missing)
        };
        let header = Self {
            type_bits: find("type_len", ":")?,
            data_max: find("data max type_len", "==")?,
            padding: find("padding", ": type")?,
            time_extend: find("time_extend", ": type")?,
            time_stamp: find("time_stamp", ": type")?,
        };
        let delta_bits = find("time_delta", ":")?;
        let array_bits = find("array", ":")?;
        if !(1..=16).contains(&header.type_bits)
            || delta_bits.checked_add(header.type_bits) != Some(32)
            || array_bits != 32
        {
            return Err("the first word of an event has not 32 bits".to_owned());
        }
        Ok(header)
    }
}

/// The parts of `field:DECLARATION; offset:O; size:S; signed:B;`.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    let name = declaration.split_whitespace().next_back()?;
    let name = name.split('[').next()?.trim_start_matches('*');
    let mut part = |name: &str| -> Option<usize> { number(parts.next()?.strip_prefix(name)?) };
    let offset = part("offset:")?;
    let size = part("size:")?;
    let signed = part("signed:")? != 0;
    // No event is longer than a page, and pages have 64 KiB at most.
    (offset <= EVENT_MAX && size <= EVENT_MAX)
        .then(|| (name.to_owned(), Field { offset, size, signed }))
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.trim().parse().ok()
}

/// Bytes that an event can have at most.
const EVENT_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::recorded;

    #[test]
    fn a_recorded_format_gives_every_offset() {
        let format = Format::parse(recorded::format("readahead/page_cache_sync_ra")).unwrap();
        assert_eq!(format.id, 617);
        let count = Field { offset: 64, size: 8, signed: false };
        assert_eq!(format.number("req_count"), Ok(count));
        assert_eq!(format.number("s_dev").unwrap().size, 4);
        let format = Format::parse(recorded::format("writeback/balance_dirty_pages")).unwrap();
        assert_eq!(format.field("bdi").unwrap(), Field { offset: 8, size: 32, signed: false });
        assert!(format.number("pause").unwrap().signed);
        assert!(format.number("bdi").unwrap_err().contains("32 bytes"));
        assert!(format.number("pages").unwrap_err().contains("'pages'"));
    }

    #[test]
    fn the_header_of_events_is_read_and_doubted() {
        let header = EntryHeader::parse(recorded::HEADER_EVENT).unwrap();
        let (data_max, padding, time_extend, time_stamp) = (28, 29, 30, 31);
        let expected = EntryHeader { type_bits: 5, data_max, padding, time_extend, time_stamp };
        assert_eq!(header, expected);
        let wide = recorded::HEADER_EVENT.replace("27 bits", "59 bits");
        assert!(EntryHeader::parse(&wide).is_err());
        assert!(EntryHeader::parse("").is_err());
    }

    #[test]
    fn no_text_makes_the_parsers_fall() {
        let texts = [
            recorded::HEADER_EVENT,
            recorded::HEADER_PAGE,
            recorded::format("readahead/page_cache_ra_order"),
        ];
        for text in texts {
            for end in 0..text.len() {
                let _ = (Format::parse(&text[..end]), EntryHeader::parse(&text[..end]));
                let mut bytes = text.as_bytes().to_vec();
                bytes[end] ^= 0x15;
                let changed = String::from_utf8_lossy(&bytes);
                let _ = (Format::parse(&changed), EntryHeader::parse(&changed));
            }
        }
    }

    #[test]
    fn signed_fields_keep_their_sign_whatever_their_size() {
        let bytes = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        for size in [1, 2, 4, 8] {
            let field = Field { offset: 0, size, signed: true };
            assert_eq!(field.value(&bytes).map(u64::cast_signed), Some(-2), "{size}");
        }
        assert_eq!(Field { offset: 6, size: 4, signed: false }.value(&bytes), None);
        assert_eq!(Field { offset: 0, size: 0, signed: true }.value(&bytes), Some(0));
    }
}
