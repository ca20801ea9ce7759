//! x
use super::*;
#[test]
fn probe() {
    let machine = Machine::builtin("mips-2007").unwrap();
    for case in [&CASES[6], &CASES[0]] {
        for mode in [DEFERRED, INLINE] {
            for sched in ["o1", "fair", "round-robin"] {
                let load = Load { scale: 16, ..case.load(mode, sched, 1) };
                let m = load.measure(&machine, 1).unwrap();
                println!("{} {mode} {sched} {:?}", case.name, m.figures);
            }
        }
    }
}
