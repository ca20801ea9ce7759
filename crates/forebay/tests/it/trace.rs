//! `forebay trace`, and traces replayed by `forebay simulate`.

use crate::support::Scene;

/// Two volumes, out of order in one place.
const MSR: &str = "128166372003061629,src1,2,Read,8050688,4096,1331\n\
128166372003071629,src1,2,Write,8054784,65536,50000\n\
128166372003069629,hm,0,Read,4096,512,1\n\
128166372013061629,hm,0,Read,4608,512,100\n\
128166372013061629,src1,2,Read,8050688,8192,1331\n";

const STRACE: &str = "\
1 1795232544.000000 openat(AT_FDCWD</>, \"a\", O_RDWR) = 3</data/a> <0.000040>
1 1795232544.001000 read(3</data/a>, \"\"..., 65536) = 65536 <0.000100>
1 1795232544.002000 read(3</data/a>, \"\"..., 65536) = 65536 <0.000100>
2 1795232544.002500 openat(AT_FDCWD</>, \"b\", O_RDWR) = 3</data/b> <0.000040>
2 1795232544.003000 write(3</data/b>, \"\"..., 4096) = 4096 <0.000100>
2 1795232544.004000 fdatasync(3</data/b>) = 0 <0.001000>
1 1795232544.009000 pread64(3</data/a>, \"\"..., 4096, 1048576) = 4096 <0.000100>
";

fn scene() -> Scene {
    Scene::new().file("msr.csv", MSR).file("calls.txt", STRACE)
}

#[test]
fn traces_are_shown_and_measured() {
    let mut scene = scene();
    scene
        .forebay("trace info msr.csv")
        .forebay("trace info msr.csv --json")
        .forebay("trace head msr.csv -n 2")
        .forebay("trace head calls.txt --json -n 1")
        .forebay("trace stats msr.csv")
        .forebay("trace stats calls.txt --only /data/a --json");
    scene.matches("trace.txt");
}

#[test]
fn traces_are_converted_and_sampled() {
    let mut scene = scene();
    scene
        .forebay("trace convert msr.csv --to fio-iolog-v3 -o -")
        .forebay("trace convert msr.csv --to mqsim -o -")
        .forebay_reads("0,0,8,1,0\n", "trace convert - --format tencent --to mqsim -o -")
        .forebay("trace convert calls.txt --to fio-iolog-v2 -o log")
        .forebay("trace info log")
        .forebay("trace sample msr.csv --one-in 2 --seed 4 --to alibaba -o -")
        .forebay("trace convert msr.csv --only hm_0 --to vscsi -o disk.vscsi")
        .forebay("trace head disk.vscsi");
    scene.matches("trace_converted.txt");
}

#[test]
fn traces_are_replayed() {
    let mut scene = scene();
    scene
        .forebay("simulate msr.csv")
        .forebay("simulate msr.csv --closed-loop --depth 4 --devices 1 --format csv")
        .forebay("simulate msr.csv --speed 10 --compare elevator=none,mq-deadline")
        .forebay("simulate msr.csv --layer cache --policy readahead=off")
        .forebay("simulate calls.txt --policy throttle=paced")
        .forebay("simulate calls.txt --open-loop --layer block");
    scene.matches("trace_replayed.txt");
}

#[test]
fn bad_traces_and_options_are_refused() {
    let cut = MSR.replace("hm,0,Read,4096", "hm,0,Raed,4096");
    let objects: Vec<u8> = [0u32.to_le_bytes(), 1u32.to_le_bytes(), [0; 4], 9u32.to_le_bytes()]
        .concat()
        .into_iter()
        .chain([0xff; 8])
        .collect();
    let mut scene = scene()
        .file("bad.csv", cut)
        .file("words.txt", "hello\n")
        .file("empty", "")
        .file("objects.bin", objects)
        .file("job.fio", "[a]\nrw=read\nsize=4k\n")
        .file("far.csv", MSR.replace("8054784", "4611686018427387904"));
    scene
        .refused("trace info bad.csv")
        .refused("trace info words.txt")
        .refused("trace info empty")
        .refused("trace info absent.csv")
        .refused("trace info msr.csv --only other")
        .refused("trace convert msr.csv --to vscsi -o out")
        .refused("trace convert bad.csv -o out")
        .refused("trace convert msr.csv -o out.gz")
        .refused("trace convert msr.csv -o out.zst")
        .refused("trace convert objects.bin -o out")
        .refused("simulate objects.bin")
        .refused("simulate bad.csv --trace-format msr")
        .refused("simulate msr.csv --policy readahead=off")
        .refused("simulate msr.csv --speed 0")
        .refused("simulate far.csv")
        .refused("simulate job.fio --speed 2")
        .refused("simulate - --trace-format msr")
        .forebay("trace info bad.csv --skip-bad 1");
    scene.matches("trace_refused.txt");
    assert!(!scene.path("out").exists(), "what is incomplete is not left behind");
}

#[test]
fn statistics_become_a_page() {
    let scene = scene();
    let output = scene.command("trace stats msr.csv --html page.html").output().unwrap();
    assert!(output.status.success());
    let html = std::fs::read_to_string(scene.path("page.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("Sizes of reads") && html.contains("LRU cache"));
}
