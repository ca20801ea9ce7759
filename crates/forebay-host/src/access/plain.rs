//! Plain system calls, repeated until all is moved or the file has ended.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

use rustix::io::{ReadWriteFlags, preadv2};

/// Fills `bytes` from `offset` on, from the first `done` on. Returns how many there are: fewer only
/// at the end of the file. `unit` is what places must be multiples of; the end need not be.
pub(super) fn read(
    file: &File,
    bytes: &mut [u8],
    offset: u64,
    mut done: usize,
    unit: u64,
) -> io::Result<usize> {
    while done < bytes.len() && (done as u64).is_multiple_of(unit) {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes `bytes` from `offset` on, from the first `done` on; an error comes with how many are
/// written.
pub(super) fn write(
    file: &File,
    bytes: &[u8],
    offset: u64,
    mut done: usize,
) -> Result<(), (usize, io::Error)> {
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err((done, io::ErrorKind::WriteZero.into())),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((done, error)),
        }
    }
    Ok(())
}

/// Reads cached data: all of `bytes`, or nothing. A miss is not tried again, because it has already
/// started the device.
pub(super) fn read_cached(file: &File, bytes: &mut [u8], offset: u64) -> bool {
    let len = bytes.len();
    let read = preadv2(file, &mut [IoSliceMut::new(bytes)], offset, ReadWriteFlags::NOWAIT);
    // What else went wrong, the access that follows will find out.
    read == Ok(len)
}
