//! Requests of RESP: however the bytes are cut, the same commands and the same error come of them, and what is held follows from
//! what has arrived. Another parser, `redis-protocol`, reads the same commands, and what we answer. The input is a cut and a stream.
#![no_main]

#[path = "../../crates/server/tests/support/second_opinion.rs"]
mod second_opinion;

use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use server::resp::answer::Answer;
use server::resp::parser::{Limits, Parsed, Parser, ProtocolError};
use server::resp::table;

const LIMITS: Limits = Limits { bulk_bytes_max: 1 << 20, command_bytes_max: 3 << 20 };

type Commands = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fn seeds() {
    let array = b"\x05\0*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n*0\r\n*1\r\n$4\r\nPING\r\n".to_vec();
    let inline = b"\x02\0set a \"b\\x41\\n\" 'c\\''\r\n\r\nget a\n\"".to_vec();
    let wrong = b"\0\0*2\r\n$3\r\nGET\r\n$-1\r\n".to_vec();
    let huge = b"\x09\0*1000000000\r\n".to_vec();
    seed("resp_requests", &[array, inline, wrong, huge]);
}

fn read(bytes: &[u8], cut: usize) -> Commands {
    let mut parser = Parser::new(LIMITS);
    let (mut commands, mut from) = (Vec::new(), 0);
    for to in [cut, bytes.len()] {
        while from <= to {
            let seen = &bytes[from..to];
            match parser.parse(seen, false) {
                Parsed::Incomplete => break,
                Parsed::Failed(error) => return (commands, Some(error)),
                Parsed::Command(count) => {
                    assert!(count > 0 && count <= seen.len());
                    let arguments = parser.arguments(seen);
                    if !arguments.is_empty() {
                        // Names of all kinds are looked up, and refused in one line.
                        if let Err(refused) = table::find(arguments) {
                            assert!(!refused.to_string().is_empty());
                        }
                    }
                    commands.push(arguments.from(0).map(<[u8]>::to_vec).collect());
                    from += count;
                }
            }
        }
        // A word of an inline command takes two bytes at least, and a span of eight; vectors double.
        assert!(parser.bytes_held() <= bytes.len() * 10 + 64, "{} held", parser.bytes_held());
    }
    (commands, None)
}

/// What another parser reads of the stream, of each command of it, and of answers that repeat its words.
fn ask_another(bytes: &[u8], cut: usize, commands: &[Vec<Vec<u8>>]) {
    second_opinion::assert_agreed(bytes, LIMITS);
    second_opinion::assert_agreed(&bytes[..cut], LIMITS);
    for words in commands {
        second_opinion::assert_command(words, cut, LIMITS);
        let Some(name) = words.first() else { continue };
        let text = String::from_utf8_lossy(name).into_owned();
        let echo = words.iter().map(Answer::bulk).collect();
        let pairs =
            vec![(Answer::bulk(name), Answer::Array(echo)), (Answer::Integer(1), Answer::Text(text.clone()))];
        second_opinion::assert_read(&Answer::Map(pairs));
        second_opinion::assert_read(&Answer::error(text));
    }
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((head, bytes)) = data.split_first_chunk::<2>() else { return };
    let cut = usize::from(u16::from_le_bytes(*head)).min(bytes.len());
    let whole = read(bytes, bytes.len());
    assert_eq!(read(bytes, cut), whole);
    ask_another(bytes, cut, &whole.0);
});
