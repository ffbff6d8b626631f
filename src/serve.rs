//! `zoneweave up` and `zoneweave serve`: mounts an array and serves it until told to stop.

mod fencing;
mod lookout;
pub mod record;
mod returning;
mod write_area;

use crate::cli::{Rate, Scheme, Serve, ServiceOptions, Up, WriteAreaChoice};
use crate::create;
use crate::directory::{Directory, DriveTable, EngineTable, GcChoice, GcStreamsChoice, PolicyChoice};
use crate::drive_clocks::{self, DriveClocks};
use crate::drive_watch::DriveWatch;
use crate::exit::{self, Exit};
use crate::exports::served::{Exported, ServedExports, Sockets, listen, serial_of};
use crate::exports::table::ExportList;
use crate::exports::wanted::Wanted;
use crate::hosting::{Hosting, cannot_be_polled};
use crate::kernel_calls::KernelCallsReport;
use crate::lines::{self, Lines};
use crate::progress::Speed;
use crate::rates;
use crate::replace::{self, Attempt, Replaced};
use crate::room;
use crate::roster::{Absence, OpenDrives, Roster, within};
use crate::scrub::{self, DriveOut, ScrubReport};
use crate::seek::Seek;
use crate::signals::Impatience;
use crate::spare;
use crate::status::{self, LifetimeCounters, Served, StatusReport};
use crate::supervisor;
use anyhow::{Context, Result};
use array::engine::Engine;
use array::log::blame::Blame;
use array::log::config::{CheckpointEvery, Tuning};
use array::log::policy::adaptive::Policy;
use array::log::policy::victim::GcPolicy;
use array::log::survivors::GcStreams;
use array::log::volume::LogVolume;
use array::log::{MountReport, OlderCopy, ReAdd, ReAdded, mount, mount_with_re_add};
use array::request::{Controlled, Reply, Request, Volume};
use base::frame::FramePool;
use base::time::{Instant, Nanos};
use base::units::{BLOCK_BYTES_U64, DriveIndex, human_bytes};
use drive::timing::Profile;
use lookout::Lookout;
use returning::Returning;
use server::config::DiskConfig;
use server::listen::SOCKET_PATH_BYTES_MAX;
use server::recorder::{Recorder, Recording};
use server::{ExportConfig, Listen, ServerConfig, Service, Stop, StopHandle, WallClock, control};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use zone::device::ZonedDevice;
use zone::format::superblock::MemberState;

/// Time between two attempts to install a spare while the array is too busy to take it.
const CALL_SPARE_EVERY: Nanos = Nanos(50_000_000);

/// Longest time that the last checkpoint may take.
const LAST_CHECKPOINT_MAX: Nanos = Nanos(10_000_000_000);

/// Shortest time between two log messages about damage.
const DAMAGE_NAMED_EVERY: Nanos = Nanos(10_000_000_000);
/// Time between two saves of the counters, so that a killed server loses few of them.
const COUNTERS_EVERY: Nanos = Nanos(10_000_000_000);

/// Creates the array if there is none, then serves it.
pub fn up(options: &Up) -> Result<Exit> {
    let directory = match Directory::open(&options.dir) {
        Ok(directory) => {
            let Scheme { drives, level, size } = &options.scheme;
            if drives.is_some() || level.is_some() || size.is_some() {
                log::info!(
                    "{} holds an array already: --drives, --level and --size are for new ones",
                    options.dir.display()
                );
            }
            directory
        }
        // It would be made of emulated drives.
        Err(error) if Exit::of(&error) == Exit::Absent && options.service.poll => {
            return Err(cannot_be_polled());
        }
        Err(error) if Exit::of(&error) == Exit::Absent => {
            let (directory, _) =
                create::create(&create::with_defaults(&options.dir, &options.scheme, options.areas))?;
            log::info!("created an array in {}", options.dir.display());
            directory
        }
        Err(error) => return Err(error),
    };
    serve(directory, &options.service)
}

/// Serves an array.
pub fn run(options: &Serve) -> Result<Exit> {
    serve(Directory::open(&options.dir)?, &options.service)
}

/// Refuses what means nothing to an array of zoned drives, and a record that would go over a file.
fn expect_options(options: &ServiceOptions) -> Result<()> {
    options.md.expect_none()?;
    Hosting::expect_kernel(options.poll)?;
    record::expect_new(options.record.as_deref())
}

/// How drives are to work.
fn hosting_of(directory: &Directory, options: &ServiceOptions) -> Result<Hosting> {
    let profile = options.profile.as_deref().map(Profile::load).transpose()?;
    let hosting = Hosting::new(profile)?
        .with_patience(options.drive_patience, options.drive_timeout)
        .with_discards(directory.file.discard);
    Ok(hosting.with_polling(options.poll))
}

/// Nothing is recorded on a drive before all drives are there and both sockets listen.
fn serve(mut directory: Directory, options: &ServiceOptions) -> Result<Exit> {
    expect_options(options)?;
    let impatience = Impatience::begin().context("signal handling")?;
    let clock = WallClock::start();
    let hosting = hosting_of(&directory, options)?;
    let mut drives = open_drives(&mut directory, options.degraded, &hosting)?;
    drives.wake_fds.push(hosting.bell_descriptor()?);
    let wanted = Wanted::of(&directory.path, options, &directory.file.export)?;
    let control = control::bind(&directory.control_path())?;
    let sockets = listen(&wanted)?;
    let tuning = tuning_of(options, directory.file.engine, &drives.devices);
    let lookout = Lookout::new(directory.file.drive.len(), &drives.absent);
    let (volume, mounted) = recover(&directory, drives.devices, None, tuning, clock)?;
    let size_bytes = volume.engine.blocks() * BLOCK_BYTES_U64;
    let on_devices = directory.file.drive.iter().all(DriveTable::is_device);
    let array = directory.file.uuid.to_string();
    let exported =
        Exported { dir: directory.path.clone(), array, size_bytes, on_devices, is_read_only: false };
    let (exports, disk) = ServedExports::begin(exported, directory.file.export.clone(), &wanted, &sockets)?;
    let (stop, handle) = Stop::new().context("signal handling")?;
    handle.on_signals().context("signal handling")?;
    drop(impatience);
    warn_of_missing_cores(options.cores);
    let announced = announce(sockets.nbd[0].place(), directory.file.export.name(), size_bytes, false)?;
    if let Some(profile) = hosting.profile() {
        log::info!("the drives take the time of {} ({})", profile.name(), profile.description());
    }
    let recording = record::begin(options.record.as_deref())?;
    let config = config_of(&directory, options, recording.as_ref().map(Recording::recorder));
    let Sockets { nbd: listeners, guests } = sockets;
    let (wake_fds, ports) = (drives.wake_fds, exports.ports());
    let service = Service { listeners, guests, disk, control: Some(control), wake_fds, ports, stop, clock };
    let mut served = ServedArray {
        older_copies: mounted.older_copies,
        watch: DriveWatch::new(options.drive_timeout, directory.file.drive.len(), clock.now()),
        hosting,
        returning: Returning::new(tuning, clock, lookout),
        stop: handle,
        progress: Progress::default(),
        spares: Spares { due: None, called_at: Instant(0), refused: Vec::new() },
        damage: DamageWords::default(),
        newcomers: BTreeSet::new(),
        now: clock.now(),
        counters: SavedCounters {
            lifetime: LifetimeCounters::load(&directory.counters_path()),
            path: directory.counters_path(),
            saved_at: clock.now(),
        },
        clocks: DriveClocks::new(drives.paces, clock.now()),
        directory,
        volume,
        exports,
    };
    served.clocks.start();
    served.hosting.listen();
    let result = server::run(&config, service, &mut served);
    recording.into_iter().for_each(Recording::finish);
    served.exports.end();
    supervisor::say_stopping();
    if result.is_ok() {
        served.write_last_checkpoint(clock);
    }
    served.save_counters();
    fencing::expect_not_fenced(&served.volume, &served.directory)?;
    result?;
    log::info!("stopped; everything written is on the drives");
    announced.finish();
    Ok(Exit::Well)
}

/// Finds and opens the drives, and writes down where they are now.
fn open_drives(directory: &mut Directory, degraded: bool, hosting: &Hosting) -> Result<OpenDrives> {
    let before = directory.file.clone();
    let mut roster = Roster::find(directory)?;
    if let Some(record) = &roster.record {
        room::expect_index_fits(record)?;
    }
    let absence = if degraded { Absence::Accepted } else { Absence::Refused };
    let drives = roster.open(absence, Some(hosting))?;
    if directory.file != before
        && let Err(error) = directory.save()
    {
        log::warn!("array.toml is not up to date, which does no harm: {}", exit::in_words(&error));
    }
    Ok(drives)
}

/// Names of a volume for NBD clients.
pub fn names_of(list: &ExportList, description: &str) -> Vec<ExportConfig> {
    let config = |name: &str| ExportConfig { name: name.to_owned(), description: description.to_owned() };
    list.names().into_iter().map(config).collect()
}

fn config_of(directory: &Directory, options: &ServiceOptions, recorder: Option<Recorder>) -> ServerConfig {
    ServerConfig {
        exports: names_of(&directory.file.export, &format!("Zoneweave array {}", directory.file.uuid)),
        disk: DiskConfig { serial: serial_of(&directory.file.uuid.to_string()) },
        cores: options.cores,
        spin: if options.profile.is_some() { drive_clocks::SPIN } else { Nanos(0) },
        recorder,
        ..ServerConfig::default()
    }
}

fn tuning_of(
    options: &ServiceOptions,
    engine: EngineTable,
    devices: &[Option<Box<dyn ZonedDevice>>],
) -> Tuning {
    let EngineTable { policy, gc, gc_streams } = engine;
    let write_area = write_area::choice_of(options.windows.write_area, policy, devices);
    Tuning {
        rebuild_rate: options.rebuild_rate.map(Rate::bytes_asked_for),
        stripe_tables_bytes_max: options.stripe_tables_memory,
        policy: match policy {
            PolicyChoice::Adaptive => Policy::Adaptive,
            PolicyChoice::Fixed => Policy::Fixed,
            PolicyChoice::Biza => Policy::Biza,
        },
        gc: match gc {
            GcChoice::Greedy => GcPolicy::Greedy,
            GcChoice::CostBenefit => GcPolicy::CostBenefit,
        },
        gc_streams: match gc_streams {
            GcStreamsChoice::One => GcStreams::One,
            GcStreamsChoice::Two => GcStreams::Two,
            GcStreamsChoice::Auto => GcStreams::Auto,
        },
        checkpoints: CheckpointEvery::Auto,
        index_memory: options.index_memory,
        accepts_lost_writes: options.windows.accept_lost_writes,
        write_area_zones: write_area::zones_of(write_area),
        write_area_spare: (write_area == WriteAreaChoice::Auto).then_some(write_area::AUTO_SPARE_OF_ZONE),
        slot_use: write_area::use_of(write_area),
        ..Tuning::default()
    }
}

/// Mounts, and moves what a crash left incomplete before clients come. Begins anew when a drive fails
/// meanwhile and takes some of that along. A drive that was away is taken in again if that is asked for.
fn recover(
    directory: &Directory,
    mut devices: Vec<Option<Box<dyn ZonedDevice>>>,
    mut re_add: Option<ReAdd>,
    tuning: Tuning,
    clock: WallClock,
) -> Result<(LogVolume, MountReport)> {
    let mut re_added: Option<ReAdded> = None;
    loop {
        let tuning = tagged(tuning);
        let (shard, set, mut report) = match re_add.take() {
            None => mount(devices, tuning, clock.now())?,
            Some(re_add) => mount_with_re_add(devices, re_add, tuning, clock.now())?,
        };
        // It is one that is being rebuilt when recovery begins anew, unless it failed in its turn.
        let is_there = |own: &ReAdded| shard.member_state(DriveIndex::at(own.member)) != MemberState::Failed;
        re_added = report.re_added.or(re_added).filter(is_there);
        report.re_added = re_added;
        let status = shard.status();
        status::log_mount(directory, &status, &report);
        if let Some(asked) = tuning.index_memory.filter(|asked| *asked < status.memory.index)
            && status.index.is_none()
        {
            log::warn!(
                "--index-memory {}: all of the index stays in memory, {}, for the volume leaves no room for parts of it on \
                 the drives, or these allow too few active zones; create it with a smaller --size or fewer open segments",
                human_bytes(asked),
                human_bytes(status.memory.index)
            );
        }
        write_area::expect(&shard, &set, &tuning)?;
        let mut volume = LogVolume::new(shard, set);
        volume.watch_for_others();
        volume.engine.watch_zones();
        turn_until(&mut volume, clock, |volume| !volume.engine.has_recovery_debt());
        fencing::expect_not_fenced(&volume, directory)?;
        if !volume.engine.must_mount_again() {
            volume.drives.outlive_hiccups(true);
            return Ok((volume, report));
        }
        log::warn!("a drive failed during recovery, which begins anew without it");
        turn_until(&mut volume, clock, LogVolume::is_at_rest);
        fencing::expect_ours(&mut volume, clock.now(), directory)?;
        devices = volume.drives.into_inner();
    }
}

/// Tuning for one mount, with a number of its own by which its superblocks differ from those of clones of the array.
pub fn tagged(tuning: Tuning) -> Tuning {
    Tuning { mount_tag: uuid::Uuid::new_v4().as_u64_pair().0, ..tuning }
}

fn turn_until(volume: &mut LogVolume, clock: WallClock, is_done: impl Fn(&LogVolume) -> bool) {
    let mut replies = Vec::new();
    while !is_done(volume) && !volume.has_ended() {
        if !volume.turn(clock.now(), &mut replies) {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
}

/// More threads than the machine can run at once work, but take turns.
pub fn warn_of_missing_cores(asked: usize) {
    if let Ok(there) = std::thread::available_parallelism()
        && asked > there.get()
    {
        log::warn!("--cores {asked}: the machine runs {there} threads at once, so more bring nothing");
    }
}

/// Says where clients find the volume; nobody waits for a reader of that.
pub fn announce(listen: &Listen, export: &str, bytes: u64, is_read_only: bool) -> Result<Lines> {
    let uri = listen.uri(export);
    let mut text = format!("serving {} at {uri}\n", human_bytes(bytes));
    if let Listen::Unix(path) = listen
        && path.as_os_str().len() > SOCKET_PATH_BYTES_MAX
        && let (Some(folder), Some(name)) = (path.parent(), path.file_name())
    {
        text += &format!(
            "  the socket's path is longer than most clients can take: run them in {}, with socket={}\n",
            folder.display(),
            name.to_string_lossy()
        );
    }
    let job = match is_read_only {
        true => "--name=read --rw=randread",
        false => "--name=verify --rw=randwrite --verify=crc32c --verify_state_save=0",
    };
    text += &format!(
        "  nbdinfo '{uri}'\n  fio --ioengine=nbd --uri='{uri}' --bs=4k --iodepth=64 --size=256m {job}\n"
    );
    let lines = Lines::start(std::io::stdout()).context("the thread that writes to stdout")?;
    lines.say(text.into_bytes());
    supervisor::say_ready();
    Ok(lines)
}

fn not_a_question(line: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "`{line}` is not a question: ask `status`, `fail N`, `replace N [--force[=UUID]] [--identity-journal \"PATH\"] [PATH]`, `re-add N PATH`, `rebuild-rate MIB|- [MIB|-]`, \
         `scrub MIB|- [repair]`, `scrub-stop`, `add-spare [--force[=UUID]] [--identity-journal \"PATH\"] [PATH]`, `remove-spare PATH`, `exports`, `export JSON`, \
         `unexport JSON` or `stop`"
    )
}

/// Counters that outlive the process.
struct SavedCounters {
    lifetime: LifetimeCounters,
    path: PathBuf,
    saved_at: Instant,
}

/// Rebuilds and scrubs, as of the last turn.
#[derive(Default)]
struct Progress {
    rebuild_speed: Speed,
    /// Drive that was being rebuilt.
    rebuilding: Option<DriveIndex>,
    scrub_speed: Speed,
    /// Set when a scrub was running.
    was_scrubbing: bool,
}

/// Spares that wait for a member to fail.
struct Spares {
    /// Time at which spares are looked at again, because one is needed.
    due: Option<Instant>,
    called_at: Instant,
    /// Spares that could not be used.
    refused: Vec<uuid::Uuid>,
}

/// Damage that the log has named.
#[derive(Default)]
struct DamageWords {
    /// Damaged blocks by drive.
    named: Vec<u64>,
    /// Damaged blocks of all drives.
    blocks: u64,
    /// Time of the last line.
    at: Option<Instant>,
}

/// The volume with what an operator may ask of it.
struct ServedArray {
    directory: Directory,
    volume: LogVolume,
    counters: SavedCounters,
    clocks: DriveClocks,
    /// Way of serving drives that come later.
    hosting: Hosting,
    watch: DriveWatch,
    /// Drive that was away and comes back.
    returning: Returning,
    /// Drives that the mount left out because they are older than what the others know of them.
    older_copies: Vec<OlderCopy>,
    /// Handle that ends the service when it is asked to.
    stop: StopHandle,
    exports: ServedExports,
    progress: Progress,
    spares: Spares,
    damage: DamageWords,
    /// Drives that came while the array is served.
    newcomers: BTreeSet<DriveIndex>,
    /// Time of the last turn.
    now: Instant,
}

impl ServedArray {
    /// So that the next start reads next to nothing. It does without when this takes too long.
    fn write_last_checkpoint(&mut self, clock: WallClock) {
        self.volume.ask_for_checkpoint();
        let due = clock.now() + LAST_CHECKPOINT_MAX;
        turn_until(&mut self.volume, clock, |volume| {
            !volume.engine.is_writing_checkpoint() || clock.now() >= due
        });
    }

    fn save_counters(&self) {
        let engine = &self.volume.engine;
        let total = self.counters.lifetime.plus(engine.counters(), &engine.drive_damage());
        if let Err(error) = total.save(&self.counters.path) {
            log::warn!("{}: {error}", self.counters.path.display());
        }
    }

    fn answer(&mut self, now: Instant, line: &str) -> Result<String> {
        let (question, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        match question {
            "status" => Ok(serde_json::to_string(&self.status(now))?),
            "fail" => {
                let drive: u8 = rest.parse().context("the drive's number")?;
                status::check_can_fail(&self.volume.engine.status(), drive, false)?;
                self.volume.fail_member(DriveIndex(drive));
                self.returning.lookout.dismiss(usize::from(drive));
                log::warn!("drive {drive} was marked failed");
                Ok("{}".to_owned())
            }
            "rebuild-rate" => {
                let rates = rates::parse(rest)?;
                self.volume.set_rebuild_rates(rates);
                log::info!("rebuilds write {} from now on", rates::in_words(rates));
                Ok("{}".to_owned())
            }
            "scrub" => scrub::start(&mut self.volume, rest).map(|()| "{}".to_owned()),
            "scrub-stop" => scrub::stop(&mut self.volume).map(|()| "{}".to_owned()),
            "stop" => {
                log::info!("stopping, as asked");
                self.stop.request();
                Ok(serde_json::json!({ "pid": std::process::id() }).to_string())
            }
            "remove-spare" => {
                let removed = spare::take_away(&mut self.directory, Path::new(rest))?;
                log::info!("{} is no spare any more", removed.path.display());
                Ok(serde_json::to_string(&removed)?)
            }
            "add-spare" => {
                let added =
                    spare::add(&mut self.directory, &Seek::parse(rest)?, self.volume.engine.geometry())?;
                log::info!("{} is a spare", added.path.display());
                Ok(serde_json::to_string(&added)?)
            }
            "replace" => Ok(serde_json::to_string(&self.replace(now, rest)?)?),
            "re-add" => Ok(serde_json::to_string(&self.re_add(now, rest)?)?),
            _ => {
                let (exports, directory) = (&mut self.exports, &mut self.directory);
                let record = |list: &ExportList| {
                    directory.file.export = list.clone();
                    directory.save()
                };
                exports.answer(question, rest, record).unwrap_or_else(|| Err(not_a_question(line)))
            }
        }
    }

    fn status(&mut self, now: Instant) -> StatusReport {
        let counters = self.volume.engine.counters();
        let total = self.counters.lifetime.plus(counters, &self.volume.engine.drive_damage());
        let bytes = counters.blocks_rebuilt * BLOCK_BYTES_U64;
        let served = Served {
            rebuild_bytes_per_second: self.progress.rebuild_speed.bytes_per_second(now, bytes),
            rebuild_rates: self.volume.engine.rebuild_rates(),
            rebuild_due: self.next_spare().is_some(),
            re_added: self.returning.re_added,
            scrub: self.scrub_report(now),
            write_area: write_area::choice(&self.volume.engine, &self.volume.drives, &self.returning.tuning),
        };
        let mut report = status::report(&self.directory, &self.volume.engine.status(), &total, Some(served));
        for member in &mut report.members {
            member.trouble = self.watch.trouble(now, member.index);
            let blame = self.volume.engine.blamed_for(DriveIndex::at(member.index));
            let own = blame.filter(|blame| *blame != Blame::Told).map(|blame| blame.to_string());
            member.problem = member.problem.take().or(own);
            member.hiccups = self.watch.hiccups(member.index);
            let condition = self.volume.condition(now, DriveIndex::at(member.index));
            member.identity_cache = condition.and_then(|condition| condition.identities).map(Into::into);
            member.kernel_calls = condition.map(|condition| condition.calls).and_then(KernelCallsReport::of);
            if self.watch.is_stalled(member.index) && member.state != "failed" {
                "stalled".clone_into(&mut member.state);
            }
        }
        status::name_older_copies(&mut report, &self.older_copies);
        report.log_lines_lost = lines::lost_count();
        report
    }

    fn scrub_report(&self, now: Instant) -> Option<ScrubReport> {
        let speed = scrub::bytes_read(&self.volume)
            .and_then(|bytes| self.progress.scrub_speed.bytes_per_second(now, bytes));
        let engine = &self.volume.engine;
        let is_out = |drive: &usize| engine.member_state(DriveIndex::at(*drive)) == MemberState::Failed;
        let lost = |drive| self.watch.trouble(now, drive).and_then(|trouble| trouble.lost);
        let drives = 0..self.directory.file.drive.len();
        let out = drives.filter(is_out).map(|drive| DriveOut::new(drive, lost(drive)));
        Some(ScrubReport::new(&engine.scrub_status()?, engine.scrubbed_damage(), speed, out.collect()))
    }

    /// Names the drives on which damage was found since the last line about them, and keeps the count over whatever
    /// becomes of the server.
    fn watch_damage(&mut self, now: Instant) {
        let blocks = self.volume.engine.damaged_blocks();
        let is_due = self.damage.at.is_none_or(|at| now.since(at) >= DAMAGE_NAMED_EVERY);
        if blocks == self.damage.blocks || !is_due {
            return;
        }
        let damage = self.volume.engine.drive_damage();
        self.damage.named.resize(damage.len(), 0);
        for ((drive, damage), named) in damage.iter().enumerate().zip(&mut self.damage.named) {
            let blocks = damage.blocks();
            if let Some(last) = damage.last.filter(|_| blocks > *named) {
                let found = blocks - *named;
                log::warn!(
                    "drive {drive} is damaged: {found} blocks since it was last said, the last in {last}"
                );
            }
            *named = blocks;
        }
        self.damage.blocks = blocks;
        self.damage.at = Some(now);
        self.save_counters();
    }

    /// Measures the scrub's speed, and says what became of it.
    fn watch_scrub(&mut self, now: Instant) {
        let is_scrubbing = self.volume.engine.is_scrubbing();
        if !is_scrubbing && !self.progress.was_scrubbing {
            return;
        }
        self.progress.scrub_speed.note(now, scrub::bytes_read(&self.volume));
        if std::mem::replace(&mut self.progress.was_scrubbing, is_scrubbing)
            && !is_scrubbing
            && let Some(report) = self.scrub_report(now)
        {
            match report.is_clean() {
                true => log::info!("scrub: {report}"),
                false => log::warn!("scrub: {report}"),
            }
        }
    }

    /// `replace N [PATH]`: an empty drive for one that failed.
    fn replace(&mut self, now: Instant, rest: &str) -> Result<Attempt<Replaced>> {
        let (drive, sought) = rest.split_once(' ').unwrap_or((rest, ""));
        let drive: u8 = drive.parse().context("the drive's number")?;
        self.install(now, drive, &Seek::parse(sought)?)
    }

    fn install(&mut self, now: Instant, drive: u8, seek: &Seek) -> Result<Attempt<Replaced>> {
        let place = (drive, seek);
        let (attempt, pace) =
            replace::install(&mut self.directory, &mut self.volume, now, place, Some(&self.hosting))?;
        if let Attempt::Done(replaced) = &attempt {
            log::info!("drive {drive} is now {} and is being rebuilt", replaced.path.display());
            // With a profile, what a disk has flushed is heard by nobody.
            if pace.is_some() {
                self.newcomers.insert(DriveIndex(drive));
            }
            pace.into_iter().for_each(|pace| self.clocks.add(pace));
        }
        Ok(attempt)
    }

    /// The drive that has failed, and the spare that is to take its place.
    fn next_spare(&self) -> Option<(DriveIndex, &DriveTable)> {
        let engine = &self.volume.engine;
        let failed = engine.failed_member().filter(|_| engine.rebuilding().is_none())?;
        Some((failed, spare::next(&self.directory.file.spare, &self.spares.refused)?))
    }

    /// Gives the place of a drive that has failed to a spare, if there is one.
    fn call_spare(&mut self, now: Instant) {
        self.spares.due = None;
        if self.returning.is_settling() {
            return;
        }
        let Some((failed, spare)) = self.next_spare() else { return };
        let (uuid, path) = (spare.uuid, spare.path.clone());
        self.spares.due = Some(now + CALL_SPARE_EVERY);
        if now.since(self.spares.called_at) < CALL_SPARE_EVERY {
            return;
        }
        self.spares.called_at = now;
        match self.install(now, failed.0, &Seek::at(&path)) {
            Ok(Attempt::Busy) => {}
            Ok(Attempt::Done(_)) => log::warn!("drive {failed} has failed; a spare takes its place"),
            Err(error) => {
                log::error!("spare {}: {}", path.display(), exit::in_words(&error));
                self.spares.refused.push(uuid);
            }
        }
    }

    /// Measures the rebuild's speed, and says when it is over.
    fn watch_rebuild(&mut self, now: Instant) {
        let rebuilding = self.volume.engine.rebuilding();
        let bytes = self.volume.engine.counters().blocks_rebuilt * BLOCK_BYTES_U64;
        self.progress.rebuild_speed.note(now, rebuilding.map(|_| bytes));
        let before = std::mem::replace(&mut self.progress.rebuilding, rebuilding);
        if let Some(drive) = before.filter(|drive| rebuilding != Some(*drive)) {
            match self.volume.engine.member_state(drive) {
                MemberState::Active => {
                    let re_added = self.returning.re_added.filter(|own| own.member == drive.index());
                    let kept = re_added.map_or_else(String::new, |own| {
                        format!(", {} were there", human_bytes(own.bytes_whole))
                    });
                    log::info!("drive {drive} is rebuilt: {} were written{kept}", human_bytes(bytes));
                }
                MemberState::Failed | MemberState::Rebuilding => {
                    log::warn!("drive {drive} failed before it was rebuilt");
                }
            }
        }
    }

    /// Writes down where drives are that were away.
    fn follow_moved(&mut self) {
        let mut has_moved = false;
        for (uuid, path) in self.hosting.take_moved() {
            let Directory { path: dir, file } = &mut self.directory;
            if let Some(table) = file.drive.iter_mut().find(|table| table.uuid == uuid) {
                let path = within(dir, &path);
                has_moved |= table.path != path;
                table.path = path;
            }
        }
        if has_moved && let Err(error) = self.directory.save() {
            log::warn!("array.toml is not up to date, which does no harm: {}", exit::in_words(&error));
        }
    }

    /// The loop has no descriptor of a drive that came later: it is looked at while it has something to do.
    fn newcomers_deadline(&self) -> Option<Instant> {
        let is_busy = |drive: &DriveIndex| self.volume.commands_in_flight(*drive) > 0;
        self.newcomers.iter().any(is_busy).then(|| self.now + drive_clocks::LOOK_EVERY)
    }
}

impl Volume for ServedArray {
    fn blocks(&self) -> u64 {
        self.volume.engine.blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        self.volume.frames()
    }

    fn client_frames_available(&self) -> usize {
        self.volume.engine.client_frames_available()
    }

    fn submit(&mut self, now: Instant, request: Request) {
        if self.returning.is_settling() {
            return self.returning.hold(request);
        }
        self.volume.submit(now, request);
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        if now.since(self.counters.saved_at) >= COUNTERS_EVERY {
            self.counters.saved_at = now;
            self.save_counters();
        }
        self.clocks.check(now);
        self.watch_rebuild(now);
        self.watch_scrub(now);
        self.watch_damage(now);
        self.call_spare(now);
        self.advance_re_add(now);
        let directory = &self.directory;
        let path_of = |drive: usize| directory.path.join(&directory.file.drive[drive].path);
        if self.watch.look(now, &mut self.volume, path_of) {
            self.look_for_lost(now);
            self.follow_moved();
        }
        self.now = now;
        let is_busy = self.volume.turn(now, replies);
        fencing::say_refusals(&mut self.volume, &self.directory);
        is_busy
    }

    fn next_deadline(&self) -> Option<Instant> {
        let look = Some(self.watch.next_look());
        let dues = [self.volume.next_deadline(), self.newcomers_deadline(), self.spares.due, look];
        dues.into_iter().flatten().min()
    }

    fn awaits_drive(&self) -> bool {
        self.volume.awaits_drive()
    }

    fn has_ended(&self) -> bool {
        self.volume.has_ended()
    }
}

impl Controlled for ServedArray {
    fn control(&mut self, now: Instant, line: &str) -> String {
        match self.answer(now, line) {
            Ok(answer) => answer,
            Err(error) => {
                let exit = Exit::of(&error).number();
                serde_json::json!({ "error": exit::in_words(&error), "exit": exit }).to_string()
            }
        }
    }
}
