//! A reader of fields that never reads past its bytes; each error has the field's name and place.

use crate::error::{Error, Result};

/// Bytes of an image with the place of the first one.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// The place of `bytes[0]` in the image.
    base: u64,
    at: usize,
    big_endian: bool,
}

impl<'a> Reader<'a> {
    /// Little-endian fields in bytes that lie at `base` of the image.
    pub const fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, base, at: 0, big_endian: false }
    }

    /// The same in the other byte order.
    #[must_use]
    pub const fn big_endian(mut self, big_endian: bool) -> Self {
        self.big_endian = big_endian;
        self
    }

    /// The place of the next byte in the image.
    pub const fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The number of bytes that are left.
    pub const fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Field`] if they are not there.
    pub fn take(&mut self, len: usize, field: &'static str) -> Result<&'a [u8]> {
        let bytes =
            self.bytes.get(self.at..).and_then(|rest| rest.get(..len)).ok_or_else(|| {
                Error::field(
                    field,
                    self.offset(),
                    format!("{len} bytes, but {} are left", self.left()),
                )
            })?;
        self.at += len;
        Ok(bytes)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, field)?);
        Ok(array)
    }

    /// The next byte.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn u8(&mut self, field: &'static str) -> Result<u8> {
        Ok(self.array::<1>(field)?[0])
    }

    /// The next 16 bits.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn u16(&mut self, field: &'static str) -> Result<u16> {
        let bytes = self.array(field)?;
        Ok(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    /// The next 32 bits.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn u32(&mut self, field: &'static str) -> Result<u32> {
        let bytes = self.array(field)?;
        Ok(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// The next 64 bits.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub fn u64(&mut self, field: &'static str) -> Result<u64> {
        let bytes = self.array(field)?;
        Ok(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }
}
