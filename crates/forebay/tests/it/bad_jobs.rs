//! Errors of job files: file, line, option, the expected value, the nearest name.

use crate::support::Scene;

#[test]
fn a_job_file_that_is_no_job_file_is_refused() {
    let mut scene = Scene::new()
        .file("empty.fio", "")
        .file("global.fio", "# nothing\n[global]\nsize=1M\n")
        .file("bytes.fio", [b'[', 0xff, b']'])
        .file("long.fio", format!("[a]\ndescription={}\n", "x".repeat(9_000)));
    scene
        .refused("simulate missing.fio")
        .refused("simulate .")
        .refused("simulate empty.fio")
        .refused("simulate global.fio")
        .refused("simulate bytes.fio")
        .refused("simulate long.fio")
        .refused("simulate -")
        .refused("run empty.fio --on empty.fio");
    scene.matches("job_files.txt");
}

#[test]
fn a_bad_line_is_named_with_what_would_do() {
    let mut scene = Scene::new();
    for text in [
        "rw=read\n",
        "[a\nrw=read\n",
        "[]\nrw=read\n",
        "[a]\nrw=read\nsize=1M\niodpeth=2\n",
        "[a]\nxyzzy=1\n",
        "[a]\nrw=raed\n",
        "[a]\nrw=read\nsize=1X\n",
        "[a]\nrw=read\nsize\n",
        "[a]\nrw=read\nsize=1M\nbs=0\n",
        "[a]\nrw=read\nsize=1M\nbs=-4k\n",
        "[a]\nrw=read\nsize=99999999999G\n",
        "[a]\nrw=read\nsize=18446744073709551615\n",
        "[a]\nrw=read\nsize=1M\niodepth=0\n",
        "[a]\nrw=read\nsize=1M\nnumjobs=0\n",
        "[a]\nrw=read\nsize=1M\nnumjobs=2147483648\n",
        "[a]\nrw=read\nsize=1M\nruntime=forever\n",
    ] {
        scene.refused_reading(text, "simulate -");
    }
    scene.matches("job_lines.txt");
}

#[test]
fn what_the_engine_cannot_do_is_refused_and_not_done_otherwise() {
    let mut scene = Scene::new();
    for text in [
        "[global]\nsize=1M\nfilename=x\n[a]\nrw=write\ndirect=1\n[b]\nrw=read\n",
        "[a]\nrw=read\nsize=1M\nioengine=rbd\n",
        "[a]\nrw=write\nsize=1M\nioengine=mmap\n",
        "[a]\nrw=read\nsize=1M\nrate_min=1m\n",
        "[a]\nrw=randwrite\nsize=1M\nfsync=1\nioengine=io_uring\niodepth=4\n",
        "[a]\nrw=randrw\nsize=1M\ncreate_on_open=1\n",
        "[a]\nrw=trim\nsize=1M\n",
        "[a]\nrw=randread\nsize=1M\nrandrepeat=0\n",
    ] {
        scene.refused_reading(text, "simulate -");
    }
    scene.matches("job_unsupported.txt");
}

#[test]
fn contradictions_are_refused() {
    let mut scene = Scene::new();
    for text in [
        "[a]\nrw=read\n",
        "[a]\nrw=read\nsize=0\n",
        "[a]\nrw=read\nsize=1M\nbs=2M\n",
        "[a]\nrw=read\nsize=1M\nnrfiles=5000\n",
        "[a]\nrw=read\nsize=1M\nnrfiles=2147483647\n",
        "[a]\nrw=read\nsize=1M\nnumjobs=5000\n",
        "[a]\nrw=randread\nsize=1T\n",
        "[a]\nrw=read\nsize=9223372036854775807\n",
        "[a]\nrw=randread\nsize=9223372036854775807\nbs=1\n",
        "[a]\nrw=read\nfilesize=4k\noffset=8k\n",
    ] {
        scene.refused_reading(text, "simulate -");
    }
    scene.matches("job_contradictions.txt");
}
