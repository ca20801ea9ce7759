//! A script performed by the engine on a device that takes no time.

use std::collections::{BTreeSet, VecDeque};

use forebay_core::block::QueueConfig;
use forebay_core::drive::{World, drive};
use forebay_core::engine::{Config, Engine};
use forebay_core::io::{Advice as CoreAdvice, Input, Op, Output};
use forebay_core::readahead::{Mapping, Pattern, Readahead};
use forebay_core::time::Instant;
use forebay_core::units::{CallId, FileId, HandleId, PAGE_SIZE, PageIndex};

use super::{Advice, Outcome, Step};

/// One file, a descriptor that reads it and a mapping with a separate descriptor.
pub struct Player<'a> {
    engine: Engine,
    file: FileId,
    file_bytes: u64,
    /// Makes the state of a fresh descriptor.
    open: Box<dyn FnMut() -> Box<dyn Readahead> + 'a>,
    reading: HandleId,
    mapping: HandleId,
    /// Pages that the mapping has touched: their next touch is no fault.
    mapped: BTreeSet<PageIndex>,
}

/// Page memory: 64 GiB in pages. Larger files may lose pages while they are played, and kernels
/// that limit a range by half of the available memory limit it by half of this.
const FRAMES: u32 = 1 << 24;

impl<'a> Player<'a> {
    /// A cold file; `open` makes the readahead state of each new descriptor.
    pub fn new(file_bytes: u64, mut open: impl FnMut() -> Box<dyn Readahead> + 'a) -> Self {
        let mut engine = Engine::new(Config { frames: FRAMES, calls_max: 1 });
        let device = engine.add_device(QueueConfig { plug: None, ..QueueConfig::default() });
        let file = engine.add_file(device, file_bytes, 0);
        let (reading, mapping) = (engine.open(file, open()), engine.open(file, open()));
        let (open, mapped) = (Box::new(open), BTreeSet::new());
        Self { engine, file, file_bytes, open, reading, mapping, mapped }
    }

    /// Performs one step.
    pub fn step(&mut self, step: Step) -> Outcome {
        let new = match step {
            Step::Read { offset, len } => {
                self.perform(Op::Read { handle: self.reading, offset, len })
            }
            Step::Touch { page } if !self.mapped.insert(page) => BTreeSet::new(),
            Step::Touch { page } => {
                let mapping =
                    Mapping { end: self.file_bytes.div_ceil(PAGE_SIZE), ..Mapping::WHOLE };
                let handle = self.mapping;
                self.perform(Op::Fault { handle, page, write: false, mapping })
            }
            Step::Advise(advice) => self.advise(advice.into()),
            Step::Open => {
                self.engine.close(self.reading);
                self.reading = self.engine.open(self.file, (self.open)());
                BTreeSet::new()
            }
            Step::Drop => {
                self.mapped.clear();
                self.engine.close(self.mapping);
                self.mapping = self.engine.open(self.file, (self.open)());
                self.advise(CoreAdvice::DontNeed)
            }
        };
        Outcome::new(new, self.engine.resident_pages(self.file))
    }

    fn advise(&mut self, advice: CoreAdvice) -> BTreeSet<PageIndex> {
        self.perform(Op::Advise { handle: self.reading, advice, offset: 0, len: 0 })
    }

    /// Executes one call and returns the pages that it read.
    fn perform(&mut self, op: Op) -> BTreeSet<PageIndex> {
        let now = self.engine.now();
        let inputs = VecDeque::from([Input::Call(CallId(0), op)]);
        let mut world = AtOnce { now, inputs, new: BTreeSet::new() };
        drive(&mut self.engine, &mut world);
        world.new
    }
}

/// A world in which every output completes at once.
struct AtOnce {
    now: Instant,
    inputs: VecDeque<Input>,
    new: BTreeSet<PageIndex>,
}

impl World for AtOnce {
    fn now(&mut self) -> Instant {
        self.now
    }

    fn carry_out(&mut self, _engine: &Engine, output: Output) {
        match output {
            Output::Submit(request) => {
                self.new.extend(request.first..request.first + request.pages);
                self.inputs.push_back(Input::Done(request.id, Ok(()), None));
            }
            Output::Wake(call) | Output::Pause(call, _) => {
                self.inputs.push_back(Input::Resume(call));
            }
            Output::Copy(_) | Output::Gather(_) | Output::Reply(..) => {}
            Output::Decode(decode) => self.inputs.push_back(Input::Decoded(decode.id, Ok(()))),
        }
    }

    fn next(&mut self, _deadline: Option<Instant>) -> Option<Input> {
        self.inputs.pop_front()
    }
}

impl From<Advice> for CoreAdvice {
    fn from(advice: Advice) -> Self {
        match advice {
            Advice::Normal => Self::Pattern(Pattern::Normal),
            Advice::Random => Self::Pattern(Pattern::Random),
            Advice::Sequential => Self::Pattern(Pattern::Sequential),
            Advice::WillNeed => Self::WillNeed,
            Advice::DontNeed => Self::DontNeed,
            Advice::NoReuse => Self::NoReuse,
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::readahead::Spec;

    use super::super::parse_script;
    use super::*;

    fn played(policy: &str, file_bytes: u64, script: &str) -> Vec<String> {
        let spec = Spec::parse(policy).unwrap();
        let mut player = Player::new(file_bytes, || spec.build());
        let script = parse_script(script).unwrap();
        script.into_iter().map(|step| player.step(step).line(step)).collect()
    }

    #[test]
    fn a_stream_of_today_opens_growing_windows() {
        assert_eq!(
            played("linux-6.18", 4 << 20, "r 0 4096\nr 4096 4096\nr 16384 4096\nr 8192 4096"),
            [
                "r 0 4096 -> 0+4  | resident 4",
                "r 4096 4096 -> 4+8  | resident 12",
                "r 16384 4096 -> 12+16  | resident 28",
                "r 8192 4096 ->   | resident 28",
            ]
        );
    }

    #[test]
    fn the_mapping_has_a_descriptor_of_its_own_and_faults_once_a_page() {
        assert_eq!(
            played("linux-6.18", 4 << 20, "t 1000\nt 1000\nt 5\nd\nt 1000\nf 1\nr 0 8192"),
            [
                "t 1000 -> 984+32  | resident 32",
                "t 1000 ->   | resident 32",
                "t 5 -> 0+32  | resident 64",
                "d ->   | resident 0",
                "t 1000 -> 984+32  | resident 32",
                "f 1 ->   | resident 32",
                "r 0 8192 -> 0+2  | resident 34",
            ]
        );
    }

    #[test]
    fn a_new_descriptor_forgets_the_stream() {
        assert_eq!(
            played("linux-6.18", 4 << 20, "r 409600 4096\nn\nr 413696 4096\nf 4\nt 2000"),
            [
                "r 409600 4096 -> 100+1  | resident 1",
                "n ->   | resident 1",
                "r 413696 4096 -> 101+1  | resident 2",
                "f 4 ->   | resident 0",
                "t 2000 ->   | resident 0",
            ]
        );
    }
}
