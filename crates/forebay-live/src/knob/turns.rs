//! Turns, each with nothing borrowed: what a killed process had borrowed is given back first.
//!
//! ```text
//!   lock, at most 100 ms --> left by a kill? give back --> read, record | borrow, tell, give back
//! ```

use super::access::{stands, write_knob};
use super::{Kernel, NoTurn, Patience, Turn};

/// Takes turns; after one wait in vain for a process it does not wait for the same one again.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    in_vain: bool,
}

impl Turns {
    /// The next turn, with nothing borrowed.
    pub(crate) fn next(&mut self, kernel: &dyn Kernel) -> Result<Turn, NoTurn> {
        let patience = if self.in_vain { Patience::None } else { Patience::Short };
        let turn = turn(kernel, patience);
        self.in_vain = turn.is_err();
        turn
    }
}

/// A turn on the machine of this kernel. What a killed one had borrowed has been given back.
///
/// # Errors
///
/// Another process has it for longer than that, or there is no safe file for a lock. A window that
/// is read without a turn may be a borrowed one.
pub fn turn(kernel: &dyn Kernel, patience: Patience) -> Result<Turn, NoTurn> {
    let turn = kernel.turn(patience)?;
    if let Some(entry) = turn.left() {
        let is_over = match stands(kernel, &entry) {
            Ok(Some(found)) => {
                let borrowed = entry.asked.is_some_and(|asked| entry.knob.is_made_of(found, asked));
                !borrowed
                    || found == entry.last
                    || write_knob(kernel, entry.knob, entry.last).is_ok()
            }
            // Gone with its device.
            Ok(None) => true,
            Err(_) => false,
        };
        if is_over {
            turn.clear();
        }
    }
    Ok(turn)
}
