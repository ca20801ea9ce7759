//! `/proc/diskstats`: what block devices did so far.
//!
//! Source:     the kernel's documentation, admin-guide/iostats.rst
//! Behaviour:  a line for each device and partition: number, name, and 11, 15 or 17 counters.
//! Differs:    merges, discards and flushes are not kept.
//! Not for:    devices whose requests are not counted (`queue/iostats` 0).

use super::{DiskTraffic, Malformed, Text};
use crate::number::DevNumber;

/// Its path.
pub const FILE: &str = "/proc/diskstats";

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The number of the device or partition.
    pub number: DevNumber,
    /// Its name.
    pub name: &'a str,
    /// Completed reads.
    pub reads: DiskTraffic,
    /// Completed writes.
    pub writes: DiskTraffic,
    /// Requests that are at the device or wait for it.
    pub in_flight: u64,
    /// Time with at least one request, in ms.
    pub busy_ms: u64,
    /// Sum over time of the requests in flight, in ms.
    pub queue_ms: u64,
}

/// The lines, one after another; a bad one does not hide the rest.
pub fn parse<'a>(text: Text<'a>) -> impl Iterator<Item = Result<Line<'a>, Malformed>> {
    text.lines()
        .filter(|(_, words)| !words.is_empty())
        .map(move |(at, words)| line(text, at, words))
}

fn line<'a>(text: Text<'a>, at: usize, words: &'a str) -> Result<Line<'a>, Malformed> {
    let mut words = words.split_ascii_whitespace();
    let major = small(text, at, "the major number", words.next())?;
    let minor = small(text, at, "the minor number", words.next())?;
    let name = words.next().ok_or_else(|| text.wrong(at, "the name", "", "a device's name"))?;
    let mut number = |field| text.number(at, field, words.next());
    let reads = number("reads")?;
    number("merged reads")?;
    let reads = DiskTraffic {
        requests: reads,
        sectors: number("sectors read")?,
        time_ms: number("time of reads")?,
    };
    let writes = number("writes")?;
    number("merged writes")?;
    let writes = DiskTraffic {
        requests: writes,
        sectors: number("sectors written")?,
        time_ms: number("time of writes")?,
    };
    Ok(Line {
        number: DevNumber { major, minor },
        name,
        reads,
        writes,
        in_flight: number("requests in flight")?,
        busy_ms: number("busy time")?,
        queue_ms: number("weighted time")?,
    })
}

fn small(
    text: Text<'_>,
    at: usize,
    field: &'static str,
    word: Option<&str>,
) -> Result<u32, Malformed> {
    let number = text.number(at, field, word)?;
    let word = word.unwrap_or_default();
    u32::try_from(number).map_err(|_| text.wrong(at, field, word, "a number below 2^32"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18 (17 counters), 4.18 (15) and 3.18 (11).
    const RECORDED: &str = "\
 254       0 vda 19270708 2726802 1048030192 21203644 661897 711576 454831616 2053216 3 1296408 \
23435850 707366 38 424450144 177206 11847 1783
 259       1 nvme0n1p1 10 1 80 4 20 2 160 8 0 5 12 0 0 0 0
   8       0 sda 446216 784926 9550688 4382310 424847 312726 5922052 19310380 0 3376340 23705160
";

    fn lines(text: &str) -> Vec<Result<Line<'_>, Malformed>> {
        parse(Text::new(FILE, text)).collect()
    }

    #[test]
    fn every_kernel_s_lines_are_read() {
        let found: Vec<_> = lines(RECORDED).into_iter().map(Result::unwrap).collect();
        assert_eq!(
            found.iter().map(|line| line.name).collect::<Vec<_>>(),
            ["vda", "nvme0n1p1", "sda"]
        );
        let wanted = Line {
            number: DevNumber { major: 254, minor: 0 },
            name: "vda",
            reads: DiskTraffic {
                requests: 19_270_708,
                sectors: 1_048_030_192,
                time_ms: 21_203_644,
            },
            writes: DiskTraffic { requests: 661_897, sectors: 454_831_616, time_ms: 2_053_216 },
            in_flight: 3,
            busy_ms: 1_296_408,
            queue_ms: 23_435_850,
        };
        assert_eq!(found[0], wanted);
        assert_eq!(found[2].queue_ms, 23_705_160);
    }

    #[test]
    fn a_bad_line_does_not_hide_the_next() {
        let found = lines("8 0 sda 1 2 x\n8 16 sdb 1 2 3 4 5 6 7 8 9 10 11\n");
        let said = found[0].as_ref().unwrap_err().to_string();
        assert_eq!(said, "/proc/diskstats, line 1: sectors read is 'x', not a whole number");
        assert_eq!(found[1].as_ref().unwrap().name, "sdb");
    }

    #[test]
    fn a_line_cut_anywhere_is_an_error_or_a_line() {
        let whole = "8 16 sdb 1 2 3 4 5 6 7 8 9 10 11";
        for end in 1..whole.len() {
            let _ = lines(&whole[..end]);
        }
        assert!(lines("4294967296 0 sda 1 2 3 4 5 6 7 8 9 10 11")[0].is_err());
    }
}
