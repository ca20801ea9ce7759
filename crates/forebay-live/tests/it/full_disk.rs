//! A journal on a disk that is full: a file system of 64 KiB in a mount namespace of its own.
//!
//! The child is this test program again, inside of the namespace.
#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_core::time::Instant;
use forebay_live::journal::{Folder, Journal};
use forebay_live::knob::{Change, Knob, Refused, StartError, Steering, Terms, Value};

use crate::model::{Model, STRICT, WINDOW};

#[test]
fn a_change_that_finds_no_room_for_its_record_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=64k,mode=755 none \"$1\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(folder.path());
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "full_disk::child", "--nocapture"]);
    let output = match command.env(TOLD, folder.path()).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skip: full disk: needs unshare: {error}");
            return;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if !rustix::process::geteuid().is_root() || said.contains("ermission") {
        eprintln!("skip: full disk: needs root and mount namespaces: {said}");
        return;
    }
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the mount was its own");
}

/// The child: not a test, and without its argument it does nothing.
#[test]
fn child() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let place = PathBuf::from(told);
    let model = Model::new();
    let mut steering = started(&model, &place).unwrap();
    set(&mut steering, STRICT, 1).unwrap();
    let ballast = fill(&place);
    // The last page of the journal has room for a few more.
    let error = (16..4_000).step_by(4).find_map(|kb| set(&mut steering, WINDOW, kb).err());
    let error = error.unwrap();
    assert!(matches!(error, Refused::Journal { .. }), "{error}");
    assert!(error.to_string().contains("so nothing was changed: No space left"), "{error}");
    let stood = model.stands(WINDOW);
    assert!(set(&mut steering, WINDOW, 128).is_err());
    assert_eq!(model.stands(WINDOW), stood);

    let events = steering.finish("a test ends");
    assert!(!events.iter().any(forebay_live::knob::Event::is_failure), "{events:?}");
    assert_eq!(model.stands(WINDOW), Value::Number(8192));
    assert_eq!(model.stands(STRICT), Value::Number(0));
    drop(steering);

    let full = fill(&place);
    let Err(refused) = started(&model, &place) else { panic!("it started without a journal") };
    let said = refused.to_string();
    let expected = "the journal cannot be written, and nothing is steered without one: No space";
    assert!(said.starts_with(expected), "{said}");
    fs::remove_file(ballast).unwrap();
    fs::remove_file(full).unwrap();
    set(&mut started(&model, &place).unwrap(), WINDOW, 128).unwrap();
}

fn started(model: &Model, place: &Path) -> Result<Steering, StartError> {
    let folder = Folder::made(place)?;
    let journal = Journal::open(Box::new(folder), "boot")?.0;
    let terms = Terms { period: forebay_core::time::Duration::ZERO, ..Terms::default() };
    Ok(Steering::on(Box::new(model.clone()), journal, terms)?.0)
}

fn set(steering: &mut Steering, knob: Knob, to: u64) -> Result<(), Refused> {
    let change = Change { knob, to: Value::Number(to), why: "a test".to_owned() };
    steering.set(&change, Instant(0)).map(|_| ())
}

/// Takes all the room there is.
fn fill(place: &Path) -> PathBuf {
    let path = (0..).map(|n| place.join(format!("ballast-{n}"))).find(|path| !path.exists());
    let path = path.unwrap();
    assert!(fs::write(&path, vec![1; 1 << 20]).is_err(), "it has room for a MiB");
    path
}

/// How the child is told where.
const TOLD: &str = "FOREBAY_CHILD_FULL_DISK";
