//! Any bytes as a journal: shared by the fuzz target and the tests.

use std::io;
use std::sync::{Arc, Mutex};

use allocation_counter::measure;
use forebay_live::journal::{Disk, Found, Journal, JournalError, Record};

/// A journal in memory; what was set aside is counted.
#[derive(Clone, Default)]
struct MemoryDisk(Arc<Mutex<(Vec<u8>, usize)>>);

impl Disk for MemoryDisk {
    fn load(&self) -> io::Result<Vec<u8>> {
        Ok(self.bytes())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().expect("no thread has panicked").0.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().expect("no thread has panicked").0 = bytes.to_vec();
        Ok(())
    }

    fn set_aside(&mut self) -> io::Result<String> {
        self.0.lock().expect("no thread has panicked").1 += 1;
        Ok("a copy".to_owned())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.replace(&[])
    }
}

impl MemoryDisk {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no thread has panicked").0.clone()
    }
}

/// Reads the bytes, opens them as a journal, and opens what that wrote.
///
/// # Panics
/// If a damaged line is not one of the text, a record is not read as it was written, a repair loses
/// or changes an open change, or memory grows beyond the bytes.
pub(crate) fn survives(bytes: &[u8]) {
    let mut found = Found::default();
    let used = measure(|| found = Found::of(bytes));
    let most = 4096 + 64 * bytes.len() as u64;
    assert!(used.bytes_max <= most, "{} bytes of memory for {}", used.bytes_max, bytes.len());
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
    assert!(found.damaged.iter().all(|line| (1..=lines).contains(line)), "{:?}", found.damaged);
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else { continue };
        if let Some(record) = Record::parse(line) {
            assert_eq!(Record::parse(record.line().trim_end()), Some(record), "{line}");
        }
    }
    let boot = found.head.as_ref().map_or("boot", |head| &head.boot);
    let disk = MemoryDisk::default();
    disk.clone().replace(bytes).expect("memory can be written");
    let (journal, _) = match Journal::open(Box::new(disk.clone()), boot) {
        Ok(opened) => opened,
        Err(JournalError::Version { found: version }) => {
            assert_eq!(found.head.map(|head| head.version), Some(version));
            assert_eq!(disk.bytes(), bytes, "a later version is left alone");
            return;
        }
        Err(JournalError::Unread(error)) => panic!("memory can be read: {error}"),
    };
    assert_eq!(*journal.state(), found.state, "an open change is lost or made up");
    let kept = disk.0.lock().expect("no thread has panicked").1;
    assert_eq!(kept, usize::from(!found.damaged.is_empty()), "a damaged file is kept");
    let (again, notes) =
        Journal::open(Box::new(disk.clone()), boot).expect("it was opened or repaired before");
    assert_eq!((again.state(), notes), (&found.state, Vec::new()), "it was repaired");
}
