//! Files of an image on standard output.

use std::io::Write;

use anyhow::{Context, Result};
use forebay_image::{Cause, Content, Fault, Follow, Image, Kind, NodeId, Piece};
use forebay_report::program::answered;

use super::{Out, code_of, complain, find, open};
use crate::args::image::Cat;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Writes one file after the other; an unreadable one is reported, and the others follow.
pub(super) fn run(arguments: &Cat) -> Result<u8> {
    let image = open(&arguments.opened)?;
    let mut content = Content::new(&*image);
    let (mut out, mut code) = (Out::new(), 0);
    for path in &arguments.paths {
        let found = match find(&*image, path, Follow::Last) {
            Ok(found) => found,
            Err(error) => {
                complain(&format_args!("{error:#}"));
                code = code.max(super::code_of_error(&error));
                continue;
            }
        };
        match write(&*image, found.node, &mut content, &mut out) {
            Ok(Ok(())) => {}
            Ok(Err(cause)) => {
                code = code.max(code_of(&cause));
                complain(&Fault::new(found.path, cause));
            }
            Err(error) => return answered(super::ended(code), Err(error)),
        }
    }
    answered(super::ended(code), out.finish("content"))
}

/// The outer error is that of writing.
fn write(
    image: &dyn Image,
    id: NodeId,
    content: &mut Content<'_>,
    out: &mut Out,
) -> Result<Result<(), Cause>> {
    let node = match image.node(id) {
        Ok(node) if node.kind == Kind::File => node,
        Ok(node) => return Ok(Err(Cause::NotFile(node.kind))),
        Err(error) => return Ok(Err(error.into())),
    };
    let mut at = 0;
    while at < node.size {
        let piece = match content.piece(id, node.size, at) {
            Ok(piece) => piece,
            Err(error) => return Ok(Err(error.into())),
        };
        at += piece.len();
        let written = match piece {
            Piece::Bytes(bytes) => out.to.write_all(bytes),
            Piece::Zeros(len) => write_zeros(out, len),
        };
        written.context("cannot write the content")?;
    }
    Ok(Ok(()))
}

fn write_zeros(out: &mut Out, mut len: u64) -> std::io::Result<()> {
    while len > 0 {
        let now = usize::try_from(len).unwrap_or(ZEROS.len()).min(ZEROS.len());
        out.to.write_all(&ZEROS[..now])?;
        len -= now as u64;
    }
    Ok(())
}
