//! A contestant that other programs have: `tokio::fs`.

use std::io::{self, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::fs::{Advice, fadvise};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::runtime::{Builder, Runtime};

use super::{Contestant, Entrant, Pages, READ, TOKIO};

/// Tasks of a default runtime, each with its own file: a seek and a read.
pub(crate) fn on_a_runtime<'a>() -> Box<Entrant<'a>> {
    Box::new(|cell, path| {
        // Its buffers are not aligned as reads past the page cache need.
        if cell.pages == Pages::ColdDirect {
            return Ok(None);
        }
        let runtime = Builder::new_multi_thread().build()?;
        let files = (0..cell.depth).map(|_| runtime.block_on(open(path)));
        let files = files.collect::<io::Result<Vec<File>>>()?;
        Ok(Some(Box::new(OnRuntime { runtime, files })))
    })
}

async fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path).await?;
    fadvise(&file, 0, None, Advice::Random)?;
    Ok(file)
}

struct OnRuntime {
    runtime: Runtime,
    files: Vec<File>,
}

impl Contestant for OnRuntime {
    fn name(&self) -> &'static str {
        TOKIO
    }

    fn run(&mut self, offsets: &[u64], took: &mut Vec<u64>) -> io::Result<()> {
        let left = Arc::new(Mutex::new(offsets.to_vec()));
        let spawn = |file| self.runtime.spawn(read_all(file, Arc::clone(&left)));
        let tasks: Vec<_> = self.files.drain(..).map(spawn).collect();
        for task in tasks {
            let (file, times) = self.runtime.block_on(task).map_err(io::Error::other)??;
            self.files.push(file);
            took.extend(times);
        }
        Ok(())
    }
}

async fn read_all(mut file: File, left: Arc<Mutex<Vec<u64>>>) -> io::Result<(File, Vec<u64>)> {
    let (mut buffer, mut times) = (vec![0; READ], Vec::new());
    loop {
        let next = left.lock().expect("no reader panics").pop();
        let Some(offset) = next else { return Ok((file, times)) };
        let begin = Instant::now();
        file.seek(SeekFrom::Start(offset)).await?;
        file.read_exact(&mut buffer).await?;
        times.push(begin.elapsed().as_nanos() as u64);
    }
}
