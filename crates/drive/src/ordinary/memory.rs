//! Calls on a file that lies in memory, carried out at once.

use super::commands::{Call, Called, Task, ZEROS_BYTES_MAX, of_io};
use base::units::BLOCK_BYTES;
use rustix::io::ReadWriteFlags;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;

/// Zeros to be written.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Carries out the next call of a command.
pub(super) fn carry_out(file: &File, task: &mut Task) -> Called {
    match task.call() {
        Call::Read { at, done } => {
            let frames = task.frames_mut();
            if let [frame] = frames {
                return of_io(file.read_at(&mut frame.data[done..], at));
            }
            let mut rest: Vec<IoSliceMut<'_>> = frames[done / BLOCK_BYTES..]
                .iter_mut()
                .map(|frame| IoSliceMut::new(&mut frame.data))
                .collect();
            rest[0].advance(done % BLOCK_BYTES);
            rustix::io::preadv2(file, &mut rest, at, ReadWriteFlags::empty())
        }
        Call::Write { at, done, .. } => {
            let frames = task.frames();
            if let [frame] = frames {
                return of_io(file.write_at(&frame.data[done..], at));
            }
            let mut rest: Vec<IoSlice<'_>> =
                frames[done / BLOCK_BYTES..].iter().map(|frame| IoSlice::new(&frame.data)).collect();
            rest[0].advance(done % BLOCK_BYTES);
            rustix::io::pwritev2(file, &rest, at, ReadWriteFlags::empty())
        }
        // What lies in memory survives the process, and not the machine, whatever is done.
        Call::Sync => Ok(0),
        Call::Allocate { flags, at, bytes } => rustix::fs::fallocate(file, flags, at, bytes).map(|()| 0),
        Call::Zeros { at, bytes } => {
            assert!(bytes <= ZEROS_BYTES_MAX);
            let count = usize::try_from(bytes).expect("at most a MiB");
            of_io(file.write_at(&ZEROS[..count], at))
        }
    }
}
