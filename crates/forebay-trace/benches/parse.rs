//! How many requests a second each format gives, on one core.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay_trace::{Op, Options, Reader, Record, WriteFormat, Writer};

const REQUESTS: u64 = 200_000;

/// Requests as a cloud disk has them, in a format.
fn trace(format: WriteFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut names = forebay_trace::Names::default();
    let volumes: Vec<u32> = (0..if format == WriteFormat::Vscsi { 1 } else { 8 })
        .map(|volume| {
            names.intern(format!("{}", 400 + volume).as_bytes()).expect("there are few names")
        })
        .collect();
    let mut writer =
        Writer::new(&mut bytes, format, 1_577_808_000_000_000_000).expect("memory takes it");
    let mut random = 1u64;
    for number in 0..REQUESTS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let object = volumes[(random >> 33) as usize % volumes.len()];
        let record = Record {
            time: number * 37_000,
            took: Some(133_100),
            stream: object,
            object,
            op: if random >> 60 < 10 { Op::Write } else { Op::Read },
            flags: forebay_trace::Flags::default(),
            offset: (random >> 20) % (1 << 38) / 4096 * 4096,
            len: 4096 << ((random >> 40) % 5),
        };
        writer.write(&record, &names).expect("memory takes it");
    }
    writer.finish(&names).expect("memory takes it");
    bytes
}

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(20);
    for format in WriteFormat::ALL {
        let bytes = trace(format);
        group.bench_function(format.name(), |bencher| {
            bencher.iter(|| {
                let mut reader = Reader::new(&bytes[..], &Options::default()).expect("a format");
                let mut sum = 0;
                while let Some(record) = reader.next().expect("every line is good") {
                    sum += record.len;
                }
                black_box(sum)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, parse);
criterion_main!(benches);
