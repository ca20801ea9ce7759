//! t
use super::testing::{Bench, Case, Stop};
use crate::time::Instant;
#[test]
fn show() {
    for spec in ["off", "paper-3.18", "linux-3.18", "paced", "pi", "deadline"] {
        let stop = if spec.contains(['1', 'o']) { Stop::Background } else { Stop::Clean };
        for n in [1, 8, 64] {
            std::println!("{spec} {n} {:?}", Bench::run(spec, Case::cold(n, stop)));
            let mut case = Case::cold(n, stop);
            case.warm = true;
            std::println!("   warm {:?}", Bench::run(spec, case));
        }
        let mut case = Case::cold(8, stop);
        case.change = Some((Instant(4_000_000_000), 5_000));
        std::println!("{spec} half {:?}", Bench::run(spec, case));
    }
}
