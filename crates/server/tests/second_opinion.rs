//! RESP as another parser reads it: random requests and answers, by a seed.

// Helpers may fail like the tests they help.
#![allow(clippy::unwrap_used)]

#[path = "support/second_opinion.rs"]
mod second_opinion;

use base::random::Random;
use second_opinion::{Found, assert_agreed, assert_command, assert_read, ours, theirs, written};
use server::resp::answer::Answer;
use server::resp::parser::{Limits, ProtocolError};

const SEED: u64 = 42;
const COMMANDS: u32 = 20_000;
const ANSWERS: u32 = 20_000;
const LIMITS: Limits = Limits { bulk_bytes_max: 1 << 20, command_bytes_max: 3 << 20 };

/// Bytes of which some are those that the protocol itself uses.
fn word(random: &mut Random) -> Vec<u8> {
    let len = if random.chance(1, 50) { random.index(20_000) } else { random.index(40) };
    let own = b"\r\n*$+-:0123456789_~%= \"'\0\xff";
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    if random.chance(1, 2) {
        bytes.iter_mut().for_each(|byte| *byte = own[usize::from(*byte) % own.len()]);
    }
    bytes
}

fn words(random: &mut Random) -> Vec<Vec<u8>> {
    let count = if random.chance(1, 100) { random.index(2_000) } else { random.index(8) };
    (0..count).map(|_| word(random)).collect()
}

#[test]
fn commands_are_those_that_another_parser_reads() {
    let mut random = Random::from_seed(SEED);
    for _ in 0..COMMANDS {
        let words = words(&mut random);
        let cut = random.index(1 << 20);
        assert_command(&words, cut, LIMITS);
    }
}

#[test]
fn damaged_commands_differ_only_as_is_known() {
    let mut random = Random::from_seed(SEED + 1);
    let own = b"\r\n*$+-0123";
    for _ in 0..COMMANDS {
        let mut bytes = written(&words(&mut random));
        bytes.truncate(256);
        for _ in 0..=random.index(3) {
            let (at, byte) = (random.index(bytes.len()), own[random.index(own.len())]);
            match random.index(3) {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        assert_agreed(&bytes, LIMITS);
    }
}

/// Each known difference, as it is with Redis.
#[test]
fn known_differences_are_what_they_are_said_to_be() {
    let get = |count| Found::Command(vec![b"GET".to_vec()], count);
    let nothing = |count| Found::Command(Vec::new(), count);
    let refused = |error| (Found::Other, Some(error));
    let cases = [
        (&b"GET\r\n"[..], (get(5), None), Found::Other),
        (b"*-1\r\n", (nothing(5), None), Found::Other),
        (b"*-2\r\n", (nothing(5), None), Found::Other),
        (b"*1\rx$3\rxGETxx", (get(13), None), Found::Incomplete),
        (b"*1\r\n$3\r\nGETxx", (get(13), None), get(13)),
        (b"*+1\r\n$3\r\nGET\r\n", refused(ProtocolError::BadCount), get(14)),
        (b"*1\r\n$03\r\nGET\r\n", refused(ProtocolError::BadLength), get(14)),
        (b"*1\r\n:5", (Found::Incomplete, None), Found::Incomplete),
        (b"*2\r\n:5\r\n", refused(ProtocolError::NoBulk(b':')), Found::Incomplete),
        (b"*2000000\r\n", refused(ProtocolError::BadCount), Found::Incomplete),
        (b"*1\r\n$2000000\r\n", refused(ProtocolError::BadLength), Found::Incomplete),
    ];
    for (bytes, our, their) in cases {
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!((ours(bytes, LIMITS), theirs(bytes)), (our, their), "{shown:?}");
        assert_agreed(bytes, LIMITS);
    }
}

fn text(random: &mut Random) -> String {
    String::from_utf8_lossy(&word(random)).into_owned()
}

/// An answer without parts.
fn simple(random: &mut Random) -> Answer {
    match random.index(7) {
        0 => Answer::Simple(["OK", "PONG", "QUEUED"][random.index(3)]),
        1 => Answer::Line(text(random).replace(['\r', '\n'], "")),
        2 => Answer::error(text(random)),
        3 => Answer::Integer(random.bits().cast_signed() >> random.index(64)),
        4 => Answer::Text(text(random)),
        5 if random.chance(1, 2) => Answer::Null,
        _ => Answer::bulk(word(random)),
    }
}

/// An answer with parts, `depth` deep at most. A map's keys and a set's members are different strings.
fn answer(random: &mut Random, depth: u32) -> Answer {
    if depth == 0 {
        return simple(random);
    }
    let count = random.index(5);
    let key =
        |random: &mut Random, index: usize| Answer::bulk([word(random), index.to_string().into()].concat());
    match random.index(6) {
        0 => Answer::Array((0..count).map(|_| answer(random, depth - 1)).collect()),
        1 => Answer::Set((0..count).map(|index| key(random, index)).collect()),
        2 => Answer::Map((0..count).map(|index| (key(random, index), answer(random, depth - 1))).collect()),
        3 => Answer::NullArray,
        4 => Answer::ArrayHead(0),
        _ => simple(random),
    }
}

#[test]
fn answers_are_read_as_what_they_say() {
    let mut random = Random::from_seed(SEED + 2);
    for _ in 0..ANSWERS {
        let depth = u32::try_from(random.index(4)).unwrap();
        assert_read(&answer(&mut random, depth));
    }
}
