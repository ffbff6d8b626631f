//! `zoneweave md create`: superblocks and bitmaps of a new array, then its `array.toml`.
//!
//! All members are opened and looked at before the first is written to. Superblocks go last on each: a member whose
//! creation was interrupted carries none, or belongs to an array whose parities are yet to be made right.

use super::description::{Description, MemberTable};
use super::target::Target;
use super::{BitmapWord, Create, PolicyWord, words};
use crate::exit::Exit;
use anyhow::{Context, Result};
use array::inplace::journal::sectors_min;
use base::units::human_bytes;
use block::md::create::{BitmapWish, Blank, MemberPlan, Wish, plan, plan_journal};
use block::md::examine::array_bytes;
use block::md::spare::plan_spare;
use block::md::superblock::{Identity, Shape, Superblock, feature};
use block::md::{DeviceNumber, Uuid, names};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a name on the media.
const NAME_BYTES: usize = 32;
/// Sectors of a partial parity log, as mdadm has it.
const LOG_SECTORS: u16 = 2048;

/// Creates an array and says so.
pub fn run(options: &Create) -> Result<Exit> {
    let (superblock, missing) = create(options)?;
    say(options, &superblock, missing);
    Ok(if missing > 0 { Exit::Degraded } else { Exit::Well })
}

/// Creates an array; returns the superblock of a member, and how many members are missing.
pub fn create(options: &Create) -> Result<(Superblock, usize)> {
    Description::expect_none(&options.dir)?;
    let missing = options.members.iter().filter(|path| is_missing(path)).count();
    let clean = clean(options, missing)?;
    let wish = wish(options, clean)?;
    let mut targets = open(options)?;
    let blanks: Vec<Option<Blank>> = targets.iter().map(|target| target.as_ref().map(blank)).collect();
    let (members, spares) = blanks.split_at(blanks.len() - usize::try_from(options.spare_devices)?);
    let mut plans = plan(&wish, members).map_err(|error| Exit::Usage.because(error))?;
    plans.extend(plan_spares(&plans, spares, options.write_journal.is_some())?);
    if let Some(path) = &options.write_journal {
        let target = Target::open(path)?;
        let first = plans.iter().flatten().next().context("members of the array")?;
        let least = sectors_min(u64::from(wish.shape.members));
        let planned = plan_journal(wish.version, &first.superblock, &blank(&target), least);
        plans.push(Some(planned.map_err(|error| Exit::Usage.because(error))?));
        targets.push(Some(target));
    }
    for target in targets.iter().flatten() {
        target.expect_unowned_and_empty(options.force)?;
    }
    let members: Vec<(&Target, &MemberPlan)> =
        targets.iter().zip(&plans).filter_map(|(target, plan)| target.as_ref().zip(plan.as_ref())).collect();
    std::fs::create_dir_all(&options.dir).with_context(|| options.dir.display().to_string())?;
    for (target, plan) in &members {
        target.zero_superblocks()?;
        target.prepare(plan)?;
    }
    members.iter().try_for_each(|(target, plan)| target.commit(plan))?;
    describe(options, &members)?.save(&options.dir)?;
    let (_, MemberPlan { superblock, .. }) = members.first().context("members of the array")?;
    Ok((superblock.clone(), missing))
}

fn is_missing(path: &Path) -> bool {
    path == Path::new("missing")
}

/// True when the parities count as right: because it was said, or because whatever lies on as few members is.
fn clean(options: &Create, missing: usize) -> Result<bool> {
    let parities = if options.level == 6 { 2 } else { 1 };
    let wanted = options.raid_devices.saturating_add(options.spare_devices);
    if u32::try_from(options.members.len()) != Ok(wanted) {
        return Err(Exit::Usage.error(format!(
            "--raid-devices says {}, --spare-devices {}, and {} members are given; write `missing` for one that is to come",
            options.raid_devices,
            options.spare_devices,
            options.members.len()
        )));
    }
    if missing > parities {
        let said = format!("{missing} members are missing; RAID-{} can be without {parities}", options.level);
        return Err(Exit::Usage.error(said));
    }
    if missing > 0 && missing < parities && !options.assume_clean {
        return Err(Exit::Usage.error(
            "RAID-6 without one member has a parity that is not right, and md does not resync a degraded array: leave out \
             two members and add one with mdadm, or say --assume-clean",
        ));
    }
    Ok(options.assume_clean || missing > 0)
}

fn wish(options: &Create, clean: bool) -> Result<Wish> {
    let usage = |said: String| Exit::Usage.error(said);
    let layout = match (&options.layout, options.level) {
        (None, 4) => 0,
        (None, _) => 2,
        (Some(word), level) => words::layout(level, word)
            .ok_or_else(|| usage(format!("`{word}`: RAID-{level} has no such layout")))?,
    };
    let bitmap = match (options.bitmap, options.consistency_policy) {
        (Some(BitmapWord::None), Some(PolicyWord::Bitmap))
        | (Some(BitmapWord::Internal), Some(PolicyWord::Resync | PolicyWord::Ppl)) => {
            return Err(usage("--bitmap and --consistency-policy say different things".to_owned()));
        }
        (Some(BitmapWord::None), _) | (_, Some(PolicyWord::Resync | PolicyWord::Ppl))
            if options.bitmap_chunk.is_some() =>
        {
            return Err(usage("--bitmap-chunk is given for an array without a bitmap".to_owned()));
        }
        (Some(BitmapWord::None), _) | (_, Some(PolicyWord::Resync | PolicyWord::Ppl)) => BitmapWish::None,
        (None, None) if options.write_journal.is_some() => BitmapWish::None,
        _ => {
            let region = options.bitmap_chunk.map(u32::try_from).transpose();
            BitmapWish::Internal(region.map_err(|_| usage("--bitmap-chunk: less than 4G".to_owned()))?)
        }
    };
    let chunk = u32::try_from(options.chunk).map_err(|_| usage("--chunk: too large".to_owned()))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let array = Identity {
        uuid: options.uuid.unwrap_or_else(random),
        name: name(options)?,
        // Without microseconds, though there is room for them: Linux gives mdadm the number as it is, and mdadm takes superblocks
        // with another creation time for those of another array.
        created: now.as_secs(),
    };
    let shape =
        Shape { level: options.level, layout, size: options.size, chunk, members: options.raid_devices };
    let data_offset = options.data_offset;
    let ppl = (options.consistency_policy == Some(PolicyWord::Ppl)).then_some(LOG_SECTORS);
    let journal = options.write_journal.is_some();
    Ok(Wish { version: options.metadata, array, shape, data_offset, bitmap, ppl, journal, clean })
}

fn random() -> Uuid {
    Uuid(uuid::Uuid::new_v4().into_bytes())
}

/// `host:name`; the name alone where both do not fit, or where no host is wanted.
fn name(options: &Create) -> Result<[u8; NAME_BYTES]> {
    let name = match &options.name {
        Some(name) => name.clone(),
        None => {
            let full = std::path::absolute(&options.dir).unwrap_or_default();
            full.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        }
    };
    let host = options.homehost.clone().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        host.trim().to_owned()
    });
    let with_host = format!("{host}:{name}");
    let text = if host.is_empty() || with_host.len() >= NAME_BYTES { name } else { with_host };
    let mut bytes = [0; NAME_BYTES];
    let Some(into) = bytes.get_mut(..text.len()) else {
        return Err(
            Exit::Usage.error(format!("the name `{text}` has more than {NAME_BYTES} bytes: give a --name"))
        );
    };
    into.copy_from_slice(text.as_bytes());
    Ok(bytes)
}

/// Opens what is not missing.
fn open(options: &Create) -> Result<Vec<Option<Target>>> {
    let open = |path: &PathBuf| (!is_missing(path)).then(|| Target::open(path)).transpose();
    options.members.iter().map(open).collect()
}

/// Plans of spares: places as on the first member, and numbers behind those of members.
fn plan_spares(
    members: &[Option<MemberPlan>],
    spares: &[Option<Blank>],
    has_journal: bool,
) -> Result<Vec<Option<MemberPlan>>> {
    let first = members.iter().flatten().next().context("members of the array")?;
    let bitmap = first.superblock.bitmap_sector();
    let bytes =
        first.before.iter().find(|(sector, _)| Some(*sector) == bitmap).map_or(0, |(_, bytes)| bytes.len());
    let plan = |(number, device): (usize, &Option<Blank>)| {
        let device = device.ok_or_else(|| Exit::Usage.error("a spare cannot be `missing`"))?;
        let number = DeviceNumber(u32::try_from(number)?);
        let plan = plan_spare(&first.superblock, number, device, u64::try_from(bytes)?);
        Ok(Some(plan.map_err(|error| Exit::Usage.because(error))?))
    };
    (members.len() + usize::from(has_journal)..).zip(spares).map(plan).collect()
}

fn blank(target: &Target) -> Blank {
    Blank { sectors: target.sectors(), uuid: random() }
}

fn describe(options: &Create, members: &[(&Target, &MemberPlan)]) -> Result<Description> {
    let dir = options.dir.canonicalize().with_context(|| options.dir.display().to_string())?;
    let mut tables = Vec::new();
    let mut array = String::new();
    for (target, plan) in members {
        let full = target.path.canonicalize().with_context(|| target.path.display().to_string())?;
        let path = full.strip_prefix(&dir).map(Path::to_owned).unwrap_or(full);
        tables.push(MemberTable { path, uuid: plan.superblock.device.uuid.to_string() });
        array = plan.superblock.array.uuid.to_string();
    }
    Ok(Description::new(array, tables))
}

fn say(options: &Create, superblock: &Superblock, missing: usize) {
    let shape = superblock.shape;
    let bytes = array_bytes(superblock).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
    println!(
        "created {}: {} of RAID-{}{} over {} members{}, chunks of {}, {}",
        options.dir.display(),
        human_bytes(bytes),
        shape.level,
        names::layout(shape.level, shape.layout).map(|layout| format!(" {layout}")).unwrap_or_default(),
        shape.members,
        if missing > 0 { format!(" ({missing} missing)") } else { String::new() },
        human_bytes(u64::from(shape.chunk) * 512),
        match superblock.log {
            _ if superblock.has(feature::JOURNAL) => "with a journal",
            0 => "no bitmap",
            _ if superblock.ppl_place().is_some() => "with a partial parity log",
            _ => "with a bitmap",
        },
    );
    println!("  UUID     {}", superblock.array.uuid);
    println!("  name     {}", superblock.name());
    if options.assume_clean {
        println!("  parities are taken for right: what is not written later may have no redundancy");
    } else if missing == 0 && superblock.ppl_place().is_some() {
        println!(
            "  the last member is rebuilt when it is served, or assembled with mdadm: until then none can be done without"
        );
    } else if missing == 0 {
        println!("  parities are made right by a resync when it is served, or assembled with mdadm");
    }
    println!(
        "serve it with `zoneweave serve {}`, or assemble it with `mdadm --assemble`",
        options.dir.display()
    );
}
