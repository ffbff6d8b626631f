//! Messages of a front end of vhost-user: whatever comes, little is answered, and a session takes it or ends.
#![no_main]

use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use server::vhost::block::{BlockSize, Disk};
use server::vhost::message::{HEADER_BYTES, PAYLOAD_BYTES_MAX, REGIONS_MAX, bytes_wanted, parse};
use server::vhost::session::{Reaction, Session};

fn message(request: u32, payload: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(payload.len()).expect("short");
    [[request, 9, bytes].map(u32::to_ne_bytes).as_flattened(), payload].concat()
}

fn seeds() {
    let state = |index: u32, number: u32| [index, number].map(u32::to_ne_bytes).as_flattened().to_vec();
    let config = [state(0, 60), vec![0; 64]].concat();
    let inflight = [vec![0; 16], vec![1, 0, 8, 0]].concat();
    let stream = [
        message(1, &[]),
        message(2, &(1_u64 << 32 | 1 << 29).to_ne_bytes()),
        message(5, &[vec![1, 0, 0, 0, 0, 0, 0, 0], vec![7; 32]].concat()),
        message(8, &state(0, 128)),
        message(9, &[0; 40]),
        message(10, &state(0, 3)),
        message(18, &state(0, 1)),
        message(11, &state(0, 0)),
        message(24, &config),
        message(31, &inflight),
        message(13, &0x101_u64.to_ne_bytes()),
    ];
    seed("vhost_messages", &[stream.concat(), message(12, &0x100_u64.to_ne_bytes())]);
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let disk = Disk { size_bytes: 1 << 30, block_size: BlockSize::Whole, serial: [7; 20], is_read_only: false };
    let mut session = Session::new(disk);
    let mut rest = data;
    while let Ok(wanted) = bytes_wanted(rest) {
        assert!((HEADER_BYTES..=HEADER_BYTES + PAYLOAD_BYTES_MAX).contains(&wanted));
        let Some((whole, after)) = rest.split_at_checked(wanted) else { return };
        rest = after;
        let Ok(message) = parse(whole) else { return };
        assert!(message.request.descriptors() <= REGIONS_MAX);
        match session.on_request(message.request, Vec::new()) {
            Ok(Reaction::Answer(payload, _)) => assert!(payload.len() <= PAYLOAD_BYTES_MAX),
            Ok(Reaction::Kick(_)) => unreachable!("no descriptor came"),
            Ok(_) => {}
            Err(_) => return,
        }
    }
});
