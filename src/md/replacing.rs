//! Members that are replaced while an array is served: what the server does about it.

use super::membership::role_of;
use super::served::ServedMd;
use crate::exit::Exit;
use anyhow::{Context, Result};
use array::inplace::members::Outcome;
use array::inplace::replacing::ReplaceRefused;
use block::md::create::Blank;
use block::md::{Role, Uuid};

fn refused(refused: ReplaceRefused) -> anyhow::Error {
    match refused {
        ReplaceRefused::Busy(_) | ReplaceRefused::Changing | ReplaceRefused::Stopping => {
            Exit::Busy.because(refused)
        }
        ReplaceRefused::NotWhole(_) => Exit::Degraded.because(refused),
        ReplaceRefused::NoRole(..) | ReplaceRefused::Replaced(_) | ReplaceRefused::Policy(_) => {
            Exit::Usage.because(refused)
        }
        ReplaceRefused::Broken => Exit::Failed.because(refused),
    }
}

fn usage(question: &str) -> anyhow::Error {
    Exit::Usage.error(format!(
        "`{question}` is no question: ask `can-replace SECTORS|- MEMBER`, `replace ROLE [SPARE]` or `replace-with ROLE UUID PATH`"
    ))
}

impl ServedMd {
    /// `can-replace SECTORS|- MEMBER`: whether a member would be replaced, by a device of that size; its role, and the spares there
    /// are. Nothing changes.
    pub fn can_replace(&self, rest: &str) -> Result<String> {
        let (sectors, member) = rest.split_once(' ').ok_or_else(|| usage(rest))?;
        let Some(role) = self.role_by_name(member) else {
            let said = format!("`{member}` is neither a role nor the path of a member");
            return Err(Exit::Absent.error(said));
        };
        self.volume.engine.core().can_replace(role.of_member()).map_err(refused)?;
        if sectors != "-" {
            let sectors = sectors.parse().context("the sectors of the device")?;
            self.superblock(Blank { sectors, uuid: Uuid([0; 16]) })?;
        }
        let spares: Vec<&str> = self.volume.spares.names().collect();
        Ok(serde_json::json!({ "role": role.0, "spares": spares }).to_string())
    }

    /// `replace ROLE [SPARE]`: replaces a member by a spare.
    pub fn replace(&mut self, rest: &str) -> Result<String> {
        let (role, named) = rest.split_once(' ').map_or((rest, None), |(role, name)| (role, Some(name)));
        let role = role_of(role)?;
        let Some(path) = self.volume.replace_by_spare(role, named).map_err(refused)? else {
            return Err(Exit::Usage.error(
                "no spare waits that could replace it: `zoneweave md replace --with DEVICE` names an empty device, \
                 `zoneweave md add-spare` keeps one as a spare",
            ));
        };
        self.note_replacing(role, &path);
        Ok(serde_json::json!({ "role": role.0, "path": path }).to_string())
    }

    /// `replace-with ROLE UUID PATH`: replaces a member by an empty device.
    pub fn replace_with(&mut self, rest: &str) -> Result<String> {
        let words: Vec<&str> = rest.splitn(3, ' ').collect();
        let [role, uuid, path] = words[..] else { return Err(usage(rest)) };
        let (role, uuid) = (role_of(role)?, super::words::uuid(uuid).map_err(|why| Exit::Usage.error(why))?);
        self.volume.engine.core().can_replace(role).map_err(refused)?;
        let (superblock, drive) = self.empty_drive(path, uuid)?;
        self.volume.replace_member(role, superblock, self.bells.ways(drive)?).map_err(refused)?;
        self.note_replacing(role, path);
        Ok(serde_json::json!({ "role": role.0, "path": path }).to_string())
    }

    fn note_replacing(&mut self, role: Role, path: &str) {
        log::info!("{} is copied to {path}, which replaces it when it is whole", self.name(role));
        self.replacements.insert(role.replacement(), path.to_owned());
        self.watch.note_added(role.replacement());
    }

    /// Replacements that are whole, that step in, and that failed.
    pub fn note_replacements(&mut self) {
        for (role, outcome) in self.volume.engine.core_mut().take_outcomes() {
            let before = self.name(role);
            self.watch.note_gone(role.replacement());
            let Some(path) = self.replacements.remove(&role.replacement()) else { continue };
            match outcome {
                Outcome::Completed => log::info!("{before} is replaced by {path}, and is no member any more"),
                Outcome::SteppedIn => {
                    log::warn!(
                        "{before} has failed: {path}, which was to replace it, is rebuilt in its role"
                    );
                }
                Outcome::Failed => {
                    log::error!("{path} has failed, which was to replace {before}: the member goes on");
                    continue;
                }
            }
            self.paths[role.index()] = Some(path);
            self.watch.note_added(role);
        }
    }
}
