//! A small trace of each format, as its tool writes it.

use forebay_trace::{Format, Options, Reader, Record};

pub(crate) const MSR: &[u8] = b"128166372003061629,src1,2,Read,8050688,4096,1331\n\
128166372003061629,src1,2,Write,8054784,65536,50000\n\
128166372013061629,hm,0,Read,281474976710656,512,1\r\n\
\n";

pub(crate) const ALIBABA: &[u8] = b"419,W,8792731648,16384,1577808000000046\n\
725,R,59110326272,360448,1577808000000123\n\
419,R,8792748032,4096,1577808000000500\n";

pub(crate) const TENCENT: &[u8] = b"1538323200,12910952,128,0,1063\n\
1538323200,6338688,8,1,1627\n\
1538323201,1904106400,384,0,1360\n";

pub(crate) const MQSIM: &[u8] = b"1000 0 128 8 1\n2500 0 136 8 0\n3000 1 0 1 1\n";

pub(crate) const SYSBENCH: &[u8] =
    b"sysbench 0.4.12:  multi-threaded system evaluation benchmark\n\
DEBUG: Executing request, operation: 1, file_id: 87, pos: 2949120, size: 16384\n\
DEBUG: Executing request, operation: 2, file_id: 100, pos: 32276480, size: 16384\n\
DEBUG: Executing request, operation: 3, file_id: 72, pos: 0, size: 0\n";

/// From the reference of formats, as fio 3.33 wrote it.
pub(crate) const IOLOG_3: &[u8] = b"fio version 3 iolog\n\
21 /data/w.0.0 add\n\
139 /data/w.0.0 open\n\
147 /data/w.0.0 read 61440 4096\n\
603 /data/w.0.0 write 491520 4096\n\
700 /data/w.0.0 datasync 0 0\n\
46644 /data/w.0.0 close\n";

pub(crate) const IOLOG_2: &[u8] = b"fio version 2 iolog\n\
/data/f add\n\
/data/f open\n\
/data/f read 0 4096\n\
/data/f wait 12 0\n\
/data/f write 4096 8192\n\
/data/f wait 20 0\n\
/data/f sync 0 0\n\
/data/f trim 65536 4096\n\
/data/f close\n";

pub(crate) const BLKPARSE: &[u8] = b"\
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  Q   W 223490 + 8 [kjournald]
  8,0    1        3     0.000003000     0  m   N cfq697S alloced
  8,0    3        4     0.000072090   697  D   W 223490 + 8 [kjournald]
  8,0    1        5     0.010000000  1042  Q RAM 1024 + 256 [a [b] c]
  8,0    1        6     0.010500000     0  C   W 223490 + 8 [0]
  8,0    1        7     0.011000000  1042  U   N [dd] 2
  8,0    1        8     0.012000000  1042  A   W 9000 + 8 <- (8,1) 7000
  8,0    1        9     0.013000000  1042  Q FWFSM 9000 + 8 [dd]
  8,0    1       10     0.013100000  1042  Q  FN [dd]
  8,0    1       11     0.014000000  1042  Q   D 4096 + 1024 [fstrim]
CPU3 (sda):
 Reads Queued:           1,      128KiB  Writes Queued:           2,       8KiB
";

pub(crate) const FTRACE: &[u8] = b"# tracer: nop
#
              dd-1234    [000] .....   100.000001: block_bio_queue: 8,0 R 2048 + 8 [dd]
  kworker/u4:1-b-77 [001] d..1.   100.000250: block_rq_issue: 8,0 WS 4096 () 4096 + 8 none,0,0 [kw]
  my prog [x]-99         [001] .....   100.500000: block_bio_queue: 8,16 WS 4096 + 16 [my prog [x]]
              dd-1234    [000] .....   100.600000: block_plug: [dd]
              dd-1234    [000] .....   100.700000: block_bio_queue: 8,0 FF 0 + 0 [dd]
";

pub(crate) const PERF: &[u8] = b"\
         dd  1234 [000]   100.000001: block:block_rq_issue: 8,0 R 4096 () 2048 + 8 none,0,0 [dd]
 my prog [x]     99 [001]   100.500000: block:block_rq_issue: 8,16 WS 8192 () 4096 + 16 [my prog]
              dd  1234 [000]   100.600000: block:block_rq_complete: 8,0 R () 2048 + 8 none,0,0 [0]
";

pub(crate) const BIOSNOOP: &[u8] = b"\
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   QUE(ms) LAT(ms)
0.000004    supervise      1950    xvda1     W 13092560   4096       0.00    0.74
0.000178    my prog        1950    xvda1     R 13092432   4096       0.01    0.61
1.001469    jbd2/xvda1-8   1       xvdb      WS 0         512        0.00    0.25
";

pub(crate) const STRACE: &[u8] = b"\
30164 1795232544.370000 openat(AT_FDCWD, \"/data/f2\", O_RDWR|O_TRUNC) = 3</data/f2> <0.000040>
30164 1795232544.379847 write(3</data/f2>, \"\\0\\0\"..., 4096 <unfinished ...>
30165 1795232544.379861 openat(AT_FDCWD</root>, \"/data/f1\", O_RDONLY <unfinished ...>
30165 1795232544.379870 <... openat resumed>) = 4</data/f1> <0.000038>
30164 1795232544.379902 <... write resumed>) = 4096 <0.000042>
30164 1795232544.380045 pread64(3</data/f2>, \"\\0, 1)\"..., 100, 4000) = 96 <0.000010>
30164 1795232544.380401 writev(3</data/f2>, [{iov_len=10}, {iov_len=20}], 2) = 30 <0.000013>
30164 1795232544.380441 fdatasync(3</data/f2>) = 0 <0.000952>
30165 1795232544.381000 read(4</data/f1>, 0x7ffd, 4096) = -1 EIO (Input/output error) <0.000001>
30165 1795232544.381100 lseek(4</data/f1>, 8192, SEEK_SET) = 8192 <0.000001>
30165 1795232544.381200 read(4</data/f1>, \"\"..., 4096) = 4096 <0.000020>
30165 1795232544.381300 dup(4</data/f1>) = 5</data/f1> <0.000001>
30165 1795232544.381400 read(5</data/f1>, \"\"..., 4096) = 1000 <0.000020>
30165 1795232544.381500 write(1</dev/pts/0<char 136:0>>, \"x\", 1) = 1 <0.000020>
30165 1795232544.381600 close(5</data/f1>) = 0 <0.000001>
30165 1795232544.381700 --- SIGCHLD {si_signo=SIGCHLD} ---
30165 1795232544.381800 exit_group(0) = ?
30165 1795232544.381912 +++ exited with 0 +++
";

/// Two records of version 1: a READ(10) and a WRITE(16).
pub(crate) fn vscsi_1() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (serial, len, command, block, micros) in
        [(1u32 << 31, 4096u32, 0x28u16, 2048u64, 5_000_000u64), (7, 65_536, 0x8a, 2056, 5_000_250)]
    {
        bytes.extend_from_slice(&serial.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&1u32.to_le_bytes());
        bytes.extend_from_slice(&command.to_le_bytes());
        bytes.extend_from_slice(&0x0100u16.to_le_bytes());
        bytes.extend_from_slice(&block.to_le_bytes());
        bytes.extend_from_slice(&micros.to_le_bytes());
    }
    bytes
}

/// The same in version 2, with response times of 300 us.
pub(crate) fn vscsi_2() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (len, command, block, micros) in
        [(4096u32, 0x28u16, 2048u64, 5_000_000u64), (65_536, 0x8a, 2056, 5_000_250)]
    {
        bytes.extend_from_slice(&command.to_le_bytes());
        bytes.extend_from_slice(&0x0200u16.to_le_bytes());
        bytes.extend_from_slice(&9u32.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&1u32.to_le_bytes());
        bytes.extend_from_slice(&block.to_le_bytes());
        bytes.extend_from_slice(&micros.to_le_bytes());
        bytes.extend_from_slice(&300u64.to_le_bytes());
    }
    bytes
}

/// Three accesses to two objects.
pub(crate) fn oracle() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (second, object, size, next) in
        [(0u32, u64::MAX - 9, 4096u32, 2i64), (0, 42, 100, -1), (1, u64::MAX - 9, 4096, -1)]
    {
        bytes.extend_from_slice(&second.to_le_bytes());
        bytes.extend_from_slice(&object.to_le_bytes());
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&next.to_le_bytes());
    }
    bytes
}

/// Queued requests and a message between them, in either layout and byte order.
pub(crate) fn blktrace(version: u32, is_big: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let put = |value: u64, size: usize, bytes: &mut Vec<u8>| {
        let big = value.to_be_bytes();
        let digits = big[8 - size..].iter().copied();
        if is_big { bytes.extend(digits) } else { bytes.extend(digits.rev()) }
    };
    // Event and categories; a write that is durable, a message, a read, a flush, a completion.
    let records = [
        (1_000u64, 2_048u64, 4_096u64, 0x8002_0001u64, &b""[..]),
        (1_500, 0, 0, 0x0400_0002, b"a message"),
        (2_000, 4_096, 65_536, 0x0811_0101, b"\x01\x02\x03\x04\x05\x06\x07\x08"),
        (3_000, 0, 0, 0x0004_0001, b""),
        (4_000, 2_048, 4_096, 0x0082_0008, b""),
    ];
    for (sequence, (time, sector, len, action, pdu)) in records.into_iter().enumerate() {
        put(u64::from(0x6561_7400 | version), 4, &mut bytes);
        put(sequence as u64, 4, &mut bytes);
        put(time, 8, &mut bytes);
        put(sector, 8, &mut bytes);
        put(len, 4, &mut bytes);
        let device = 8 << 20 | 16;
        if version == 7 {
            [action, 1234, device, 1].iter().for_each(|word| put(*word, 4, &mut bytes));
        } else {
            put(1234, 4, &mut bytes);
            put(action, 8, &mut bytes);
            [device, 1].iter().for_each(|word| put(*word, 4, &mut bytes));
        }
        put(0, 2, &mut bytes);
        put(pdu.len() as u64, 2, &mut bytes);
        if version == 8 {
            bytes.extend_from_slice(&[0; 12]);
        }
        bytes.extend_from_slice(pdu);
    }
    bytes
}

/// Every sample, with its format.
pub(crate) fn all() -> Vec<(Format, Vec<u8>)> {
    vec![
        (Format::Msr, MSR.to_vec()),
        (Format::Alibaba, ALIBABA.to_vec()),
        (Format::Tencent, TENCENT.to_vec()),
        (Format::Vscsi, vscsi_1()),
        (Format::Vscsi, vscsi_2()),
        (Format::OracleGeneral, oracle()),
        (Format::FioIolog, IOLOG_2.to_vec()),
        (Format::FioIolog, IOLOG_3.to_vec()),
        (Format::Blktrace, blktrace(7, false)),
        (Format::Blktrace, blktrace(8, true)),
        (Format::Blkparse, BLKPARSE.to_vec()),
        (Format::Ftrace, FTRACE.to_vec()),
        (Format::Ftrace, PERF.to_vec()),
        (Format::Biosnoop, BIOSNOOP.to_vec()),
        (Format::Strace, STRACE.to_vec()),
        (Format::Sysbench, SYSBENCH.to_vec()),
        (Format::Mqsim, MQSIM.to_vec()),
    ]
}

/// Reads a trace to its end, with the names of its numbers.
pub(crate) fn read(bytes: &[u8]) -> (Format, Vec<(String, Record)>) {
    let mut reader = Reader::new(bytes, &Options::default()).expect("the sample is whole");
    let mut records = Vec::new();
    while let Some(record) = reader.next().expect("the sample is whole") {
        records.push((reader.names().name(record.object).to_owned(), record));
    }
    (reader.format(), records)
}
