//! Negotiation: splits of the stream change nothing, and little is held or answered for a message. The
//! first byte of the input says how long the pieces are.
#![no_main]

use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use server::ExportConfig;
use server::nbd::codec::{OPTION_BYTES, OPTION_MAGIC, OptionKind};
use server::nbd::handshake::{Handshake, HandshakeError, OPTION_DATA_BYTES_MAX, Offer, Progress};

/// Longest answer to one message: a list of the two exports below.
const ANSWER_BYTES_MAX: usize = 1024;

fn message(kind: OptionKind, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("a short message");
    [&OPTION_MAGIC.to_be_bytes()[..], &kind.number().to_be_bytes(), &length.to_be_bytes(), data].concat()
}

fn seeds() {
    let about_two = [0, 0, 0, 3, b't', b'w', b'o', 0, 2, 0, 3, 0, 2];
    let long = message(OptionKind::Info, &[0; 5000]);
    let stream = |messages: &[Vec<u8>]| [&[16, 0, 0, 0, 3][..], &messages.concat()].concat();
    let list = message(OptionKind::List, &[]);
    let structured = message(OptionKind::StructuredReply, &[]);
    let go = message(OptionKind::Go, &about_two);
    seed(
        "nbd_handshake",
        &[
            stream(&[list, structured, message(OptionKind::Info, &about_two), go]),
            stream(&[message(OptionKind::Other(9), b"data"), message(OptionKind::ExportName, b"two")]),
            stream(&[long, message(OptionKind::Abort, &[])]),
        ],
    );
}

fn feed<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Result<Progress, HandshakeError>, Vec<u8>) {
    let export = |name: &str| ExportConfig { name: name.to_owned(), description: "a volume".to_owned() };
    let exports = [export("one"), export("two")];
    let offer = Offer { exports: &exports, size_bytes: 1 << 30, is_read_only: false };
    let mut out = Vec::new();
    let mut machine = Handshake::new(&mut out);
    let mut held = Vec::new();
    for piece in pieces {
        held.extend(piece);
        loop {
            let before = out.len();
            let result = machine.step(&held, offer, &mut out);
            // A name that does not exist is repeated.
            let name_bytes = held.len().min(OPTION_DATA_BYTES_MAX as usize);
            assert!(out.len() - before < ANSWER_BYTES_MAX + name_bytes);
            match result {
                Ok((taken, Progress::NeedMore)) => {
                    held.drain(..taken);
                    if taken == 0 {
                        assert!(held.len() < OPTION_BYTES + OPTION_DATA_BYTES_MAX as usize);
                        break;
                    }
                }
                Ok((taken, end)) => {
                    assert!((1..=held.len()).contains(&taken));
                    return (Ok(end), out);
                }
                Err(error) => return (Err(error), out),
            }
        }
    }
    (Ok(Progress::NeedMore), out)
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((piece, stream)) = data.split_first() else { return };
    let whole = feed(std::iter::once(stream));
    assert_eq!(feed(stream.chunks(usize::from(*piece) + 1)), whole);
});
