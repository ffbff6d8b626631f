//! Lines of each format, and what is wrong with others.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;

fn one(line: &str, format: Format) -> Event {
    let header = match format {
        Format::CloudPhysics => "version,time,op,size,lbn\n",
        Format::Systor => "Timestamp,Response,IOType,LUN,Offset,Size\n",
        _ => "",
    };
    let events = parse(&format!("{header}{line}\n"), format, 10).unwrap();
    assert_eq!(events.len(), 1);
    events[0]
}

fn problem(text: &str, format: Format) -> String {
    parse(text, format, 10).unwrap_err().to_string()
}

#[test]
fn a_line_of_each_format() {
    let write = Event { at: Nanos(0), op: Op::Write, lba: 1, blocks: 2 };
    assert_eq!(one("3,W,4096,8192,1577808000000006", Format::Alibaba), write);
    assert_eq!(one("1538323200,8,16,1,1283", Format::Tencent), write);
    assert_eq!(one("128166372003061629,hm,1,Write,4096,8192,1331", Format::Msr), write);
    assert_eq!(one("1,5633898,2a,8192,8", Format::CloudPhysics), write);
    assert_eq!(one("89967404835 4253 nfsd 8 16 W 6 0 2c0a6dd0a0a5", Format::Fiu), write);
    assert_eq!(one("1455592804.594859000,0.000128,W,3,4096,8192", Format::Systor), write);
    let read = Event { op: Op::Read, ..write };
    assert_eq!(one("3,R,4096,8192,0", Format::Alibaba), read);
    assert_eq!(one("0,8,16,0,1283", Format::Tencent), read);
    assert_eq!(one("128166372003061629,hm,1,Read,4096,8192,0", Format::Msr), read);
    assert_eq!(one("1,5633898,28,8192,8\r", Format::CloudPhysics), read);
    assert_eq!(one("89967404835 4253 nfsd  8 16 R 6 0 2c0a6dd0a0a5", Format::Fiu), read);
    assert_eq!(one("1455592804,,R,3,4096,8192", Format::Systor), read);
}

#[test]
fn fractions_of_seconds_are_exact_and_other_operations_are_left_out() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n1455592804.5,0.1,,3,,\n1455592804.594859001,0.1,W,3,0,4096\n\
                1455592804.59486,0.1,R,4,0,4096\n";
    let events = parse(text, Format::Systor, 2).unwrap();
    assert_eq!(events.iter().map(|event| event.at.0).collect::<Vec<_>>(), [0, 999]);
    assert_eq!(events[1].lba, EXTENT_BLOCKS, "another LUN");
}

#[test]
fn flushes_and_forced_writes_of_records_are_read() {
    let text = "0,W,4096,4096,1000\n0,F,0,0,1250\n0,R,0,512,1500\n0,U,8192,8192,1750\n";
    let events = parse(text, Format::Alibaba, 10).unwrap();
    assert_eq!(events[1], Event { at: Nanos(250_000), op: Op::Flush, lba: 0, blocks: 0 });
    let others = [0, 2, 3].map(|at| (events[at].op, events[at].lba));
    assert_eq!(others, [(Op::Write, 1), (Op::Read, 0), (Op::ForcedWrite, 2)]);
    assert_eq!(volume_blocks(&events), EXTENT_BLOCKS);
    let of_a_range = "line 1: `4096` is no range of a flush, which has none: 0";
    assert_eq!(problem("0,F,0,4096,1", Format::Alibaba), of_a_range);
    assert_eq!(problem("0,F,4096,0,1", Format::Alibaba), of_a_range);
    assert!(problem("0,8,16,F,1283", Format::Tencent).contains("neither"), "only `alibaba` has them");
}

#[test]
fn times_begin_at_zero_and_are_sorted() {
    let text = "0,W,0,4096,2000\n0,W,4096,4096,1000\n0,R,0,512,1500\n";
    let events = parse(text, Format::Alibaba, 10).unwrap();
    let times: Vec<u64> = events.iter().map(|event| event.at.0).collect();
    assert_eq!(times, [0, 500_000, 1_000_000]);
    assert_eq!(events.iter().map(|event| event.lba).collect::<Vec<_>>(), [1, 0, 0]);
}

#[test]
fn whole_seconds_are_spread() {
    let text = "7,0,8,1,0\n7,8,8,1,0\n9,0,8,1,0\n";
    let events = parse(text, Format::Tencent, 10).unwrap();
    let times: Vec<u64> = events.iter().map(|event| event.at.0).collect();
    assert_eq!(times, [0, 500_000_000, 2_000_000_000]);
}

/// 3 KiB at 3 KiB touch two blocks; two disks do not share their blocks; what no one touches takes no space.
#[test]
fn requests_become_blocks_of_one_space() {
    let text = "0,W,3072,3072,0\n1,W,0,4096,1\n0,W,1099511627776,4096,2\n";
    let events = parse(text, Format::Alibaba, 10).unwrap();
    let places: Vec<(u64, u32)> = events.iter().map(|event| (event.lba, event.blocks)).collect();
    assert_eq!(places, [(0, 2), (256, 1), (512, 1)]);
    assert_eq!(volume_blocks(&events), 768);
}

#[test]
fn a_request_over_extents_is_cut() {
    let text = "0,W,0,4096,0\n0,W,2097152,4096,1\n0,R,1044480,1056768,2\n";
    let events = parse(text, Format::Alibaba, 10).unwrap();
    let places: Vec<(u64, u32)> = events[2..].iter().map(|event| (event.lba, event.blocks)).collect();
    assert_eq!(places, [(255, 1), (512, 256), (256, 1)]);
}

#[test]
fn errors_name_the_line_and_what_is_wrong() {
    assert_eq!(
        problem("0,W,0,4096,0\n0,W,0,4096\n", Format::Alibaba),
        "line 2: 4 fields, where the format has 5"
    );
    assert_eq!(problem("0,X,0,4096,0\n", Format::Alibaba), "line 1: `X` is neither a read nor a write");
    assert_eq!(problem("0,W,-1,4096,0\n", Format::Alibaba), "line 1: `-1` is no offset in bytes");
    assert!(problem("0,W,0,0,0\n", Format::Alibaba).contains("a request of 0 bytes"));
    assert!(problem("18446744073709551615,0,8,1,1\n", Format::Tencent).contains("timestamp in seconds"));
    assert!(problem("5,hm,1,Write,0,4096,1\n", Format::Msr).contains("timestamp after 2000"));
    assert!(
        problem("version,time,op,size,lbn\n1,2,35,512,1\n", Format::CloudPhysics).starts_with("line 2: `35`")
    );
    assert_eq!(
        problem("version,time,op,size,lbn\n", Format::CloudPhysics),
        "line 1: the trace has no request"
    );
    assert_eq!(problem("", Format::Msr), "line 1: the trace has no request");
    let fiu = "5 1 a 0 8 W 6 0 m\n";
    assert_eq!(
        problem(&format!("{fiu}5 1 a 0 8 W 6 0\n"), Format::Fiu),
        "line 2: 8 fields, where the format has 9"
    );
    assert_eq!(problem("5 1 a 0 8 w 6 0 m\n", Format::Fiu), "line 1: `w` is neither a read nor a write");
    assert_eq!(problem("5 1 a 0 8 W 6 1048576 m\n", Format::Fiu), "line 1: `1048576` is no minor number");
    let systor = |line: &str| problem(&format!("names\n{line}\n"), Format::Systor);
    assert_eq!(systor("1.2.3,0,W,0,0,4096"), "line 2: `1.2.3` is no timestamp in seconds");
    assert_eq!(systor("1.5,0,F,0,0,4096"), "line 2: `F` is neither a read nor a write");
    assert_eq!(systor("1.5,0,,0,0,4096"), "line 3: the trace has no request");
    assert_eq!(systor("1.5,0,R,0,0"), "line 2: 5 fields, where the format has 6");
}

#[test]
fn a_long_trace_is_read_in_part() {
    let text = "0,W,0,4096,0\n".repeat(5) + "what comes later is not looked at";
    assert_eq!(parse(&text, Format::Alibaba, 5).unwrap().len(), 5);
}

/// The paper's shares, within two per cent of the requests.
#[test]
fn generated_events_have_the_papers_statistics() {
    let volume = 1 << 16;
    let events = generated::events(20_000, volume, 1);
    let share =
        |wanted: &dyn Fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count() * 100 / 20_000;
    assert!((58..=62).contains(&share(&|event| event.blocks == 1)));
    assert!((24..=28).contains(&share(&|event| event.blocks >= 4)));
    assert!((86..=90).contains(&share(&|event| event.op == Op::Write)));
    assert!(events.iter().all(|event| event.lba + u64::from(event.blocks) <= volume));
    assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert_eq!(generated::events(20_000, volume, 1), events);
    assert_ne!(generated::events(20_000, volume, 2), events);
}

/// Lines with bytes changed, cut and doubled: an error or events, never a panic, and events stay within their volume.
#[test]
fn damaged_lines_never_panic() {
    let lines = [
        "3,W,4096,8192,1577808000000006\n0,R,0,512,7\n",
        "1538323200,8,16,1,1283\n1538323201,8,16,0,1283\n",
        "128166372003061629,hm,1,Write,4096,8192,1331\n",
        "version,time,op,size,lbn\n1,5633898,2a,8192,8\n1,5633899,28,512,9\n",
        "89967404835 4253 nfsd 8 16 W 6 0 2c0a\n89967404836 4253 nfsd 8 16 R 6 1 2c0a\n",
        "Timestamp,Response,IOType,LUN,Offset,Size\n1455592804.594859000,0.1,W,3,4096,8192\n1455592805,,,3,,\n",
    ];
    let mut random = base::random::Random::from_seed(1);
    let mut accepted = 0;
    for round in 0..40_000 {
        let (text, (_, format)) = (lines[round % 6], FORMATS[round % 6]);
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.index(bytes.len());
            match random.below(3) {
                0 => bytes[at] = b"0189-,.WR \n"[random.index(11)],
                1 => bytes.insert(at, b"0189,"[random.index(5)]),
                _ => bytes.truncate(at + 1),
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        if let Ok(events) = parse(&text, format, 100) {
            accepted += 1;
            let end = volume_blocks(&events);
            assert!(
                events.iter().all(|event| event.blocks > 0 && event.lba + u64::from(event.blocks) <= end)
            );
            assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at));
        }
    }
    assert!(accepted > 1000, "{accepted}");
}
