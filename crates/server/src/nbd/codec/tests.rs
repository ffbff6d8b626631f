//! The codec against its own encoding, known bytes, and random ones.

use super::*;
use proptest::prelude::*;

fn request_bytes(header: &RequestHeader, command: u16) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(header.flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(header.cookie.to_be_bytes());
    bytes.extend(header.offset.to_be_bytes());
    bytes.extend(header.length.to_be_bytes());
    bytes
}

#[test]
fn a_short_request_is_incomplete_and_a_wrong_magic_is_named() {
    let header = RequestHeader { command: CommandKind::Trim, flags: 1, cookie: 7, offset: 4096, length: 512 };
    let bytes = request_bytes(&header, 4);
    assert_eq!(bytes.len(), REQUEST_BYTES);
    assert_eq!(parse_request(&bytes), Ok(header));
    assert_eq!(parse_request(&bytes[..27]), Err(CodecError::Incomplete));
    let wrong = parse_request(b"GET / HTTP/1.1\r\nHost: example.org\r\n");
    assert!(matches!(wrong, Err(CodecError::Magic { .. })), "{wrong:?}");
}

#[test]
fn replies_have_the_sizes_of_the_specification() {
    let mut out = Vec::new();
    push_simple_reply(&mut out, 1, None);
    assert_eq!(out.len(), SIMPLE_REPLY_BYTES);
    out.clear();
    push_data_chunk(&mut out, 1, true, 0, 4096);
    assert_eq!(out.len(), CHUNK_BYTES + 8);
    out.clear();
    push_error_chunk(&mut out, 1, true, ErrorCode::Io, "no");
    assert_eq!(out.len(), CHUNK_BYTES + 6 + 2);
    out.clear();
    push_export(&mut out, 0, 0, true);
    assert_eq!(out.len(), 134);
}

#[test]
fn the_lengths_in_an_info_request_must_agree() {
    let good = [0, 0, 0, 1, b'a', 0, 1, 0, 3];
    let parsed = parse_info_request(&good);
    assert_eq!(parsed, Ok(InfoRequest { name: "a".to_owned(), kinds: vec![3] }));
    for wrong in [&good[..8], &[0xff; 9][..], &[0, 0, 0, 0, 0, 2, 0, 1][..], &[0, 0, 0, 1, 0xff, 0, 0][..]] {
        assert_eq!(parse_info_request(wrong), Err(CodecError::Malformed), "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse_request(&bytes);
        let _ = parse_option(&bytes);
        let _ = parse_client_flags(&bytes);
        let _ = parse_info_request(&bytes);
        let _ = parse_name(&bytes);
    }

    /// Whatever follows, and never before they are complete.
    #[test]
    fn requests_come_back_as_sent(
        command in any::<u16>(), flags in any::<u16>(), cookie in any::<u64>(), offset in any::<u64>(),
        length in any::<u32>(), tail in proptest::collection::vec(any::<u8>(), 0..40), cut in 0..REQUEST_BYTES,
    ) {
        let header =
            RequestHeader { command: CommandKind::from_number(command), flags, cookie, offset, length };
        let mut bytes = request_bytes(&header, command);
        bytes.extend(tail);
        prop_assert_eq!(parse_request(&bytes), Ok(header));
        prop_assert_eq!(parse_request(&bytes[..cut]), Err(CodecError::Incomplete));
    }

    #[test]
    fn options_come_back_as_sent(
        number in any::<u32>(), length in any::<u32>(),
        tail in proptest::collection::vec(any::<u8>(), 0..40), cut in 0..OPTION_BYTES,
    ) {
        let kind = OptionKind::from_number(number);
        prop_assert_eq!(kind.number(), number);
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend(number.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(tail);
        prop_assert_eq!(parse_option(&bytes), Ok(OptionHeader { kind, length }));
        prop_assert_eq!(parse_option(&bytes[..cut]), Err(CodecError::Incomplete));
    }

    /// A byte less or more than the lengths say is malformed.
    #[test]
    fn info_requests_come_back_as_sent(
        name in any::<String>(), kinds in proptest::collection::vec(any::<u16>(), 0..8),
    ) {
        let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
        data.extend(name.as_bytes());
        data.extend(u16::try_from(kinds.len()).unwrap().to_be_bytes());
        data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
        prop_assert_eq!(parse_info_request(&data[..data.len() - 1]), Err(CodecError::Malformed));
        prop_assert_eq!(parse_info_request(&data), Ok(InfoRequest { name, kinds }));
        data.push(0);
        prop_assert_eq!(parse_info_request(&data), Err(CodecError::Malformed));
    }
}
