//! Requests: what is parsed is what was sent, and what is admitted lies in the volume and is cut into
//! pieces that tile it. The input is a flag, the size of the volume and requests with their payloads.
#![no_main]

use base::bytes::{array_at, u64_at};
use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use server::nbd::codec::{CommandKind, REQUEST_BYTES, REQUEST_MAGIC, RequestHeader, parse_request};
use server::nbd::transmission::{ByteRange, Command, Cut, PAYLOAD_BYTES_MAX, Refusal, admit};

const HEAD_BYTES: usize = 9;
/// 4 GiB of a trim in few pieces.
const CUT_BLOCKS_MAX: u64 = 8192;

fn request(command: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let magic = REQUEST_MAGIC.to_be_bytes();
    let ends = [offset.to_be_bytes(), (u64::from(command) << 8).to_be_bytes()];
    let (offset, cookie) = (ends[0], ends[1]);
    [&magic[..], &flags.to_be_bytes(), &command.to_be_bytes(), &cookie, &offset, &length.to_be_bytes()]
        .concat()
}

fn seeds() {
    let head = |structured| [&[structured][..], &(1_u64 << 33).to_le_bytes()].concat();
    let write = [request(1, 1, 4000, 10), vec![9; 10]].concat();
    let reads = [request(0, 4, 0, 1 << 20), request(3, 0, 0, 0), request(5, 0, 512, 512)].concat();
    let zeros = [request(4, 0, 1, u32::MAX), request(6, 0b10011, 1 << 33, 1), request(2, 0, 0, 0)].concat();
    seed("nbd_requests", &[[head(1), write, reads].concat(), [head(0), zeros].concat()]);
}

fn check_fields(bytes: &[u8], header: &RequestHeader) {
    assert_eq!(header.flags, u16::from_be_bytes(array_at(bytes, 4)));
    assert_eq!(header.command, CommandKind::from_number(u16::from_be_bytes(array_at(bytes, 6))));
    assert_eq!(header.cookie, u64::from_be_bytes(array_at(bytes, 8)));
    assert_eq!(header.offset, u64::from_be_bytes(array_at(bytes, 16)));
    assert_eq!(header.length, u32::from_be_bytes(array_at(bytes, 24)));
}

fn check_pieces(header: &RequestHeader, size_bytes: u64) {
    let mut rest = ByteRange::of(header);
    assert!(rest.from < rest.to && rest.to <= size_bytes);
    let mut merges = 0;
    while rest.from < rest.to {
        let cut = Cut::first(rest, CUT_BLOCKS_MAX);
        assert!(cut.blocks() <= CUT_BLOCKS_MAX && cut.bytes() > 0);
        merges += u32::from(matches!(cut, Cut::Merge { .. }));
        rest.from += cut.bytes();
    }
    assert!(rest.from == rest.to && merges <= 2, "only the ends are merged");
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((head, mut rest)) = data.split_first_chunk::<HEAD_BYTES>() else { return };
    let (structured, size_bytes) = (head[0] & 1 == 1, u64_at(head, 1));
    while let Ok(header) = parse_request(rest) {
        check_fields(rest, &header);
        let mut skipped = REQUEST_BYTES;
        match admit(&header, size_bytes, structured) {
            Ok(Command::Write { .. }) => {
                assert!(header.length <= PAYLOAD_BYTES_MAX);
                check_pieces(&header, size_bytes);
                skipped += header.length as usize;
            }
            Ok(Command::Read { .. }) => {
                assert!(header.length <= PAYLOAD_BYTES_MAX);
                check_pieces(&header, size_bytes);
            }
            Ok(Command::Zero { .. }) => check_pieces(&header, size_bytes),
            Ok(Command::Flush | Command::Nothing) => {}
            Ok(Command::Disconnect) | Err(Refusal::HangUp) => return,
            Err(Refusal::Reply { payload_bytes, .. }) => skipped += payload_bytes as usize,
        }
        rest = rest.get(skipped..).unwrap_or_default();
    }
});
