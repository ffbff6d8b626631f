//! Rows: the blocks of a stripe's pieces at the same place in their chunks, coded together with the protected metadata.

use base::erasure::ErasureCode;
use base::frame::Frame;
use base::xor::Block;
use zone::format::oob::PROTECTED_BYTES;

/// Decodes the block of a piece from those of others, as many as the code needs; other metadata stays as it is.
pub fn decode(code: &ErasureCode, lost: usize, sources: &[(usize, &Frame)], frame: &mut Frame) {
    let blocks: Vec<(usize, &Block)> = sources.iter().map(|(piece, source)| (*piece, &source.data)).collect();
    let fields: Vec<(usize, &[u8])> =
        sources.iter().map(|(piece, source)| (*piece, &source.oob[..PROTECTED_BYTES])).collect();
    code.decode(lost, &blocks, &mut frame.data);
    code.decode_field(lost, &fields, &mut frame.oob[..PROTECTED_BYTES]);
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
    let fields = data.iter().map(|frame| &frame.oob[..PROTECTED_BYTES]);
    code.encode_field(parity, fields, &mut expected.oob[..PROTECTED_BYTES]);
    found.data == expected.data && found.oob[..PROTECTED_BYTES] == expected.oob[..PROTECTED_BYTES]
}
