//! Rows: the blocks of a stripe's pieces at the same place in their chunks, coded together with the protected metadata.

use base::erasure::{ErasureCode, Piece};
use base::frame::Frame;
use base::xor::Block;
use zone::format::oob::{self, PROTECTED_BYTES};

/// Decodes the block of a piece from those of others, as many as the code needs; other metadata stays as it is.
pub fn decode(code: &ErasureCode, lost: Piece, sources: &[(Piece, &Frame)], frame: &mut Frame) {
    let blocks: Vec<(Piece, &Block)> = sources.iter().map(|(piece, source)| (*piece, &source.data)).collect();
    let fields: Vec<(Piece, &[u8; PROTECTED_BYTES])> =
        sources.iter().map(|(piece, source)| (*piece, oob::protected(&source.oob))).collect();
    code.decode(lost, &blocks, &mut frame.data);
    code.decode_field(lost, &fields, oob::protected_mut(&mut frame.oob));
}

/// True when a block is the parity of number `parity` of data; `expected` is room to compute it in.
pub fn is_parity(
    code: &ErasureCode,
    parity: usize,
    data: &[&Frame],
    found: &Frame,
    expected: &mut Frame,
) -> bool {
    let blocks: Vec<&Block> = data.iter().map(|frame| &frame.data).collect();
    code.encode(parity, &blocks, &mut expected.data);
    let fields = data.iter().map(|frame| oob::protected(&frame.oob));
    code.encode_field(parity, fields, oob::protected_mut(&mut expected.oob));
    found.data == expected.data && oob::protected(&found.oob) == oob::protected(&expected.oob)
}
