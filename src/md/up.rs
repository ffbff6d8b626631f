//! `zoneweave up --engine inplace`: an array of md on sparse files, made if there is none, and served.

use super::create::create;
use super::{Create, serve};
use crate::cli::{Scheme, Up};
use crate::exit::Exit;
use crate::md::description;
use crate::room::Room;
use anyhow::{Context, Result};
use block::md::SECTOR_BYTES_U64;
use block::md::create::{default_data_offset, expect_shape};
use block::md::superblock::{Shape, Version};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use zone::stripe::Level;

const MEMBERS: usize = 4;
const SIZE_BYTES: u64 = 4 << 30;
/// Chunk in sectors, 64 KiB: a whole stripe is then a request that file systems make, and is written without reading anything.
const CHUNK_SECTORS: u32 = 128;
/// Layout that md gives where none is said.
const LEFT_SYMMETRIC: u32 = 2;

/// Creates the array if there is none, then serves it.
pub fn run(options: &Up) -> Result<Exit> {
    let dir = options.dir.display();
    if options.areas.zrwa_window.is_some() {
        return Err(
            Exit::Usage.error("--zrwa-window is for emulated zoned drives; this array is of Linux md")
        );
    }
    if description::is_in(&options.dir) {
        let Scheme { drives, level, size } = &options.scheme;
        if drives.is_some() || level.is_some() || size.is_some() {
            log::info!("{dir} holds an array already: --drives, --level and --size are for new ones");
        }
    } else if options.dir.join(description::FILE).exists() {
        return Err(Exit::Failed.error(format!(
            "{dir} holds an array of zoned drives: serve it with `zoneweave serve {dir}`, or use another directory"
        )));
    } else {
        make(options)?;
        log::info!("created an array of md in {dir}");
    }
    serve::run(&options.dir, &options.service)
}

/// Makes members and array, or leaves nothing behind.
fn make(options: &Up) -> Result<()> {
    let plan = Plan::of(&options.scheme)?;
    let dir = &options.dir;
    let was_there = dir.exists();
    let paths: Vec<PathBuf> = (0..plan.members).map(|role| dir.join(format!("member-{role}.img"))).collect();
    plan.room().expect_on_host(&paths, false)?;
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let mut made = Vec::new();
    let done = paths.iter().try_for_each(|path| {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|error| in_the_way(path, &error))?;
        made.push(path);
        file.set_len(plan.file_sectors * SECTOR_BYTES_U64).with_context(|| path.display().to_string())
    });
    let done = done.and_then(|()| create(&plan.create(dir, &paths)?));
    if done.is_err() {
        made.into_iter().for_each(|path| drop(std::fs::remove_file(path)));
        if !was_there {
            let _ = std::fs::remove_dir(dir);
        }
    }
    done.map(drop)
}

fn in_the_way(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let path = path.display();
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => Exit::Failed.error(format!(
            "{path} is there already: if it is a member, `zoneweave md assemble DIR MEMBER...` describes its array; else remove it"
        )),
        _ => Exit::Failed.error(format!("{path}: {error}")),
    }
}

/// Shape of a new array, in sectors of each member.
struct Plan {
    level: i32,
    members: usize,
    data_sectors: u64,
    file_sectors: u64,
}

impl Plan {
    fn of(scheme: &Scheme) -> Result<Plan> {
        let (level, members) = match scheme.level {
            Some(choice) => choice.over(scheme.drives, MEMBERS)?,
            None => (Level::Raid5, scheme.drives.unwrap_or(MEMBERS)),
        };
        let (level, layout, parities) = match level {
            Level::Raid4 => (4, 0, 1),
            Level::Raid5 => (5, LEFT_SYMMETRIC, 1),
            Level::Raid6 => (6, LEFT_SYMMETRIC, 2),
            other => {
                let name = other.name(members);
                return Err(Exit::Usage.error(format!(
                    "--level {name}: arrays that are updated in place are raid4, raid5 or raid6"
                )));
            }
        };
        let shape = Shape { level, layout, size: 0, chunk: CHUNK_SECTORS, members: u32::try_from(members)? };
        expect_shape(&shape).map_err(|error| Exit::Usage.because(error))?;
        let data = u64::try_from(members.checked_sub(parities).context("more members than parities")?)?;
        let sectors = scheme.size.unwrap_or(SIZE_BYTES).div_ceil(SECTOR_BYTES_U64);
        let data_sectors = sectors.div_ceil(data).next_multiple_of(CHUNK_SECTORS.into());
        Ok(Plan { level, members, data_sectors, file_sectors: file_sectors(data_sectors) })
    }

    fn room(&self) -> Room {
        let drives = u64::try_from(self.members).unwrap_or(u64::MAX);
        Room { drive_bytes: self.file_sectors * SECTOR_BYTES_U64, drives, index_bytes: 0 }
    }

    /// The same in words of `md create`. Parities of new sparse files are right, for all of them are zeros.
    fn create(&self, dir: &Path, members: &[PathBuf]) -> Result<Create> {
        Ok(Create {
            dir: dir.to_owned(),
            members: members.to_vec(),
            level: self.level,
            raid_devices: u32::try_from(self.members)?,
            spare_devices: 0,
            chunk: CHUNK_SECTORS.into(),
            layout: None,
            size: self.data_sectors,
            data_offset: None,
            metadata: Version::V1_2,
            bitmap: None,
            bitmap_chunk: None,
            consistency_policy: None,
            write_journal: None,
            assume_clean: true,
            name: None,
            homehost: None,
            uuid: None,
            force: false,
        })
    }
}

/// Sectors of a file that holds so many of data, and what lies before.
fn file_sectors(data_sectors: u64) -> u64 {
    let mut before = 0;
    loop {
        let needed = default_data_offset(Version::V1_2, data_sectors + before, CHUNK_SECTORS);
        if needed <= before {
            return data_sectors + before;
        }
        before = needed;
    }
}
