//! Streams without their compression: gzip of any number of members, and zstd.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

use flate2::bufread::GzDecoder;

/// Any stream.
pub(crate) type Input<'a> = Box<dyn Read + 'a>;

/// A stream without its compression, of which it may have one layer.
pub(crate) fn decompressed<'a>(mut input: Input<'a>) -> io::Result<Input<'a>> {
    const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
    let mark = read_head(&mut input, ZSTD.len())?;
    let (is_gzip, is_zstd) = (mark.starts_with(GZIP), mark == ZSTD);
    let whole: Input<'a> = Box::new(Cursor::new(mark).chain(input));
    Ok(if is_gzip {
        Box::new(Members(Some(GzDecoder::new(BufReader::new(whole)))))
    } else if is_zstd {
        let mut decoder = zstd::stream::read::Decoder::new(whole)?;
        // Traces are packed with windows of up to 128 MiB (`zstd --long`).
        const WINDOW_LOG_MAX: u32 = 27;
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        Box::new(decoder)
    } else {
        whole
    })
}

/// The first bytes of a stream, fewer if it has no more.
pub(crate) fn read_head(input: &mut Input<'_>, most: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    input.take(most as u64).read_to_end(&mut head)?;
    Ok(head)
}

const GZIP: &[u8] = &[0x1f, 0x8b];

/// The members of a gzip stream as one. Zeros behind the last one fill a block of a medium, and
/// anything else is an error. Nothing at the end.
struct Members<'a>(Option<GzDecoder<BufReader<Input<'a>>>>);

impl Read for Members<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let read = member.read(out)?;
            if read > 0 || out.is_empty() {
                return Ok(read);
            }
            let mut rest = self.0.take().expect("it has just ended").into_inner();
            self.0 = follows(&mut rest)?.then(|| GzDecoder::new(rest));
        }
        Ok(0)
    }
}

/// Whether another member follows.
fn follows(rest: &mut BufReader<Input<'_>>) -> io::Result<bool> {
    let mut is_padded = false;
    loop {
        let bytes = rest.fill_buf()?;
        let Some(first) = bytes.iter().position(|byte| *byte != 0) else {
            let zeros = bytes.len();
            if zeros == 0 {
                return Ok(false);
            }
            is_padded = true;
            rest.consume(zeros);
            continue;
        };
        if first == 0 && !is_padded && bytes[0] == GZIP[0] {
            return Ok(true);
        }
        let what = "other bytes follow the end of the gzip stream";
        return Err(io::Error::new(ErrorKind::InvalidData, what));
    }
}
