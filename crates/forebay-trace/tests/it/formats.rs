//! What each format's sample comes to.

use forebay_trace::{Flags, Format, Op, Options, Reader, Record, TraceError};

use crate::samples::{self, read};

/// Name, time in nanoseconds, operation, offset and length of each request.
fn brief(bytes: &[u8]) -> Vec<(String, u64, Op, u64, u64)> {
    let (_, records) = read(bytes);
    let brief = records.into_iter();
    brief.map(|(name, one)| (name, one.time, one.op, one.offset, one.len)).collect()
}

fn expected(rows: &[(&str, u64, Op, u64, u64)]) -> Vec<(String, u64, Op, u64, u64)> {
    let owned = rows.iter();
    owned
        .map(|(name, time, op, offset, len)| ((*name).to_owned(), *time, *op, *offset, *len))
        .collect()
}

#[test]
fn every_sample_is_recognized() {
    for (format, bytes) in samples::all() {
        assert_eq!(read(&bytes).0, format);
    }
}

#[test]
fn collections_of_cloud_disks() {
    let msr = [
        ("src1_2", 0, Op::Read, 8_050_688, 4_096),
        ("src1_2", 0, Op::Write, 8_054_784, 65_536),
        ("hm_0", 1_000_000_000, Op::Read, 1 << 48, 512),
    ];
    assert_eq!(brief(samples::MSR), expected(&msr));
    assert_eq!(read(samples::MSR).1[0].1.took, Some(133_100));
    let alibaba = [
        ("419", 0, Op::Write, 8_792_731_648, 16_384),
        ("725", 77_000, Op::Read, 59_110_326_272, 360_448),
        ("419", 454_000, Op::Read, 8_792_748_032, 4_096),
    ];
    assert_eq!(brief(samples::ALIBABA), expected(&alibaba));
    // The two requests of the first second are spread over it.
    let tencent = [
        ("1063", 0, Op::Read, 12_910_952 * 512, 128 * 512),
        ("1627", 500_000_000, Op::Write, 6_338_688 * 512, 8 * 512),
        ("1360", 1_000_000_000, Op::Read, 1_904_106_400 * 512, 384 * 512),
    ];
    assert_eq!(brief(samples::TENCENT), expected(&tencent));
    let vscsi =
        [("disk", 0, Op::Read, 1 << 20, 4_096), ("disk", 250_000, Op::Write, 2056 * 512, 65_536)];
    assert_eq!(brief(&samples::vscsi_1()), expected(&vscsi));
    assert_eq!(brief(&samples::vscsi_2()), expected(&vscsi));
    assert_eq!(read(&samples::vscsi_2()).1[1].1.took, Some(300_000));
}

#[test]
fn offsets_of_tencent_may_be_bytes() {
    let lines: String =
        (1..40).map(|n| format!("1538323200,{},8,0,1063\n", n * 4096 * (n % 3 + 1))).collect();
    let (_, records) = read(lines.as_bytes());
    assert_eq!((records[0].1.offset, records[0].1.len), (8192, 4096));
}

#[test]
fn traces_of_simulators() {
    let mqsim = [
        ("0", 0, Op::Read, 65_536, 4_096),
        ("0", 1_500, Op::Write, 69_632, 4_096),
        ("1", 2_000, Op::Read, 0, 512),
    ];
    assert_eq!(brief(samples::MQSIM), expected(&mqsim));
    let oracle = [
        ("cache", 0, Op::Read, u64::MAX - 9, 4_096),
        ("cache", 0, Op::Read, 42, 100),
        ("cache", 1_000_000_000, Op::Read, u64::MAX - 9, 4_096),
    ];
    assert_eq!(brief(&samples::oracle()), expected(&oracle));
    let sysbench = [
        ("test_file.87", 0, Op::Read, 2_949_120, 16_384),
        ("test_file.100", 0, Op::Write, 32_276_480, 16_384),
        ("test_file.72", 0, Op::Sync, 0, 0),
    ];
    assert_eq!(brief(samples::SYSBENCH), expected(&sysbench));
}

#[test]
fn logs_of_fio() {
    let v3 = [
        ("/data/w.0.0", 0, Op::Open, 0, 0),
        ("/data/w.0.0", 8_000, Op::Read, 61_440, 4_096),
        ("/data/w.0.0", 464_000, Op::Write, 491_520, 4_096),
        ("/data/w.0.0", 561_000, Op::DataSync, 0, 0),
        ("/data/w.0.0", 46_505_000, Op::Close, 0, 0),
    ];
    assert_eq!(brief(samples::IOLOG_3), expected(&v3));
    // Each wait counts from the start of the job: 12 ms, then 20 ms.
    let v2 = [
        ("/data/f", 0, Op::Open, 0, 0),
        ("/data/f", 0, Op::Read, 0, 4_096),
        ("/data/f", 12_000_000, Op::Write, 4_096, 8_192),
        ("/data/f", 20_000_000, Op::Sync, 0, 0),
        ("/data/f", 20_000_000, Op::Discard, 65_536, 4_096),
        ("/data/f", 20_000_000, Op::Close, 0, 0),
    ];
    assert_eq!(brief(samples::IOLOG_2), expected(&v2));
    let twice = [samples::IOLOG_3, samples::IOLOG_3].concat();
    let (_, records) = read(&twice);
    assert_eq!(records.len(), 10);
    assert_eq!(records[5].1.time, 46_505_000 + 139_000, "a second run follows the first");
}

#[test]
fn block_events_of_the_kernel() {
    let queued = [
        ("8,0", 0, Op::Write, 223_490 * 512, 4_096),
        ("8,0", 9_998_171, Op::Read, 1024 * 512, 131_072),
        ("8,0", 12_998_171, Op::Write, 9000 * 512, 4_096),
        ("8,0", 13_998_171, Op::Discard, 4096 * 512, 524_288),
    ];
    assert_eq!(brief(samples::BLKPARSE), expected(&queued));
    let twice = [samples::BLKPARSE, samples::BLKPARSE].concat();
    assert_eq!(read(&twice).1.len(), 8, "a second run follows the summary of the first");
    let flags = read(samples::BLKPARSE).1[2].1.flags;
    assert!(flags.has(Flags::PREFLUSH) && flags.has(Flags::DURABLE) && flags.has(Flags::META));
    let ftrace = [
        ("8,0", 0, Op::Read, 1 << 20, 4_096),
        ("8,16", 499_999_000, Op::Write, 1 << 21, 8_192),
        ("8,0", 699_999_000, Op::Flush, 0, 0),
    ];
    assert_eq!(brief(samples::FTRACE), expected(&ftrace));
    assert_eq!(brief(samples::PERF), expected(&ftrace[..2]));
    let streams: Vec<u32> = read(samples::PERF).1.iter().map(|(_, one)| one.stream).collect();
    assert_eq!(streams, [1234, 99]);
    for (version, is_big) in [(7, false), (7, true), (8, false), (8, true)] {
        let blktrace = [
            ("8,16", 0, Op::Write, 1 << 20, 4_096),
            ("8,16", 1_000, Op::Read, 1 << 21, 65_536),
            ("8,16", 2_000, Op::Flush, 0, 0),
        ];
        assert_eq!(brief(&samples::blktrace(version, is_big)), expected(&blktrace), "{version}");
    }
}

#[test]
fn biosnoop_prints_completions() {
    // 0.178 ms less 0.61 ms, since 0.004 ms less 0.74 ms.
    let (_, records) = read(samples::BIOSNOOP);
    let rows: Vec<_> =
        records.iter().map(|(name, one)| (name.as_str(), one.took, one.len)).collect();
    assert_eq!(
        rows,
        [
            ("xvda1", Some(740_000), 4_096),
            ("xvda1", Some(610_000), 4_096),
            ("xvdb", Some(250_000), 512)
        ]
    );
    assert_eq!(records[1].1.time, 304_000);
}

#[test]
fn positions_of_descriptors_are_followed() {
    let us = |micros: u64| micros * 1_000;
    let calls = [
        ("/data/f2", 0, Op::Open, 0, 0),
        ("/data/f1", us(9_861), Op::Open, 0, 0),
        ("/data/f2", us(9_847), Op::Write, 0, 4_096),
        ("/data/f2", us(10_045), Op::Read, 4_000, 96),
        ("/data/f2", us(10_401), Op::Write, 4_096, 30),
        ("/data/f2", us(10_441), Op::DataSync, 0, 0),
        ("/data/f1", us(11_200), Op::Read, 8_192, 4_096),
        // The duplicate shares the position.
        ("/data/f1", us(11_400), Op::Read, 12_288, 1_000),
        ("/data/f1", us(11_600), Op::Close, 0, 0),
    ];
    assert_eq!(brief(samples::STRACE), expected(&calls));
    assert_eq!(read(samples::STRACE).1[2].1.took, Some(42_000));
}

#[test]
fn a_flush_without_data_is_a_flush_in_every_format_of_the_kernel() {
    // A flush on its own, as the kernel marks it: a write of nothing after a flush.
    let ftrace = b"dd-7 [000] ..... 1.5: block_bio_queue: 8,0 FWS 0 + 0 [dd]\n\
        dd-7 [000] ..... 1.6: block_bio_queue: 8,0 FWFS 8 + 8 [dd]\n";
    let blkparse = b"  8,0 0 1 0.000000001 7 Q FWS [jbd2]\n  8,0 0 2 0.1 7 Q FWFS 8 + 8 [jbd2]\n";
    for (text, after) in [(&ftrace[..], 100_000_000), (blkparse, 99_999_999)] {
        let calls = [("8,0", 0, Op::Flush, 0, 0), ("8,0", after, Op::Write, 4_096, 4_096)];
        assert_eq!(brief(text), expected(&calls));
    }
    // A write of nothing without a flush is still none.
    let nothing = b"dd-7 [000] ..... 1.5: block_bio_queue: 8,0 WS 0 + 0 [dd]\n";
    let reader = Reader::new(&nothing[..], &Options::default());
    assert!(reader.unwrap().next().is_err());
}

#[test]
fn lost_events_are_told_and_do_not_end_the_trace() {
    let text = b"dd-7 [000] ..... 1.5: block_bio_queue: 8,0 R 8 + 8 [dd]\n\
        CPU:1 [LOST 12 EVENTS]\nCPU:0 [LOST EVENTS]\n";
    let mut reader = Reader::new(&text[..], &Options::default()).unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.report().warnings, ["the kernel lost events, 2 times"]);
    // Nothing else that begins or ends like it is one.
    for line in ["CPU:1 [FOUND 12 EVENTS]\n", "GPU:1 [LOST 12 EVENTS]\n"] {
        let event = text.split_inclusive(|byte| *byte == b'\n').next().unwrap();
        let text = [event, line.as_bytes()].concat();
        let options = Options { format: Some(Format::Ftrace), skip_bad: 0 };
        let mut reader = Reader::new(&text[..], &options).unwrap();
        assert!(reader.next().unwrap().is_some());
        assert!(reader.report().warnings.is_empty());
        assert!(reader.next().is_err(), "{line}");
    }
}

/// The calls of a process that has opened `/r` as 3 and `/w` as 4.
fn strace(calls: &str) -> Vec<(String, Op, u64, u64)> {
    let text = format!(
        "1 0.1 openat(AT_FDCWD, \"/r\", O_RDONLY) = 3\n\
         1 0.1 openat(AT_FDCWD, \"/w\", O_RDWR|O_CREAT) = 4\n{calls}"
    );
    let options = Options { format: Some(Format::Strace), skip_bad: 0 };
    let mut reader = Reader::new(text.as_bytes(), &options).expect("it is of strace");
    let mut calls = Vec::new();
    while let Some(record) = reader.next().expect("every line is sound") {
        let Record { object, op, offset, len, .. } = record;
        calls.push((reader.names().name(object).to_owned(), op, offset, len));
    }
    calls.split_off(2)
}

#[test]
fn a_copy_is_a_read_and_a_write_where_each_side_is() {
    let (read, write) = (Op::Read, Op::Write);
    let of = |calls: &[(&str, Op, u64, u64)]| {
        calls.iter().map(|(file, op, at, len)| ((*file).to_owned(), *op, *at, *len)).collect()
    };
    for (calls, expected) in [
        (
            // Offsets that are pointed to move no position.
            "1 0.1 copy_file_range(3, [65536], 4, [512], 8192, 0) = 8192\n\
             1 0.1 copy_file_range(3, NULL, 4, NULL, 8192, 0) = 100\n\
             1 0.1 read(3, \"\", 10) = 10\n1 0.1 write(4, \"\", 10) = 10\n",
            &[
                ("/r", read, 65_536, 8_192),
                ("/w", write, 512, 8_192),
                ("/r", read, 0, 100),
                ("/w", write, 0, 100),
                ("/r", read, 100, 10),
                ("/w", write, 100, 10),
            ][..],
        ),
        (
            "1 0.1 sendfile(4, 3, [8192] => [8292], 100) = 100\n\
             1 0.1 sendfile(1, 3, NULL, 50) = 50\n1 0.1 write(4, \"\", 10) = 10\n",
            &[
                ("/r", read, 8_192, 100),
                ("/w", write, 0, 100),
                ("/r", read, 0, 50),
                ("/w", write, 100, 10),
            ],
        ),
        (
            "1 0.1 pipe([5, 6]) = 0\n1 0.1 splice(5, NULL, 4, NULL, 64, 0) = 64\n\
             1 0.1 preadv2(3, [{iov_len=9}], 1, -1, 0) = 9\n\
             1 0.1 pwritev2(4, [{iov_len=9}], 1, 4096, 0) = 9\n1 0.1 read(3, \"\", 1) = 1\n",
            &[
                ("/w", write, 0, 64),
                ("/r", read, 0, 9),
                ("/w", write, 4_096, 9),
                ("/r", read, 9, 1),
            ],
        ),
        (
            // What is appended goes to the end, what is read comes from the position.
            "1 0.1 openat(AT_FDCWD, \"/a\", O_RDWR|O_APPEND) = 7\n1 0.1 write(7, \"\", 100) = 100\n\
             1 0.1 lseek(7, 0, SEEK_SET) = 0\n1 0.1 read(7, \"\", 10) = 10\n\
             1 0.1 write(7, \"\", 5) = 5\n1 0.1 read(7, \"\", 1) = 1\n",
            &[
                ("/a", Op::Open, 0, 0),
                ("/a", write, 0, 100),
                ("/a", read, 0, 10),
                ("/a", write, 100, 5),
                ("/a", read, 105, 1),
            ],
        ),
    ] {
        let expected: Vec<(String, Op, u64, u64)> = of(expected);
        assert_eq!(strace(calls), expected, "{calls}");
    }
}

#[test]
fn a_time_of_day_goes_on_past_midnight() {
    let text = b"1 23:59:59.5 openat(AT_FDCWD, \"/r\", O_RDONLY) = 3\n\
        1 00:00:00.5 read(3, \"\", 1) = 1\n1 23:59:59.9 read(3, \"\", 1) = 1\n\
        1 00:00:01.5 read(3, \"\", 1) = 1\n";
    let options = Options { format: Some(Format::Strace), skip_bad: 0 };
    let mut reader = Reader::new(&text[..], &options).unwrap();
    let times: Vec<u64> = std::iter::from_fn(|| reader.next().unwrap())
        .map(|record| record.time / 100_000_000)
        .collect();
    assert_eq!(times, [0, 10, 4, 20]);
}

#[test]
fn a_descriptor_from_before_the_trace_has_no_position() {
    let text = b"1 1.0 read(7</data/x>, \"\", 10) = 10 <0.1>\n";
    let mut reader =
        Reader::new(&text[..], &Options { format: Some(Format::Strace), skip_bad: 0 }).unwrap();
    let error = reader.next().unwrap_err().to_string();
    assert_eq!(
        error,
        "line 1: position: expected a descriptor that was opened, or had an lseek, in the trace, \
         found 'an older one'"
    );
    let positioned = b"1 1.0 pread64(7</data/x>, \"\", 10, 4096) = 10 <0.1>\n";
    assert_eq!(brief(positioned), expected(&[("/data/x", 0, Op::Read, 4_096, 10)]));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let of = |text: &str, format| {
        let options = Options { format, skip_bad: 0 };
        let mut reader = match Reader::new(text.as_bytes(), &options) {
            Ok(reader) => reader,
            Err(error) => return error.to_string(),
        };
        loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => return "no error".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    };
    let msr = Some(Format::Msr);
    for (text, format, said) in [
        ("1,R,0,1\n", msr, "line 1: type: expected Read or Write, found '1'"),
        ("128166372003061629,a,0,Read,0\n", msr, "line 1: size: expected a field, found nothing"),
        (
            "128166372003061629,a,0,Read,9223372036854775807,4096,1\n",
            msr,
            "line 1: offset: expected a request below byte 2^63, found '9223372036854775807'",
        ),
        ("", None, "the format of the trace is not recognized: the file is empty"),
        (
            "0, 4096, 4096\n",
            None,
            "the format of the trace is not recognized: an iolog of fio before 1.20, which has no \
             version line and is not read",
        ),
        (
            "fio version 3 iolog\n1 f add\n",
            None,
            "the trace has no request that fio-iolog could read (2 lines or records)",
        ),
        ("fio version 9 iolog\n", None, "line 1: version: expected 2 or 3, found '9 iolog'"),
        (
            "hello world\n",
            None,
            "the format of the trace is not recognized: the first line is 'hello world'",
        ),
    ] {
        assert_eq!(of(text, format), said);
    }
}

#[test]
fn bad_lines_are_skipped_as_many_as_are_allowed() {
    let text = [samples::ALIBABA, b"419,X,0,1,2\nrubbish\n", samples::ALIBABA].concat();
    let read = |skip_bad| {
        let options = Options { format: None, skip_bad };
        let mut reader = Reader::new(&text[..], &options).unwrap();
        let mut requests = 0;
        loop {
            match reader.next() {
                Ok(Some(_)) => requests += 1,
                Ok(None) => return Ok((requests, reader.report())),
                Err(error) => return Err(error),
            }
        }
    };
    let (requests, report) = read(2).unwrap();
    assert_eq!((requests, report.bad, report.read), (6, 2, 8));
    let (place, fault) = report.first_bad.unwrap();
    assert_eq!(format!("{place}: {fault}"), "line 4: opcode: expected R or W, found 'X'");
    // The second half begins earlier than the first one ended.
    assert_eq!((report.backwards, report.backwards_max), (2, 454_000));
    assert!(matches!(read(1), Err(TraceError::Bad { .. })));
}

#[test]
fn requests_for_no_bytes_are_counted() {
    let text = b"419,W,0,0,1577808000000046\n419,W,0,512,1577808000000047\n";
    let mut reader = Reader::new(&text[..], &Options::default()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().len, 512);
    assert_eq!(reader.report().empty, 1);
    assert_eq!(reader.origin(), 1_577_808_000_000_047_000);
}

#[test]
fn a_last_line_without_an_end_is_said() {
    for (end, warnings) in [("", 1), ("\n", 0), ("\n\n", 0)] {
        let text = format!("419,W,0,512,1577808000000000{end}");
        let mut reader = Reader::new(text.as_bytes(), &Options::default()).unwrap();
        while reader.next().unwrap().is_some() {}
        let found = reader.report().warnings;
        assert_eq!(found.len(), warnings, "{found:?}");
        assert!(found.iter().all(|one| one.starts_with("line 1, the last one")), "{found:?}");
    }
}

#[test]
fn what_no_disk_has_is_left_out_of_file_calls() {
    let text = b"7 1.0 openat(AT_FDCWD, \"/dev/null\", O_RDWR) = 3\n\
        7 1.1 write(3, \"\", 4096) = 4096\n\
        7 1.2 read(4</proc/7/maps>, \"\", 4096) = 4096\n\
        7 1.3 pread64(5</dev/sda>, \"\", 4096, 0) = 4096\n\
        7 1.4 openat(AT_FDCWD, \"/proc/7/stat\", O_RDONLY) = 6</proc/7/stat>\n\
        7 1.5 read(6, \"\", 4096) = 100\n\
        7 1.6 pread64(8</data/f>, \"\", 4096, 0) = 4096\n";
    let options = Options { format: Some(Format::Strace), skip_bad: 0 };
    let mut reader = Reader::new(&text[..], &options).unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.names().iter().collect::<Vec<_>>(), ["/dev/sda", "/data/f"]);
}

#[test]
fn a_unit_that_cannot_be_right_is_said() {
    let text = b"419,W,0,512,1577808000\n";
    let mut reader = Reader::new(&text[..], &Options::default()).unwrap();
    reader.next().unwrap();
    assert!(reader.report().warnings[0].contains("its unit may be another one"));
}

#[test]
fn a_mark_of_the_byte_order_before_a_text_is_no_part_of_it() {
    let msr = b"\xef\xbb\xbf128166372003061629,src1,2,Read,8050688,4096,1331\n";
    assert_eq!(brief(msr), expected(&[("src1_2", 0, Op::Read, 8_050_688, 4_096)]));
    // In a record of oracleGeneral these bytes are a time.
    let mut record = b"\xef\xbb\xbf\x01".to_vec();
    record.extend(7_u64.to_le_bytes());
    record.extend(512_u32.to_le_bytes());
    record.extend((-1_i64).to_le_bytes());
    let options = Options { format: Some(Format::OracleGeneral), skip_bad: 0 };
    let mut reader = Reader::new(&record[..], &options).unwrap();
    let first = reader.next().unwrap().unwrap();
    assert_eq!((first.offset, reader.origin()), (7, 0x01bf_bbef * 1_000_000_000));
}

#[test]
fn records_are_counted_and_one_without_its_mark_ends_the_trace() {
    let mut trace = samples::blktrace(7, false);
    let whole = trace.len();
    let report = |trace: &[u8]| {
        let mut reader = Reader::new(trace, &Options { format: None, skip_bad: 9 }).unwrap();
        while reader.next()?.is_some() {}
        Ok::<_, TraceError>(reader.report().read)
    };
    assert!(report(&trace).unwrap() > 1);
    trace.extend([0; 64]);
    let error = report(&trace).unwrap_err();
    assert!(matches!(error, TraceError::Lost { .. }), "{error}");
    assert!(error.to_string().starts_with(&format!("byte {whole}: magic")), "{error}");
}
