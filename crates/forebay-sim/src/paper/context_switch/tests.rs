//! x
use super::*;
#[test]
fn probe() {
    let machine = Machine::builtin("mips-2007").unwrap();
    let mut by: std::collections::BTreeMap<String, (u32, f64)> = Default::default();
    for e in experiments() {
        let t = std::time::Instant::now();
        let _ = (e.run)(&machine, 1).unwrap();
        let d = t.elapsed().as_secs_f64();
        let key = format!(
            "{} | {}",
            e.row.split(" us").next().unwrap().trim_end_matches(char::is_numeric),
            e.policy
        );
        let s = by.entry(key).or_default();
        s.0 += 1;
        s.1 += d;
    }
    for (k, v) in by {
        if v.1 > 0.2 {
            println!("{k} {v:?}");
        }
    }
}
