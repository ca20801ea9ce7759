//! Settings of others that write the knobs of the I/O path.
//!
//! ```text
//!   udev rules     ATTR{queue/read_ahead_kb}="4096"      /etc before /run before /usr/lib
//!   sysctl.d       vm.dirty_ratio = 40                   the same
//!   tuned          readahead=>4096, [sysctl]             of the active profile and its includes
//!   tlp, laptop-mode                                     if their settings say so
//! ```

use std::collections::BTreeMap;

use crate::tree::Tree;

/// A knob that a file sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose file it is, as a user knows it.
    pub owner: String,
    /// The file.
    pub file: String,
    /// The knob's name.
    pub knob: String,
    /// What it is set to, as it stands there.
    pub value: String,
}

/// Every claim that a tree shows. Files that cannot be read claim nothing.
pub fn read(tree: &Tree) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (file, text) in layered(tree, &UDEV_FOLDERS, ".rules") {
        claims.extend(udev(tree, &file, &text));
    }
    for (file, text) in layered(tree, &SYSCTL_FOLDERS, ".conf") {
        claims.extend(sysctl(&file, &text));
    }
    if let Ok(text) = tree.text(SYSCTL_CONF) {
        claims.extend(sysctl(SYSCTL_CONF, &text));
    }
    claims.extend(tuned(tree));
    for (file, owner, knobs) in SHELL_STYLE {
        if let Ok(text) = tree.text(file) {
            claims.extend(assignments(file, owner, knobs, &text));
        }
    }
    claims
}

/// Files of folders, the first folder's before another's of the same name; ours are none of
/// others.
fn layered(tree: &Tree, folders: &[&str], ending: &str) -> Vec<(String, String)> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for folder in folders {
        for name in tree.names(folder).unwrap_or_default() {
            if name.ends_with(ending) && !name.contains("forebay") {
                let path = format!("{folder}/{name}");
                files.entry(name).or_insert(path);
            }
        }
    }
    let texts = files.into_values().take(FILES_MAX);
    texts.filter_map(|file| Some((file.clone(), tree.text(&file).ok()?))).collect()
}

/// Assignments of a file of udev's rules to devices that the tree has; comparisons are none.
fn udev(tree: &Tree, file: &str, text: &str) -> Vec<Claim> {
    let mut claims = Vec::new();
    let whole = text.replace("\\\n", " ");
    let rules = whole.lines().filter(|line| !line.trim_start().starts_with('#'));
    for line in rules.filter(|line| has_device(tree, line)) {
        for (at, _) in line.match_indices("ATTR{") {
            let Some((name, rest)) = line[at + 5..].split_once('}') else { continue };
            let Some(rest) = rest.trim_start().strip_prefix('=') else { continue };
            let Some((value, _)) = rest.trim_start().strip_prefix('"').and_then(quoted) else {
                continue;
            };
            let knob = name.rsplit('/').next().unwrap_or(name);
            if DEVICE_KNOBS.contains(&knob) {
                let owner = "A rule of udev".to_owned();
                let claim = Claim {
                    owner,
                    file: file.to_owned(),
                    knob: knob.to_owned(),
                    value: value.to_owned(),
                };
                if !claims.contains(&claim) {
                    claims.push(claim);
                }
            }
        }
    }
    claims
}

/// Whether a disk of the tree is one that a rule compares with: its name, and its attributes. Other
/// comparisons are taken to hold.
fn has_device(tree: &Tree, rule: &str) -> bool {
    let compared = |key: &'static str| {
        rule.split(',').filter_map(move |part| {
            let (key_of, value) = part.trim().split_once("==")?;
            let value = value.trim().strip_prefix('"')?.strip_suffix('"')?;
            Some((key_of.trim().strip_prefix(key)?, value))
        })
    };
    let of_disk = |disk: &String| {
        // KERNELS is the name of a device above it.
        compared("KERNEL").all(|(more, value)| !more.is_empty() || is_like(disk, value))
            && compared("ATTR{queue/").all(|(knob, value)| {
                let knob = knob.trim_end_matches('}');
                let found = tree.text(&format!("{BLOCK}/{disk}/queue/{knob}"));
                found.is_ok_and(|found| is_like(found.trim(), value))
            })
    };
    let disks = tree.names(BLOCK).unwrap_or_default();
    disks.is_empty() || disks.iter().any(of_disk)
}

/// Whether a value is one of udev's `A|B*`; other wildcards are taken to match.
fn is_like(value: &str, pattern: &str) -> bool {
    pattern.split('|').any(|one| match one.strip_suffix('*') {
        _ if one.trim_end_matches('*').contains(['*', '?', '[']) => true,
        Some(beginning) => value.starts_with(beginning),
        None => value == one,
    })
}

fn quoted(rest: &str) -> Option<(&str, &str)> {
    rest.split_once('"')
}

/// `vm.dirty_*` of a file of sysctl's.
fn sysctl(file: &str, text: &str) -> Vec<Claim> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let pairs = lines.filter_map(|line| line.split_once('='));
    let pairs = pairs
        .map(|(key, value)| (key.trim().trim_start_matches('-').replace('/', "."), value.trim()));
    let ours = pairs.filter(|(key, _)| key.starts_with("vm.dirty_") || key == "vm.laptop_mode");
    ours.map(|(knob, value)| Claim {
        owner: "A file of sysctl".to_owned(),
        file: file.to_owned(),
        knob,
        value: value.to_owned(),
    })
    .collect()
}

/// Knobs of tuned's active profile and of those that it includes.
fn tuned(tree: &Tree) -> Vec<Claim> {
    let active = tree.text("/etc/tuned/active_profile").unwrap_or_default();
    let mut profiles: Vec<String> = active.split_ascii_whitespace().map(str::to_owned).collect();
    let mut claims = Vec::new();
    let mut next = 0;
    while let Some(profile) = profiles.get(next).cloned() {
        next += 1;
        let plain = !profile.contains('/') && profile != "..";
        let files = TUNED_FOLDERS.iter().map(|folder| format!("{folder}/{profile}/tuned.conf"));
        let found = files.filter(|_| plain).find_map(|file| Some((tree.text(&file).ok()?, file)));
        let Some((text, file)) = found else { continue };
        let (included, found) = tuned_profile(&file, &profile, &text);
        claims.extend(found);
        for name in included {
            if profiles.len() < PROFILES_MAX && !profiles.contains(&name) {
                profiles.push(name);
            }
        }
    }
    claims
}

/// The profiles that one includes, and its own claims.
fn tuned_profile(file: &str, profile: &str, text: &str) -> (Vec<String>, Vec<Claim>) {
    let (mut included, mut claims) = (Vec::new(), Vec::new());
    let mut section = "";
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        let knob = match key {
            "include" if section == "main" => {
                included.extend(value.split(',').map(|name| name.trim().to_owned()));
                continue;
            }
            "readahead" => "read_ahead_kb",
            "elevator" => "scheduler",
            key if key.starts_with("vm.dirty_") => key,
            "dirty_ratio" | "dirty_background_ratio" | "dirty_bytes" | "dirty_background_bytes"
                if section == "vm" =>
            {
                key
            }
            _ => continue,
        };
        claims.push(Claim {
            owner: format!("Profile {profile} of tuned"),
            file: file.to_owned(),
            knob: knob.to_owned(),
            value: value.trim_start_matches('>').to_owned(),
        });
    }
    (included, claims)
}

/// Settings such as `DISK_IOSCHED="mq-deadline"`.
fn assignments(file: &str, owner: &str, knobs: &[&str], text: &str) -> Vec<Claim> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    let ours = pairs.filter(|(key, _)| knobs.contains(&key.trim()));
    ours.map(|(key, value)| Claim {
        owner: owner.to_owned(),
        file: file.to_owned(),
        knob: key.trim().to_owned(),
        value: value.trim().trim_matches('"').to_owned(),
    })
    .collect()
}

/// Disks.
const BLOCK: &str = "/sys/block";
const UDEV_FOLDERS: [&str; 4] =
    ["/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d"];

const SYSCTL_FOLDERS: [&str; 4] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];

const SYSCTL_CONF: &str = "/etc/sysctl.conf";

const TUNED_FOLDERS: [&str; 4] =
    ["/etc/tuned", "/etc/tuned/profiles", "/usr/lib/tuned", "/usr/lib/tuned/profiles"];

/// Files of assignments as a shell reads them, whose they are, and what in them sets our knobs.
const SHELL_STYLE: [(&str, &str, &[&str]); 2] = [
    (
        "/etc/tlp.conf",
        "tlp",
        &["DISK_IOSCHED", "MAX_LOST_WORK_SECS_ON_AC", "MAX_LOST_WORK_SECS_ON_BAT"],
    ),
    (
        "/etc/laptop-mode/laptop-mode.conf",
        "laptop-mode",
        &[
            "CONTROL_READAHEAD",
            "LM_READAHEAD",
            "NOLM_READAHEAD",
            "LM_DIRTY_RATIO",
            "NOLM_DIRTY_RATIO",
        ],
    ),
];

const DEVICE_KNOBS: [&str; 10] = [
    "read_ahead_kb",
    "scheduler",
    "rotational",
    "nr_requests",
    "max_sectors_kb",
    "wbt_lat_usec",
    "max_ratio",
    "max_ratio_fine",
    "max_bytes",
    "strict_limit",
];

/// Distributions ship about a hundred rules.
const FILES_MAX: usize = 1_000;

/// Profiles include each other three deep at most.
const PROFILES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(claims: &[Claim]) -> Vec<(&str, &str)> {
        claims.iter().map(|claim| (claim.knob.as_str(), claim.value.as_str())).collect()
    }

    #[test]
    fn udev_assigns_with_one_sign_and_compares_with_two() {
        let text = "# ATTR{queue/read_ahead_kb}=\"1\"\n\
            SUBSYSTEM==\"block\", ATTR{queue/rotational}==\"0\", \\\n\
              ATTR{queue/scheduler}=\"none\", ATTR{bdi/read_ahead_kb} = \"4096\"\n\
            ATTR{queue/nr_requests\nATTR{queue/nr_requests}=5\nATTR{power/control}=\"auto\"\n";
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("proc")).unwrap();
        std::fs::write(tree.path().join("proc/stat"), "").unwrap();
        let tree = Tree::recorded(tree.path()).unwrap();
        let claims = udev(&tree, "f", text);
        assert_eq!(pairs(&claims), [("scheduler", "none"), ("read_ahead_kb", "4096")]);
    }

    #[test]
    fn a_rule_for_devices_that_are_not_there_claims_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let queue = folder.path().join("sys/block/vda/queue");
        std::fs::create_dir_all(&queue).unwrap();
        std::fs::create_dir_all(folder.path().join("proc")).unwrap();
        std::fs::write(folder.path().join("proc/stat"), "").unwrap();
        std::fs::write(queue.join("zoned"), "none\n").unwrap();
        std::fs::write(queue.join("rotational"), "0\n").unwrap();
        let tree = Tree::recorded(folder.path()).unwrap();
        let rule = |conditions: &str| {
            let text = format!("{conditions} ATTR{{queue/read_ahead_kb}}=\"128\"\n");
            udev(&tree, "f", &text).len()
        };
        for (conditions, claims) in [
            ("", 1),
            ("ATTR{queue/zoned}==\"host-managed\",", 0),
            ("ATTR{queue/zoned}==\"host-managed|none\",", 1),
            ("ATTR{queue/rotational}==\"0\", KERNEL==\"vd*\",", 1),
            ("ATTR{queue/rotational}==\"0\", KERNEL==\"sd*\",", 0),
            ("KERNEL==\"sd[a-z]\",", 1),
            ("KERNELS==\"0000:00:01.0\",", 1),
            ("ATTR{queue/missing}==\"1\",", 0),
            ("ENV{ID_FS_TYPE}==\"btrfs\",", 1),
        ] {
            assert_eq!(rule(conditions), claims, "{conditions}");
        }
    }

    #[test]
    fn sysctl_is_read_with_dots_or_slashes() {
        let text = "#vm.dirty_ratio=1\n-vm/dirty_ratio = 40\nvm.swappiness=1\nvm.dirty_bytes=5\n";
        assert_eq!(pairs(&sysctl("f", text)), [("vm.dirty_ratio", "40"), ("vm.dirty_bytes", "5")]);
    }

    #[test]
    fn profiles_of_tuned_include_others_and_may_go_in_a_circle() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let place = folder.path().join(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        };
        put("proc/stat", "");
        put("etc/tuned/active_profile", "virtual-guest ../../x\n");
        put(
            "usr/lib/tuned/virtual-guest/tuned.conf",
            "[main]\ninclude=throughput-performance,virtual-guest\n[sysctl]\nvm.dirty_ratio = 30\n",
        );
        put(
            "usr/lib/tuned/profiles/throughput-performance/tuned.conf",
            "[main]\ninclude=virtual-guest\n[disk]\nreadahead=>4096\n#elevator=x\n",
        );
        let claims = read(&Tree::recorded(folder.path()).unwrap());
        assert_eq!(pairs(&claims), [("vm.dirty_ratio", "30"), ("read_ahead_kb", "4096")]);
        assert_eq!(claims[1].owner, "Profile throughput-performance of tuned");
    }
}
