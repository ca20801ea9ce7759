//! Where files lie on a device.

use forebay_core::units::{PAGE_SECTORS, PAGE_SIZE, SECTOR_SIZE};

use super::MachineError;
use crate::rng::{MILLION, Rng};

/// The part of a device that files lie in, and how they lie there.
///
/// ```text
///   0                                                       capacity
///   |------ start of the rest ------|==== span ====|---- rest ----|
///                                    0 3 2 1        scattered: even distances, order from a seed
///                                    0123           contiguous: one behind another
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Sectors of the device.
    pub capacity_sectors: u64,
    /// The span that files lie in, as a share of the device.
    pub span_ppm: u64,
    /// The room before the span, as a share of the room outside the span.
    pub start_ppm: u64,
    /// How files lie in the span.
    pub placement: Placement,
}

/// How files lie in their span. Each file is in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One behind another.
    Contiguous,
    /// At even distances over the whole span, in an order from the seed.
    Scattered,
}

impl Layout {
    /// The first sectors of `files` files of `file_bytes` each, on borders of pages.
    ///
    /// # Errors
    /// The files must fit in the span.
    pub fn place(&self, files: u32, file_bytes: u64, seed: u64) -> Result<Vec<u64>, MachineError> {
        let (first, span) = self.span();
        let length = file_bytes.div_ceil(PAGE_SIZE).saturating_mul(PAGE_SECTORS);
        let slots = u64::from(files);
        let room = span / slots.max(1) / PAGE_SECTORS * PAGE_SECTORS;
        if length > room {
            let span_bytes = span.saturating_mul(SECTOR_SIZE);
            return Err(MachineError::NoRoom { files, file_bytes, span_bytes });
        }
        Ok(match self.placement {
            Placement::Contiguous => (0..slots).map(|slot| first + slot * length).collect(),
            Placement::Scattered => {
                let mut starts: Vec<u64> = (0..slots).map(|slot| first + slot * room).collect();
                Rng::new(seed).fork("layout", 0).shuffle(&mut starts);
                starts
            }
        })
    }

    /// The first sector of the span and its length, both on borders of pages.
    pub fn span(&self) -> (u64, u64) {
        let share = |sectors: u64, ppm: u64| {
            let sectors = u128::from(sectors) * u128::from(ppm.min(MILLION)) / u128::from(MILLION);
            let sectors = u64::try_from(sectors).expect("a share is not more than the whole");
            sectors / PAGE_SECTORS * PAGE_SECTORS
        };
        let span = share(self.capacity_sectors, self.span_ppm);
        (share(self.capacity_sectors - span, self.start_ppm), span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(placement: Placement) -> Layout {
        let capacity_sectors = 160_000_000;
        Layout { capacity_sectors, span_ppm: 250_000, start_ppm: 500_000, placement }
    }

    #[test]
    fn the_span_lies_where_its_start_says() {
        let at = |start_ppm| Layout { start_ppm, ..layout(Placement::Contiguous) }.span();
        assert_eq!(at(0), (0, 40_000_000));
        assert_eq!(at(500_000), (60_000_000, 40_000_000));
        assert_eq!(at(1_000_000), (120_000_000, 40_000_000));
    }

    #[test]
    fn contiguous_files_follow_each_other() {
        let starts = layout(Placement::Contiguous).place(3, 5_000, 1).unwrap();
        assert_eq!(starts, [60_000_000, 60_000_016, 60_000_032]);
    }

    #[test]
    fn scattered_files_cover_the_span_and_never_overlap() {
        let starts = layout(Placement::Scattered).place(128, 32 << 20, 1).unwrap();
        let mut sorted = starts.clone();
        sorted.sort_unstable();
        assert_ne!(sorted, starts);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 65_536));
        assert_eq!(sorted[0], 60_000_000);
        assert!(sorted[127] + 65_536 <= 100_000_000);
        assert_eq!(starts, layout(Placement::Scattered).place(128, 32 << 20, 1).unwrap());
        assert_ne!(starts, layout(Placement::Scattered).place(128, 32 << 20, 2).unwrap());
    }

    #[test]
    fn files_that_do_not_fit_are_refused() {
        let error = layout(Placement::Scattered).place(2, 11 << 30, 1).unwrap_err();
        let said = "2 files, each with room for the largest of 11811160064 bytes, do not fit in a \
                    span of 20480000000 bytes";
        assert_eq!(error.to_string(), said);
        assert!(layout(Placement::Scattered).place(0, 1, 1).unwrap().is_empty());
    }
}
