//! Queues of a guest: whatever its memory holds, chains end, name memory of the guest only, and become requests within the
//! disk. The first two bytes of the input are the head of a chain, the rest is the memory, and again where it ends.
#![no_main]

use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use server::vhost::block::{self, BlockSize, Command, Disk};
use server::vhost::chain::{Chain, Segments, Table};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// A guest with little memory, so that addresses often lie in it.
const MEMORY_BYTES: usize = 1 << 16;
const TABLE_SIZE: u32 = 64;
const DISK_BYTES: u64 = 1 << 20;

fn descriptor(address: u64, bytes: u32, flags: u16, next: u16) -> Vec<u8> {
    [&address.to_le_bytes()[..], &bytes.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
}

fn request(kind: u32, sector: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat()
}

fn seeds() {
    let plain = [
        vec![0, 0],
        descriptor(64, 16, 1, 1),
        descriptor(4096, 4096, 3, 2),
        descriptor(128, 1, 2, 0),
        vec![0; 16],
        request(0, 8),
    ];
    let zeros = [
        vec![0, 0],
        descriptor(64, 16, 1, 1),
        descriptor(80, 16, 1, 2),
        descriptor(128, 1, 2, 0),
        vec![0; 16],
        request(13, 0),
        request(8, 8)[8..].to_vec(),
        vec![4, 0, 0, 0, 1, 0, 0, 0],
    ];
    let table = [
        vec![0, 0],
        descriptor(16, 48, 4, 0),
        descriptor(64, 16, 1, 1),
        descriptor(4096, 4096, 1, 2),
        descriptor(128, 1, 2, 0),
        request(1, 8),
    ];
    let endless = [vec![1, 0], descriptor(0, 1, 1, 1), descriptor(0, 1, 1, 0)];
    seed("virtqueues", &[plain.concat(), zeros.concat(), table.concat(), endless.concat()]);
}

fn is_guests(memory: &GuestMemoryMmap<()>, segments: &Segments) -> bool {
    let mut data = vec![0; usize::try_from(segments.bytes()).expect("a machine of 64 bits")];
    segments.read(memory, 0, &mut data) && segments.write(memory, 0, &data)
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((head, contents)) = data.split_first_chunk::<2>() else { return };
    let range = (GuestAddress(0), MEMORY_BYTES);
    let memory = GuestMemoryMmap::<()>::from_ranges(&[range]).expect("little memory");
    let contents = &contents[..contents.len().min(MEMORY_BYTES)];
    memory.write_slice(contents, GuestAddress(0)).expect("it fits");
    let disk = Disk { size_bytes: DISK_BYTES, block_size: BlockSize::Small, serial: [7; 20], is_read_only: false };
    let mut chain = Chain::default();
    let table = Table { address: GuestAddress(0), size: TABLE_SIZE };
    if chain.read(&memory, table, u16::from_le_bytes(*head)).is_err() {
        let status = chain.status_of_fault();
        assert!(status.is_none_or(|status| memory.write_obj(1_u8, status).is_ok()));
        return;
    }
    let Some(order) = block::parse(&mut chain, &memory, &disk, Segments::default()) else { return };
    memory.write_obj(0_u8, order.status).expect("the status is the guest's");
    assert!(is_guests(&memory, &order.data));
    match order.command {
        Ok(Command::Read(range) | Command::Write(range)) => {
            assert!(range.from <= range.to && range.to <= DISK_BYTES);
            assert_eq!(range.to - range.from, order.data.bytes());
        }
        Ok(Command::Zero(ranges)) => {
            assert!(ranges.iter().all(|range| range.from < range.to && range.to <= DISK_BYTES));
        }
        Ok(Command::Flush | Command::Identify) | Err(_) => {}
    }
});
