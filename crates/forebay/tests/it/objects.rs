//! Objects as sources: of a server of the tests' own, and of moto's S3.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use crate::support::{Scene, has, stderr, stdout};

#[path = "../../../forebay-host/src/backend/object/server.rs"]
mod server;

use server::{PageFault, PageServer};

fn content() -> Vec<u8> {
    (0..400_000).map(|number| format!("{number}\n")).collect::<String>().into_bytes()
}

/// Runs the program with some environment variables besides PATH.
fn run(scene: &Scene, words: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = scene.command("");
    command.args(words).env("PATH", env::var_os("PATH").unwrap_or_default());
    command.envs(environment.iter().copied());
    command.output().expect("the program runs")
}

/// The numbers of requests and bytes in the final note.
fn cost(output: &Output) -> (u64, u64) {
    let text = stderr(output);
    let line = text.lines().find(|line| line.contains(" requests brought ")).expect(text);
    let mut numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
    (numbers.next().expect("the test works"), numbers.next().expect("the test works"))
}

#[test]
fn a_served_object_is_read_only_and_read_in_large_ranges() {
    if !(has("nbdcopy", "objects") && has("qemu-io", "objects")) {
        return;
    }
    let scene = Scene::new().file("disk", content());
    let server = PageServer::new(content());
    let url = format!("{}?sig=secret", server.url());
    // A connection that ends early is retried silently, and so is a reply that is too short: its
    // pages are requested again.
    server.page().faults.extend([PageFault::No, PageFault::No, PageFault::Cut, PageFault::Short]);
    let copy = "nbdcopy --connections=1 \"$uri\" copy && cmp copy disk";
    let output = run(&scene, &["serve", &url, "--run", copy], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("secret"), "{}", stderr(&output));
    let (requests, bytes) = cost(&output);
    // nbdcopy reads by 256 KiB; the server's windows join that to at most 2 MiB.
    assert!((3..=30).contains(&requests) && bytes >= content().len() as u64, "{requests} {bytes}");

    let write = "qemu-io -f raw -c 'write 0 4k' \"$uri\"; nbdinfo --is read-only \"$uri\"";
    let output = run(&scene, &["serve", &url, "--run", write], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert!(said.contains("Permission denied") || said.contains("read-only"), "{said}");
}

#[test]
fn an_object_that_changes_while_it_is_served_is_an_error_of_the_read() {
    if !has("nbdcopy", "objects") {
        return;
    }
    let scene = Scene::new();
    let server = PageServer::new(content());
    // The opening sees one version, all reads the next.
    server.page().then = Some(("\"two\"".to_owned(), content()));
    let output = run(&scene, &["serve", &server.url(), "--run", "nbdcopy \"$uri\" null:"], &[]);
    assert_ne!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn an_overlay_over_an_object_belongs_to_one_version_of_it() {
    if !has("qemu-io", "objects") {
        return;
    }
    let scene = Scene::new();
    let server = PageServer::new(content());
    let url = server.url();
    let serve =
        |command: &str| run(&scene, &["serve", &url, "--overlay", "over", "--run", command], &[]);
    let output = serve("qemu-io -f raw -c 'write -P 5 0 10000' -c flush \"$uri\"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let reads = "qemu-io -f raw -c 'read -P 5 0 10000' -c 'read -P 5 10000 1' \"$uri\"";
    let output = serve(reads);
    let said = stdout(&output);
    // Bytes after the written ones are the object's, and not 5.
    assert!(said.contains("read 10000/10000"), "{said}");
    assert_eq!(said.matches("Pattern verification failed").count(), 1, "{said}");
    assert!(said.contains("failed at offset 10000, 1 bytes"), "{said}");
    let output = run(&scene, &["overlay", "commit", "over"], &[]);
    assert!(stderr(&output).contains("its base is never written"), "{}", stderr(&output));
    server.page().etag = Some("\"two\"".to_owned());
    let output = serve("true");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("it was made over"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_served_says_why() {
    let scene = Scene::new();
    let server = PageServer::new(content());
    for (fault, wanted) in [
        (PageFault::Status(404), "there is no such object"),
        (PageFault::Status(403), "access is denied"),
    ] {
        server.page().faults.push_back(fault);
        let output = run(&scene, &["serve", &server.url(), "--run", "true"], &[]);
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        assert!(said.contains(wanted) && said.contains("hint: "), "{said}");
        assert!(said.contains(&server.url()), "{said}");
    }
    let output = run(&scene, &["serve", "s3://bucket", "--run", "true"], &[]);
    assert!(stderr(&output).contains("a bucket and a key"), "{}", stderr(&output));
}

/// A scene with an image, and the image's bytes.
fn image_scene() -> (Scene, Vec<u8>) {
    let scene = Scene::new();
    std::fs::create_dir_all(scene.path("tree/dir")).expect("the test works");
    std::fs::write(scene.path("tree/dir/text"), content()).expect("the test works");
    std::fs::write(scene.path("tree/small"), "small\n").expect("the test works");
    let made = run(&scene, &["image", "make", "tree", "root.cramfs"], &[]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let bytes = std::fs::read(scene.path("root.cramfs")).expect("the test works");
    (scene, bytes)
}

#[test]
fn an_image_at_an_address_is_the_image() {
    let (scene, bytes) = image_scene();
    let server = PageServer::new(bytes.clone());
    let url = format!("{}?sig=secret", server.url());
    for words in [
        &["image", "info", "IMAGE"][..],
        &["image", "ls", "-lR", "IMAGE"],
        &["image", "stat", "IMAGE", "/dir/text"],
        &["image", "cat", "IMAGE", "/dir/text"],
        &["image", "verify", "IMAGE"],
        &["image", "tar", "IMAGE"],
        &["image", "scan", "IMAGE"],
        &["image", "compare", "IMAGE", "root.cramfs"],
        &["image", "compare", "root.cramfs", "IMAGE"],
        &["image", "cat", "--object-cache=4M", "IMAGE", "/small"],
    ] {
        let with = |image: &str| {
            let words: Vec<&str> =
                words.iter().map(|word| if *word == "IMAGE" { image } else { word }).collect();
            run(&scene, &words, &[])
        };
        let (local, remote) = (with("root.cramfs"), with(&url));
        assert_eq!(remote.status.code(), local.status.code(), "{words:?}: {}", stderr(&remote));
        assert!(local.stdout.len() == remote.stdout.len() || words[1] == "compare", "{words:?}");
        let (requests, came) = cost(&remote);
        // Blocks are requested once, and at most a block around it is read unnecessarily.
        assert!(requests <= 12 && came <= bytes.len() as u64, "{words:?}: {requests} {came}");
        assert!(!stderr(&remote).contains("secret"), "{words:?}: {}", stderr(&remote));
    }
    let output = run(&scene, &["image", "extract", &url], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(std::fs::read(scene.path("disk-root/dir/text")).expect("the test works"), content());
}

#[test]
fn an_image_that_changes_under_its_reader_is_an_error() {
    let (scene, bytes) = image_scene();
    let server = PageServer::new(bytes.clone());
    server.page().then = Some(("\"two\"".to_owned(), bytes));
    let output = run(&scene, &["image", "cat", &server.url(), "/dir/text"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("was changed after it was opened"), "{}", stderr(&output));
}

/// What a server fails to send is no damage to the image.
#[test]
fn an_image_whose_server_fails_while_it_is_verified_is_not_called_damaged() {
    let (scene, bytes) = image_scene();
    let server = PageServer::new(bytes);
    // Its length and its first blocks come.
    let later = std::iter::repeat_n(PageFault::Status(403), 1_000);
    server.page().faults = [PageFault::No, PageFault::No].into_iter().chain(later).collect();
    let output = run(&scene, &["image", "verify", &server.url()], &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let verdict = stdout(&output).lines().last().unwrap_or_default();
    assert_eq!(verdict, "NOT VERIFIED: 2 files and the image itself cannot be read");
    assert!(stdout(&output).contains("\nunread"), "{}", stdout(&output));
}

#[test]
fn a_file_inside_an_image_is_served() {
    if !has("nbdcopy", "objects") {
        return;
    }
    let (scene, bytes) = image_scene();
    let server = PageServer::new(bytes);
    let copy = "nbdcopy \"$uri\" copy && cmp copy tree/dir/text";
    for image in ["root.cramfs", &server.url()] {
        let source = format!("disk={image}:/dir/text");
        let copy = copy.replace("$uri", "nbd+unix:///disk?socket=$unixsocket");
        let output = run(&scene, &["serve", &source, "--run", &copy], &[]);
        assert_eq!(output.status.code(), Some(0), "{source}: {}", stderr(&output));
    }
    for (path, wanted) in [("/dir", "is not a regular file"), ("/none", "none")] {
        let output = run(&scene, &["serve", &format!("root.cramfs:{path}"), "--run", "true"], &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    }
}

#[test]
fn an_object_is_mounted_and_costs_what_is_read() {
    let (scene, bytes) = image_scene();
    let server = PageServer::new(bytes.clone());
    let url = format!("{}?sig=secret", server.url());
    std::fs::create_dir(scene.path("folder")).expect("the test works");
    let output = run(&scene, &["mount", &url, "folder"], &[]);
    if output.status.code() != Some(0) && stderr(&output).contains("/dev/fuse") {
        eprintln!("skip: a mounted object: {}", stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let read = std::fs::read(scene.path("folder/dir/text"));
    let small = std::fs::read(scene.path("folder/small"));
    let stats = run(&scene, &["mount", "--stats", "folder", "--json"], &[]);
    let listed = run(&scene, &["mount", "--list"], &[]);
    let ended = run(&scene, &["unmount", "folder"], &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    assert!(read.expect("the test works") == content());
    assert_eq!(small.expect("the test works"), b"small\n");
    let counters: serde_json::Value = serde_json::from_str(stdout(&stats)).expect("the test works");
    let came = counters["object_bytes"].as_u64().expect("the test works");
    assert!((1..=bytes.len() as u64).contains(&came), "{counters}");
    assert!(
        (2..=12).contains(&counters["object_requests"].as_u64().expect("the test works")),
        "{counters}"
    );
    assert!(!stdout(&listed).contains("secret"), "{}", stdout(&listed));
}

/// moto's S3 with a bucket, an object in it, and keys of a user that may read it.
struct Moto {
    server: Child,
    /// It ends with this.
    _until: Option<ChildStdin>,
    environment: Vec<(&'static str, String)>,
}

impl Moto {
    /// Starts it; nothing if it is not installed.
    fn start(object: &PathBuf) -> Option<Self> {
        let mut python = Command::new("python3");
        python.args(["-c", MOTO]).arg(object);
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = python.spawn().ok()?;
        let until = server.stdin.take();
        let mut line = String::new();
        BufReader::new(server.stdout.take()?).read_line(&mut line).ok()?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [port, id, secret] = words[..] else {
            let _ = server.wait();
            eprintln!("skip: objects of S3: pip install 'moto[server]' boto3");
            return None;
        };
        let environment = vec![
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", id.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
        ];
        Some(Self { server, _until: until, environment })
    }

    fn environment(&self) -> Vec<(&str, &str)> {
        self.environment.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        drop(self._until.take());
        let _ = self.server.wait();
    }
}

/// Serves until its standard input ends. From the reset on every request has to be signed.
const MOTO: &str = r#"
import json, os, sys, urllib.request
os.environ.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_DEFAULT_REGION="us-east-1")
from moto.server import ThreadedMotoServer
import boto3
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
url = f"http://127.0.0.1:{port}"
s3 = boto3.client("s3", endpoint_url=url)
s3.create_bucket(Bucket="images")
s3.upload_file(sys.argv[1], "images", "dir/disk 1.img")
iam = boto3.client("iam", endpoint_url=url)
iam.create_user(UserName="reader")
allow = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
rule = {"Statement": [allow], "Version": "2012-10-17"}
iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=json.dumps(rule))
key = iam.create_access_key(UserName="reader")["AccessKey"]
reset = urllib.request.Request(url + "/moto-api/reset-auth", data=b"0", method="POST")
urllib.request.urlopen(reset)
print(port, key["AccessKeyId"], key["SecretAccessKey"], flush=True)
sys.stdin.read()
"#;

#[test]
fn s3_serves_with_keys_of_the_environment_and_refuses_others() {
    let scene = Scene::new().file("disk", content());
    let Some(moto) = Moto::start(&scene.path("disk")) else { return };
    if !has("nbdcopy", "objects") {
        return;
    }
    let environment = moto.environment();
    let source = "s3://images/dir/disk 1.img";
    let copy = "nbdcopy --connections=1 \"$uri\" copy && cmp copy disk";
    let output = run(&scene, &["serve", source, "--run", copy], &environment);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(cost(&output).1, content().len() as u64);
    // A start of a system: here and there a page.
    let pages = "for at in 0 1000k 40k 2000k 512; do \
                 qemu-io -r -f raw -c \"read -q $at 4k\" \"$uri\" || exit 9; done";
    if has("qemu-io", "objects") {
        let output = run(&scene, &["serve", source, "--run", pages], &environment);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let (requests, bytes) = cost(&output);
        assert!(requests <= 12 && bytes <= 2 << 20, "{requests} {bytes}");
    }
    let missing = run(&scene, &["serve", "s3://images/none", "--run", "true"], &environment);
    assert!(stderr(&missing).contains("NoSuchKey"), "{}", stderr(&missing));
    for (name, wanted) in [
        ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"),
        ("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId"),
    ] {
        let mut environment = environment.clone();
        environment.push((name, "wrong-and-secret"));
        let output = run(&scene, &["serve", source, "--run", "true"], &environment);
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        assert!(said.contains("access is denied") && said.contains(wanted), "{said}");
        assert!(!said.contains("wrong-and-secret"), "{said}");
    }
}
