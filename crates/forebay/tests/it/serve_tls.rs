//! Encrypted connections, with the clients of libnbd and qemu.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::serve::run_with;
use crate::serve_seen::await_text;
use crate::support::{Scene, has, stderr};

/// An authority in a folder of a scene, with certificates of a server and of a client.
fn certificates(scene: &Scene, folder: &str) {
    let script = format!(
        "set -e; mkdir {folder}; cd {folder}
         key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
         openssl req -x509 $key -keyout ca-key.pem -out ca-cert.pem -days 3650 \
           -subj /CN=authority-{folder} -addext basicConstraints=critical,CA:TRUE
         for side in server client; do
           openssl req $key -keyout $side-key.pem -out $side.csr -subj /CN=$side
           printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > $side.ext
           openssl x509 -req -in $side.csr -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial \
             -days 3650 -extfile $side.ext -out $side-cert.pem
         done"
    );
    let mut shell = Command::new("sh");
    let made = shell.current_dir(scene.path(".")).args(["-c", &script]).output();
    let made = made.expect("a shell runs");
    assert!(made.status.success(), "{}", stderr(&made));
}

/// A scene with a disk and certificates; nothing if a program is missing.
fn scene(programs: &[&str]) -> Option<Scene> {
    if !programs.iter().chain(&["openssl"]).all(|program| has(program, "TLS of served disks")) {
        return None;
    }
    let scene = Scene::new().file("disk", vec![7; 3_000_000]);
    certificates(&scene, "keys");
    Some(scene)
}

const LINE: &str = "serve disk --listen tcp:127.0.0.1:0 --tls-certificates keys";

#[test]
fn libnbd_and_qemu_read_and_write_inside_tls() {
    let Some(scene) = scene(&["nbdinfo", "nbdcopy", "qemu-img"]) else { return };
    let done = |line: &str, command: &str| {
        let output = run_with(&scene, line, command);
        assert_eq!(output.status.code(), Some(0), "{command}: {}", stderr(&output));
    };
    let own = "\"$uri/?tls-certificates=$PWD/keys\"";
    done(LINE, &format!("test \"$(nbdinfo --size {own})\" = 3000000"));
    done(LINE, &format!("nbdinfo {own} | grep -q 'protocol: newstyle-fixed with TLS'"));
    done(LINE, &format!("nbdcopy {own} copy && cmp copy disk"));
    let qemu = "port=${uri##*:}; qemu-img convert -O raw \
                --object tls-creds-x509,id=t,dir=keys,endpoint=client --image-opts \
                driver=nbd,host=localhost,port=$port,tls-creds=t copy2 && \
                cmp -n 3000000 copy2 disk";
    done(LINE, qemu);
    fs::write(scene.path("new"), vec![9; 3_000_000]).expect("the test works");
    done(LINE, &format!("nbdcopy --flush new {own}"));
    assert!(fs::read(scene.path("disk")).expect("the test works") == vec![9; 3_000_000]);
}

#[test]
fn a_client_without_tls_is_refused_where_tls_is_required() {
    let Some(scene) = scene(&["nbdinfo"]) else { return };
    let plain = "port=${uri##*:}; nbdinfo --size nbd://127.0.0.1:$port";
    let refused = run_with(&scene, LINE, plain);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("TLS"), "{}", stderr(&refused));
    let both = format!("{LINE} --tls on");
    let secure = "port=${uri##*:}; nbdinfo --size \
                  \"nbds://127.0.0.1:$port/?tls-certificates=$PWD/keys\"";
    for command in [plain, secure] {
        let output = run_with(&scene, &both, command);
        assert_eq!(output.status.code(), Some(0), "{command}: {}", stderr(&output));
    }
    let off = format!("{LINE} --tls off");
    assert_eq!(run_with(&scene, &off, secure).status.code(), Some(1));
    assert_eq!(run_with(&scene, &off, plain).status.code(), Some(0));
}

#[test]
fn a_client_shows_a_certificate_of_the_authority_where_that_is_asked_for() {
    let Some(scene) = scene(&["nbdinfo"]) else { return };
    certificates(&scene, "others");
    let line = format!("{LINE} --tls-verify-peer --log log");
    let uri = |folder: &str| format!("nbdinfo --size \"$uri/?tls-certificates=$PWD/{folder}\"");
    assert_eq!(run_with(&scene, &line, &uri("keys")).status.code(), Some(0));
    // One has no certificate, the other a certificate of another authority; both trust ours.
    fs::create_dir(scene.path("none")).expect("the test works");
    fs::copy(scene.path("keys/ca-cert.pem"), scene.path("none/ca-cert.pem"))
        .expect("the test works");
    fs::copy(scene.path("keys/ca-cert.pem"), scene.path("others/ca-cert.pem"))
        .expect("the test works");
    for folder in ["none", "others"] {
        assert_eq!(run_with(&scene, &line, &uri(folder)).status.code(), Some(1), "{folder}");
    }
    let log = fs::read_to_string(scene.path("log")).expect("the test works");
    assert!(log.contains("export (default), TLS"), "{log}");
    assert!(log.contains("sent away: TLS: "), "{log}");
}

#[test]
fn sighup_takes_new_certificates_and_keeps_the_old_ones_if_they_are_bad() {
    let Some(scene) = scene(&["nbdinfo"]) else { return };
    certificates(&scene, "new");
    // The client's folder stays while the server's is exchanged.
    let line = "serve disk --listen tcp:127.0.0.1:0 --tls-certificates live --log log";
    let mut copy = Command::new("cp");
    let copied = copy.current_dir(scene.path(".")).args(["-r", "keys", "live"]).status();
    assert!(copied.expect("the test works").success());
    let mut serve = scene.command(line);
    serve.stderr(fs::File::create(scene.path("said")).expect("the test works"));
    let mut server = serve.spawn().expect("the program runs");
    let said = await_text(&scene, "said", " at tcp:127.0.0.1:");
    let port = said.rsplit("127.0.0.1:").next().expect("the test works").trim().to_owned();
    let size = |folder: &str| {
        let path = scene.path(folder);
        let uri = format!("nbds://127.0.0.1:{port}/?tls-certificates={}", path.display());
        Command::new("nbdinfo")
            .args(["--size", &uri])
            .output()
            .expect("the test works")
            .status
            .success()
    };
    let hup = |text: &str| {
        let pid = Pid::from_child(&server);
        kill_process(pid, Signal::HUP).expect("the test works");
        await_text(&scene, "said", text);
    };
    assert!(size("keys") && !size("new"));
    fs::write(scene.path("live/server-cert.pem"), "no certificate").expect("the test works");
    hup("the old ones stay: ");
    assert!(size("keys"));
    for file in ["server-cert.pem", "server-key.pem"] {
        fs::copy(scene.path("new").join(file), scene.path("live").join(file))
            .expect("the test works");
    }
    hup("read again, for clients to come");
    assert!(size("new") && !size("keys"));
    kill_process(Pid::from_child(&server), Signal::TERM).expect("the test works");
    assert_eq!(server.wait().expect("the test works").code(), Some(0));
}

#[test]
fn certificates_that_cannot_be_used_are_named() {
    if !has("openssl", "TLS of served disks") {
        return;
    }
    let scene = Scene::new().file("disk", "x");
    certificates(&scene, "keys");
    certificates(&scene, "others");
    fs::copy(scene.path("others/server-key.pem"), scene.path("keys/server-key.pem"))
        .expect("the test works");
    fs::create_dir(scene.path("empty")).expect("the test works");
    fs::create_dir(scene.path("tmp")).expect("the test works");
    for (line, why) in [
        ("serve disk --tls require --run true", "--tls needs certificates"),
        ("serve disk --tls-certificates empty --run true", "empty/server-cert.pem"),
        ("serve disk --tls-certificates keys --run true", "keys/server-cert.pem"),
        ("serve disk --tls-verify-peer --run true", "--tls-certificates"),
        // Clients without TLS show no certificate.
        (
            "serve disk --tls-certificates keys --tls-verify-peer --tls on --run true",
            "--tls-verify-peer needs --tls require",
        ),
        (
            "serve disk --tls-certificates keys --tls-verify-peer --tls off --run true",
            "--tls-verify-peer needs --tls require",
        ),
    ] {
        let mut command = scene.command(line);
        let output = command.env("TMPDIR", scene.path("tmp")).output().expect("the test works");
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(why), "{line}: {}", stderr(&output));
        let left = fs::read_dir(scene.path("tmp")).expect("the test works").count();
        assert_eq!(left, 0, "{line}: the folder of the socket is removed");
    }
}
