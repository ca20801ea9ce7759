//! Windows so small that streams wait for latency or seeks.
//!
//! Source:     Linux mm/readahead.c; the kernel's documentation of sysfs-class-bdi
//! Behaviour:  a stream has at most its window under way: it gets window by latency. A window of
//!             nothing makes every page a request of its own.
//! Differs:    FUSE file systems are looked at if their name says that a network is behind them.
//! Not for:    random readers, which lose with every page that is not needed.

use super::{
    EffectBasis, Evidence, Finding, Gain, RemedyCost, Rule, Seen, Severity, Subject, remedy, seeks,
};
use crate::machine::{Device, Kind, Mount};

pub(super) const RULE: Rule = Rule {
    id: "read-ahead-too-small",
    about: "a read-ahead window that makes sequential reads wait for latency or seeks",
    find,
};

fn find(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (device, mount) in seen.mounted() {
        let Some(window) = device.read_ahead_kb() else { continue };
        let subject = Subject::device(device, Some(mount));
        let evidence = vec![Evidence::count("read_ahead_kb", window, "KiB")];
        let finding = if window < LEAST_KB && device.kind != Kind::Memory {
            Some(nothing(device, window))
        } else if is_remote(device, mount) && window < REMOTE_LEAST_KB {
            Some(remote(device, mount, window))
        } else if seeks(device) && window < SEEKING_LEAST_KB {
            Some(seeking(device, window))
        } else {
            slow(seen, device, window)
        };
        findings.extend(finding.map(|found| Finding {
            id: RULE.id,
            subject,
            severity: found.severity,
            summary: found.summary,
            evidence: evidence.into_iter().chain(found.evidence).collect(),
            gain: found.gain,
            cost: found.cost,
            remedy: found.remedy,
        }));
    }
    findings
}

/// What one of the cases adds.
struct Found {
    severity: Severity,
    summary: String,
    evidence: Vec<Evidence>,
    gain: Option<Gain>,
    cost: RemedyCost,
    remedy: Vec<String>,
}

fn nothing(device: &Device, window: u64) -> Found {
    Found {
        severity: Severity::Problem,
        summary: format!(
            "With a window of {window} KiB nearly every page is a request of its own, for \
             sequential and for large random reads."
        ),
        evidence: Vec::new(),
        gain: (window < 4).then(|| Gain {
            ratio_tenths: 102,
            basis: "random reads of 1 MiB on a device limited to 125 MiB/s and 3000 requests/s: \
                    12.3 per second at 0 KiB, 131 at 16 KiB"
                .to_owned(),
            known: EffectBasis::MeasuredElsewhere,
        }),
        cost: RemedyCost::of_larger_window(window, 128),
        remedy: remedy::window(device, 128),
    }
}

fn remote(device: &Device, mount: &Mount, window: u64) -> Found {
    let slower = REMOTE.iter().rfind(|(least, _)| window >= *least).unwrap_or(&REMOTE[0]);
    let mut lines = match mount.kind.as_str() {
        "nfs" | "nfs4" => vec![format!("nfsconf --set nfsrahead {} {REMOTE_KB}", mount.kind)],
        "cifs" | "smb3" | "ceph" => {
            vec![format!(
                "mount -o remount,rasize={} {}",
                REMOTE_KB << 10,
                remedy::quoted(&mount.point)
            )]
        }
        _ => Vec::new(),
    };
    lines.extend(remedy::window(device, REMOTE_KB));
    Found {
        severity: Severity::Risk,
        summary: "A network file system: a sequential read gets one window per round trip."
            .to_owned(),
        evidence: vec![
            Evidence::word("file system", &mount.kind),
            Evidence::word("source", &mount.source),
        ],
        gain: Some(Gain {
            ratio_tenths: REMOTE_BEST * 10 / slower.1,
            basis: format!(
                "a stream over a file system of 2 ms: {} MB/s at {} KiB, {REMOTE_BEST} at \
                 {REMOTE_KB} KiB",
                slower.1, slower.0
            ),
            known: EffectBasis::MeasuredElsewhere,
        }),
        cost: RemedyCost::new(
            EffectBasis::MeasuredElsewhere,
            "random page faults per second over a file system of 2 ms: 302 at 128 KiB, 63 at 4096 \
             KiB",
        ),
        remedy: lines,
    }
}

fn seeking(device: &Device, window: u64) -> Found {
    Found {
        severity: Severity::Risk,
        summary:
            "The disk seeks: concurrent sequential reads pay a seek for each window. Linux 6.17 \
             and later default to twice the largest request."
                .to_owned(),
        evidence: vec![Evidence::count("rotational", 1, "")],
        gain: (window >= 16).then(|| Gain {
            ratio_tenths: 82,
            basis: "a stream on a device limited to 150 requests a second and 160 MB/s, which is \
                    what a stream beside others gets: 19.7 MB/s at 128 KiB, 162 at 2560 KiB; a \
                    stream alone gains less"
                .to_owned(),
            known: EffectBasis::MeasuredElsewhere,
        }),
        cost: RemedyCost::new(
            EffectBasis::MeasuredElsewhere,
            "random page faults per second on such a device: 151 at 128 KiB, 50 at 2560 KiB",
        ),
        remedy: remedy::window(device, SEEKING_KB),
    }
}

/// A device that turned out to be slow to answer.
fn slow(seen: &Seen, device: &Device, window: u64) -> Option<Found> {
    let model = seen.model(device)?;
    let (latency, bandwidth) = (model.latency()?, model.bandwidth()?);
    let wanted = model.window_for_streams() >> 10;
    let is_small = latency.value >= SLOW_US && latency.samples >= 3 && window < wanted / 2;
    is_small.then(|| Found {
        severity: Severity::Risk,
        summary:
            "The device has a high latency: a sequential read gets one window per request latency."
                .to_owned(),
        evidence: vec![
            Evidence::count("latency", latency.value, "us"),
            Evidence::count("bandwidth seen", bandwidth.value / 1_000_000, "MB/s"),
            Evidence::count("window that covers it", wanted, "KiB"),
        ],
        gain: None,
        cost: RemedyCost::of_larger_window(window, wanted),
        remedy: remedy::window(device, wanted),
    })
}

fn is_remote(device: &Device, mount: &Mount) -> bool {
    let by_name = || REMOTE_FUSE.iter().any(|name| mount.kind == format!("fuse.{name}"));
    (device.kind == Kind::Network && device.queue.is_none())
        || (device.kind == Kind::Fuse && by_name())
}

/// FUSE file systems with a network behind them.
const REMOTE_FUSE: [&str; 12] = [
    "sshfs",
    "rclone",
    "s3fs",
    "goofys",
    "mountpoint-s3",
    "geesefs",
    "gcsfuse",
    "blobfuse2",
    "glusterfs",
    "ceph-fuse",
    "juicefs",
    "davfs",
];

/// Below four pages a request brings hardly more than was asked for.
const LEAST_KB: u64 = 16;

const REMOTE_LEAST_KB: u64 = 1024;
const REMOTE_KB: u64 = 4096;

/// Windows in KiB and MB/s of a stream of 128 KiB reads over a file system of 2 ms and 300 MB/s.
const REMOTE: [(u64, u64); 2] = [(16, 74), (128, 89)];

/// The same at [`REMOTE_KB`].
const REMOTE_BEST: u64 = 236;

const SEEKING_LEAST_KB: u64 = 512;
const SEEKING_KB: u64 = 2560;

/// Ten times what flash takes.
const SLOW_US: u64 = 1_000;
