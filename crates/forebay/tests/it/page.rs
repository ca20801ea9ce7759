//! Pages of results: every number that programs get is on the page, nothing is loaded, and a
//! browser shows it in the light and in the dark, on a wide screen and on a phone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::page_cells::{has_every_cell, page_beside_json};
use crate::support::{Scene, stderr, stdout};

#[test]
fn every_cell_of_a_paper_is_on_its_page() {
    let scene = Scene::new();
    for (paper, figures) in [("readahead", 8), ("cramfs", 10)] {
        let line = format!("reproduce {paper} --draws 2 --format json");
        let (json, page) = page_beside_json(&scene, &line, 0);
        has_every_cell(&page, json.as_array().unwrap());
        assert_eq!(page.matches("role=\"img\"").count(), figures, "{paper}");
        assert!(page.contains("What is not claimed"), "{paper}");
        assert!(page.contains(&format!("<code>forebay {line} --html page.html</code>")));
    }
}

#[test]
fn the_same_command_makes_the_same_page() {
    let scene = Scene::new();
    let line = "reproduce readahead --draws 1 --format json";
    let (_, first) = page_beside_json(&scene, line, 0);
    let (_, second) = page_beside_json(&scene, line, 0);
    assert_eq!(first, second);
    assert_eq!(fs::read_dir(scene.path(".")).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn every_cell_of_a_simulation_is_on_its_page_also_with_odd_names() {
    let job = "[a<b>&\"c\"]\nrw=randwrite\nsize=8m\nbs=4k\nfsync=64\n\
               [reader]\nrw=randread\nsize=4m\nbs=4k\n";
    let scene = Scene::new().file("<i>&.fio", job);
    for more in ["", "--compare throttle=paced,off --compare readahead=off,fixed:max=8"] {
        let line = format!("simulate <i>&.fio --format json --machine ssd-2014 {more}");
        let (json, page) = page_beside_json(&scene, line.trim_end(), 0);
        has_every_cell(&page, json.as_array().unwrap());
        assert!(!page.contains("<i>&.fio") && page.contains("&lt;i&gt;&amp;.fio"));
        for figure in ["Throughput", "read latency", "write latency", "sync latency"] {
            assert!(page.contains(figure), "{figure}");
        }
        let moved = ["dirty", "limit", "reads", "writes", "load", "mean request"];
        for series in moved.into_iter().chain(["mean readahead window"]) {
            let (beside, alone) = (format!("</svg>{series}</li>"), format!(": {series}</h4>"));
            assert!(page.contains(&beside) || page.contains(&alone), "{series}");
        }
    }
}

#[test]
fn a_job_on_a_real_file_has_a_page() {
    let scene = Scene::new().file("file", vec![7; 2 << 20]);
    let scene = scene.file("job.fio", "[a]\nrw=randread\nsize=1m\nbs=4k\n");
    let (json, page) = page_beside_json(&scene, "run job.fio --on file --format json", 0);
    has_every_cell(&page, json.as_array().unwrap());
    assert!(page.contains("read latency") && page.contains("<dt>kernel</dt>"));
}

#[test]
fn every_difference_of_two_images_is_on_their_page() {
    let scene = Scene::new();
    for (name, bytes) in [("one/a<b>&\"c\"", "x"), ("one/same", "y"), ("two/same", "z")] {
        fs::create_dir_all(scene.path(name).parent().unwrap()).unwrap();
        fs::write(scene.path(name), bytes).unwrap();
    }
    let made = scene.command("image make one image").output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let (json, page) = page_beside_json(&scene, "image compare image two --json", 1);
    let differences = json["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 2, "{json}");
    has_every_cell(&page, differences);
    for fact in ["names", "bytes"] {
        let shown = format!("<dt>{fact}</dt><dd>{}</dd>", json[fact]);
        assert!(page.contains(&shown), "{shown}");
    }
    assert!(!page.contains("a<b>"));
}

/// Said before anything runs, and nothing is left behind.
#[test]
fn what_cannot_be_a_page_is_refused() {
    let scene = Scene::new().file("job.fio", "[a]\nrw=read\nsize=4k\n");
    fs::create_dir(scene.path("folder")).unwrap();
    let (_, page) = page_beside_json(&scene, "simulate job.fio --format json", 0);
    fs::remove_file(scene.path("page.html")).unwrap();
    let mine = page.replacen("</main>", "<p>what I make of it</p></main>", 1);
    let mut scene = scene.file("mine.html", mine);
    symlink("absent", scene.path("link.html")).unwrap();
    scene
        .refused("reproduce --html absent/page.html")
        .refused("reproduce --html folder")
        .refused("reproduce --html -")
        .refused("reproduce --html /dev/null")
        .refused("simulate job.fio --html job.fio")
        .refused("simulate job.fio --html link.html")
        .refused("simulate job.fio --html mine.html")
        .refused("simulate job.fio --html /dev/stdout")
        .refused("image compare job.fio folder --html job.fio");
    scene.matches("page_refused.txt");
    assert_eq!(fs::read_dir(scene.path(".")).unwrap().count(), 4);
}

/// The disk was full after minutes of work, and the table was lost with the page.
#[test]
fn a_page_that_cannot_be_written_takes_no_table_with_it() {
    let scene = Scene::new().file("job.fio", "[a]\nrw=read\nsize=64k\n").file("file", [7; 65_536]);
    fs::create_dir(scene.path("one")).unwrap();
    fs::create_dir(scene.path("two")).unwrap();
    fs::write(scene.path("two/more"), "x").unwrap();
    assert!(scene.command("image make one image").status().unwrap().success());
    let before = fs::read_dir(scene.path(".")).unwrap().count();
    for (line, code) in [
        ("simulate job.fio", 0),
        ("run job.fio --on file", 0),
        ("reproduce readahead --draws 1 --format csv", 0),
        ("image compare image two", 1),
    ] {
        let alone = scene.command(line).output().unwrap();
        assert_eq!(alone.status.code(), Some(code), "{line}");
        // Files may be made, and hold nothing.
        let mut full = Command::new("sh");
        full.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
        let command = scene.command(line);
        full.arg(command.get_program()).args(command.get_args()).args(["--html", "page.html"]);
        let output = full.current_dir(scene.path(".")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        let said = stderr(&output);
        assert!(said.contains("error: cannot write page.html: File too large"), "{said}");
        let lines = |output| stdout(output).lines().count();
        assert_eq!(lines(&output), lines(&alone), "{line}");
        assert_eq!(fs::read_dir(scene.path(".")).unwrap().count(), before, "{line}");
    }
}

/// A name must not write on the terminal, nor pass for a hint.
#[test]
fn a_name_of_a_page_is_said_on_one_line() {
    let scene = Scene::new().file("job.fio", "[a]\nrw=read\nsize=4k\n");
    for (folder, code) in [("", 0), ("absent/", 2)] {
        let mut command = scene.command("simulate job.fio --html");
        let output = command.arg(format!("{folder}a\n\u{1b}[31m.html")).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert!(!stderr(&output).contains('\u{1b}'));
        let name = "a\u{fffd}\u{fffd}[31m.html";
        assert!(stderr(&output).lines().next().unwrap().contains(name), "{}", stderr(&output));
    }
}

/// A browser without a window, with a separate profile.
pub(crate) fn browser(profile: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["120", "chromium", "--headless", "--no-sandbox", "--disable-gpu"]);
    command.args(["--disable-quic", "--no-first-run", "--disable-background-networking"]);
    command.args(["--disable-component-update", "--disable-sync", "--hide-scrollbars"]);
    command.args(["--enable-logging=stderr", "--virtual-time-budget=2000"]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command
}

/// Where what tests leave behind is.
pub(crate) fn artefact(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

pub(crate) fn has_chromium() -> bool {
    ["/usr/bin/chromium", "/usr/local/bin/chromium"].iter().any(|path| Path::new(path).exists())
}

#[test]
fn a_browser_shows_the_page_in_light_and_dark_wide_and_narrow() {
    if !has_chromium() {
        eprintln!("skip: the report in a browser: needs chromium; apt-get install chromium");
        return;
    }
    let scene = Scene::new();
    let line = "reproduce readahead --draws 2 --format json";
    let (json, page) = page_beside_json(&scene, line, 0);
    let report = artefact("report.html");
    fs::write(&report, &page).unwrap();
    eprintln!("the report: {}", report.display());
    let address = format!("file://{}", report.display());
    let profile = scene.path("profile");
    let dump = browser(&profile).args(["--dump-dom", &address]).output().unwrap();
    let (dom, said) =
        (String::from_utf8_lossy(&dump.stdout), String::from_utf8_lossy(&dump.stderr));
    assert!(dump.status.success(), "{said}");
    has_every_cell(&dom, json.as_array().unwrap());
    let complaint = said.lines().find(|line| line.contains("CONSOLE"));
    assert_eq!(complaint, None, "{said}");
    let shots = [("light", 1, "1200,900"), ("dark", 0, "1200,900"), ("phone", 1, "400,800")];
    let mut sizes = BTreeMap::new();
    for (name, scheme, window) in shots {
        let shot = artefact(&format!("report-{name}.png"));
        let _ = fs::remove_file(&shot);
        let mut browser = browser(&profile);
        browser.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        browser.arg(format!("--window-size={window}"));
        browser.arg(format!("--screenshot={}", shot.display())).arg(&address);
        let output = browser.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let shown = fs::read(&shot).unwrap_or_else(|error| panic!("{name}: {error}: {said}"));
        assert!(shown.len() > 20_000, "{name} shows next to nothing: {} bytes", shown.len());
        sizes.insert(name, shown);
    }
    assert_ne!(sizes["light"], sizes["dark"], "the dark has colours of its own");
    let of_few = clipped(&scene, &page);
    assert!(of_few.len() >= 2 && of_few.iter().all(|wider| *wider <= 0), "{of_few:?} pixels");
}

/// By how much each table for people is wider than its box on a screen of 1200 pixels, as a browser
/// lays it out.
fn clipped(scene: &Scene, page: &str) -> Vec<i32> {
    const ASK: &str = "<script>document.body.dataset.wider = [...document.querySelectorAll('.few')]\
                       .map(box => box.scrollWidth - box.clientWidth).join(' ')</script>";
    let may_run = page.replace("default-src 'none'", "script-src 'unsafe-inline'");
    let probe = scene.path("probe.html");
    let asking = may_run.replace("</body>", &format!("{ASK}</body>"));
    fs::write(&probe, asking).expect("a scratch file can be written");
    let mut browser = browser(&scene.path("profile"));
    browser.args(["--window-size=1200,900", "--dump-dom"]);
    let output = browser.arg(format!("file://{}", probe.display())).output();
    let output = output.expect("the browser runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    let (_, found) = dom.split_once("data-wider=\"").expect("the script has run");
    let (found, _) = found.split_once('"').expect("an attribute ends");
    found.split(' ').map(|wider| wider.parse().expect("it is a number")).collect()
}
