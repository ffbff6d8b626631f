//! `zoneweave md read`: the volume of a closed array, copied out.

use super::Read;
use super::array::Array;
use crate::exit::Exit;
use anyhow::{Context, Result};
use block::md::reader::ReadError;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Copies the volume to a new file, or to standard output.
pub fn run(options: &Read) -> Result<Exit> {
    Array::open(&options.members)?.read(|assembly, reader| {
        let mut output = output(&options.output)?;
        let mut block = [0; base::units::BLOCK_BYTES];
        let mut in_doubt = 0_u64;
        for number in 0..reader.blocks() {
            match reader.read(number, &mut block) {
                Ok(()) => {}
                Err(error @ ReadError::InDoubt { .. }) if options.force => {
                    reader.decode(number, &mut block).map_err(|error| Exit::Damage.because(error))?;
                    log::warn!("{error}; copied as md returns it");
                    in_doubt += 1;
                }
                Err(error) => return Err(Exit::Damage.because(error)),
            }
            output.write_all(&block).with_context(|| format!("writing {}", options.output.display()))?;
        }
        output.flush().with_context(|| format!("writing {}", options.output.display()))?;
        if in_doubt > 0 {
            return Ok(Exit::Damage);
        }
        Ok(if assembly.is_degraded() { Exit::Degraded } else { Exit::Well })
    })
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
