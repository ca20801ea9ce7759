//! A written trace is read again unchanged.

use forebay_trace::{Flags, Names, Op, Options, Reader, Record, WriteFormat, Writer};

/// Requests in the unit of time of a format.
fn requests(format: WriteFormat, names: &mut Names) -> Vec<Record> {
    let unit = match format {
        WriteFormat::FioIologV2 => 1_000_000,
        WriteFormat::FioIologV3 | WriteFormat::Alibaba | WriteFormat::Vscsi => 1_000,
        WriteFormat::Msr => 100,
        WriteFormat::Mqsim => 1,
    };
    let volumes: &[&[u8]] = match format {
        WriteFormat::FioIologV2 | WriteFormat::FioIologV3 => &[b"/data/a", b"/data/b"],
        WriteFormat::Msr => &[b"src1_2", b"hm_0"],
        WriteFormat::Alibaba | WriteFormat::Mqsim => &[b"419", b"7"],
        WriteFormat::Vscsi => &[b"disk"],
    };
    let objects: Vec<u32> =
        volumes.iter().map(|name| names.intern(name).expect("the sample is whole")).collect();
    let is_iolog = matches!(format, WriteFormat::FioIologV2 | WriteFormat::FioIologV3);
    let ops: &[Op] = if is_iolog {
        &[Op::Read, Op::Write, Op::Sync, Op::DataSync, Op::Discard]
    } else {
        &[Op::Read, Op::Write]
    };
    (0..500u64)
        .map(|n| {
            let object = objects[n as usize % objects.len()];
            let op = ops[(n / 3) as usize % ops.len()];
            let moves = u64::from(op.moves_data());
            Record {
                time: n * n * unit,
                took: (format == WriteFormat::Msr).then_some(n * 100),
                stream: if is_iolog { 0 } else { object },
                object,
                op,
                flags: Flags::default(),
                offset: n * 7919 * 512 * moves,
                len: (n % 9 + 1) * 512 * moves,
            }
        })
        .collect()
}

#[test]
fn every_format_gives_back_what_was_written() {
    for format in WriteFormat::ALL {
        let mut names = Names::default();
        let requests = requests(format, &mut names);
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, format, 1_577_808_000_000_000_000).unwrap();
        requests.iter().for_each(|record| writer.write(record, &names).unwrap());
        assert_eq!(writer.finish(&names).unwrap(), 0);
        let mut reader = Reader::new(&bytes[..], &Options::default()).unwrap();
        let mut read = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            if !matches!(record.op, Op::Open | Op::Close) {
                read.push(record);
            }
        }
        assert_eq!(read, requests, "{format}");
        assert!(reader.names().iter().eq(names.iter()), "{format}");
    }
}

#[test]
fn what_a_format_cannot_say_is_refused_with_its_number() {
    let mut names = Names::default();
    let object = names.intern(b"a name").unwrap();
    let record = Record {
        time: 0,
        took: None,
        stream: 0,
        object,
        op: Op::Read,
        flags: Flags::default(),
        offset: 100,
        len: 512,
    };
    let refused = |format, record: Record| {
        let mut writer = Writer::new(Vec::new(), format, 0).unwrap();
        writer.write(&record, &names).unwrap_err().to_string()
    };
    assert_eq!(
        refused(WriteFormat::Mqsim, record),
        "request 1: mqsim counts sectors of 512 bytes, and 100 is no multiple"
    );
    assert_eq!(
        refused(WriteFormat::FioIologV3, record),
        "request 1: fio-iolog-v3 takes file names of 1 to 255 bytes without blanks, not 'a name'"
    );
    let long = Record { len: 1 << 33, ..record };
    assert_eq!(
        refused(WriteFormat::Vscsi, long),
        "request 1: vscsi has 32 bits for a length, not 8589934592 bytes"
    );
    let mut writer = Writer::new(Vec::new(), WriteFormat::Msr, 0).unwrap();
    writer.write(&Record { op: Op::Sync, len: 0, ..record }, &names).unwrap();
    assert_eq!(writer.finish(&names).unwrap(), 1, "a sync is left out and counted");
}

/// Writes a read of each of some files or devices; what the format calls those that it renames, and
/// the error, if there is one.
fn written(format: WriteFormat, volumes: &[&str]) -> (Vec<(String, String)>, Option<String>) {
    let mut names = Names::default();
    let mut writer = Writer::new(std::io::sink(), format, 0).expect("a sink takes everything");
    let mut error = None;
    for volume in volumes {
        let object = names.intern(volume.as_bytes()).expect("they are few");
        let (op, flags) = (Op::Read, Flags::default());
        let record =
            Record { time: 0, took: None, stream: 0, object, op, flags, offset: 0, len: 512 };
        error = error.or(writer.write(&record, &names).err().map(|error| error.to_string()));
    }
    let renamed = writer.renamed(&names).map(|(name, other)| (name.to_owned(), other.to_owned()));
    (renamed.collect(), error)
}

#[test]
fn two_volumes_never_become_one() {
    for (format, volumes, error) in [
        (
            WriteFormat::Alibaba,
            ["sda", "1", "0"],
            "request 3: alibaba calls both 'sda' and '0' '0'",
        ),
        (WriteFormat::Mqsim, ["x", "1", "0"], "request 3: mqsim calls both 'x' and '0' '0'"),
        (
            WriteFormat::Msr,
            ["web", "x", "web_0"],
            "request 3: msr calls both 'web' and 'web_0' 'web,0'",
        ),
    ] {
        assert_eq!(written(format, &volumes).1.as_deref(), Some(error));
    }
    let same = (vec![], None);
    assert_eq!(written(WriteFormat::Alibaba, &["7", "419"]), same);
    assert_eq!(written(WriteFormat::Msr, &["src1_2", "hm_0", "src1_2"]), same);
    assert_eq!(written(WriteFormat::FioIologV3, &["/a", "/b"]), same);
    let named = |pairs: &[(&str, &str)]| {
        let owned = pairs.iter().map(|(name, other)| ((*name).to_owned(), (*other).to_owned()));
        (owned.collect::<Vec<_>>(), None)
    };
    assert_eq!(written(WriteFormat::Alibaba, &["7", "sda"]), named(&[("sda", "1")]));
    assert_eq!(written(WriteFormat::Mqsim, &["1", "sda"]), named(&[("sda", "2")]));
    assert_eq!(written(WriteFormat::Msr, &["8,0", "x_1"]), named(&[("8,0", "8:0,0")]));
}
