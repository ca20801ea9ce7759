//! Manual pages and completions: whole, and readable by their programs.

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

/// A tool's messages about a file; none are expected.
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
fn pages_replace_pages_and_nothing_else() {
    let scene = Scene::new();
    printed(scene.command("man pages"));
    printed(scene.command("man pages"));
    std::fs::create_dir(scene.path("mine")).unwrap();
    std::fs::write(scene.path("keep"), "mine").unwrap();
    std::os::unix::fs::symlink("../keep", scene.path("mine/forebay-tune.1")).unwrap();
    let output = scene.command("man mine").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("forebay-tune.1: it exists, and is no page of Forebay"), "{said}");
    assert_eq!(std::fs::read(scene.path("keep")).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(scene.path("mine")).unwrap().count(), 1, "none before all");
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
    assert_eq!(pages, calls.len() + TOPICS.len(), "a page for each and no others");
}

/// What there is to read about.
const TOPICS: [&str; 5] = ["policies", "papers", "units", "job-files", "safety"];

#[test]
fn every_topic_of_help_is_a_page_with_the_same_words() {
    let scene = Scene::new();
    printed(scene.command("man pages"));
    let root = fs::read_to_string(scene.path("pages/forebay.1")).expect("there is a first page");
    for topic in TOPICS {
        assert!(root.contains(&format!("forebay\\-{}(7)", topic.replace('-', "\\-"))), "{topic}");
        let page = scene.path(&format!("pages/forebay-{topic}.7"));
        judged("groff", &["-man", "-Tutf8", "-ww", "-z"], &page);
        judged("mandoc", &["-T", "lint", "-W", "error"], &page);
        if !has("groff") {
            eprintln!("skip: {topic} as it is shown: needs groff");
            continue;
        }
        let mut groff = Command::new("groff");
        groff.args(["-man", "-Tascii", "-rLL=120n", "-P-cbou"]).arg(&page);
        let output = groff.output().expect("groff runs");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = |text: &str| -> Vec<String> {
            let words = text.split_whitespace().map(|word| word.replace('-', ""));
            words.filter(|word| word.is_ascii() && !word.is_empty()).collect()
        };
        let shown = words(&shown);
        let mut rest = shown.iter();
        for word in words(&printed(scene.command(&format!("help {topic}")))) {
            assert!(rest.any(|shown| *shown == word), "{topic}: '{word}' is not where it was");
        }
    }
}

#[test]
fn a_synopsis_has_the_names_of_values_and_dots_where_one_may_come_again() {
    let scene = Scene::new();
    printed(scene.command("man pages"));
    let page = fs::read_to_string(scene.path("pages/forebay-tune.1")).expect("there is a page");
    let (_, rest) = page.split_once("\n.SH SYNOPSIS\n").expect("it has a synopsis");
    let (synopsis, _) = rest.split_once(".SH ").expect("and a description");
    assert!(synopsis.contains("[\\fB\\-\\-policy\\fR \\fIFILE\\fR]"), "{synopsis}");
    assert!(synopsis.contains("[\\fB\\-\\-scope\\fR \\fIPID|CGROUP|DEVICE\\fR]..."), "{synopsis}");
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
        for name in ["readahead=fixed:max=", "throttle=paced", "device.delay="] {
            let name = name.replace(':', if shell == "zsh" { "\\:" } else { ":" });
            assert!(text.contains(&name), "{name} is not completed in {shell}");
        }
        for topic in TOPICS {
            assert!(text.contains(topic), "{topic} is not completed in {shell}");
        }
        judged(shell, words, &path);
    }
}

/// What a shell offers behind words, as the program's completion has it. None, with a word, where
/// there is no such shell.
fn offered(shell: &str, scene: &Scene, words: &str) -> Option<String> {
    if !has(shell) {
        eprintln!("skip: completion in {shell}: needs {shell}");
        return None;
    }
    let name = if shell == "zsh" { "_forebay" } else { "it" };
    let text = printed(scene.command(&format!("completions {shell}")));
    fs::write(scene.path(name), text).expect("it is ours");
    let mut command = Command::new("timeout");
    command.args(["60", shell]);
    match shell {
        "fish" => {
            let script = format!("source ./it; complete -C '{words}'");
            command.args(["--no-config", "-c", &script]);
        }
        "zsh" => {
            // Only on a terminal it completes: on one that another zsh makes.
            fs::write(scene.path("ask.zsh"), ASK_ZSH).expect("it is ours");
            command.args(["-f", "./ask.zsh", words]);
        }
        _ => panic!("no test asks {shell}"),
    }
    command.current_dir(scene.path(".")).env("HOME", scene.path(".")).env("TERM", "dumb");
    let output = command.stdin(Stdio::null()).output().expect("the shell runs");
    let (offers, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{shell}: {said}{offers}");
    Some(offers.into_owned())
}

/// Types words and the key that completes them, records the completions and discards the line. The
/// screen is not checked: with more to read the line editor does not show them.
const ASK_ZSH: &str = r#"
zmodload zsh/zpty
zpty asked zsh -f -i
zpty -w asked 'PS1= PS2=; bindkey -e; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D'
zpty -w asked 'compadd() {
    if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
        local -a matches
        builtin compadd -O matches "$@"
        print -rl -- $matches >> offers
    fi
    builtin compadd "$@"
}'
zpty -w asked 'ask() { zle complete-word; BUFFER= }; zle -N ask; bindkey "^I" ask'
zpty -w asked 'print BE""GIN'
zpty -r asked text '*BEGIN*'
zpty -w -n asked "$1"$'\t'
zpty -w asked 'print EN""D; exit'
zpty -r asked text '*END*'
zpty -d asked
cat offers
rm offers
"#;

#[test]
fn zsh_and_fish_complete_commands_and_values() {
    let scene = Scene::new();
    for shell in ["fish", "zsh"] {
        let Some(commands) = offered(shell, &scene, "forebay tu") else { continue };
        assert!(commands.contains("tune"), "{shell}: {commands}");
        assert!(!commands.contains("reproduce"), "{shell}: {commands}");
        let flags = offered(shell, &scene, "forebay tune --on").expect("the shell is there");
        assert!(flags.contains("--only"), "{shell}: {flags}");
        let slots = offered(shell, &scene, "forebay tune --only ").expect("the shell is there");
        assert!(slots.contains("readahead") && slots.contains("writeback"), "{shell}: {slots}");
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
    let machines = offered("forebay machines", 2);
    assert!(machines.contains("hdd-2026"), "{machines}");
    let ls = offered("forebay image ls", 3);
    assert!(ls.contains("--recursive"), "{ls}");
}
