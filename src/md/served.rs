//! A served array of md with what an operator may ask of it.

use super::description::Description;
use super::doubt::DoubtReport;
use super::grow;
use super::report::{Identity, Report};
use super::scrub;
use super::shards::Bells;
use super::watch::Watch;
use crate::exit::{self, Exit};
use crate::exports::served::ServedExports;
use crate::exports::table::ExportList;
use crate::kernel_calls::KernelCallsReport;
use crate::progress::Speed;
use crate::rates;
use anyhow::Result;
use array::inplace::scrub::ScrubState;
use array::inplace::status::Status;
use array::inplace::volume::InPlaceVolume;
use array::request::{Controlled, Reply, Request, Volume};
use base::frame::FramePool;
use base::time::Instant;
use block::md::doubt::Doubt;
use block::md::policy::word;
use block::md::{Role, SECTOR_BYTES_U64};
use server::StopHandle;
use std::collections::BTreeMap;

/// See the module.
pub struct ServedMd {
    /// Engine with its devices.
    pub volume: InPlaceVolume,
    /// Identity of the array.
    pub identity: Identity,
    /// Paths of members by role.
    pub paths: Vec<Option<String>>,
    /// Paths of devices that are to replace members, by their places.
    pub replacements: BTreeMap<Role, String>,
    /// Path of the journal.
    pub journal: Option<String>,
    /// Blocks that may be wrong, for an operator took parities for right.
    pub in_doubt: Vec<Doubt>,
    /// Watch over the members.
    pub watch: Watch,
    /// Bells that members ring which have answers.
    pub bells: Bells,
    /// Handle that ends the service when it is asked to.
    pub stop: StopHandle,
    /// Exports of the array.
    pub exports: ServedExports,
    /// Resync or scrub that goes on.
    pub sweep: SweepLog,
}

/// Questions that change members or what is known of them.
const CHANGES: [&str; 13] = [
    "fail",
    "scrub",
    "scrub-stop",
    "grow",
    "can-add",
    "add",
    "can-replace",
    "replace",
    "replace-with",
    "re-add",
    "spare-number",
    "add-spare",
    "remove",
];

/// Work that goes over all strips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweep {
    Resync,
    Rebuild,
    Replace,
    Scrub,
}

impl Sweep {
    fn of(status: &Status) -> Option<Sweep> {
        let is_scrubbing = status.scrub.is_some_and(|scrub| scrub.state == ScrubState::Running);
        match status {
            Status { is_resyncing: true, .. } => Some(Sweep::Resync),
            Status { rebuilding, .. } if !rebuilding.is_empty() => Some(Sweep::Rebuild),
            Status { replacing, .. } if !replacing.is_empty() => Some(Sweep::Replace),
            _ => is_scrubbing.then_some(Sweep::Scrub),
        }
    }
}

/// Bytes of one member that the sweep under way is through with.
fn swept_bytes(status: &Status) -> u64 {
    let resynced = status.resync_total - status.resync_left.min(status.resync_total);
    let scrubbed = status.scrub.map_or(0, |scrub| scrub.sectors_done);
    let rebuilt = status.rebuilding.iter().map(|member| member.sectors_done);
    let copied = status.replacing.iter().map(|member| member.sectors_done);
    let rebuilt = rebuilt.chain(copied).min();
    let sectors = if status.is_resyncing { resynced } else { rebuilt.unwrap_or(scrubbed) };
    sectors * SECTOR_BYTES_U64
}

/// Sweep as of the last look.
#[derive(Default)]
pub struct SweepLog {
    speed: Speed,
    kind: Option<Sweep>,
}

impl ServedMd {
    fn answer(&mut self, now: Instant, line: &str) -> Result<String> {
        let (question, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        if CHANGES.contains(&question) && self.volume.engine.status().is_read_only {
            let said = "the array is served read-only, and nothing of it is changed: serve it without --readonly first";
            return Err(Exit::Usage.error(said));
        }
        match question {
            "status" => Ok(serde_json::to_string(&self.report(now))?),
            "fail" => {
                let role = self.member(rest)?;
                self.volume.engine.core_mut().fail_member(role);
                log::warn!("{} was marked failed", self.name(role));
                Ok(serde_json::json!({ "role": role.0 }).to_string())
            }
            "scrub" => {
                scrub::start(&mut self.volume.engine, self.paths.len(), rest).map(|()| "{}".to_owned())
            }
            "scrub-stop" => scrub::stop(&mut self.volume.engine).map(|()| "{}".to_owned()),
            "grow" => grow::begin(&mut self.volume, rest).map(|()| "{}".to_owned()),
            "policy" => grow::said(&self.volume.engine),
            "can-add" => self.can_add(rest),
            "add" => self.add(rest),
            "can-replace" => self.can_replace(rest),
            "replace" => self.replace(rest),
            "replace-with" => self.replace_with(rest),
            "re-add" => self.re_add(rest),
            "spare-number" => Ok(self.spare_number()),
            "add-spare" => self.add_spare(rest),
            "remove" => self.remove(rest),
            "rebuild-rate" => {
                self.volume.engine.core_mut().set_rates(rates::parse(rest)?);
                Ok("{}".to_owned())
            }
            "stop" => {
                log::info!("stopping, as asked");
                self.stop.request();
                Ok(serde_json::json!({ "pid": std::process::id() }).to_string())
            }
            _ => {
                let dir = self.exports.dir().to_owned();
                let record = |list: &ExportList| Description::record_exports(&dir, list);
                self.exports.answer(question, rest, record).unwrap_or_else(|| Err(not_a_question(question)))
            }
        }
    }

    /// Role of a path, or a role by its number.
    pub fn role_by_name(&self, text: &str) -> Option<Role> {
        let is_path = |path: &Option<String>| path.as_deref() == Some(text);
        let by_path = self.paths.iter().position(is_path).and_then(|index| u16::try_from(index).ok());
        let number = text.parse().ok().filter(|role: &u16| usize::from(*role) < self.paths.len());
        let replacement = self.replacements.iter().find(|(_, path)| *path == text).map(|(place, _)| *place);
        by_path.or(number).map(Role).or(replacement)
    }

    /// A member by its path or role, which has not failed and can be done without.
    fn member(&self, text: &str) -> Result<Role> {
        let Some(role) = self.role_by_name(text) else {
            return Err(Exit::Absent.error(format!("`{text}` is neither a role nor the path of a member")));
        };
        let status = self.volume.engine.status();
        if status.missing.contains(&role) {
            return Err(Exit::Usage.error(format!("{} has failed already", self.name(role))));
        }
        if self.volume.engine.core().is_whole(role) && !self.volume.engine.core().can_lose(1) {
            let said = "the array cannot do without another member: nothing was changed";
            return Err(Exit::Usage.error(said));
        }
        Ok(role)
    }

    fn report(&self, now: Instant) -> Report {
        let status = self.volume.engine.status();
        let speed = self.sweep.speed.bytes_per_second(now, swept_bytes(&status));
        let mut report = Report::of_service(&self.identity, &status, &self.paths, speed);
        for member in &mut report.members {
            let place = Role(member.role);
            member.trouble = self.watch.trouble(now, place);
            member.kernel_calls = KernelCallsReport::of(self.watch.calls(place));
            if let Some(replacement) = &mut member.replacement {
                replacement.path = self.replacements.get(&place.replacement()).cloned();
                replacement.trouble = self.watch.trouble(now, place.replacement());
            }
        }
        if let Some(journal) = &mut report.journal {
            journal.path.clone_from(&self.journal);
            journal.trouble =
                u16::try_from(self.paths.len()).ok().and_then(|role| self.watch.trouble(now, Role(role)));
        }
        report.upkeep.in_doubt = DoubtReport::of(&self.in_doubt);
        word(self.volume.engine.core().policy()).clone_into(&mut report.identity.policy);
        report.spares = self.volume.spares.names().map(str::to_owned).collect();
        report
    }

    /// Measures the speed of resync and scrub, and says when one begins or ends.
    fn watch_sweeps(&mut self, now: Instant) {
        let status = self.volume.engine.status();
        let sweep = Sweep::of(&status);
        let before = std::mem::replace(&mut self.sweep.kind, sweep);
        if before != sweep {
            self.sweep.speed.note(now, None);
            match before {
                None => {}
                Some(Sweep::Resync) if status.resync_left == 0 => {
                    log::info!("resync: done, all parities are right");
                }
                Some(Sweep::Resync) => log::warn!("resync: ended before all parities are right"),
                Some(Sweep::Rebuild) if status.missing.is_empty() => {
                    log::info!("rebuild: done, all members are whole");
                }
                Some(Sweep::Rebuild) => log::warn!("rebuild: ended, and members are missing"),
                Some(Sweep::Replace) => {}
                Some(Sweep::Scrub) => {
                    if let Some(scrub) =
                        Report::of_service(&self.identity, &status, &self.paths, None).upkeep.scrub
                    {
                        let is_well = scrub.exit() == Exit::Well;
                        log::log!(
                            if is_well { log::Level::Info } else { log::Level::Warn },
                            "scrub: {scrub}"
                        );
                    }
                }
            }
            if sweep == Some(Sweep::Rebuild) {
                log::info!("members are rebuilt beside what clients do");
            }
            if sweep == Some(Sweep::Resync) {
                log::info!("parities are resynced beside what clients do");
            }
        }
        self.sweep.speed.note(now, sweep.map(|_| swept_bytes(&status)));
    }

    /// A member as the log names it.
    pub fn name(&self, role: Role) -> String {
        name_of(&self.paths, (&self.replacements, self.journal.as_deref()), role)
    }
}

fn not_a_question(question: &str) -> anyhow::Error {
    Exit::Usage.error(format!(
        "`{question}` is no question that the server of an md array answers: ask `status`, `fail MEMBER`, \
         `add ROLE|- UUID PATH`, `can-add ROLE|- SECTORS`, `can-replace SECTORS|- MEMBER`, `replace ROLE [SPARE]`, \
         `replace-with ROLE UUID PATH`, `re-add PATH`, `spare-number`, `add-spare PATH`, `remove MEMBER`, \
         `rebuild-rate MIB|- [MIB|-]`, `grow resync|bitmap|ppl BYTES|-`, `policy`, `scrub MIB|- [repair]`, `scrub-stop`, `exports`, \
         `export JSON`, `unexport JSON` or `stop`"
    ))
}

fn name_of(
    paths: &[Option<String>],
    (replacements, journal): (&BTreeMap<Role, String>, Option<&str>),
    role: Role,
) -> String {
    if let Some(path) = replacements.get(&role) {
        return format!("{path}, which is to replace member {}", role.of_member());
    }
    if let Some(journal) = journal.filter(|_| role.index() == paths.len()) {
        return format!("the journal ({journal})");
    }
    let path = paths.get(role.index()).and_then(Option::as_deref).unwrap_or("missing");
    format!("member {role} ({path})")
}

impl Volume for ServedMd {
    fn blocks(&self) -> u64 {
        self.volume.blocks()
    }

    fn frames(&mut self) -> &mut FramePool {
        self.volume.frames()
    }

    fn client_frames_available(&self) -> usize {
        self.volume.client_frames_available()
    }

    fn submit(&mut self, now: Instant, request: Request) {
        self.volume.submit(now, request);
    }

    fn turn(&mut self, now: Instant, replies: &mut Vec<Reply>) -> bool {
        if now >= self.watch.next_look() {
            let (paths, others) = (&self.paths, (&self.replacements, self.journal.as_deref()));
            self.watch.look(now, &mut self.volume, |role| name_of(paths, others, role));
            self.watch_sweeps(now);
        }
        let moved = self.volume.turn(now, replies);
        self.note_spares();
        self.note_replacements();
        moved
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.volume.next_deadline(), Some(self.watch.next_look())].into_iter().flatten().min()
    }
}

impl Controlled for ServedMd {
    fn control(&mut self, now: Instant, line: &str) -> String {
        self.answer(now, line).unwrap_or_else(|error| {
            let exit = Exit::of(&error).number();
            serde_json::json!({ "error": exit::in_words(&error), "exit": exit }).to_string()
        })
    }
}
