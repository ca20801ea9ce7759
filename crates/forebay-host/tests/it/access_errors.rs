//! What modes of access say when something is wrong, and what takes the place of io_uring.

use std::error::Error;
use std::process::Command;
use std::{env, fs};

use forebay_host::access::{AccessError, Buffer, DEPTH_MAX, File, Mode, Options, Queue};

use crate::access::{file_on_disk, ways};
use crate::support::contents;

#[test]
fn a_file_that_is_not_there_is_named() {
    for options in ways() {
        let error = File::open("/nowhere/at/all", options).unwrap_err().to_string();
        let how = if options.direct { " past the page cache" } else { "" };
        let expected = format!("cannot open /nowhere/at/all for writing{how}: No such file");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_write_to_a_file_for_reading_is_refused() {
    for mode in Mode::ALL {
        let temporary = file_on_disk(&[1; 4096]);
        let file = File::open(temporary.path(), Options { mode, ..Options::default() }).unwrap();
        let error = file.write_at(&[2; 10], 5).unwrap_err();
        assert_eq!(error.to_string(), "cannot write at 5: the file is open for reading alone");
        let mut queue = Queue::new(&file, 2).unwrap();
        let refused = queue.write(5, Buffer::new(10), 0).unwrap_err();
        assert!(matches!(refused.error, AccessError::ReadOnly { offset: 5 }));
        assert_eq!((refused.buffer.len(), queue.in_flight()), (10, 0));
        assert_eq!(fs::read(temporary.path()).unwrap(), [1; 4096]);
    }
}

#[test]
fn past_the_page_cache_what_is_not_aligned_is_named_with_its_value() {
    for options in ways().into_iter().filter(|options| options.direct) {
        let temporary = file_on_disk(&[1; 3 * 4096]);
        let file = File::open(temporary.path(), options).unwrap();
        let mut bytes = Buffer::new(8192);
        let said = |result: Result<usize, AccessError>| result.unwrap_err().to_string();
        let offset = said(file.read_at(&mut bytes[..4096], 77));
        assert!(offset.starts_with("offset 77 is no multiple of "), "{offset}");
        let length = said(file.read_at(&mut bytes[..100], 0));
        assert!(length.starts_with("length 100 is no multiple of "), "{length}");
        let address = said(file.read_at(&mut bytes[1..4097], 0));
        assert!(address.starts_with("address "), "{address}");
        assert!(file.write_at(&bytes[..100], 0).is_err());
        let mut queue = Queue::new(&file, 1).unwrap();
        assert!(queue.read(77, bytes, 0).is_err() && queue.in_flight() == 0);
    }
}

#[test]
fn places_beyond_the_largest_file_are_refused() {
    for options in ways() {
        let temporary = file_on_disk(&[]);
        let file = File::open(temporary.path(), options).unwrap();
        for offset in [u64::MAX, u64::MAX - 4096, i64::MAX as u64 - 4095] {
            let mut bytes = Buffer::new(4096);
            for error in
                [file.read_at(&mut bytes, offset).err(), file.write_at(&bytes, offset).err()]
            {
                assert!(matches!(error, Some(AccessError::Beyond { .. })), "{options:?} {offset}");
            }
        }
    }
}

#[test]
fn a_device_without_room_is_an_error_with_what_is_written() {
    for mode in Mode::ALL {
        let options = Options { mode, write: true, ..Options::default() };
        let file = File::open("/dev/full", options).unwrap();
        let error = file.write_at(&[1; 512], 0).unwrap_err();
        let said = error.to_string();
        let expected = "cannot write 512 bytes at 0, 0 are written: No space left on device";
        assert!(said.starts_with(expected), "{mode:?}: {said}");
        let mut queue = Queue::new(&file, 1).unwrap();
        queue.write(0, Buffer::new(512), 3).unwrap();
        let done = queue.wait().unwrap();
        assert_eq!(done.token, 3);
        assert!(done.result.unwrap_err().to_string().starts_with(expected), "{mode:?}");
    }
}

#[test]
fn a_folder_is_no_file() {
    for mode in Mode::ALL {
        let file = File::open("/", Options { mode, ..Options::default() }).unwrap();
        let error = file.read_at(&mut [0; 8], 4).unwrap_err().to_string();
        assert!(error.starts_with("cannot read 8 bytes at 4: Is a directory"), "{error}");
        let mut queue = Queue::new(&file, 2).unwrap();
        queue.read(4, Buffer::new(8), 0).unwrap();
        assert_eq!(queue.wait().unwrap().result.unwrap_err().to_string(), error, "{mode:?}");
    }
}

#[test]
fn a_full_queue_refuses_and_takes_more_when_something_has_ended() {
    for options in ways() {
        let temporary = file_on_disk(&[1; 4 * 4096]);
        let file = File::open(temporary.path(), options).unwrap();
        let mut queue = Queue::new(&file, 2).unwrap();
        for token in 0..2 {
            queue.read(0, Buffer::new(4096), token).unwrap();
        }
        let refused = queue.read(0, Buffer::new(4096), 2).unwrap_err();
        assert_eq!(refused.to_string(), "all 2 places of the queue are taken");
        queue.wait().unwrap();
        queue.read(0, refused.buffer, 2).unwrap();
        assert_eq!(queue.in_flight(), 2);
        // An invalid depth is clamped.
        assert_eq!(Queue::new(&file, 0).unwrap().depth(), 1);
    }
    let temporary = file_on_disk(&[]);
    let deepest = Options { mode: Mode::Uring, ..Options::default() };
    let file = File::open(temporary.path(), deepest).unwrap();
    assert_eq!(Queue::new(&file, usize::MAX).unwrap().depth(), DEPTH_MAX);
}

#[test]
fn without_io_uring_one_line_says_so_and_all_goes_on() {
    let plain = contents(1, 4 * 4096);
    let temporary = file_on_disk(&plain);
    for mode in Mode::ALL {
        let options = Options { mode, uring: false, ..Options::default() };
        let file = File::open(temporary.path(), options).unwrap();
        let uses_it = matches!(mode, Mode::Uring | Mode::Spin | Mode::Adaptive);
        assert_eq!(file.note().is_some(), uses_it, "{mode:?}");
        let instead = match mode {
            Mode::Adaptive => "plain reads and worker threads take its place",
            Mode::Uring | Mode::Spin => "worker threads take its place",
            Mode::Inline | Mode::Deferred => "",
        };
        let note = format!("io_uring cannot be used (switched off); {instead}");
        assert!(file.note().is_none_or(|said| said == note), "{mode:?}: {:?}", file.note());
        let mut bytes = Buffer::new(plain.len());
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), plain.len());
        assert!(*bytes == plain, "{mode:?}");
    }
}

/// The kernel itself refuses: the process has one descriptor left, which the file takes.
#[test]
fn a_kernel_that_makes_no_ring_is_noticed() -> Result<(), Box<dyn Error>> {
    if env::var_os(CHILD).is_some() {
        return in_the_child();
    }
    let script = "ulimit -n 64 && exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(env::current_exe()?)
        .args(["--exact", "access_errors::a_kernel_that_makes_no_ring_is_noticed", "--nocapture"])
        .env(CHILD, "1")
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("note: io_uring cannot be used (Too many open files"), "{said}");
    Ok(())
}

fn in_the_child() -> Result<(), Box<dyn Error>> {
    let plain = contents(2, 5_000);
    let temporary = file_on_disk(&plain);
    let mut taken = Vec::new();
    while let Ok(file) = fs::File::open("/dev/null") {
        taken.push(file);
    }
    // One for the file and one for how many tasks are runnable.
    taken.truncate(taken.len() - 1);
    for mode in [Mode::Uring, Mode::Spin, Mode::Adaptive] {
        let file = File::open(temporary.path(), Options { mode, ..Options::default() })?;
        println!("note: {}", file.note().ok_or("there is a ring")?);
        let mut bytes = vec![0; 6_000];
        assert_eq!(file.read_at(&mut bytes, 0)?, 5_000);
        assert!(bytes[..5_000] == plain, "{mode:?}");
        let mut queue = Queue::new(&file, 4)?;
        queue.read(0, Buffer::new(5_000), 0)?;
        let done = queue.wait().ok_or("a read is in flight")?;
        assert!(done.result? == 5_000 && *done.buffer == plain, "{mode:?}");
    }
    Ok(())
}

const CHILD: &str = "FOREBAY_TEST_WITHOUT_A_RING";
