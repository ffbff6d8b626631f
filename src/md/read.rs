//! `zoneweave md read`: the volume of a closed array, copied out.

use super::Read;
use super::array::Array;
use crate::exit::Exit;
use anyhow::{Context, Result};
use base::units::{BLOCK_BYTES, BLOCK_BYTES_U64, human_bytes};
use block::md::reader::ReadError;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Copies the volume to a new file, or to standard output.
pub fn run(options: &Read) -> Result<Exit> {
    Array::open(&options.members)?.read(options.force, |assembly, reader| {
        let mut output = output(&options.output)?;
        let mut block = [0; BLOCK_BYTES];
        let mut doubt = Doubt::new(reader.stripe_blocks());
        for number in 0..reader.blocks() {
            match reader.read(number, &mut block) {
                Ok(()) => {}
                Err(ReadError::InDoubt { .. }) if options.force => {
                    reader.decode(number, &mut block).map_err(|error| Exit::Damage.because(error))?;
                    doubt.add(number);
                }
                Err(error) => return Err(Exit::Damage.because(error)),
            }
            output.write_all(&block).with_context(|| format!("writing {}", options.output.display()))?;
        }
        output.flush().with_context(|| format!("writing {}", options.output.display()))?;
        if doubt.tell() {
            return Ok(Exit::Damage);
        }
        Ok(if assembly.is_degraded() { Exit::Degraded } else { Exit::Well })
    })
}

/// Blocks in doubt that were copied as md returns them. Those of a missing member lie in each stripe: what is less than a stripe apart is told as
/// one range.
struct Doubt {
    stripe_blocks: u64,
    /// Blocks so far, of all ranges.
    blocks: u64,
    range: Option<Range>,
}

struct Range {
    first: u64,
    last: u64,
    blocks: u64,
}

impl Doubt {
    fn new(stripe_blocks: u64) -> Doubt {
        Doubt { stripe_blocks, blocks: 0, range: None }
    }

    /// Adds a block, behind all others.
    fn add(&mut self, number: u64) {
        self.blocks += 1;
        match &mut self.range {
            Some(range) if number - range.last <= self.stripe_blocks => {
                (range.last, range.blocks) = (number, range.blocks + 1);
            }
            range => {
                let before = range.replace(Range { first: number, last: number, blocks: 1 });
                before.iter().for_each(Range::tell);
            }
        }
    }

    /// Ends the list and tells of its last range; true when there was any.
    fn tell(self) -> bool {
        self.range.iter().for_each(Range::tell);
        if self.blocks > 0 {
            let bytes = human_bytes(self.blocks * BLOCK_BYTES_U64);
            log::warn!(
                "{} blocks ({bytes}) of missing members are in doubt: a crash cut off writes beside them",
                self.blocks
            );
        }
        self.blocks > 0
    }
}

impl Range {
    fn tell(&self) {
        let (from, to) = (self.first * BLOCK_BYTES_U64, (self.last + 1) * BLOCK_BYTES_U64);
        log::warn!("bytes {from} to {to}: {} blocks in doubt, copied as md returns them", self.blocks);
    }
}

/// A file that was there may be a member, or anything else worth keeping.
fn output(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::with_capacity(1 << 20, std::io::stdout().lock())));
    }
    let file = File::options().write(true).create_new(true).open(path);
    let file = file.with_context(|| format!("cannot make {}, which must be a new file", path.display()))?;
    Ok(Box::new(BufWriter::with_capacity(1 << 20, file)))
}
