//! `zoneweave serve` of an array of md: members are opened, judged, and served in place until told to stop.
//!
//! Nothing is written to a member before the first write, or the resync of an array that was not stopped clean.

use super::array::{Access, Array};
use super::description::Description;
use super::doubt;
use super::report::{Identity, paths_by_role, replacements_by_place};
use super::served::{ServedMd, SweepLog};
use super::shards::{Bells, Seats};
use super::status::control_path;
use super::watch::Watch;
use crate::cli::{ServiceOptions, WriteAreaChoice};
use crate::exit::Exit;
use crate::exports::served::{Exported, ServedExports, Sockets, listen, serial_of};
use crate::exports::wanted::Wanted;
use crate::serve::{announce, names_of};
use crate::signals::Impatience;
use crate::supervisor;
use anyhow::{Context, Result};
use array::inplace::spares::Spare;
use array::inplace::start::{Tuning, journal_of, members_of, spares_of, start_recovered};
use array::inplace::volume::InPlaceVolume;
use array::request::Volume;
use base::time::{Instant, Nanos};
use base::units::BLOCK_BYTES_U64;
use block::device::BlockDevice;
use block::devices::DeviceSet;
use block::md::assembly::{Assembly, Policy};
use block::md::doubt::doubts;
use block::md::member::Member;
use block::md::recovered::Recovered;
use block::md::superblock::RoleEntry;
use block::md::{Role, refusal};
use server::config::DiskConfig;
use server::{ServerConfig, Service, Stop, WallClock, control};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest time that the clean mark may take when the service ends.
const STOP_MAX: Nanos = Nanos(60_000_000_000);

/// Serves an array.
pub fn run(dir: &Path, options: &ServiceOptions) -> Result<Exit> {
    expect_options(options)?;
    let impatience = Impatience::begin().context("signal handling")?;
    let clock = WallClock::start();
    let description = Description::open(dir)?;
    let access = Access::alone(options.md.readonly);
    let mut array = Array::open_those_there(&description.uuid, &description.paths(dir), access)?;
    let recovered = array.recover(options.md.force)?;
    for device in array.devices_mut() {
        device.make_direct().context("reading a member")?;
    }
    let assembly = array.judge_forced(options.md.force)?;
    expect_served(&assembly, &array)?;
    expect_members(&assembly, &array, options.degraded)?;
    let wanted = Wanted::of(dir, options, &description.export)?;
    let control = control::bind(&control_path(dir))?;
    let sockets = listen(&wanted)?;
    log::info!("the array {}", assembly.in_words());
    if options.md.readonly {
        log::info!("it is served read-only: nothing is replayed, resynced or rebuilt");
    }
    let identity = Identity::of(&assembly);
    let journal = journal_of(&assembly).map(|member| member.name.clone());
    let paths = paths_by_role(&assembly);
    let replacements = replacements_by_place(&assembly);
    let bells = Bells::new(shards_of(&assembly, options))?;
    say_recovered(&recovered, assembly.is_forced);
    let in_doubt = if assembly.is_forced { doubts(&assembly, &recovered.in_doubt) } else { Vec::new() };
    doubt::say(&in_doubt);
    let (volume, shards) = open_volume(array, recovered, &bells, options)?;
    let size_bytes = volume.blocks() * BLOCK_BYTES_U64;
    let exported = Exported {
        dir: dir.to_owned(),
        array: description.uuid.clone(),
        size_bytes,
        on_devices: true,
        is_read_only: options.md.readonly,
    };
    let (exports, disk) = ServedExports::begin(exported, description.export.clone(), &wanted, &sockets)?;
    let (stop, handle) = Stop::new().context("signal handling")?;
    handle.on_signals().context("signal handling")?;
    drop(impatience);
    let announced =
        announce(sockets.nbd[0].place(), description.export.name(), size_bytes, options.md.readonly)?;
    let config = config_of(&description, &identity, options);
    let wake_fds = vec![bells.descriptor()?];
    let (Sockets { nbd: listeners, guests }, ports) = (sockets, exports.ports());
    let service = Service { listeners, guests, disk, control: Some(control), wake_fds, ports, stop, clock };
    let missing = volume.engine.status().missing;
    let watch = Watch::new(options.drive_timeout, paths.len(), &missing, clock.now());
    let mut watch = if journal.is_some() { watch.with_journal() } else { watch };
    replacements.keys().for_each(|place| watch.note_added(*place));
    let served = ServedMd {
        bells,
        watch,
        volume,
        identity,
        paths,
        replacements,
        journal,
        in_doubt,
        stop: handle,
        exports,
        sweep: SweepLog::default(),
    };
    let is_marked = serve(&config, service, served, shards)?;
    say_stopped(options.md.readonly, is_marked);
    announced.finish();
    Ok(Exit::Well)
}

fn say_stopped(is_read_only: bool, is_marked: bool) {
    if is_read_only {
        log::info!("stopped; nothing was written to the members");
    } else if is_marked {
        log::info!("stopped; everything written is on the members, and their superblocks say so");
    } else {
        log::warn!("stopped; the superblocks do not say clean: the next start resyncs what they name");
    }
}

fn config_of(description: &Description, identity: &Identity, options: &ServiceOptions) -> ServerConfig {
    ServerConfig {
        exports: names_of(&description.export, &format!("Linux md array {}", identity.array)),
        disk: DiskConfig { serial: serial_of(&identity.array) },
        cores: options.cores,
        is_read_only: options.md.readonly,
        ..ServerConfig::default()
    }
}

/// Shards beside the control shard: one a core, where they have something to do. With a journal, or where nothing is written, the control
/// shard does everything, and what is spread over cores is the clients.
fn shards_of(assembly: &Assembly<'_>, options: &ServiceOptions) -> usize {
    let is_shared = assembly.policy() != Policy::Journal && !options.md.readonly;
    if options.cores > 1 && is_shared { options.cores } else { 0 }
}

/// Serves until told to stop, and marks the array clean; false when that cannot be.
fn serve(
    config: &ServerConfig,
    service: Service,
    mut served: ServedMd,
    shards: Vec<InPlaceVolume>,
) -> Result<bool> {
    let clock = service.clock;
    if shards.is_empty() {
        let result = server::run(config, service, &mut served);
        let is_marked =
            end(clock, &mut served, |served| served, |served, now| served.volume.turn(now, &mut Vec::new()));
        return result.map(|()| is_marked).map_err(Into::into);
    }
    let spread = served.volume.engine.core().spread(shards.len());
    let mut seats = Seats::new(served, shards)?;
    let mut service = service;
    service.wake_fds.extend(seats.wake_fds()?);
    let (first, others) = seats.split().context("descriptors of the cores")?;
    let result = server::run_shards(config, service, first, others, spread);
    let is_marked = end(clock, &mut seats, |seats| &mut seats.first.served, Seats::turn);
    result.map(|()| is_marked).map_err(Into::into)
}

/// Refuses what means nothing to an array of md.
fn expect_options(options: &ServiceOptions) -> Result<()> {
    let foreign = [
        ("--poll", options.poll),
        ("--profile", options.profile.is_some()),
        ("--index-memory", options.index_memory.is_some()),
        ("--stripe-tables-memory", options.stripe_tables_memory.is_some()),
        ("--rebuild-rate", options.rebuild_rate.is_some()),
        ("--write-area", options.windows.write_area.is_some_and(|choice| choice != WriteAreaChoice::Off)),
        ("--accept-lost-writes", options.windows.accept_lost_writes),
        ("--record", options.record.is_some()),
    ];
    match foreign.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(Exit::Usage.error(format!("{option} is for arrays of zoned drives; this one is of Linux md")))
        }
    }
}

fn expect_served(assembly: &Assembly<'_>, array: &Array) -> Result<()> {
    let Err(refused) = members_of(assembly) else { return Ok(()) };
    let mut said = refused.to_string();
    if assembly.is_only_in_doubt() {
        said.push_str(doubt::REMEDIES);
    }
    if !array.absent.is_empty() {
        said = format!("{said}; {}", array.absent_in_words());
    }
    Err(Exit::Failed.error(said))
}

/// Refuses to go on without members that the superblocks count on, unless that is allowed: they may be back in a moment.
fn expect_members(assembly: &Assembly<'_>, array: &Array, degraded: bool) -> Result<()> {
    let forsaken = assembly.forsaken();
    let counted: Vec<RoleEntry> =
        assembly.superblock().roles.iter().map(|entry| RoleEntry::of(*entry)).collect();
    let is_counted = |role: &Role| counted.contains(&RoleEntry::Member(*role));
    let lacking: Vec<Role> = assembly.absent().into_iter().filter(is_counted).chain(forsaken).collect();
    if lacking.is_empty() || degraded {
        return Ok(());
    }
    let why = match array.absent.is_empty() {
        true => String::new(),
        false => format!(": {}", array.absent_in_words()),
    };
    Err(Exit::Degraded.error(format!(
        "the array counts on {}, and it is not there{why}; nothing was written. --degraded starts without it",
        refusal::members(&lacking)
    )))
}

fn say_recovered(recovered: &Recovered, is_forced: bool) {
    let (log, is_journal) = match recovered.journal {
        Some(_) => ("journal", true),
        None => ("partial parity log", false),
    };
    if !recovered.pieces.is_empty() {
        log::info!("{log}: {} blocks of members are written anew", recovered.pieces.len());
    }
    if is_forced {
        // Which blocks these are is said.
    } else if is_journal && !recovered.in_doubt.is_empty() {
        log::warn!(
            "journal: of {} rows of 4 KiB it has data, and their parities cannot be computed: what is missing of them cannot be \
             read until it is written",
            recovered.in_doubt.len()
        );
    } else if !recovered.in_doubt.is_empty() {
        log::warn!(
            "partial parity log: in {} rows of 4 KiB several blocks were being written, one of them on a member that is missing: \
             it cannot be read until it is written",
            recovered.in_doubt.len()
        );
    }
}

/// Couples an engine with the devices of its members; others are closed.
fn open_volume(
    array: Array,
    recovered: Recovered,
    bells: &Bells,
    options: &ServiceOptions,
) -> Result<(InPlaceVolume, Vec<InPlaceVolume>)> {
    let (members, devices) = array.into_parts();
    let mut assembly =
        block::md::assembly::judge(&members).pop().context("members that were judged before")?;
    if options.md.force {
        assembly.force();
    }
    let roles = members_of(&assembly).map_err(|refused| Exit::Failed.because(refused))?;
    let count = usize::try_from(assembly.superblock().shape.members)?;
    let mut volatile: BTreeMap<Role, bool> = BTreeMap::new();
    let mut drives: Vec<Option<Box<dyn BlockDevice>>> = (0..count).map(|_| None).collect();
    let mut beside = Vec::new();
    let descriptor = bells.descriptor()?;
    let mut others: Vec<(Role, Vec<Box<dyn BlockDevice>>)> = Vec::new();
    let (spares, mut waiting) = (spares_of(&assembly), Vec::new());
    let mut journal = None;
    let is_journal = |member: &Member| journal_of(&assembly).is_some_and(|own| std::ptr::eq(own, member));
    for (member, device) in members.iter().zip(devices) {
        let own = |(_, other): &&(Role, &_)| std::ptr::eq(*other, member);
        let role = roles.iter().find(own).map(|(role, _)| *role);
        let place = spares.iter().position(|(other, _)| std::ptr::eq(*other, member));
        if role.is_none() && place.is_none() && !is_journal(member) {
            continue;
        }
        let drive = device.into_drive(&descriptor)?;
        if assembly.policy() == Policy::Ppl && drive.geometry().atomic_sectors > 1 {
            return Err(Exit::Failed.error(format!(
                "{}: its logical blocks are larger than 512 bytes, and md counts in them in partial parity logs, which is not \
                 done here yet: `mdadm --grow --consistency-policy=resync` takes the log away",
                member.name
            )));
        }
        if is_journal(member) {
            journal = Some(Box::new(drive) as Box<dyn BlockDevice>);
            continue;
        }
        let Some(role) = role else {
            let superblock = place.map(|place| spares[place].1.clone()).context("a spare")?;
            waiting.push(Spare { name: member.name.clone(), superblock, device: bells.ways(drive)? });
            continue;
        };
        volatile.insert(role, drive.geometry().volatile_cache);
        others.push((role, bells.other_ways(&drive)?));
        match role.is_replacement() {
            true => beside.push((role, Box::new(drive))),
            false => drives[role.index()] = Some(Box::new(drive)),
        }
    }
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let standard = Tuning::default();
    // The limit of the cache is that of all engines together.
    let engines = u64::try_from(1 + bells.shards())?;
    let tuning = Tuning {
        began,
        cache_bytes: options.md.cache.unwrap_or(standard.cache_bytes) / engines,
        window: options.md.window.unwrap_or_default(),
        is_read_only: options.md.readonly,
        ..standard
    };
    let engine =
        start_recovered(&assembly, recovered, |role| volatile.get(&role).copied().unwrap_or(true), tuning);
    let engine = engine.map_err(|refused| Exit::Failed.because(refused))?;
    bells.listen();
    drives.extend(journal.map(Some));
    let mut devices = DeviceSet::new(drives);
    beside.into_iter().for_each(|(place, drive)| devices.put(place, drive));
    let mut volume = InPlaceVolume::new(engine, devices);
    waiting.into_iter().for_each(|spare| volume.spares.push(spare));
    let shards = divide(&mut volume, others, bells.shards(), &tuning);
    Ok((volume, shards))
}

/// Shards of an array, with their ways to each of its devices.
fn divide(
    volume: &mut InPlaceVolume,
    others: Vec<(Role, Vec<Box<dyn BlockDevice>>)>,
    count: usize,
    tuning: &Tuning,
) -> Vec<InPlaceVolume> {
    if count == 0 {
        return Vec::new();
    }
    let mut ways: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
    for (place, own) in others {
        let seat = volume.engine.core().seat(place);
        ways.iter_mut().zip(own).for_each(|(shard, way)| shard.push((seat, way)));
    }
    volume.divide(ways, tuning)
}

/// Ends the service: turns what is served until the array has stopped. False when its superblocks do not say clean then, or that takes too
/// long.
fn end<T>(
    clock: WallClock,
    what: &mut T,
    served: impl Fn(&mut T) -> &mut ServedMd,
    turn: impl Fn(&mut T, Instant) -> bool,
) -> bool {
    served(what).exports.end();
    supervisor::say_stopping();
    served(what).volume.engine.core_mut().stop();
    let due = clock.now() + STOP_MAX;
    while !served(what).volume.engine.has_stopped() && clock.now() < due {
        if !turn(what, clock.now()) {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
    let engine = &served(what).volume.engine;
    let status = engine.status();
    engine.has_stopped() && !status.is_broken && status.mark == array::inplace::scribe::Mark::Clean
}
