//! Threads share a path under many interleavings: each read gets the bytes of the file, no thread
//! waits for ever, and no request number is lost.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use forebay_core::packed::Spec;
use forebay_core::serving::{MountConfig, Part, PathConfig};
use forebay_image::Image;
use forebay_image::cramfs::write::{Attributes, Content as FileContent, Settings, Tree, write};
use shuttle::sync::mpsc;
use shuttle::thread;

use super::{EndedRequest, PathJob};
use crate::image_path::content::Content;
use crate::image_path::file::{ImageFile, Opened};

/// Interleavings of each test under each scheduler.
const ITERATIONS: usize = 2_000;

/// Preemptions that the second scheduler places.
const PREEMPTIONS: usize = 3;

/// Bytes of the file: some blocks and a part of one.
const LEN: usize = 5 * 4096 + 700;

/// The number of a read and its first byte.
type What = (usize, usize);

/// A file of an image whose raw bytes are pages of the engine.
struct Scene {
    image: File,
    bytes: Arc<Vec<u8>>,
}

/// The same, served.
#[derive(Clone)]
struct Served {
    content: Arc<Content<What>>,
    bytes: Arc<Vec<u8>>,
}

fn explore(test: impl Fn(&Scene) + Clone + Send + Sync + 'static) {
    let scene = Arc::new(Scene::new());
    let run = move || test(&scene);
    shuttle::check_random(run.clone(), ITERATIONS);
    shuttle::check_pct(run, ITERATIONS, PREEMPTIONS);
}

impl Scene {
    fn new() -> Self {
        let bytes: Vec<u8> = (0..LEN).map(|at| (at / 7 + at / 4096) as u8).collect();
        let mut tree = Tree::new(Attributes { permissions: 0o755, ..Attributes::default() });
        let file = Attributes { permissions: 0o644, ..Attributes::default() };
        let added = tree.add(tree.root(), b"file", file, FileContent::Bytes(bytes.clone()));
        added.expect("the name is free");
        let written = write(&tree, &Settings::default(), &mut |_| ()).expect("a small tree fits");
        let mut image = tempfile::tempfile().expect("temporary files can be made");
        image.write_all(&written.image).expect("the image is small");
        Self { image, bytes: Arc::new(bytes) }
    }

    /// Serves it with so many pages of memory and requests at once.
    fn serve(&self, frames: u32, requests_max: u32) -> Served {
        let image_bytes = self.image.metadata().expect("the file is there").len();
        let open = || self.image.try_clone().expect("a descriptor is free");
        let opened = Opened { file: open(), random: open(), direct: true };
        let file = Arc::new(ImageFile::new(opened, 0..image_bytes, Arc::default()));
        let source: Arc<dyn forebay_image::Source> = file.clone();
        let lenient = forebay_image::Options { lenient: false };
        let image: Arc<dyn Image> = forebay_image::open(&source, lenient).expect("it is whole");
        let policy = Spec::parse("selective").expect("the table has it");
        let ahead = policy.build().ahead();
        let path = PathConfig { frames, requests_max, keeps_raw: true, image_bytes };
        let config = MountConfig { path, policy, ahead, only_asked: false };
        let content = Arc::new(Content::new(image, file, &config, &Arc::default()));
        Served { content, bytes: Arc::clone(&self.bytes) }
    }
}

impl Served {
    fn parts(&self, start: usize, buffer: &mut [u8]) -> Vec<Part> {
        let (id, _) = self.content.find(b"/file").expect("the image has one file");
        self.content.parts(id, start as u64, buffer).expect("the image is sound")
    }

    /// Reads, and compares.
    fn read(&self, start: usize, len: usize, finish: impl FnMut(Vec<EndedRequest<What>>)) {
        let mut buffer = vec![0; len];
        let parts = self.parts(start, &mut buffer);
        let (found, result) = self.content.path.read(&parts, buffer, finish);
        result.expect("the image is sound");
        assert!(found == self.bytes[start..start + len], "{len} bytes at {start}");
    }

    fn check(&self, ended: Vec<EndedRequest<What>>) -> usize {
        for EndedRequest { what: (_, start), bytes, result, .. } in &ended {
            result.clone().expect("the image is sound");
            assert!(*bytes == self.bytes[*start..start + bytes.len()], "bytes at {start}");
        }
        ended.len()
    }

    /// Carries jobs out and what follows from them; returns how many handed requests ended.
    fn work(&self, mut jobs: Vec<PathJob>) -> usize {
        let path = &self.content.path;
        let mut ended = 0;
        while !jobs.is_empty() {
            let done = jobs.into_iter().map(|job| path.carry_out(job)).collect();
            let round = path.finish(done);
            ended += self.check(round.ended);
            jobs = round.jobs;
        }
        ended
    }
}

/// More readers than request numbers, and so little memory that pages of one are the next one's.
#[test]
fn readers_share_numbers_and_pages() {
    explore(|scene| {
        let served = scene.serve(8, 2);
        let reader = |places: [(usize, usize); 3]| {
            let served = served.clone();
            thread::spawn(move || {
                for (start, len) in places {
                    served.read(start, len, |ended| assert!(ended.is_empty()));
                }
            })
        };
        let threads = [
            reader([(0, 9_000), (4_096, 4_096), (LEN - 1, 1)]),
            reader([(4_095, 2), (0, 9_000), (8_192, 5_000)]),
            reader([(LEN - 700, 700), (4_096, 4_096), (0, 1)]),
        ];
        for thread in threads {
            thread.join().expect("every read is right");
        }
        assert_eq!(served.content.path.lock().free.len(), 2, "every number is free again");
    });
}

/// Requests whose jobs another thread carries out, beside one that carries out its own: the
/// thread that finishes the last job of a request gets it, once.
#[test]
fn handed_requests_come_back_once() {
    explore(|scene| {
        let served = scene.serve(16, 4);
        let (jobs, taken) = mpsc::channel::<Vec<PathJob>>();
        let worker = {
            let served = served.clone();
            thread::spawn(move || taken.iter().map(|jobs| served.work(jobs)).sum::<usize>())
        };
        let reader = {
            let served = served.clone();
            thread::spawn(move || {
                let mut ended = 0;
                for start in [2_000, 6_000] {
                    served.read(start, 5_000, |others| ended += served.check(others));
                }
                ended
            })
        };
        let mut here = 0;
        for (number, start) in [0, 4_096, 3_000].into_iter().enumerate() {
            let mut buffer = vec![0; 6_000];
            let parts = served.parts(start, &mut buffer);
            let round = served.content.path.begin(&parts, buffer, (number, start));
            here += served.check(round.ended);
            jobs.send(round.jobs).expect("the worker takes jobs");
        }
        drop(jobs);
        let there = worker.join().expect("the worker does not fail");
        let aside = reader.join().expect("every read is right");
        assert_eq!(here + there + aside, 3, "each handed request ends once");
        assert_eq!(served.content.path.lock().free.len(), 4, "every number is free again");
    });
}

/// Requests that come while every number is taken, beside a thread that waits for one: each begins
/// when a number is free, and comes back once.
#[test]
fn requests_wait_for_a_number() {
    explore(|scene| {
        let served = scene.serve(16, 2);
        let asker = |starts: [usize; 3]| {
            let served = served.clone();
            thread::spawn(move || {
                let mut ended = 0;
                for (number, start) in starts.into_iter().enumerate() {
                    let mut buffer = vec![0; 6_000];
                    let parts = served.parts(start, &mut buffer);
                    let round = served.content.path.begin(&parts, buffer, (number, start));
                    ended += served.check(round.ended) + served.work(round.jobs);
                }
                ended
            })
        };
        let reader = {
            let served = served.clone();
            thread::spawn(move || {
                let mut ended = 0;
                served.read(2_000, 5_000, |others| ended += served.check(others));
                ended
            })
        };
        let threads = [asker([0, 4_096, 3_000]), asker([8_192, 0, 9_000]), reader];
        let ended: usize =
            threads.map(|thread| thread.join().expect("no thread fails")).iter().sum();
        assert_eq!(ended, 6, "each request ends once");
        let state = served.content.path.lock();
        assert_eq!((state.free.len(), state.waiting.len()), (2, 0), "nothing waits any more");
    });
}

/// A path that is closed while a job is never carried out: those that wait for it, and those that
/// wait for a number, get an error.
#[test]
fn a_closed_path_lets_waiting_threads_go() {
    explore(|scene| {
        let served = scene.serve(8, 2);
        let mut buffer = vec![0; 100];
        let parts = served.parts(0, &mut buffer);
        let never = served.content.path.begin(&parts, buffer, (0, 0));
        assert!(!never.jobs.is_empty(), "its page has to be read");
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let served = served.clone();
                thread::spawn(move || {
                    let mut buffer = vec![0; 100];
                    let parts = served.parts(0, &mut buffer);
                    served.content.path.read(&parts, buffer, |_| ()).1.is_err()
                })
            })
            .collect();
        served.content.path.close();
        for reader in readers {
            assert!(reader.join().expect("a reader does not fail"), "the bytes never came");
        }
    });
}
