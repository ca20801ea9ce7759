//! The loop between the engine and a world, written once.

use crate::dispatch::Processor;
use crate::engine::Engine;
use crate::io::{Input, Output};
use crate::time::Instant;

/// What performs the outputs for real, or prices them in virtual time.
pub trait World {
    /// The current time; it never goes back.
    fn now(&mut self) -> Instant;

    /// Carries out one output. The engine is lent so that the world can look up
    /// [frames](Engine::frames_of).
    fn carry_out(&mut self, engine: &Engine, output: Output);

    /// All outputs of an input have been executed.
    fn settled(&mut self, _engine: &Engine) {}

    /// The processor that the next input is handled on.
    fn processor(&mut self) -> Processor {
        Processor::default()
    }

    /// The next input, waited for until `deadline`; nothing when all is done. At the deadline it is
    /// [`Input::Timeout`].
    fn next(&mut self, deadline: Option<Instant>) -> Option<Input>;
}

/// Runs until the world has no further input.
pub fn drive(engine: &mut Engine, world: &mut impl World) {
    loop {
        while let Some(output) = engine.poll_output() {
            world.carry_out(engine, output);
        }
        world.settled(engine);
        let Some(input) = world.next(engine.poll_timeout()) else { return };
        let now = world.now();
        engine.set_processor(world.processor());
        engine.handle(now, input);
    }
}
