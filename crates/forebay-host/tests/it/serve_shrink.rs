//! Sources that shrink while they are served: what they have lost is an error, never zeroes.

use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_host::serve::{FileStore, OverlayStore, Store, create_layer, identify, open_layer};

use crate::serve::{Client, EIO, Rig};

const BYTES: u64 = 16 << 20;
const CUT: u64 = (1 << 20) + 100;

/// A file of `BYTES` bytes without a hole.
fn source(path: &Path) -> FileStore {
    fs::write(path, vec![7; BYTES as usize]).expect("the rig works");
    FileStore::open(path, false, false).expect("the rig works")
}

fn set_len(path: &Path, bytes: u64) {
    let file = File::options().write(true).open(path).expect("the rig works");
    file.set_len(bytes).expect("the rig works");
}

/// Block status has what is lost as data, and reads of it fail.
fn check_lost(client: &mut Client) {
    let extents = client.status(0, BYTES as u32);
    assert_eq!(extents.iter().map(|extent| u64::from(extent.0)).sum::<u64>(), BYTES);
    let mut at = 0;
    for (length, flags) in extents {
        at += u64::from(length);
        assert!(flags == 0 || at <= CUT, "a hole up to {at}");
    }
    assert_eq!(client.status(8 << 20, 1 << 20), [(1 << 20, 0)]);
    assert_eq!(client.read(8 << 20, 4096), Err(EIO));
    assert_eq!(client.read(0, 5).expect("it is there"), [7; 5]);
}

#[test]
fn what_a_source_has_lost_is_data_that_cannot_be_read_and_no_hole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let rig = Rig::with(source(&path), 64);
    let mut client = rig.client();
    set_len(&path, CUT);
    check_lost(&mut client);
    assert!(rig.server.reload()[0].contains("reads behind the end fail"));
    check_lost(&mut client);
    check_lost(&mut rig.client());
}

#[test]
fn what_the_base_of_an_overlay_has_lost_is_data_that_cannot_be_read_and_no_hole() {
    let folder = tempfile::tempdir().unwrap();
    let (path, layer) = (folder.path().join("disk"), folder.path().join("layer"));
    let base = source(&path);
    let identity = identify(&path).unwrap();
    create_layer(&layer, BYTES, &identity).unwrap();
    let layer = Arc::new(open_layer(&layer, false).unwrap());
    let rig = Rig::with(OverlayStore::open(Arc::new(base), layer, &identity).unwrap(), 64);
    let mut client = rig.client();
    client.write(4 << 20, &[8; 4096], true).unwrap();
    set_len(&path, CUT);
    check_lost(&mut client);
    assert_eq!(client.read(4 << 20, 4096).unwrap(), [8; 4096]);
}

/// A long file would give zeroes for what was lost.
#[test]
fn a_write_behind_the_cut_does_not_make_the_source_long_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let rig = Rig::with(source(&path), 64);
    let mut client = rig.client();
    set_len(&path, CUT);
    assert_eq!(client.write(8 << 20, &[8; 4096], true), Err(EIO));
    assert_eq!(client.flush(), Err(EIO), "the write has failed");
    client.ask(6, 0, 9 << 20, 4096).unwrap_err();
    assert_eq!(client.write(0, &[8; 4096], true), Ok(()));
    assert_eq!(fs::metadata(&path).unwrap().len(), CUT);
    set_len(&path, BYTES);
    assert_eq!(client.write(8 << 20, &[8; 4096], true), Ok(()));
}

/// A store that knows of no byte: its runs end where they begin. Counts how often it is asked.
#[derive(Debug)]
struct Ignorant(Arc<AtomicU64>);

impl Store for Ignorant {
    fn bytes(&self) -> u64 {
        BYTES
    }

    fn read(&self, _buffers: &mut [IoSliceMut<'_>], _offset: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn write(&self, _buffers: &[IoSlice<'_>], _offset: u64, _durable: bool) -> io::Result<usize> {
        Ok(0)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn zero(&self, _offset: u64, _len: u64, _hole: bool) -> io::Result<bool> {
        Ok(false)
    }

    fn run(&self, _offset: u64) -> io::Result<(u64, bool)> {
        self.0.fetch_add(1, Relaxed);
        Ok((4096, true))
    }

    fn zeroes_fast(&self) -> bool {
        false
    }
}

/// The status went on by one byte at a time: 40 s of processor time for 63 MiB.
#[test]
fn a_run_that_ends_where_it_begins_takes_one_step() {
    let asked = Arc::new(AtomicU64::new(0));
    let rig = Rig::with(Ignorant(Arc::clone(&asked)), 64);
    assert_eq!(rig.client().status(0, BYTES as u32), [(4096, 3), (BYTES as u32 - 4096, 0)]);
    assert_eq!(asked.load(Relaxed), 2);
}
