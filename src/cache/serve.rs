//! `zoneweave cache up` and `cache serve`: mounts a cache and serves it until told to stop.

use super::create::{self, Plan};
use super::directory::CacheDirectory;
use super::drives;
use super::http::MetricsDoor;
use super::longest;
use super::memory;
use super::namespaces;
use super::operator::Operator;
use super::options::{CacheServe, CacheServiceOptions, CacheShape, CacheUp};
use super::shards::{self, ServedShard, bells, expect_shards};
use crate::drive_clocks::{self, DriveClocks};
use crate::exit::Exit;
use crate::hosting::Hosting;
use crate::lines::Lines;
use crate::serve::warn_of_missing_cores;
use crate::signals::Impatience;
use crate::supervisor;
use anyhow::{Context, Result};
use base::time::Nanos;
use cache::Options;
use cache::config::{ACTIVE_ZONES_MIN, active_zones};
use cache::request::{Namespace, WallMillis};
use drive::Bell;
use drive::timing::Profile;
use server::cache_loop::{self, CacheServerConfig, ServedCache};
use server::resp::settings::Settings;
use server::{Listen, Listener, Service, Stop, WallClock, control};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Creates the cache if there is none, then serves it.
pub fn up(options: &CacheUp) -> Result<Exit> {
    let directory = match CacheDirectory::open(&options.dir) {
        Ok(directory) => {
            if options.shape != CacheShape::default() {
                let dir = options.dir.display();
                log::info!("{dir} holds a cache already: what was said of its drives is for new ones");
            }
            directory
        }
        Err(error) if Exit::of(&error) == Exit::Absent => {
            let plan = Plan::of(&options.shape, options.service.cores)?;
            expect_servable(&plan, &options.service)?;
            let directory = create::create(&options.dir, &plan)?;
            log::info!("created a cache in {}", options.dir.display());
            directory
        }
        Err(error) => return Err(error),
    };
    serve(directory, &options.service)
}

/// Refuses to make a cache that could not be served as it is to be.
fn expect_servable(plan: &Plan, options: &CacheServiceOptions) -> Result<()> {
    let (wanted, shards, slices) = (engine(options)?, plan.shards(), plan.slices());
    memory::check(&wanted, plan.flash_bytes()? / shards as u64, shards)?;
    namespaces::check(&wanted.shares, &slices)?;
    longest::judge(options, &slices, shards)?;
    profile(options, shards).map(drop)
}

/// The profile whose time drives are to take.
fn profile(options: &CacheServiceOptions, shards: usize) -> Result<Option<Profile>> {
    let profile = options.profile.as_deref().map(Profile::load).transpose()?;
    profile.iter().try_for_each(|profile| expect_zones(profile, shards))?;
    Ok(profile)
}

/// Serves a cache.
pub fn run(options: &CacheServe) -> Result<Exit> {
    serve(CacheDirectory::open(&options.dir)?, &options.service)
}

fn serve(directory: CacheDirectory, options: &CacheServiceOptions) -> Result<Exit> {
    let impatience = Impatience::begin().context("signal handling")?;
    let clock = WallClock::start();
    warn_of_missing_cores(options.cores);
    let wanted = engine(options)?;
    let password = options.doors.password_file.as_deref().map(password_in).transpose()?;
    let hosting =
        Hosting::new(profile(options, directory.file.shards)?)?.with_discards(directory.file.discard);
    let mut drives = drives::open(&directory, Some(&hosting))?;
    drives.wake_fds.push(hosting.bell_descriptor()?);
    let (shards, wholes) = (directory.file.shards, drives.geometries());
    let slices = drives.slices(shards);
    let owners = bells(cache_loop::owners(shards, options.cores))?;
    let bell_of = |shard| owners[cache_loop::owner_of(shard, owners.len())].clone();
    let bells: Vec<Bell> = (0..shards).map(bell_of).collect();
    let begun = clock.now();
    let (seen, spread) = expect_shards(&directory, drives.devices, &bells, clock.now())?;
    memory::check(&wanted, drives::flash_bytes(&slices)?, shards)?;
    namespaces::check(&wanted.shares, &slices)?;
    let object_bytes = longest::value(options, &slices, shards)?;
    let control = control::bind(&directory.control_path())?;
    let (listeners, memcached_doors) = doors(options)?;
    let metrics = options.doors.http.as_ref().map(MetricsDoor::bind).transpose()?;
    let settings = settings(options, object_bytes, password, &listeners);
    let object_max = usize::try_from(settings.object_bytes_max).context("--memory")?;
    let engine = Options { object_max, ..wanted }.part_of(shards);
    let mounted = shards::mount(&directory, seen, (wall(), engine))?;
    let recovered_in = clock.now().since(begun);
    let (stop, handle) = Stop::new().context("signal handling")?;
    handle.on_signals().context("signal handling")?;
    drop(impatience);
    let is_timed = hosting.profile().is_some();
    let spin = if is_timed { drive_clocks::SPIN } else { Nanos(0) };
    let config = CacheServerConfig { settings, memcached_doors, spin, ..CacheServerConfig::default() };
    let names = options.namespace.iter().filter_map(|own| Some((own.namespace, own.name.clone()?))).collect();
    let (memory_bytes_max, clocks) = (options.memory, DriveClocks::new(drives.paces, clock.now()));
    let mut operator = Operator {
        shards: mounted,
        bells,
        wholes,
        memory_bytes_max,
        cores: options.cores,
        names,
        directory,
        hosting,
        attended: None,
        recovered_in,
        clocks,
        stop: handle,
    };
    operator.begin(options.forget_after, clock.now())?;
    let announced =
        announce(&operator.directory, &listeners, config.memcached_doors.len(), metrics.as_ref())?;
    metrics.map_or(Ok(()), |door| door.open(operator.directory.control_path()))?;
    let service =
        Service { listeners, control: Some(control), wake_fds: drives.wake_fds, ..Service::new(stop, clock) };
    let served = operator.shards.iter().map(|shard| {
        Box::new(ServedShard::new(shard.clone(), is_timed, clock.now())) as Box<dyn cache_loop::Shard>
    });
    let wake_fds = owners.iter().map(|bell| Ok(vec![bell.descriptor()?])).collect::<std::io::Result<_>>();
    let wake_fds = wake_fds.context("event descriptors of the shards")?;
    let shards = served.collect();
    let served = ServedCache { operator: &mut operator, shards, spread, wake_fds };
    let result = cache_loop::run(&config, service, served);
    operator.leave();
    supervisor::say_stopping();
    result?;
    log::info!("stopped; what goes to flash is on the drives");
    announced.finish();
    Ok(Exit::Well)
}

/// Refuses the profile of a drive that would not do for a cache of so many shards.
fn expect_zones(profile: &Profile, shards: usize) -> Result<()> {
    let (name, active) = (profile.name(), active_zones(&profile.geometry()));
    let needed = ACTIVE_ZONES_MIN * u32::try_from(shards).expect("at most 64 shards");
    if !profile.has_zones() {
        return Err(Exit::Usage.error(format!(
            "--profile {name}: it is a drive without zones; say one that has zones, such as zn540-4tb"
        )));
    }
    if active < needed {
        return Err(Exit::Usage.error(format!(
            "--profile {name}: the drive allows {active} active zones; a cache with {shards} shards needs {needed}"
        )));
    }
    Ok(())
}

/// Listeners of the cache, the last ones those of memcached's protocol, with the namespace of each of these.
fn doors(options: &CacheServiceOptions) -> Result<(Vec<Listener>, Vec<Namespace>)> {
    let own = options.namespace.iter().filter_map(|own| Some((own.memcached.as_ref()?, own.namespace)));
    let all = options.doors.memcached.iter().map(|place| (place, Namespace(0)));
    let (memcached, namespaces): (Vec<&Listen>, Vec<Namespace>) = all.chain(own).unzip();
    if options.doors.password_file.is_some() && !memcached.is_empty() {
        return Err(
            Exit::Usage.error("--memcached knows no password: leave --password-file or --memcached away")
        );
    }
    let places = options.doors.listen.iter().chain(memcached);
    Ok((places.map(Listen::bind).collect::<Result<_, _>>()?, namespaces))
}

/// Wall time, by which objects expire.
pub fn wall() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Options of the engine, whatever drives the cache has.
fn engine(options: &CacheServiceOptions) -> Result<Options> {
    Ok(Options {
        memory_bytes: memory::of_engine(options.memory),
        object_mean: options.object_mean,
        eviction: options.eviction,
        reinsert_percent: options.reinsert,
        admission: options.admission()?,
        endurance: options.endurance,
        acknowledge: options.acknowledge()?,
        invalidate: options.invalidate,
        shares: namespaces::shares(&options.namespace, options.eviction)?,
        ..Options::default()
    })
}

fn settings(
    options: &CacheServiceOptions,
    object_bytes: u64,
    password: Option<Vec<u8>>,
    listeners: &[Listener],
) -> Settings {
    let door = listeners.iter().find_map(|listener| match listener.place() {
        Listen::Tcp(address) => Some(*address),
        Listen::Unix(_) => None,
    });
    let (first, second) = (uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple().to_string());
    Settings {
        object_bytes_max: u32::try_from(object_bytes).expect("at most 512 MiB"),
        client_memory_bytes: usize::try_from(memory::of_clients(options.memory)).unwrap_or(usize::MAX),
        cores: options.cores,
        memory_bytes: options.memory,
        password,
        debug_commands: options.doors.debug_commands,
        run_id: format!("{first}{}", &second[..8]),
        port: door.map_or(0, |door| door.port()),
        bind: door.map(|door| door.ip().to_string()).unwrap_or_default(),
        executable: std::env::current_exe().unwrap_or_default(),
        ..Settings::default()
    }
}

fn password_in(path: &Path) -> Result<Vec<u8>> {
    let text = std::fs::read(path).with_context(|| format!("--password-file {}", path.display()))?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let password = line.strip_suffix(b"\r").unwrap_or(line);
    if password.is_empty() {
        let path = path.display();
        return Err(Exit::Usage.error(format!("--password-file {path}: its first line is empty")));
    }
    Ok(password.to_vec())
}

/// Says where clients find the cache; nobody waits for a reader of that.
fn announce(
    directory: &CacheDirectory,
    listeners: &[Listener],
    memcached_doors: usize,
    metrics: Option<&MetricsDoor>,
) -> Result<Lines> {
    let mut text = format!("serving a cache of {} of flash\n", directory.file.size);
    let (resp, memcached) = listeners.split_at(listeners.len() - memcached_doors);
    for listener in memcached {
        text += &match listener.place() {
            Listen::Tcp(address) => format!("  memcached {}:{}\n", address.ip(), address.port()),
            Listen::Unix(path) => format!("  memcached {}\n", path.display()),
        };
    }
    for listener in resp {
        text += &match listener.place() {
            Listen::Tcp(address) => format!("  redis-cli -h {} -p {}\n", address.ip(), address.port()),
            Listen::Unix(path) => format!("  redis-cli -s {}\n", path.display()),
        };
    }
    if let Some(door) = metrics {
        text += &format!("  metrics   http://{}/metrics\n", door.address);
    }
    let lines = Lines::start(std::io::stdout()).context("the thread that writes to stdout")?;
    lines.say(text.into_bytes());
    supervisor::say_ready();
    Ok(lines)
}
