//! fio itself replays written traces, and writes traces that are read.

use std::fs;
use std::path::Path;
use std::process::Command;

use forebay_trace::{Flags, Names, Op, Options, Reader, Record, WriteFormat, Writer};

/// Whether fio is installed; says so if not.
fn has_fio() -> bool {
    let found = Command::new("fio").arg("--version").output().is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("skipped: fio is not installed");
    }
    found
}

fn fio(folder: &Path, arguments: &[&str]) -> String {
    let out = Command::new("fio")
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("the sample is whole");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    String::from_utf8(out.stdout).expect("the sample is whole")
}

/// The number behind a key of fio's JSON, the first time it occurs behind a section's name.
fn number(json: &str, section: &str, key: &str) -> u64 {
    let behind = &json[json.find(&format!("\"{section}\" :")).expect("the sample is whole")..];
    let behind = &behind
        [behind.find(&format!("\"{key}\" : ")).expect("the sample is whole") + key.len() + 5..];
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("the sample is whole")
}

#[test]
fn fio_replays_what_is_written() {
    if !has_fio() {
        return;
    }
    for format in [WriteFormat::FioIologV2, WriteFormat::FioIologV3] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("data"), vec![0; 1 << 20]).unwrap();
        let mut names = Names::default();
        let object = names.intern(b"data").unwrap();
        let mut log = Vec::new();
        let mut writer = Writer::new(&mut log, format, 0).unwrap();
        for n in 0..40u64 {
            let op = [Op::Read, Op::Write, Op::Read, Op::Sync][n as usize % 4];
            let moves = u64::from(op.moves_data());
            let (offset, len) = (n * 8192 * moves, 4096 * (n % 2 + 1) * moves);
            let (took, flags, stream) = (None, Flags::default(), 0);
            let time = n * 500_000;
            let record = Record { time, took, stream, object, op, flags, offset, len };
            writer.write(&record, &names).unwrap();
        }
        writer.finish(&names).unwrap();
        fs::write(folder.path().join("log"), log).unwrap();
        let arguments = ["--name=replay", "--read_iolog=log", "--ioengine=psync"];
        let json = fio(folder.path(), &[&arguments[..], &["--output-format=json"]].concat());
        assert_eq!(number(&json, "read", "total_ios"), 20, "{format}");
        assert_eq!(number(&json, "write", "total_ios"), 10, "{format}");
        assert_eq!(number(&json, "read", "io_bytes"), 20 * 4096, "{format}");
        assert_eq!(number(&json, "write", "io_bytes"), 10 * 8192, "{format}");
    }
}

#[test]
fn what_fio_writes_is_read() {
    if !has_fio() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--name=w", "--size=1m", "--bs=4k", "--rw=randrw", "--ioengine=psync"];
    let log = ["--write_iolog=log", "--fdatasync=16", "--output-format=json"];
    let json = fio(folder.path(), &[&arguments[..], &log].concat());
    let text = fs::read(folder.path().join("log")).unwrap();
    let mut reader = Reader::new(&text[..], &Options::default()).unwrap();
    let (mut reads, mut writes) = (0, 0);
    while let Some(record) = reader.next().unwrap() {
        reads += u64::from(record.op == Op::Read);
        writes += u64::from(record.op == Op::Write);
    }
    assert_eq!(reads, number(&json, "read", "total_ios"));
    assert_eq!(writes, number(&json, "write", "total_ios"));
}
