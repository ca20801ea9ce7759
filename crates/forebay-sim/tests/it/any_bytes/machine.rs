//! Any bytes as a machine file: shared by the fuzz target and the tests.

use allocation_counter::measure;
use forebay_sim::machine::{Machine, MachineError, Place};

/// Reads the bytes as a machine, if they are a text, and draws machines from its ranges.
///
/// # Panics
/// If an error names no line of the text, a number leaves its range, a number that was read cannot
/// be set again, or memory grows beyond the bytes.
pub(crate) fn survives(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parsed = None;
    let used = measure(|| parsed = Some(Machine::parse(text, "file.toml")));
    let most = (64 << 10) + 256 * text.len() as u64;
    assert!(used.bytes_max <= most, "{} bytes of memory for {}", used.bytes_max, text.len());
    match parsed.expect("it was read") {
        Ok(machine) => draws(&machine),
        Err(
            MachineError::Syntax { place, .. }
            | MachineError::UnknownKey { place, .. }
            | MachineError::MissingKey { place, .. }
            | MachineError::BadValue { place, .. },
        ) => {
            let lines = 1 + text.matches('\n').count();
            let Place::Line { file, line } = place else { panic!("an error of a file: {place}") };
            assert_eq!(&*file, "file.toml");
            assert!((1..=lines).contains(&line), "line {line} of {lines}");
        }
        Err(error @ (MachineError::UnknownMachine { .. } | MachineError::NoRoom { .. })) => {
            panic!("not an error of a text: {error}");
        }
    }
}

fn draws(machine: &Machine) {
    let sides = machine.uncertain().len();
    for coordinate in [0, 1, 499_999, 1_000_000] {
        let drawn = machine.draw(&vec![coordinate; sides]);
        for (number, range) in drawn.parameters().zip(machine.parameters()) {
            assert!((range.low..=range.high).contains(&number.value), "{number:?} of {range:?}");
        }
        let mut certain = drawn.clone();
        for number in drawn.parameters().filter(|number| number.is_uncertain()) {
            // Another number's range may stand in the way; the value itself is a possible one.
            if let Err(error) = certain.set(number.key, &number.value.to_string()) {
                let said = error.to_string();
                assert!(said.contains("<="), "{}: {said}", number.key);
            }
        }
        let (kernel, prices, medium) = (drawn.kernel(), drawn.prices(), drawn.medium());
        assert_eq!(kernel.scheduler, prices.scheduler);
        assert_eq!(medium, machine.medium());
        let (first, span) = drawn.layout().span();
        assert!(first + span <= drawn.capacity_bytes() / 512, "{first} and {span}");
        if let Ok(places) = drawn.layout().place(16, 64 << 10, 7) {
            assert!(places.iter().all(|place| (first..first + span).contains(place)), "{places:?}");
        }
    }
}
