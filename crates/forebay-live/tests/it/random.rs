//! Random changes, other writers, resets of the kernel, kills and new starts, against the
//! simplest thing that could be true: a knob has the value that the last other writer gave it.

use std::collections::BTreeMap;

use forebay_core::time::Instant;
use forebay_live::knob::{Brief, Change, Knob, Steering, Value, WindowOf};

use crate::model::{DISK, Death, FINE, Model, SHARE, STRICT, WINDOW, open_file};

#[test]
fn in_the_end_each_knob_stands_where_others_have_put_it() {
    for seed in 0..2_000 {
        let mut run = Run::new(seed);
        for _ in 0..run.random.below(30) {
            run.step();
        }
        run.end();
    }
}

struct Run {
    seed: u64,
    random: Random,
    model: Model,
    steering: Option<Steering>,
    /// What each knob may stand at in the end.
    right: BTreeMap<Knob, Vec<Value>>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let model = Model::new();
        let right = KNOBS.iter().map(|knob| (*knob, vec![model.stands(*knob)])).collect();
        let steering = Some(model.steering());
        Self { seed, random: Random(seed), model, steering, right }
    }

    fn step(&mut self) {
        let knob = KNOBS[self.random.below(KNOBS.len() as u64) as usize];
        match self.random.below(12) {
            0..=4 => self.set(knob),
            5 => self.window(),
            6 => self.other_writes(knob),
            7 => self.kernel_resets(),
            8 => self.watch(),
            9 => {
                self.steering.as_mut().map(|steering| steering.restore(knob, "a test"));
            }
            10 => self.kill(),
            _ => {
                self.steering = None;
                self.steering = Some(self.model.steering());
            }
        }
    }

    fn set(&mut self, knob: Knob) {
        let to = match (knob, self.random.below(3)) {
            (Knob::DirtyLimit | Knob::DirtyBackground, 0) => Value::Ratio(3 + self.random.below(5)),
            (Knob::DirtyLimit | Knob::DirtyBackground, n) => Value::Bytes((64 + n) << 20),
            (Knob::StrictLimit(_), _) => Value::Number(1),
            (_, n) => Value::Number(2_000 + 4 * n),
        };
        let change = Change { knob, to, why: "a test".to_owned() };
        if let Some(steering) = &mut self.steering {
            // Refused where another program has written.
            let _ = steering.set(&change, Instant(0));
        }
    }

    fn window(&mut self) {
        let brief = Brief { bdi: DISK, kb: 1_000, why: "a test".to_owned(), name: String::new() };
        let of = WindowOf { file: open_file(3), before_kb: 8192 };
        if let Some(steering) = &mut self.steering {
            let _ = steering.set_windows(&brief, &[of]);
        }
    }

    /// Never a value that we write, as it could not be told from ours.
    fn other_writes(&mut self, knob: Knob) {
        let n = self.random.below(3);
        let value = match knob {
            Knob::DirtyLimit | Knob::DirtyBackground if n == 0 => Value::Bytes(1 << 30),
            Knob::DirtyLimit | Knob::DirtyBackground => Value::Ratio(10 * n),
            Knob::StrictLimit(_) => Value::Number(0),
            Knob::ReadAheadKb(_)
            | Knob::MaxRatioFine(_)
            | Knob::MaxRatio(_)
            | Knob::WbtLatUsec(_)
            | Knob::DirtyExpire => Value::Number(40_000 + 4 * n),
        };
        self.model.write_as_other(knob, value);
        self.right.insert(knob, vec![value]);
    }

    /// The window jumps to twice the largest request. It may be set again and put back, or be
    /// seen too late for that.
    fn kernel_resets(&mut self) {
        self.model.write_as_other(WINDOW, Value::Number(8192));
        self.right.entry(WINDOW).or_default().push(Value::Number(8192));
    }

    fn watch(&mut self) {
        self.steering.as_mut().map(Steering::watch_foreign);
    }

    /// Dies a few steps later, in the midst of whatever that is, and starts again.
    fn kill(&mut self) {
        let step = self.model.world().steps + self.random.below(6);
        let torn = self.random.below(300) as usize;
        self.model.world().dies = Some(Death { step, torn });
        for _ in 0..3 {
            let knob = KNOBS[self.random.below(KNOBS.len() as u64) as usize];
            self.set(knob);
            self.window();
        }
        self.model.world().is_dead = true;
        self.steering = None;
        self.model.revive(self.random.below(2) == 0);
        self.steering = Some(self.model.steering());
    }

    fn end(mut self) {
        self.steering = None;
        for (knob, right) in &self.right {
            let stands = self.model.stands(*knob);
            assert!(right.contains(&stands), "seed {}: {knob} is {stands}", self.seed);
        }
        let world = self.model.world();
        assert_eq!(world.unrecorded, [""; 0], "seed {}", self.seed);
        assert_eq!(world.windows[&open_file(3)], 8192, "seed {}", self.seed);
    }
}

/// A generator that is named by one number.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

const KNOBS: [Knob; 7] = [
    WINDOW,
    STRICT,
    FINE,
    Knob::ReadAheadKb(SHARE),
    Knob::DirtyLimit,
    Knob::DirtyBackground,
    Knob::DirtyExpire,
];
