//! Pages of sweeps: heat maps, Pareto fronts, every setting; also in a narrow window.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::page::{artefact, browser, has_chromium};
use crate::page_cells::loads_nothing;
use crate::support::{Scene, printed, stderr};
use crate::sweep::{GRID, scene};

/// A sweep that was run.
fn swept(grid: &str) -> Scene {
    let scene = scene();
    printed(scene.command(&format!("sweep plan r.fio {grid} -o s")));
    printed(scene.command("sweep submit s"));
    scene
}

/// Runs a command with a page, which changes nothing of what is printed.
fn page(scene: &Scene, line: &str) -> String {
    let alone = printed(scene.command(line.split(" --html").next().expect("a split has parts")));
    let output = scene.command(line).output().expect("the program runs");
    assert_eq!(stderr(&output), "note: the page is page.html\n", "{line}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), alone);
    let page = fs::read_to_string(scene.path("page.html")).expect("the page is there");
    loads_nothing(&page);
    page
}

/// The cells of the heat maps, row by row, as a reader sees them.
fn maps(page: &str) -> Vec<Vec<Vec<String>>> {
    let cells = |row: &str| -> Vec<String> {
        let cells = row.split("<td").skip(1);
        cells.map(|cell| cell.split(['>', '<']).nth(1).unwrap_or_default().to_owned()).collect()
    };
    let maps = page.split("<figure class=\"heat\">").skip(1);
    let rows = |map: &str| {
        let body = map
            .split("<tbody>")
            .nth(1)
            .and_then(|body| body.split("</tbody>").next())
            .expect("a body")
            .to_owned();
        body.split("<tr>").skip(1).map(cells).collect()
    };
    maps.map(rows).collect()
}

#[test]
fn a_page_has_a_map_a_front_and_every_setting() {
    let scene = swept(GRID);
    let page = page(&scene, "sweep best s --by read_p99_us --html page.html");
    // Two machines; three policies by two values of jitter, means of four seeds.
    let maps = maps(&page);
    assert_eq!(maps.len(), 2);
    assert!(maps.iter().all(|map| map.len() == 3 && map.iter().all(|row| row.len() == 2)));
    assert_eq!(page.matches("class=\"n best\"").count(), 2);
    assert_eq!(page.matches("Each cell is a mean over 4 seeds.").count(), 2);
    assert_eq!(page.matches("role=\"img\"").count(), 2);
    assert!(page.contains("small values are best of read_p99_us, large values are best of"));
    let merged = printed(scene.command("sweep merge s --format json"));
    let rows: Vec<Value> = serde_json::from_str(&merged).unwrap();
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for row in &rows {
        let word = |key: &str| row[key].as_str().unwrap().to_owned();
        let key = [word("machine"), word("readahead"), word("device.jitter")].join(" ");
        let sum = sums.entry(key).or_default();
        sum.0 += row["read_p99_us"].as_f64().unwrap() / 4.0;
        sum.1 += row["throughput_mb_s"].as_f64().unwrap() / 4.0;
    }
    assert_eq!(sums.len(), 12);
    let bare = page.replace("<small>", "").replace("</small>", "");
    for (key, (by, against)) in &sums {
        for mean in [by, against] {
            let shown = format!("{:.2}", (mean * 100.0).floor() / 100.0);
            assert!(bare.contains(&format!(">{shown}")), "{key}: {shown}");
        }
    }
    assert!(page.matches(">on it<").count() >= 2, "each machine has a front");
}

#[test]
fn axes_and_what_is_left_of_the_others_can_be_chosen() {
    let scene = swept(GRID);
    let line = "sweep merge s --html page.html --by throughput_mb_s --axes machine,seed \
                --at readahead=off --against read_mean_us";
    let page = page(&scene, line);
    let maps = maps(&page);
    assert_eq!(maps.len(), 1);
    assert!(maps[0].len() == 2 && maps[0].iter().all(|row| row.len() == 4));
    assert!(page.contains("Each cell is a mean over 2 values of device.jitter."));
    assert!(page.contains("readahead=off") && !page.contains("readahead=linux"));
    assert!(page.contains("throughput_mb_s, large values are best"));
    let of_one = scene.command("sweep merge s --html page.html --at seed=2").output().unwrap();
    assert!(of_one.status.success());
    let page = fs::read_to_string(scene.path("page.html")).unwrap();
    assert!(page.contains("seed=2") && !page.contains("Each cell is a mean"));
}

#[test]
fn few_dimensions_make_a_page_all_the_same() {
    for (grid, rows) in [("--seeds 1", 0), ("--seeds 1..3", 3), ("--grid readahead=off,fixed", 2)] {
        let scene = swept(grid);
        let page = page(&scene, "sweep merge s --html page.html");
        let maps = maps(&page);
        assert_eq!(maps.first().map_or(0, Vec::len), rows, "{grid}");
        assert_eq!(page.contains("so there is no map"), rows == 0, "{grid}");
    }
}

#[test]
fn what_cannot_be_on_a_page_is_refused() {
    let mut scene = swept("--grid readahead=off,fixed --seeds 1..2");
    scene
        .refused("sweep merge s --html page.html --by read_p9_us")
        .refused("sweep merge s --html page.html --against raeds")
        .refused("sweep merge s --html page.html --by reads --against reads:max")
        .refused("sweep best s --by reads --html page.html --axes readahead")
        .refused("sweep best s --by reads --html page.html --axes readahead,sead")
        .refused("sweep best s --by reads --html page.html --at readahead")
        .refused("sweep best s --by reads --html page.html --at readahead=of")
        .refused("sweep best s --by reads --html page.html --at machines=x")
        .refused("sweep best s --by reads --at seed=1")
        .refused("sweep best s --by reads --html s");
    scene.matches("sweep_page_refused.txt");
    assert!(!scene.path("page.html").exists());
}

/// On a telephone the page itself does not scroll sideways; maps and tables do, in their boxes.
#[test]
fn a_page_is_as_wide_as_a_narrow_window() {
    if !has_chromium() {
        eprintln!("skip: the page of a sweep in a browser: needs chromium");
        return;
    }
    let scene = swept(
        "--machine vm-2026,nvme-2026 --grid readahead=off,fixed:max=8,fixed:max=64,linux-6.18 \
         --grid device.delay=10us,50us,100us,200us,400us,800us",
    );
    let page = page(&scene, "sweep best s --by read_p99_us --html page.html");
    let report = artefact("sweep.html");
    fs::write(&report, page).unwrap();
    eprintln!("the page: {}", report.display());
    let frame = format!(
        "<iframe id=f style=\"width:390px;height:800px;border:0\" src=\"file://{}\"></iframe>\
         <script>onload = () => document.body.dataset.wide = \
         f.contentDocument.documentElement.scrollWidth</script>",
        report.display()
    );
    let scene = scene.file("frame.html", frame);
    let mut browser = browser(&scene.path("profile"));
    browser.args(["--allow-file-access-from-files", "--window-size=1200,900", "--dump-dom"]);
    let output = browser.arg(format!("file://{}", scene.path("frame.html").display())).output();
    let dom = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
    let (_, wide) = dom.split_once("data-wide=\"").expect("the script has run");
    let wide: u32 = wide.split('"').next().unwrap().parse().unwrap();
    assert!(wide <= 390, "{wide} pixels");
}
