//! Runs README.md: its examples show the real output.
//!
//! A block of the language `console` has commands behind `$ ` and their output. The blocks of a
//! section run one after another in a separate folder that contains `examples`, with the program in
//! PATH. A line `...` stands for any lines. A comment before a block adds conditions:
//!
//! ```text
//!   <!-- run: words -->            numbers differ: words are compared, those with a digit as `#`
//!   <!-- run: needs root -->       skipped, with a word, where there is no root
//!   <!-- run: needs time -->       skipped unless FOREBAY_STORIES=all
//! ```

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::is_estimate;

/// A block of commands.
#[derive(Debug, Default)]
struct Block {
    /// Where it begins.
    line: usize,
    /// The heading above it.
    section: String,
    /// Whether words are compared instead of lines.
    by_words: bool,
    needs: Vec<String>,
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    command: String,
    expected: Vec<String>,
}

/// The blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut section, mut open) = (Vec::new(), String::new(), None);
    let (mut next, mut is_code) = (Block::default(), false);
    for (at, line) in page.lines().enumerate() {
        if let Some(block) = &mut open {
            if line == "```" {
                blocks.extend(open.take());
            } else {
                add(block, line);
            }
        } else if line == "```console" {
            open =
                Some(Block { line: at + 1, section: section.clone(), ..std::mem::take(&mut next) });
        } else if line.starts_with("```") {
            is_code = !is_code;
        } else if let (false, Some(heading)) = (is_code, line.strip_prefix('#')) {
            heading.trim_start_matches('#').trim().clone_into(&mut section);
        } else if let Some(rest) = line.strip_prefix("<!-- run: ") {
            let words = rest.trim_end_matches(" -->");
            for word in words.split(';').map(str::trim) {
                match word.strip_prefix("needs ") {
                    Some(needs) => next.needs.extend(needs.split(' ').map(str::to_owned)),
                    None if word == "words" => next.by_words = true,
                    None => panic!("README.md:{}: what is '{word}'?", at + 1),
                }
            }
        }
    }
    blocks
}

fn add(block: &mut Block, line: &str) {
    match (line.strip_prefix("$ "), block.calls.last_mut()) {
        (Some(command), _) => {
            block.calls.push(Call { command: command.to_owned(), expected: Vec::new() });
        }
        (None, Some(call)) if call.command.ends_with('\\') && call.expected.is_empty() => {
            call.command.pop();
            call.command += line.trim_start();
        }
        (None, Some(call)) => call.expected.push(line.to_owned()),
        (None, None) => panic!("README.md:{}: a block begins with a command", block.line),
    }
}

/// What a block needs and this machine has not.
fn missing(block: &Block) -> Option<&str> {
    let is_there = |need: &str| match need {
        "root" => rustix::process::geteuid().is_root(),
        "time" => env::var("FOREBAY_STORIES").is_ok_and(|value| value == "all"),
        "fuse" => fs::File::options().read(true).write(true).open("/dev/fuse").is_ok(),
        "loop" => Path::new("/dev/loop-control").exists(),
        // The machine of the story: a virtual disk that is read 8 MiB ahead.
        "vda" => {
            let text = fs::read_to_string("/sys/block/vda/queue/read_ahead_kb");
            text.is_ok_and(|text| text.trim() == "8192")
        }
        tool => ["/usr/bin", "/usr/sbin", "/bin", "/sbin"]
            .iter()
            .any(|folder| Path::new(folder).join(tool).exists()),
    };
    block.needs.iter().map(String::as_str).find(|need| !is_there(need))
}

/// Runs a call as a user does, and gives back what appears.
fn run(call: &Call, folder: &Path) -> String {
    let mut path = vec![PathBuf::from(env!("CARGO_BIN_EXE_forebay"))];
    path[0].pop();
    path.extend(["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from));
    let path = env::join_paths(path).expect("no folder has a colon");
    // Root needs no sudo, which would use another PATH.
    let script = format!("umask 022; {{ {}; }} 2>&1", call.command.replace("sudo ", ""));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env_clear().env("PATH", path).env("LC_ALL", "C");
    command.env("TZ", "UTC").env("HOME", folder);
    let output = command.current_dir(folder).stdin(Stdio::null()).output().expect("a shell runs");
    String::from_utf8(output.stdout).expect("what is printed is text")
}

/// Whether a sequence is as expected; `...` matches any part of it.
fn agrees(expected: &[String], actual: &[String]) -> bool {
    let Some((first, rest)) = expected.split_first() else { return actual.is_empty() };
    if first == ANYTHING {
        return (0..=actual.len()).any(|skipped| agrees(rest, &actual[skipped..]));
    }
    actual.first() == Some(first) && agrees(rest, &actual[1..])
}

/// Words, those with a digit as `#`; rules of tables are none.
fn words<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let word = |word: &str| {
        let core = word.trim_matches(['(', ')', ',', ';', ':', '.']);
        if word == ANYTHING || !core.contains(|c: char| c.is_ascii_digit()) {
            return Some(word.to_owned());
        }
        Some(word.replace(core, "#"))
    };
    let is_rule = |word: &str| word.chars().all(|c| c == '─');
    lines.flat_map(str::split_whitespace).filter(|it| !is_rule(it)).filter_map(word).collect()
}

/// The line that matches anything.
const ANYTHING: &str = "...";

#[test]
fn the_readme_says_what_is_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("README.md")).expect("there is a README");
    let blocks = blocks(&page);
    let mut folder = None;
    let mut wrong = Vec::new();
    for block in &blocks {
        let is_new = folder.as_ref().is_none_or(|(section, _)| *section != block.section);
        if is_new {
            let made = tempfile::tempdir().expect("a scratch folder can be made");
            symlink(root.join("examples"), made.path().join("examples"))
                .expect("a link can be made");
            folder = Some((block.section.clone(), made));
        }
        let (_, folder) = folder.as_ref().expect("it was just made");
        if let Some(missing) = missing(block) {
            eprintln!("skip: README.md:{}, {}: needs {missing}", block.line, block.section);
            continue;
        }
        for call in &block.calls {
            let printed = run(call, folder.path());
            let lines = || printed.lines().filter(|line| !is_estimate(line)).map(str::trim_end);
            let is_right = if block.by_words {
                let expected = words(call.expected.iter().map(String::as_str));
                agrees(&expected, &words(lines()))
            } else {
                agrees(&call.expected, &lines().map(str::to_owned).collect::<Vec<_>>())
            };
            if !is_right {
                wrong.push(format!("README.md:{}: $ {}\n{printed}", block.line, call.command));
            }
        }
    }
    assert!(wrong.is_empty(), "it prints\n\n{}", wrong.join("\n"));
}

#[test]
fn the_readme_has_its_stories_and_its_commands() {
    let page = include_str!("../../../../README.md");
    let blocks = blocks(page);
    let mut sections: Vec<&str> = blocks.iter().map(|block| block.section.as_str()).collect();
    sections.dedup();
    assert!(sections.len() >= 4, "{sections:?}");
    for section in sections {
        let of_section = blocks.iter().filter(|block| block.section == section);
        let calls: usize = of_section.map(|block| block.calls.len()).sum();
        assert!(calls < 10, "{section} has {calls} commands");
    }
    for command in ["cargo run --release -- reproduce", "cargo xtask test"] {
        assert!(page.lines().any(|line| line == command), "{command}");
    }
    let help = crate::support::printed(crate::support::Scene::new().command("--help"));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    for line in commands.filter(|line| !line.starts_with("   ")) {
        let name = line.split_whitespace().next().expect("a command has a name");
        assert!(page.contains(&format!("| `{name}")), "`{name}` has no line in the table");
    }
    assert!(page.lines().count() <= 270);
}

#[test]
fn lines_and_words_agree_where_they_must() {
    let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert!(agrees(&list("a ... c"), &list("a b b c")) && agrees(&list("a ..."), &list("a")));
    assert!(!agrees(&list("a ... d"), &list("a b c")) && !agrees(&list("a"), &list("a b")));
    let words = |text: &str| words(text.lines());
    assert_eq!(words("p99 was 3.5 ms, (12)\n ──\n"), ["#", "was", "#", "ms,", "(#)"]);
    assert_ne!(words("12 risks"), words("12 problems"));
}
