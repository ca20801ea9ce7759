//! The modes of access compared with plain `pread` and `tokio::fs`, and the targets.
//!
//! ```sh
//! cargo bench -p forebay-host --bench dispatch -- [SECONDS [FOLDER|FILE|DEVICE [CELL]]]
//! ```
//!
//! `cargo xtask bench dispatch` measures the same without `tokio::fs`.
//! SECONDS are for each contestant in each cell. A file of 128 MiB is made in FOLDER, or in the
//! current one; a FILE or DEVICE is only read. CELL is a part of a cell's name.

use std::env;
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_host::access::Mode;
use forebay_host::measure::{
    Cell, Contestant, Entrant, Length, Pages, READ, Scratch, Subject, measure, ours, pread,
    verdicts,
};
use rustix::fs::{Advice, fadvise};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::runtime::{Builder, Runtime};

fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let word = |place: usize| words.get(place).map(String::as_str);
    let seconds: f64 = word(0).unwrap_or("2").parse().map_err(io::Error::other)?;
    let on = PathBuf::from(word(1).unwrap_or("."));
    let length = Length { time: Duration::from_secs_f64(seconds), rounds_max: usize::MAX };
    let subject = if on.is_dir() {
        Subject::Scratch(Scratch::new(&on, 128 << 20)?)
    } else {
        Subject::Present(on)
    };
    let mut entrants = vec![pread()];
    entrants.extend(Mode::ALL.map(ours));
    entrants.push(on_a_runtime());
    println!("| cell | way | reads/s | p50 us | p99 us | cpu us | switches | x pread | x tokio |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut all = Vec::new();
    for cell in Cell::all() {
        if !cell.to_string().contains(word(2).unwrap_or("")) {
            continue;
        }
        let rows = measure(&cell, &subject, &entrants, length)?;
        let tokio = rows.iter().find(|row| row.name == "tokio::fs");
        for row in &rows {
            let beside = tokio.map_or("-".to_owned(), |tokio| format!("{:.2}", row.speed(tokio)));
            println!(
                "| {cell} | {} | {:.0} | {:.2} | {:.2} | {:.2} | {:.3} | {:.2} | {beside} |",
                row.name,
                row.rate,
                row.p50,
                row.p99,
                row.cpu,
                row.switches,
                row.speed(&rows[0]),
            );
        }
        all.extend(rows);
    }
    println!();
    for verdict in verdicts(&all) {
        println!("{verdict}");
    }
    Ok(())
}

/// Tasks of a default runtime, each with its own file: a seek and a read.
fn on_a_runtime<'a>() -> Box<Entrant<'a>> {
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
        "tokio::fs"
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
