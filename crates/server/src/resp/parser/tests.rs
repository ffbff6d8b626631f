//! Requests in pieces, and requests that are none.

use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits { bulk_bytes_max: 1 << 20, command_bytes_max: 4 << 20 };

/// Commands and perhaps an error, of bytes that arrive in pieces that end at `cuts`.
fn read_in_pieces(bytes: &[u8], cuts: &[usize]) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let mut parser = Parser::new(LIMITS);
    let (mut commands, mut from) = (Vec::new(), 0);
    for to in cuts.iter().copied().chain([bytes.len()]) {
        loop {
            let seen = &bytes[from..to.max(from)];
            match parser.parse(seen, false) {
                Parsed::Incomplete => break,
                Parsed::Failed(error) => return (commands, Some(error)),
                Parsed::Command(count) => {
                    commands.push(parser.arguments(seen).from(0).map(<[u8]>::to_vec).collect());
                    from += count;
                }
            }
        }
    }
    (commands, None)
}

fn read(bytes: &[u8]) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    read_in_pieces(bytes, &[])
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn error_of(bytes: &[u8]) -> String {
    let (commands, error) = read(bytes);
    assert_eq!(commands, Vec::<Vec<Vec<u8>>>::new());
    error.expect("an error").to_string()
}

#[test]
fn arrays_and_lines_are_commands() {
    let bytes = b"*2\r\n$3\r\nGET\r\n$3\r\na\0b\r\nPING\r\n*0\r\n\r\n*-5\r\nset k \"a b\\x41\\n\" 'it\\'s'\n";
    let (commands, error) = read(bytes);
    assert_eq!(error, None);
    let nothing = Vec::<Vec<u8>>::new();
    let quoted = vec![b"set".to_vec(), b"k".to_vec(), b"a bA\n".to_vec(), b"it's".to_vec()];
    let get = vec![b"GET".to_vec(), b"a\0b".to_vec()];
    assert_eq!(commands, [get, words("PING"), nothing.clone(), nothing.clone(), nothing, quoted]);
}

#[test]
fn errors_are_in_the_words_of_redis() {
    let expected = [
        (&b"*3000000000\r\n"[..], "invalid multibulk length"),
        (b"*1000000000\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\n*1\r\n$1\r\na\r\n", "expected '$', got '*'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$2000000000\r\n", "invalid bulk length"),
        (b"*1\r\n$1048577\r\n", "invalid bulk length"),
        (b"*1\r\n$blabla\r\n", "invalid bulk length"),
        (b"set \"a\n", "unbalanced quotes in request"),
        (b"set 'a'b\n", "unbalanced quotes in request"),
    ];
    for (bytes, words) in expected {
        assert_eq!(error_of(bytes), format!("Protocol error: {words}"));
    }
    let endless = |start: &[u8]| error_of(&[start, &vec![b'1'; LINE_BYTES_MAX + 1]].concat());
    assert_eq!(endless(b""), "Protocol error: too big inline request");
    assert_eq!(endless(b"*"), "Protocol error: too big mbulk count string");
    assert_eq!(endless(b"*1\r\n$"), "Protocol error: too big bulk count string");
}

#[test]
fn a_command_as_a_whole_has_a_limit() {
    let argument = [b"$1048576\r\n".to_vec(), vec![7; 1 << 20], b"\r\n".to_vec()].concat();
    let command = [b"*5\r\n".to_vec(), argument.repeat(5)].concat();
    assert_eq!(error_of(&command), "Protocol error: too big request");
}

#[test]
fn strangers_have_narrow_limits() {
    let mut parser = Parser::new(LIMITS);
    assert_eq!(parser.parse(b"*11\r\n", true), Parsed::Failed(ProtocolError::StrangersCount));
    let mut parser = Parser::new(LIMITS);
    assert_eq!(parser.parse(b"*1\r\n$16385\r\n", true), Parsed::Failed(ProtocolError::StrangersLength));
    let mut parser = Parser::new(LIMITS);
    assert_eq!(parser.parse(b"*1\r\n$16384\r\n", true), Parsed::Incomplete);
}

#[test]
fn what_is_announced_takes_no_memory() {
    let mut parser = Parser::new(LIMITS);
    assert_eq!(parser.parse(b"*1048576\r\n$1048576\r\nab", false), Parsed::Incomplete);
    assert_eq!(parser.bytes_held(), 0);
    assert_eq!(parser.bytes_needed(), 10 + 10 + (1 << 20) + 2);
    // Empty arguments are the worst that can arrive: 6 bytes each.
    let mut many = b"*1048576\r\n".to_vec();
    many.extend(b"$0\r\n\r\n".repeat(100_000));
    let mut parser = Parser::new(LIMITS);
    assert_eq!(parser.parse(&many, false), Parsed::Incomplete);
    assert!(parser.bytes_held() <= many.len() * 3, "{} for {}", parser.bytes_held(), many.len());
}

#[test]
fn a_large_argument_a_byte_at_a_time_is_looked_at_once() {
    let bytes = [b"*2\r\n$3\r\nGET\r\n$1048576\r\n".to_vec(), vec![b'x'; 1 << 20], b"\r\n".to_vec()].concat();
    let mut parser = Parser::new(LIMITS);
    for end in 0..bytes.len() {
        assert_eq!(parser.parse(&bytes[..end], false), Parsed::Incomplete);
    }
    assert_eq!(parser.parse(&bytes, false), Parsed::Command(bytes.len()));
    assert_eq!(parser.arguments(&bytes).at(1).len(), 1 << 20);
}

/// Parts that commands are made of, right ones and wrong ones.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just("*2\r\n"),
        Just("$3\r\n"),
        Just("GET\r\n"),
        Just("*1\r\n$4\r\nPING\r\n"),
        Just("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n"),
        Just("$0\r\n\r\n"),
        Just("*0\r\n"),
        Just("*-1\r\n"),
        Just("$-1\r\n"),
        Just("set a \"b c\"\r\n"),
        Just("\r\n"),
        Just("'"),
        Just("\n"),
    ];
    prop_oneof![
        4 => part.prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..20)
    ]
}

proptest! {
    /// However bytes are cut, the same commands and the same error come of them.
    #[test]
    fn cuts_change_nothing(
        fragments in proptest::collection::vec(fragment(), 0..20),
        mut cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..10),
    ) {
        let bytes = fragments.concat();
        let mut cuts: Vec<usize> = cuts.drain(..).map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = read(&bytes);
        prop_assert_eq!(&whole, &read_in_pieces(&bytes, &cuts));
        let each: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&whole, &read_in_pieces(&bytes, &each));
    }

    /// What is put into arrays comes out of them, whatever its bytes.
    #[test]
    fn arguments_come_through(
        commands in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..6), 0..6,
        ),
    ) {
        let mut bytes = Vec::new();
        for command in &commands {
            bytes.extend(format!("*{}\r\n", command.len()).as_bytes());
            for argument in command {
                bytes.extend(format!("${}\r\n", argument.len()).as_bytes());
                bytes.extend(argument);
                bytes.extend(b"\r\n");
            }
        }
        prop_assert_eq!(read(&bytes), (commands, None));
    }
}

#[test]
fn an_incomplete_command_needs_more_than_is_there() {
    for head in [&b""[..], b"*1\r\n", b"*3\r\n$3\r\nSET\r\n$"] {
        let bytes = [head, &b"1".repeat(LINE_BYTES_MAX + 2)].concat();
        let mut parser = Parser::new(LIMITS);
        let mut has_failed = false;
        for end in 1..=bytes.len() {
            match parser.parse(&bytes[..end], false) {
                Parsed::Incomplete => assert!(parser.bytes_needed() > end, "{end}"),
                Parsed::Failed(_) => {
                    has_failed = true;
                    break;
                }
                Parsed::Command(_) => unreachable!("no line ends"),
            }
        }
        assert!(has_failed);
    }
}
