//! A served array of md with what an operator may ask of it.

use super::report::{Identity, Report};
use super::watch::Watch;
use crate::exit::{self, Exit};
use crate::progress::Speed;
use anyhow::Result;
use array::inplace::volume::InPlaceVolume;
use array::request::{Controlled, Reply, Request, Volume};
use base::frame::FramePool;
use base::time::Instant;
use block::md::{Role, SECTOR_BYTES_U64};
use server::StopHandle;

/// See the module.
pub struct ServedMd {
    /// Engine with its devices.
    pub volume: InPlaceVolume,
    /// What the array is.
    pub identity: Identity,
    /// Paths of members by role.
    pub paths: Vec<Option<String>>,
    /// Watch over the members.
    pub watch: Watch,
    /// Handle that ends the service when it is asked to.
    pub stop: StopHandle,
    /// Speed of the resync.
    pub resync: ResyncLog,
}

/// How far the resync was when it was last looked at.
#[derive(Default)]
pub struct ResyncLog {
    speed: Speed,
    goes_on: bool,
}

impl ServedMd {
    fn answer(&mut self, now: Instant, line: &str) -> Result<String> {
        let (question, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        match question {
            "status" => Ok(serde_json::to_string(&self.report(now))?),
            "fail" => {
                let role = self.member(rest)?;
                self.volume.engine.fail_member(role);
                log::warn!("{} was marked failed", self.name(role));
                Ok(serde_json::json!({ "role": role.0 }).to_string())
            }
            "stop" => {
                log::info!("stopping, as asked");
                self.stop.request();
                Ok(serde_json::json!({ "pid": std::process::id() }).to_string())
            }
            _ => Err(Exit::Usage.error(format!(
                "`{question}` is no question that the server of an md array answers: ask `status`, `fail MEMBER` or `stop`"
            ))),
        }
    }

    /// A member by its path or role, which has not failed and can be done without.
    fn member(&self, text: &str) -> Result<Role> {
        let is_path = |path: &Option<String>| path.as_deref() == Some(text);
        let by_path = self.paths.iter().position(is_path).and_then(|index| u16::try_from(index).ok());
        let number = text.parse().ok().filter(|role: &u16| usize::from(*role) < self.paths.len());
        let Some(role) = by_path.or(number).map(Role) else {
            return Err(Exit::Absent.error(format!("`{text}` is neither a role nor the path of a member")));
        };
        let status = self.volume.engine.status();
        if status.missing.contains(&role) {
            return Err(Exit::Usage.error(format!("{} has failed already", self.name(role))));
        }
        if !self.volume.engine.can_lose(1) {
            let said = "the array cannot do without another member: nothing was changed";
            return Err(Exit::Usage.error(said));
        }
        Ok(role)
    }

    fn report(&self, now: Instant) -> Report {
        let status = self.volume.engine.status();
        let done = (status.resync_total - status.resync_left.min(status.resync_total)) * SECTOR_BYTES_U64;
        let speed = self.resync.speed.bytes_per_second(now, done);
        let mut report = Report::of_service(&self.identity, &status, &self.paths, speed);
        for member in &mut report.members {
            member.trouble = self.watch.trouble(now, Role(member.role));
        }
        report
    }

    fn watch_resync(&mut self, now: Instant) {
        let engine = &self.volume.engine;
        let goes_on = engine.is_resyncing();
        if !goes_on && !self.resync.goes_on {
            return;
        }
        let status = engine.status();
        let done = (status.resync_total - status.resync_left.min(status.resync_total)) * SECTOR_BYTES_U64;
        self.resync.speed.note(now, goes_on.then_some(done));
        match (std::mem::replace(&mut self.resync.goes_on, goes_on), goes_on) {
            (false, true) => log::info!("parities are resynced beside what clients do"),
            (true, false) if status.resync_left == 0 => log::info!("resync: done, all parities are right"),
            (true, false) => log::warn!("resync: ended before all parities are right"),
            (true, true) | (false, false) => {}
        }
    }

    /// A member as the log names it.
    fn name(&self, role: Role) -> String {
        name_of(&self.paths, role)
    }
}

fn name_of(paths: &[Option<String>], role: Role) -> String {
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
            let paths = &self.paths;
            self.watch.look(now, &mut self.volume, |role| name_of(paths, role));
            self.watch_resync(now);
        }
        self.volume.turn(now, replies)
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
