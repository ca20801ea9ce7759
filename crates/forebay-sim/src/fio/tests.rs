//! Golden vectors, error texts and mistreated job files.

use forebay_core::time::Duration;

use super::random::Random;
use super::*;

fn parse(text: &str) -> JobFile {
    JobFile::parse(text, "t").unwrap_or_else(|error| panic!("{error}"))
}

fn job(options: &str) -> Job {
    parse(&format!("[a]\n{}\n", options.replace(' ', "\n"))).jobs.remove(0)
}

fn requests(options: &str, compat: Compat) -> Vec<Io> {
    job(options).stream(compat).collect()
}

fn error(text: &str) -> String {
    JobFile::parse(text, "t.fio").unwrap_err().to_string()
}

#[test]
fn random_reads_visit_every_block_once_in_the_order_of_vector_g2() {
    let all = requests("rw=randread bs=4k size=4m", Compat::V3_34);
    let offsets: Vec<u64> = all.iter().map(|io| io.offset).collect();
    assert_eq!(offsets[..6], [249_856, 3_104_768, 3_534_848, 1_970_176, 1_683_456, 3_522_560]);
    let mut sorted = offsets.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..1024).map(|block| block * 4096).collect::<Vec<_>>());
    assert!(all.iter().all(|io| !io.write && io.len == 4096 && io.file == 0));
}

#[test]
fn reads_and_writes_mix_as_in_vector_g3() {
    let mix = |share: u32| -> Vec<bool> {
        let options = format!("rw=randrw bs=4k size=4m rwmixread={share}");
        requests(&options, Compat::V3_34).iter().map(|io| io.write).collect()
    };
    let text: String = mix(70)[..12].iter().map(|write| if *write { 'W' } else { 'R' }).collect();
    assert_eq!(text, "RRRWRRWRRRWR");
    for (share, reads) in [(70, 707), (50, 496), (30, 290)] {
        assert_eq!(mix(share).iter().filter(|write| !**write).count(), reads, "{share}");
    }
}

#[test]
fn block_sizes_are_drawn_as_in_vector_g4() {
    let kib = |options: &str| -> Vec<u64> {
        requests(options, Compat::V3_34).iter().map(|io| io.len / 1024).collect()
    };
    let writes = kib("rw=write bsrange=4k-64k size=4m");
    assert_eq!(writes[..12], [16, 4, 28, 36, 36, 20, 52, 12, 44, 60, 52, 24]);
    assert_eq!(writes.len(), 118);
    let reads = kib("rw=read bssplit=4k/10:64k/50:32k/40 size=4m");
    assert_eq!(reads[..8], [32, 64, 64, 32, 64, 32, 64, 32]);
    assert_eq!(reads.len(), 100);
}

/// What a job does, a letter each: reads, writes, syncs by their kind, and the file's number.
fn acts(options: &str, compat: Compat) -> String {
    let mut stream = job(options).stream(compat);
    let mut text = String::new();
    loop {
        let (letter, file) = match stream.step(u64::MAX) {
            Action::Io(io) => (if io.write { 'w' } else { 'r' }, io.file),
            Action::Sync(Sync { file, kind }) => (
                match kind {
                    SyncKind::Fsync => 'S',
                    SyncKind::Fdatasync => 'D',
                    SyncKind::End { last: false } => 'e',
                    SyncKind::End { last: true } => 'E',
                    SyncKind::Close => 'c',
                },
                file,
            ),
            Action::Wait(_) => panic!("at the end of time nothing waits"),
            Action::End => return text,
        };
        text += &format!("{letter}{file}");
    }
}

/// As fio 3.33 logs it, apart from the syncs at a close.
#[test]
fn syncs_follow_the_count_of_writes_and_the_file_in_turn() {
    let two = "rw=write bs=4k size=32k nrfiles=2 fsync=3 end_fsync=1";
    assert_eq!(acts(two, Compat::V3_34), "w0w1w0S1w0w1w0S1w1w1E0E1");
    let loops = "rw=write size=16k loops=2 fsync=1 fsync_on_close=1";
    assert_eq!(acts(loops, Compat::V3_34), "w0S0w0S0w0S0w0S0S0w0S0w0S0w0S0w0E0");
    let close = "rw=write size=8k nrfiles=2 fsync_on_close=1";
    assert_eq!(acts(close, Compat::V3_34), "w0w1E0E1");
    assert_eq!(acts("rw=read size=8k fsync=1 end_fsync=1", Compat::V3_34), "r0r0");
}

#[test]
fn up_to_3_37_a_read_behind_a_sync_makes_another_sync() {
    let mixed = "rw=rw size=24k rwmixread=50 fdatasync=1";
    let (older, newer) = (acts(mixed, Compat::V3_34), acts(mixed, Compat::V3_35));
    assert_eq!(older, "r0r0r0w0D0r0D0r0");
    assert_eq!(newer, "r0r0r0w0D0r0r0");
}

#[test]
fn a_rate_counts_the_smallest_block_of_a_request() {
    let mut stream = job("rw=write size=64k bsrange=4k-16k rate_iops=1000").stream(Compat::V3_35);
    let Action::Io(first) = stream.step(0) else { panic!("the first request is due") };
    // 1000 blocks of 4 KiB a second.
    let due = first.len * 1_000_000 / 4_096_000;
    assert_eq!(stream.step(0), Action::Wait(due));
    assert_eq!(stream.step(due - 1), Action::Wait(due));
    assert!(matches!(stream.step(due), Action::Io(_)));
}

#[test]
fn a_pause_uses_up_its_share_of_the_rate_if_the_rate_ignores_pauses() {
    // A request takes a second. Two seconds of pause are two requests, less the one that follows.
    let third = |ignore: u32| {
        let options =
            format!("rw=write size=64k rate=4096 thinktime=2s rate_ignore_thinktime={ignore}");
        let mut stream = job(&options).stream(Compat::V3_35);
        assert!(matches!(stream.step(0), Action::Io(_)));
        stream.paused(true, 2_000_000);
        assert!(matches!(stream.step(2_000_000), Action::Io(_)));
        stream.step(2_000_000)
    };
    assert!(matches!(third(0), Action::Io(_)));
    assert_eq!(third(1), Action::Wait(3_000_000));
}

#[test]
fn newer_versions_start_offsets_from_the_table_as_in_vector_g5() {
    let all = requests("rw=randread bs=4k size=4m", Compat::V3_35);
    let offsets: Vec<u64> = all.iter().take(6).map(|io| io.offset).collect();
    assert_eq!(offsets, [4_096_000, 3_629_056, 2_752_512, 2_162_688, 2_527_232, 4_100_096]);
}

#[test]
fn the_version_chooses_the_seeds() {
    for (version, compat) in [
        ("fio-3.33", Compat::V3_34),
        ("fio-3.34-12-gabc\n", Compat::V3_34),
        ("fio-2.21", Compat::V3_34),
        ("fio-3.35", Compat::V3_35),
        ("3.42", Compat::V3_35),
        ("fio-4.0", Compat::V3_35),
        ("something else", Compat::V3_35),
    ] {
        assert_eq!(Compat::for_version(version), compat, "{version}");
    }
}

#[test]
fn sections_become_jobs_with_their_clones_in_the_order_of_fio() {
    let file = parse(
        "[global]\nsize=64k\n[a]\nnumjobs=3\nnrfiles=2\n[global]\nbs=8k\ndirectory=/x\n[b]\n\
         rw=write\nstonewall\n",
    );
    let names: Vec<(u32, u32, &str)> = file
        .jobs
        .iter()
        .map(|job| (job.job_number, job.clone_number, job.files[0].name.as_str()))
        .collect();
    assert_eq!(names, [(1, 0, "a.0.0"), (2, 2, "a.2.0"), (3, 1, "a.1.0"), (4, 0, "/x/b.0.0")]);
    assert_eq!(file.jobs[0].files[1].room, 32 * 1024);
    assert_eq!((file.jobs[0].stonewall, file.jobs[3].stonewall), (false, true));
    assert_eq!(file.jobs[3].stream(Compat::V3_35).next().map(|io| io.len), Some(8192));
}

#[test]
fn a_job_tells_the_driver_what_is_not_in_its_stream() {
    let job = job("rw=randread size=1m ioengine=libaio iodepth=16 thinktime=5ms \
                   thinktime_blocks=4 runtime=2m startdelay=3 invalidate=0 loops=2");
    assert_eq!((job.iodepth, job.depth(), job.direct), (16, 1, false));
    assert_eq!(job.advice, Advice::Random);
    assert_eq!((job.thinktime.as_nanos(), job.thinktime_blocks), (5_000_000, 4));
    assert_eq!(job.runtime.map(Duration::as_nanos), Some(120_000_000_000));
    assert_eq!(job.startdelay.as_nanos(), 3_000_000_000);
    assert!(!job.invalidate && !job.time_based && job.loops == 2);
}

#[test]
fn a_depth_that_has_no_effect_is_noted_once() {
    let notes = |options: &str| {
        let text = format!("[global]\nrw=read\nsize=1m\niodepth=4\n{options}\n[a]\n[b]\n");
        JobFile::parse(&text, "t").unwrap().notes
    };
    for options in ["", "ioengine=psync\ndirect=1", "ioengine=libaio"] {
        let [note] = &notes(options)[..] else { panic!("{options}: {:?}", notes(options)) };
        assert_eq!((note.line, note.option.as_str()), (4, "iodepth"), "{options}");
    }
    for options in ["ioengine=io_uring", "ioengine=libaio\ndirect=1", "iodepth=1"] {
        assert_eq!(notes(options), [], "{options}");
    }
}

#[test]
fn direct_requests_of_libaio_are_in_flight_together() {
    for (options, direct, depth) in [
        ("direct=1 ioengine=libaio", true, 8),
        ("buffered=0 ioengine=libaio", true, 8),
        ("direct=1 buffered=1 ioengine=libaio", false, 1),
        ("direct=1 ioengine=psync", true, 1),
        ("direct=0 ioengine=io_uring", false, 8),
    ] {
        let job = job(&format!("rw=randread size=1m iodepth=8 {options}"));
        assert_eq!((job.direct, job.depth()), (direct, depth), "{options}");
    }
}

#[test]
fn advice_follows_the_mode_unless_it_is_given() {
    for (options, advice) in [
        ("rw=read", Advice::Sequential),
        ("rw=randwrite", Advice::Random),
        ("rw=read fadvise_hint=0", Advice::Normal),
        ("rw=read fadvise_hint=random", Advice::Random),
        ("rw=randread fadvise_hint=sequential", Advice::Sequential),
    ] {
        assert_eq!(job(&format!("size=1m {options}")).advice, advice, "{options}");
    }
}

#[test]
fn a_time_based_stream_goes_on() {
    let job = job("rw=randread size=64k time_based runtime=10");
    let offsets: Vec<u64> = job.stream(Compat::V3_35).take(64).map(|io| io.offset).collect();
    for loop_of_16 in offsets.chunks(16) {
        let mut sorted = loop_of_16.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..16).map(|block| block * 4096).collect::<Vec<_>>());
    }
}

#[test]
fn a_stream_is_the_same_each_time() {
    let job = job("rw=randrw size=1m bsrange=1k-16k random_distribution=zipf:1.2");
    let first: Vec<Io> = job.stream(Compat::V3_35).collect();
    assert!(job.stream(Compat::V3_35).eq(first));
}

#[test]
fn options_without_effect_are_noted() {
    let file = parse("[a]\nsize=1m\ngroup_reporting\nnice=3\ntime_based\n");
    let notes: Vec<String> = file.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "line 3: option 'group_reporting' is ignored: it shapes fio's report",
            "line 4: option 'nice' is ignored: processors and their sharing are not modelled",
            "line 5: option 'time_based' is ignored: there is no runtime to fill",
        ]
    );
}

#[test]
fn errors_name_file_line_option_and_the_nearest_choice() {
    for (text, message) in [
        ("[a]\nbrange=4k-8k\n", "t.fio:2: unknown option 'brange', the nearest is 'bsrange'"),
        ("[a]\nxyzzy-plugh=1\n", "t.fio:2: unknown option 'xyzzy-plugh'"),
        (
            "[a]\nrw=randraed\n",
            "t.fio:2: option 'rw=randraed': unknown value, the nearest is 'randread', expected one \
             of read, write, randread, randwrite, rw, readwrite, randrw",
        ),
        (
            "[a]\nrw=randtrim\n",
            "t.fio:2: option 'rw=randtrim' is not supported: the simulator has no trim",
        ),
        (
            "[a]\nioengine=null\n",
            "t.fio:2: option 'ioengine=null' is not supported: only engines that read and write \
             files are",
        ),
        (
            "[a]\nsize=1m\nioengine=mmap\ndirect=1\n",
            "t.fio:4: option 'direct=1' is not supported: ioengine=mmap maps the page cache",
        ),
        (
            "[a]\nsize=1m\nbuffered=0\nbs=1000\n",
            "t.fio:4: job 'a': direct=1 takes blocks of whole sectors of 512 bytes",
        ),
        (
            "[a]\nsize=1m\ndirect=1\noffset=100\n",
            "t.fio:4: job 'a': direct=1 takes offsets in whole sectors of 512 bytes",
        ),
        (
            "[a]\nrandom_distribution=normal:20\n",
            "t.fio:2: option 'random_distribution=normal:20' is not supported: only random, zipf \
             and pareto are drawn",
        ),
        ("[a]\nbs=1.5k\n", "t.fio:2: option 'bs=1.5k': expected one to three sizes such as 4k,64k"),
        ("[a]\nbs\n", "t.fio:2: option 'bs' needs a value"),
        ("[a]\nnorandommap=yes\n", "t.fio:2: option 'norandommap=yes': expected 0 or 1"),
        (
            "[a]\nsize=(4*1024)\n",
            "t.fio:2: option 'size=(4*1024)' is not supported: arithmetic in parentheses is not \
             evaluated",
        ),
        (
            "[a]\nsize=${SIZE}\n",
            "t.fio:2: option 'size=${SIZE}' is not supported: environment variables are not \
             replaced",
        ),
        (
            "[a]\nsize=2z\n",
            "t.fio:2: option 'size=2z' is not supported: sizes in zones need a zoned device",
        ),
        (
            "include other.fio\n",
            "t.fio:1: option 'include other.fio' is not supported: put the text of the included \
             file in its place",
        ),
        ("bs=4k\n", "t.fio:1: option 'bs=4k' stands outside a section, expected '[name]' first"),
        ("; nothing\n[global]\nbs=4k\n", "t.fio:1: the file defines no job"),
        ("[a\n", "t.fio:1: section header '[a' is not of the form '[name]'"),
        (
            "[a]\nbs= 4k\n",
            "t.fio:2: option 'bs= 4k': expected no blank after '=', since fio misreads numbers \
             behind one",
        ),
    ] {
        assert_eq!(error(text), message);
    }
}

#[test]
fn contradictions_are_refused_where_they_stand() {
    for (text, message) in [
        ("[a]\nrw=read\n", "t.fio:1: job 'a': it needs size= or filesize="),
        (
            "[a]\nbs=64k\nsize=4k\n",
            "t.fio:3: job 'a': size 4096 is less than the smallest block 65536",
        ),
        (
            "[a]\nbs=4k\nsize=6k\nnrfiles=2\n",
            "t.fio:2: job 'a': no file holds a block of 4096 bytes, the largest has 3072",
        ),
        (
            "[a]\nfilesize=4k\noffset=8k\n",
            "t.fio:3: job 'a': offset 8192 lies beyond the file's end at 4096",
        ),
        (
            "[a]\nsize=1m\nnumjobs=5000\n",
            "t.fio:3: job 'a': the number of jobs is 5000, at most 4096 are supported",
        ),
        (
            "[a]\nsize=1m\nnumjobs=2\nfilename_format=x\n",
            "t.fio:4: job 'a': its clones need $jobnum in filename_format, or filename=",
        ),
        (
            "[a]\nrw=randread\nsize=1m\nrandrepeat=0\n",
            "t.fio:4: option 'randrepeat=0' is not supported: seeds from the system's entropy \
             cannot be repeated, set randseed",
        ),
        (
            "[a]\nrw=randread\nbs=1\nsize=5g\n",
            "t.fio:4: job 'a': the number of blocks in the random map is 5368709120, at most \
             4294967295 are supported",
        ),
        (
            "[a]\nbsrange=1-1g\nsize=2g\n",
            "t.fio:2: job 'a': the ratio of the largest block to the smallest is 1073741824, at \
             most 67108864 are supported",
        ),
        (
            "[a]\nsize=1m\nnrfiles=2000000\n",
            "t.fio:3: job 'a': the number of files is 2000000, at most 1048576 are supported",
        ),
    ] {
        assert_eq!(error(text), message);
    }
}

/// Each character of the format was compared with a copy of all that follows it, and names took as
/// much memory as the format and the number of files asked for: a file of 8 KiB asked for 8 GiB.
#[test]
fn long_names_of_many_files_are_refused() {
    let files = |format: &str, count: u32| {
        error(&format!("[a]\nsize=1g\nfilename_format={format}\nnrfiles={count}\n"))
    };
    assert_eq!(
        files(&format!("{}$filenum", "x".repeat(8_000)), 1_000_000),
        "t.fio:3: job 'a': the bytes of a file's name is 8001, at most 4095 are supported"
    );
    let message = files(&format!("{}$FileNum", "x".repeat(4_000)), 1_000_000);
    assert!(message.starts_with("t.fio:4: job 'a': the bytes of all names of files is 13"));
}

#[test]
fn sizes_that_fio_would_draw_forever_end_the_file() {
    let all = requests("rw=read bssplit=2k/0:8k/100 size=10k", Compat::V3_35);
    assert_eq!(all.iter().map(|io| io.len).collect::<Vec<_>>(), [8192]);
}

#[test]
fn a_job_of_every_block_of_a_large_file_stays_quick_to_start() {
    let mut stream = job("rw=randread bs=4k size=64g").stream(Compat::V3_35);
    assert!(stream.by_ref().take(1000).all(|io| io.offset % 4096 == 0));
}

/// Texts that touch most of the parser, to be mistreated.
const SEEDLINGS: [&str; 4] = [
    "[global]\nthread\nsize=1m ; comment\nkb_base=1000\n[j0]\nrw=randrw:3\nbs=4k,8k\n\
     rwmixread=70\nnumjobs=3\nnumber_ios=60\nfilename_format=$jobname.$jobnum.$filenum\n",
    "[a b]\nrw=read:-4k\nbssplit=4k/10:64k/50:32k/,8k/40:1k/\nloops=2\nfilesize=1m\n\
     filename=d/x:y\\:z\noffset=10%\noffset_increment=5%\noffset_align=4k\nio_size=50%\n",
    "[z]\nrw=randwrite\nbsrange=1k-16k,512-4k\nrandom_distribution=zipf:1.2:0.5\nfilesize=\
     64k-512k\nnrfiles=5\nopenfiles=2\nfile_service_type=random:3\nrandseed=0x89\nsize=50%\n",
    "[t]\nrw=randread\nsize=300k\ntime_based\nruntime=2s\nstartdelay=1s-5s\nthinktime=3ms\n\
     percentage_random=50,20\nrw_sequencer=identical\nblockalign=512\nbs_unaligned\n",
];

#[test]
fn mistreated_text_gives_jobs_or_errors_but_never_a_panic() {
    for text in SEEDLINGS {
        parse(text);
    }
    let mut random = Random::narrow(2005);
    let mut taken = 0;
    for round in 0..6000 {
        let mut text: Vec<u8> = SEEDLINGS[round % SEEDLINGS.len()].bytes().collect();
        for _ in 0..=random.below(2) {
            mistreat(&mut text, &mut random);
        }
        let text = String::from_utf8_lossy(&text);
        let Ok(file) = JobFile::parse(&text, "t") else { continue };
        taken += 1;
        for job in file.jobs.iter().take(4) {
            let small = job.files.iter().all(|file| file.room < 1 << 30) && job.files.len() < 100;
            for io in job.stream(Compat::V3_35).take(if small { 50 } else { 0 }) {
                let file = &job.files[io.file as usize];
                assert!(io.len > 0 && io.offset + io.len <= file.room, "{io:?} {text}");
            }
        }
    }
    assert!(taken > 400, "{taken} of 6000 texts were taken");
}

fn mistreat(text: &mut Vec<u8>, random: &mut Random) {
    let at = usize::try_from(random.below(text.len() as u64)).unwrap();
    match random.below(6) {
        0 => text[at] = random.below(128) as u8,
        1 => text.insert(at, LETTERS[random.below(LETTERS.len() as u64) as usize]),
        2 => drop(text.remove(at)),
        3 => text.truncate(at.max(1)),
        4 => {
            let end = text.len().min(at + 12);
            text.extend_from_within(at..end);
        }
        _ => text[at] = b'0' + random.below(10) as u8,
    }
}

const LETTERS: &[u8] = b"0123456789%kmgz:,-/.=[]\n;#\\$(\xff ";
