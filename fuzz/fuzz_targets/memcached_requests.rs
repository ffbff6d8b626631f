//! Requests of memcached: however the bytes are cut, the same requests come of them, and what is held follows from what has
//! arrived. The input is a cut and a stream.
#![no_main]

use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use server::memcached::reader::{Read, Reader};

const BLOCK_BYTES_MAX: usize = 1 << 16;

fn seeds() {
    let text =
        b"\x08\0set a 0 0 2\r\nhi\r\nget a b\r\ngat 5 a\r\ncas a 1 -1 1 7 noreply\r\nx\r\ndelete a 0\r\n"
            .to_vec();
    let meta =
        b"\x03\0ms Zm9v 2 b T90 MS Oq k c\r\nok\r\nmg foo v t q\r\nma n N0 J13 D2 MI\r\nmd foo C1\r\nmn\r\n"
            .to_vec();
    let wrong = b"\0\0set a 0 0 2147483645\r\nxxxx\r\n".to_vec();
    let http = b"\0\0GET / HTTP/1.1\r\n\r\n".to_vec();
    seed("memcached_requests", &[text, meta, wrong, http]);
}

fn read(bytes: &[u8], cut: usize) -> Vec<String> {
    let mut reader = Reader::new(BLOCK_BYTES_MAX);
    let (mut told, mut from) = (Vec::new(), 0);
    for to in [cut, bytes.len()] {
        loop {
            let seen = &bytes[from..to];
            let count = match reader.next(seen) {
                Read::Incomplete => break,
                Read::Endless => {
                    told.push("endless".to_owned());
                    return told;
                }
                Read::Nothing(count) => count,
                Read::Request(count, request) => {
                    told.push(format!("{request:?}"));
                    count
                }
                Read::Block(count, store, value) => {
                    told.push(format!("{store:?} {value:?}"));
                    count
                }
            };
            assert!(count > 0 && count <= seen.len());
            from += count;
        }
        assert!(reader.bytes_held() <= bytes.len() + 512, "{} held", reader.bytes_held());
    }
    told
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((head, bytes)) = data.split_first_chunk::<2>() else { return };
    let cut = usize::from(u16::from_le_bytes(*head)).min(bytes.len());
    assert_eq!(read(bytes, cut), read(bytes, bytes.len()));
});
