//! The memory of a guest, mapped from the descriptors of its front end.
//!
//! Two kinds of addresses: those of the *guest*, by which descriptors name data, and those of the *front end*, by which
//! messages name the parts of a queue. Regions are whole and do not overlap by either.

use super::message::Region;
use mapping::Guard;
use std::fs::File;
use std::os::fd::OwnedFd;
use thiserror::Error;
use vm_memory::mmap::{FromRangesError, MmapRegionBuilder};
use vm_memory::{
    FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _,
    GuestRegionMmap,
};

/// Memory as it is mapped; no dirty bitmaps, for there is no live migration.
pub type Mapped = GuestMemoryMmap<()>;

/// Fault of a memory table.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// Region that is empty, or ends beyond the last address.
    #[error(
        "a memory region of {bytes} bytes at {guest_address:#x} is empty or ends beyond the last address"
    )]
    Shape {
        /// First byte.
        guest_address: u64,
        /// Length.
        bytes: u64,
    },
    /// Region that its file does not hold: reading it would be fatal.
    #[error("a memory region ends at byte {end} of a file of {file_bytes}: share all of the memory")]
    File {
        /// End of the region in the file.
        end: u64,
        /// Length of the file.
        file_bytes: u64,
    },
    /// The system does not map it.
    #[error("the memory cannot be mapped: {0}")]
    Mapping(String),
    /// Regions that overlap.
    #[error("two memory regions overlap, or are not in order: {0}")]
    Overlap(#[from] FromRangesError),
}

/// See the module.
#[derive(Debug)]
pub struct GuestMemory {
    /// Given up before the mappings are.
    guards: Vec<Guard>,
    /// Mapped memory, by the guest's addresses.
    pub mapped: Mapped,
    regions: Vec<Region>,
}

impl GuestMemory {
    /// Maps the regions of a table.
    ///
    /// # Errors
    /// When they cannot be mapped, or contradict each other.
    pub fn map(regions: Vec<Region>, descriptors: Vec<OwnedFd>) -> Result<GuestMemory, MemoryError> {
        assert_eq!(regions.len(), descriptors.len());
        let mut mappings = Vec::with_capacity(regions.len());
        for (region, descriptor) in regions.iter().zip(descriptors) {
            mappings.push(map_region(region, descriptor)?);
        }
        mappings.sort_by_key(vm_memory::GuestMemoryRegion::start_addr);
        let mapped =
            Mapped::from_regions(mappings).map_err(|error| MemoryError::Mapping(error.to_string()))?;
        let guards = mapped.iter().filter_map(|region| {
            let length = usize::try_from(region.len()).expect("as it was mapped");
            Guard::of(region.as_ptr().addr(), length)
        });
        Ok(GuestMemory { guards: guards.collect(), mapped, regions })
    }

    /// True when some of the memory was gone when it was accessed: its front end has cut the file short.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.guards.iter().any(Guard::is_torn)
    }

    /// The guest's address of what the front end has at `user_address`.
    #[must_use]
    pub fn guest_address_of(&self, user_address: u64) -> Option<GuestAddress> {
        self.regions.iter().find_map(|region| {
            let offset = user_address.checked_sub(region.user_address)?;
            (offset < region.bytes).then(|| GuestAddress(region.guest_address + offset))
        })
    }
}

fn map_region(region: &Region, descriptor: OwnedFd) -> Result<GuestRegionMmap<()>, MemoryError> {
    let wrong = MemoryError::Shape { guest_address: region.guest_address, bytes: region.bytes };
    let starts = [region.guest_address, region.user_address];
    let is_odd = region.bytes == 0 || starts.iter().any(|start| start.checked_add(region.bytes).is_none());
    let (Some(end), false) = (region.file_offset.checked_add(region.bytes), is_odd) else {
        return Err(wrong);
    };
    let file = File::from(descriptor);
    let size = file.metadata().map_err(|error| MemoryError::Mapping(error.to_string()))?.len();
    if end > size {
        return Err(MemoryError::File { end, file_bytes: size });
    }
    map_file(file, region.file_offset, region.bytes, region.guest_address).ok_or(wrong)?
}

/// Maps `bytes` bytes of a file to be read and written, at an address; `None` when no address is left for them.
pub(super) fn map_file(
    file: File,
    file_offset: u64,
    bytes: u64,
    address: u64,
) -> Option<Result<GuestRegionMmap<()>, MemoryError>> {
    let length = usize::try_from(bytes).ok()?;
    let mapping = MmapRegionBuilder::new(length)
        .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
        .with_mmap_flags(libc::MAP_NORESERVE | libc::MAP_SHARED)
        .with_file_offset(FileOffset::new(file, file_offset))
        .build();
    match mapping {
        Ok(mapping) => GuestRegionMmap::new(mapping, GuestAddress(address)).map(Ok),
        Err(error) => Some(Err(MemoryError::Mapping(error.to_string()))),
    }
}
