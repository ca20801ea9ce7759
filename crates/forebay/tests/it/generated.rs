//! Manual pages and completions: whole, and good for those who read them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Scene, printed};

/// The commands of a help text, below its `Commands:`.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The long flags of a help text.
fn flags(help: &str) -> Vec<String> {
    let words = help.lines().filter(|line| line.trim_start().starts_with('-'));
    let words = words.flat_map(|line| line.split([' ', ',', '=']));
    words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
}

/// Every command with its help, by its path of names.
fn all(scene: &Scene, path: &str, into: &mut Vec<(String, String)>) {
    let help = printed(scene.command(&format!("{path} --help")));
    for name in commands(&help) {
        all(scene, format!("{path} {name}").trim_start(), into);
    }
    into.push((path.to_owned(), help));
}

fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// What a tool says of a file; nothing is wanted.
fn judged(tool: &str, words: &[&str], file: &Path) {
    if !has(tool) {
        eprintln!("skip: {} by {tool}: needs {tool}", file.display());
        return;
    }
    let output = Command::new(tool).args(words).arg(file).output().expect("the tool runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{tool} {}: {said}", file.display());
}

#[test]
fn every_command_and_every_flag_has_its_place_in_a_manual_page() {
    let scene = Scene::new();
    printed(scene.command("man pages/of/forebay"));
    let mut calls = Vec::new();
    all(&scene, "", &mut calls);
    assert!(calls.len() > 25, "{}", calls.len());
    for (path, help) in &calls {
        let name = format!("forebay {path}").trim_end().replace(' ', "-");
        let page = scene.path(&format!("pages/of/forebay/{name}.1"));
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{name}.1: {error}"));
        let text = text.replace("\\-", "-");
        for flag in flags(help) {
            assert!(text.contains(&flag), "{flag} is not in {name}.1");
        }
        for command in commands(help) {
            assert!(text.contains(&format!("{name}-{command}")), "{command} is not in {name}.1");
        }
        judged("groff", &["-man", "-Tutf8", "-ww", "-z"], &page);
        judged("mandoc", &["-T", "lint", "-W", "error"], &page);
    }
    let pages = fs::read_dir(scene.path("pages/of/forebay")).expect("there are pages").count();
    assert_eq!(pages, calls.len(), "a page for each command and no others");
}

#[test]
fn completions_are_programs_of_their_shells_and_know_every_command() {
    let scene = Scene::new();
    let help = printed(scene.command("--help"));
    for (shell, words) in [("bash", &["-n"][..]), ("zsh", &["-n"]), ("fish", &["--no-execute"])] {
        let text = printed(scene.command(&format!("completions {shell}")));
        let path = scene.path(shell);
        fs::write(&path, &text).expect("the file can be written");
        for word in commands(&help).iter().chain(&flags(&help)) {
            let bare = word.trim_start_matches('-');
            assert!(text.contains(bare), "{word} is not completed in {shell}");
        }
        for topic in ["papers", "units", "job-files", "safety"] {
            assert!(text.contains(topic), "{topic} is not completed in {shell}");
        }
        judged(shell, words, &path);
    }
}

#[test]
fn bash_completes_commands_topics_and_flags() {
    if !has("bash") {
        eprintln!("skip: completion in bash: needs bash");
        return;
    }
    let scene = Scene::new();
    fs::write(scene.path("it"), printed(scene.command("completions bash"))).expect("it is ours");
    let offered = |words: &str, count: usize| {
        let script = format!(
            "source ./it; COMP_WORDS=({words} ''); COMP_CWORD={count}; \
             _forebay forebay '' ''; echo \"${{COMPREPLY[@]}}\""
        );
        let mut command = Command::new("bash");
        let output = command.args(["--norc", "-c", &script]).current_dir(scene.path(".")).output();
        String::from_utf8(output.expect("bash runs").stdout).expect("it is text")
    };
    let first = offered("forebay", 1);
    assert!(first.contains("reproduce") && first.contains("doctor"), "{first}");
    let help = offered("forebay help", 2);
    assert!(help.contains("safety") && help.contains("simulate"), "{help}");
    let ls = offered("forebay image ls", 3);
    assert!(ls.contains("--recursive"), "{ls}");
}
