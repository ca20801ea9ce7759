//! A file server of few threads: each call of a client holds one of them until it is answered.
//!
//! Source:     nfsd of Linux 2.2.19, fs/nfsd/nfssvc.c (nfsd: a thread takes a request from the
//!             queue of its socket, carries it out and answers before it takes the next one);
//!             nfsd(8), which takes 8 threads for a useful number.
//! Behaviour:  A request waits in the order of its arrival until a thread is free. A write that
//!             sleeps in the kernel keeps its thread, so that requests of other clients wait too.
//! Differs:    A client has one request at a time. The network takes no time and loses nothing.
//! Not for:    servers that answer writes before they are executed

use std::cell::RefCell;
use std::rc::Rc;

use forebay_core::io::Op;
use forebay_core::time::Instant;
use forebay_core::workload::{Step, Workload};

/// A client, which is a task without a thread, and the state of its request.
struct Client {
    program: Box<dyn Workload>,
    state: ClientState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    /// It sends its next request at this moment, or has sent none yet.
    Thinking(Instant),
    /// Its request has been waiting for a thread since then.
    Queued(Instant, Op),
    /// A thread executes its request.
    Served,
    Gone,
}

/// A thread of the server.
struct ServerThread {
    clients: Rc<RefCell<Vec<Client>>>,
    /// The client whose request it executes.
    serves: Option<usize>,
}

/// The threads of a server with these clients, as tasks.
pub(super) fn server_threads(
    threads: u32,
    clients: Vec<Box<dyn Workload>>,
) -> Vec<Box<dyn Workload>> {
    let state = ClientState::Thinking(Instant::ZERO);
    let clients = clients.into_iter().map(|program| Client { program, state }).collect();
    let clients = Rc::new(RefCell::new(clients));
    let thread = |_| {
        let thread = ServerThread { clients: Rc::clone(&clients), serves: None };
        Box::new(thread) as Box<dyn Workload>
    };
    (0..threads).map(thread).collect()
}

impl Client {
    /// The client continues at a moment.
    fn advance(&mut self, now: Instant) {
        self.state = match self.program.next(now) {
            Step::Call(op) => ClientState::Queued(now, op),
            Step::Sleep(until) => ClientState::Thinking(until),
            Step::Compute(length) => ClientState::Thinking(now + length),
            Step::Exit => ClientState::Gone,
        };
    }
}

impl Workload for ServerThread {
    fn next(&mut self, now: Instant) -> Step {
        let mut clients = self.clients.borrow_mut();
        if let Some(served) = self.serves.take() {
            clients[served].advance(now);
        }
        for client in clients.iter_mut() {
            // A request was sent when it was due, whether or not a thread was free then.
            while let ClientState::Thinking(until) = client.state
                && until <= now
            {
                client.advance(until);
            }
        }
        let queued = clients.iter().enumerate().filter_map(|(number, client)| match client.state {
            ClientState::Queued(since, op) => Some((since, number, op)),
            ClientState::Thinking(_) | ClientState::Served | ClientState::Gone => None,
        });
        if let Some((_, number, op)) = queued.min_by_key(|(since, number, _)| (*since, *number)) {
            clients[number].state = ClientState::Served;
            self.serves = Some(number);
            return Step::Call(op);
        }
        let next = clients.iter().filter_map(|client| match client.state {
            ClientState::Thinking(until) => Some(until),
            ClientState::Queued(..) | ClientState::Served | ClientState::Gone => None,
        });
        // Threads that are busy serve every client that is left, and one each is enough for them.
        next.min().map_or(Step::Exit, Step::Sleep)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use forebay_core::time::Duration;
    use forebay_core::units::HandleId;

    use super::*;

    /// Steps to be taken one after another.
    struct Script(VecDeque<Step>);

    impl Workload for Script {
        fn next(&mut self, _now: Instant) -> Step {
            self.0.pop_front().unwrap_or(Step::Exit)
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn call(client: u32) -> Step {
        Step::Call(Op::Read { handle: HandleId(client), offset: 0, len: 1 })
    }

    fn server<const N: usize>(threads: u32, scripts: [Vec<Step>; N]) -> Vec<Box<dyn Workload>> {
        let clients = scripts.map(|steps| Box::new(Script(steps.into())) as Box<dyn Workload>);
        server_threads(threads, clients.into())
    }

    #[test]
    fn a_request_waits_until_a_thread_is_free_however_short_it_is() {
        let scripts = [
            vec![call(0), call(0)],
            vec![call(1), call(1)],
            vec![Step::Sleep(at(5)), call(2), Step::Exit],
        ];
        let mut threads = server(2, scripts);
        assert_eq!([threads[0].next(at(0)), threads[1].next(at(0))], [call(0), call(1)]);
        // The third client sent its request at 5 ms, before the first one sent its second.
        assert_eq!(threads[0].next(at(9)), call(2));
        assert_eq!(threads[1].next(at(10)), call(0), "sent at 9 ms");
        assert_eq!(threads[0].next(at(11)), call(1), "sent at 10 ms");
        assert_eq!([threads[0].next(at(12)), threads[1].next(at(12))], [Step::Exit; 2]);
    }

    #[test]
    fn an_idle_thread_sleeps_until_a_client_sends() {
        let mut threads = server(1, [vec![Step::Sleep(at(7)), call(0)]]);
        assert_eq!(threads[0].next(at(0)), Step::Sleep(at(7)));
        assert_eq!(threads[0].next(at(7)), call(0));
        assert_eq!(threads[0].next(at(8)), Step::Exit);
    }

    #[test]
    fn a_thread_that_no_client_needs_ends() {
        let mut threads = server(3, [vec![call(0), call(0)], vec![call(1)]]);
        assert_eq!([threads[0].next(at(0)), threads[1].next(at(0))], [call(0), call(1)]);
        assert_eq!(threads[2].next(at(0)), Step::Exit);
        assert_eq!(threads[1].next(at(1)), Step::Exit);
        assert_eq!(threads[0].next(at(2)), call(0));
        assert_eq!(threads[0].next(at(3)), Step::Exit);
    }
}
