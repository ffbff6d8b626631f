//! `zoneweave cache up` and `cache serve`: mounts a cache and serves it until told to stop.

use super::attendance::Attended;
use super::bays::{self, BayReport, Said};
use super::create::{self, Plan};
use super::directory::CacheDirectory;
use super::drives;
use super::errands::{Errands, Wish};
use super::host::host;
use super::memory;
use super::namespaces;
use super::options::{CacheServe, CacheServiceOptions, CacheShape, CacheUp};
use super::status::{Seen, json};
use super::{dump, flush};
use crate::drive_clocks::{self, DriveClocks};
use crate::exit::{self, Exit};
use crate::hosting::Hosting;
use crate::lines::Lines;
use crate::replace::Attempt;
use crate::serve::warn_of_missing_cores;
use crate::signals::Impatience;
use crate::supervisor;
use anyhow::{Context, Result};
use base::time::{Instant, Nanos};
use base::units::human_bytes;
use cache::request::{Cache, Namespace, Reply, Request, WallMillis};
use cache::{CacheVolume, Options};
use drive::timing::Profile;
use serde_json::Value;
use server::cache_loop::{self, CacheServerConfig, ServedCache};
use server::resp::front::{Backend, CacheFacts};
use server::resp::settings::Settings;
use server::{Listen, Listener, Service, Stop, WallClock, control};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use zone::drives::DriveSet;

/// Longest value, unless somebody asks for longer ones.
const OBJECT_BYTES: u64 = 16 << 20;
/// What is said where memory that held entries is gone.
const LOST: &str = "everything that was stored is forgotten: the machine was started since (--invalidate process), or the file \
                    `invalidations` is gone";
/// A value has room several times in what clients have: arriving, under way, leaving.
const OBJECTS_IN_CLIENTS: u64 = 4;

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
            let plan = Plan::of(&options.shape)?;
            memory::check(&engine(&options.service)?, plan.flash_bytes()?)?;
            let directory = create::create(&options.dir, &plan)?;
            log::info!("created a cache in {}", options.dir.display());
            directory
        }
        Err(error) => return Err(error),
    };
    serve(directory, &options.service)
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
    let password = options.password_file.as_deref().map(password_in).transpose()?;
    let profile = options.profile.as_deref().map(Profile::load).transpose()?;
    let hosting = Hosting::new(profile)?;
    let mut drives = drives::open(&directory, Some(&hosting))?;
    drives.wake_fds.push(hosting.bell_descriptor()?);
    memory::check(&wanted, drives.flash_bytes()?)?;
    namespaces::check(&wanted.shares, &drives.geometries())?;
    let control = control::bind(&directory.control_path())?;
    let (listeners, memcached_doors) = doors(options)?;
    let settings = settings(options, drives.zone_bytes, password, &listeners)?;
    let object_max = usize::try_from(settings.object_bytes_max).context("--memory")?;
    let engine = Options { object_max, ..wanted };
    let host = host(&directory, engine.invalidate)?;
    let volume = cache::mount_on(host, DriveSet::new(drives.devices), clock.now(), (wall(), engine))
        .map_err(|error| Exit::Failed.error(format!("{}: {error}", directory.path.display())))?;
    let recovered = volume.status();
    log::info!(
        "recovered {} of {} records; {} zones were dropped",
        recovered.objects,
        recovered.recovery.records_found,
        recovered.recovery.zones_dropped
    );
    if recovered.recovery.is_emptied {
        log::warn!("{LOST}");
    }
    let (stop, handle) = Stop::new().context("signal handling")?;
    handle.on_signals().context("signal handling")?;
    drop(impatience);
    let announced = announce(&directory, &listeners, memcached_doors.len())?;
    let service =
        Service { listeners, control: Some(control), wake_fds: drives.wake_fds, ..Service::new(stop, clock) };
    let spin = if hosting.profile().is_some() { drive_clocks::SPIN } else { Nanos(0) };
    let config = CacheServerConfig { settings, memcached_doors, spin, ..CacheServerConfig::default() };
    hosting.listen();
    let errands = Errands::default();
    let names = options.namespace.iter().filter_map(|own| Some((own.namespace, own.name.clone()?))).collect();
    let attended = options.forget_after.map(|limit| Attended::open(&directory, limit)).transpose()?;
    let (memory_bytes_max, clocks) = (options.memory, DriveClocks::new(drives.paces, clock.now()));
    let mut served = Served {
        volume,
        memory_bytes_max,
        cores: options.cores,
        names,
        directory,
        hosting,
        errands,
        attended,
        clocks,
    };
    served.start_clocks();
    served.attend(clock.now());
    let result = cache_loop::run(&config, service, &mut served);
    if let Some(attended) = &mut served.attended {
        attended.leave(&served.volume);
    }
    supervisor::say_stopping();
    result?;
    log::info!("stopped; what goes to flash is on the drives");
    announced.finish();
    Ok(Exit::Well)
}

/// Listeners of the cache, the last ones those of memcached's protocol, with the namespace of each of these.
fn doors(options: &CacheServiceOptions) -> Result<(Vec<Listener>, Vec<Namespace>)> {
    let own = options.namespace.iter().filter_map(|own| Some((own.memcached.as_ref()?, own.namespace)));
    let all = options.memcached.iter().map(|place| (place, Namespace(0)));
    let (memcached, namespaces): (Vec<&Listen>, Vec<Namespace>) = all.chain(own).unzip();
    if options.password_file.is_some() && !memcached.is_empty() {
        return Err(
            Exit::Usage.error("--memcached knows no password: leave --password-file or --memcached away")
        );
    }
    let places = options.listen.iter().chain(memcached);
    Ok((places.map(Listen::bind).collect::<Result<_, _>>()?, namespaces))
}

/// Wall time, by which objects expire.
pub fn wall() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// How the cache is to behave, whatever drives it has.
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
    zone_bytes: u64,
    password: Option<Vec<u8>>,
    listeners: &[Listener],
) -> Result<Settings> {
    let clients = memory::of_clients(options.memory);
    let wanted = options.object_max.unwrap_or(OBJECT_BYTES);
    let fronts = options.cores.max(2) as u64 - 1;
    let object_bytes = wanted.min(zone_bytes / 2).min(clients / fronts / OBJECTS_IN_CLIENTS);
    if object_bytes < wanted {
        let memory = human_bytes(memory::for_clients(wanted * OBJECTS_IN_CLIENTS * fronts));
        let needs = format!("need --memory {memory} and zones of {}", human_bytes(wanted * 2));
        let (most, asked) = (human_bytes(object_bytes), human_bytes(wanted));
        if options.object_max.is_some() {
            return Err(Exit::Usage.error(format!(
                "--object-max {asked}: values of up to {most} can be stored; larger ones {needs}"
            )));
        }
        log::info!("values of up to {most} are stored: larger ones {needs}");
    }
    let door = listeners.iter().find_map(|listener| match listener.place() {
        Listen::Tcp(address) => Some(*address),
        Listen::Unix(_) => None,
    });
    let (first, second) = (uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple().to_string());
    Ok(Settings {
        object_bytes_max: u32::try_from(object_bytes).expect("at most 512 MiB"),
        client_memory_bytes: usize::try_from(clients).unwrap_or(usize::MAX),
        cores: options.cores,
        memory_bytes: options.memory,
        password,
        run_id: format!("{first}{}", &second[..8]),
        port: door.map_or(0, |door| door.port()),
        bind: door.map(|door| door.ip().to_string()).unwrap_or_default(),
        executable: std::env::current_exe().unwrap_or_default(),
        ..Settings::default()
    })
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
fn announce(directory: &CacheDirectory, listeners: &[Listener], memcached_doors: usize) -> Result<Lines> {
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
    let lines = Lines::start(std::io::stdout()).context("the thread that writes to stdout")?;
    lines.say(text.into_bytes());
    supervisor::say_ready();
    Ok(lines)
}

/// The cache with what an operator may ask of it.
struct Served {
    volume: CacheVolume,
    memory_bytes_max: u64,
    cores: usize,
    names: BTreeMap<Namespace, String>,
    directory: CacheDirectory,
    hosting: Hosting,
    errands: Errands,
    attended: Option<Attended>,
    clocks: DriveClocks,
}

impl Served {
    /// From now on drives take the time of their profile, if there is one.
    fn start_clocks(&mut self) {
        self.clocks.start();
        if let Some(profile) = self.hosting.profile() {
            log::info!("the drives take the time of {} ({})", profile.name(), profile.description());
        }
    }

    /// The cache is served now.
    fn attend(&mut self, now: Instant) {
        if let Some(attended) = &mut self.attended {
            attended.see(now, &mut self.volume);
        }
    }

    /// Begins what takes several turns, or tells how it stands; `None` when the line is about something else.
    fn run_errand(&mut self, now: Instant, line: &str) -> Option<Attempt<Value>> {
        let (word, words) = line.split_once(' ')?;
        let Wish { namespace, op, say } = match word {
            "flush" => flush::wish(words)?,
            "keys" => dump::wish(words)?,
            _ => return None,
        };
        match self.errands.find(line) {
            Some(Some(done)) => return Some(Attempt::Done(done)),
            Some(None) => return Some(Attempt::Busy),
            None => {}
        }
        if let Some(id) = self.errands.begin(line, say) {
            self.volume.submit(now, wall(), Request { id, namespace: Namespace(namespace), op });
        }
        Some(Attempt::Busy)
    }

    /// Answers a question about a drive.
    fn act_on_drive(&mut self, line: &str) -> Result<Attempt<BayReport>> {
        let Served { volume, directory, hosting, .. } = self;
        let (word, words) = line.split_once(' ').unwrap_or((line, ""));
        if word == "add" {
            return bays::add(directory, volume, &Said::parse(words)?, Some(hosting));
        }
        let (place, words) = words.split_once(' ').unwrap_or((words, ""));
        match place.parse().ok().map(|place| (word, place)) {
            Some(("fail", place)) => bays::take_out(directory, volume, place),
            Some(("remove", place)) => bays::remove(directory, volume, place),
            Some(("replace", place)) => {
                bays::put_in(directory, volume, (place, &Said::parse(words)?), hosting)
            }
            _ => {
                Err(Exit::Usage.error(format!("`{line}` is no question that the server of a cache answers")))
            }
        }
    }
}

impl Cache for Served {
    fn submit(&mut self, now: Instant, wall: WallMillis, request: Request) {
        self.attend(now);
        self.volume.submit(now, wall, request);
    }

    fn turn(&mut self, now: Instant, wall: WallMillis, replies: &mut Vec<Reply>) -> bool {
        self.attend(now);
        self.clocks.check(now);
        let goes_on = self.volume.turn(now, wall, replies);
        self.errands.take(replies);
        goes_on
    }

    fn next_deadline(&self) -> Option<Instant> {
        let due = self.attended.as_ref().map(Attended::due);
        let own = self.volume.next_deadline().into_iter().chain(due);
        if self.hosting.profile().is_none() {
            return own.min();
        }
        // What a disk has flushed is heard by nobody then.
        let looks = self.volume.in_flight() > 0;
        let look = looks.then(|| self.clocks.looked_at() + drive_clocks::LOOK_EVERY);
        own.chain(self.volume.next_event()).chain(look).min()
    }

    fn objects(&self, namespace: Namespace) -> u64 {
        self.volume.objects(namespace)
    }
}

impl Backend for Served {
    fn facts(&self) -> CacheFacts {
        let status = self.volume.status();
        let counters = status.counters;
        let ratio =
            status.write_amplification().map_or_else(|| "none".to_owned(), |ratio| format!("{ratio:.3}"));
        let lines = [
            ("index_bytes", status.index_bytes.to_string()),
            ("buffer_bytes", status.buffer_bytes.to_string()),
            ("copies_bytes", status.copies_bytes.to_string()),
            ("copies", status.copies.to_string()),
            ("hits_buffer", counters.hits_buffer.to_string()),
            ("hits_memory", counters.hits_memory.to_string()),
            ("hits_flash", counters.hits_flash.to_string()),
            ("held", status.admission.held.to_string()),
            ("held_bytes", status.admission.held_bytes.to_string()),
            ("forgotten", counters.forgotten.to_string()),
            ("bytes_admitted", counters.bytes_admitted.to_string()),
            ("bytes_forgotten", counters.bytes_forgotten.to_string()),
            ("zones_free", status.zones.free.to_string()),
            ("entries_carried", counters.entries_carried.to_string()),
            ("zones_expired", counters.zones_expired.to_string()),
            ("expired_share", format!("{:.3}", status.expired_share())),
            ("zones_spared", counters.zones_spared.to_string()),
            ("reinserted", counters.reinserted.to_string()),
            ("bytes_reinserted", counters.bytes_reinserted.to_string()),
            ("recalled", counters.recalled.to_string()),
            ("zones_evicted", counters.zones_evicted.to_string()),
            ("write_amplification", ratio),
            ("drives", status.drives.to_string()),
        ];
        let namespaces = (0..).map(Namespace).zip(&status.namespaces);
        let used = namespaces.filter(|(_, own)| own.share.is_some() || own.counters.stores > 0);
        let namespaces = used.map(|(namespace, own)| {
            let (counters, name) = (own.counters, self.names.get(&namespace));
            let name = name.map_or_else(String::new, |name| format!("name={name},"));
            let said = format!(
                "{name}hits={},misses={},stores={},zones={},zones_max={},zones_evicted={},copies_bytes={}",
                counters.hits,
                counters.misses,
                counters.stores,
                own.zones,
                own.zones_max,
                counters.zones_evicted,
                own.copies_bytes
            );
            (format!("namespace_{}", namespace.0), said)
        });
        CacheFacts {
            memory_bytes: status.memory_bytes(),
            memory_bytes_max: self.memory_bytes_max,
            // Evicted are zones; nobody counts the objects in them.
            objects_evicted: 0,
            objects_expired: counters.expired,
            lines: lines
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .chain(namespaces)
                .collect(),
        }
    }
}

impl ServedCache for Served {
    fn control(&mut self, now: Instant, line: &str) -> String {
        if let Some(attempt) = self.run_errand(now, line) {
            return serde_json::json!(attempt).to_string();
        }
        match line {
            "status" => {
                let Served { volume, directory, names, .. } = self;
                let mut report = json(&Seen { volume, directory, names });
                report["cores"] = self.cores.into();
                report["forget"] = self.attended.as_ref().map(Attended::report).into();
                report.to_string()
            }
            _ => match self.act_on_drive(line) {
                Ok(attempt) => serde_json::json!(attempt).to_string(),
                Err(error) => {
                    serde_json::json!({ "error": exit::in_words(&error), "exit": Exit::of(&error).number() })
                        .to_string()
                }
            },
        }
    }

    /// Buffers go to the drives by themselves, some milliseconds after they began to fill.
    fn begin_stop(&mut self, _: Instant) {
        self.volume.begin_stop();
    }

    fn has_stopped(&self) -> bool {
        self.volume.has_stopped()
    }
}
