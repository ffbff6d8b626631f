//! Members judged together: whether they make an array that can be served, as it says in the superblocks.
//!
//! The newest superblock decides who belongs to the array and what role each device has: device numbers index its roles.
//! Event counts one apart are the same, members that are further behind missed writes and are left out.
//!
//! *Replacements* of members that work are another matter while their array is not clean. md reads them where they count, though what
//! was being written as it was cut off may lie otherwise on the member; and as it copies, it checks parities, and writes what that left
//! in memory, zeros, to the replacement. What is written here is kept from that: as long as the array is not clean, the superblock of
//! the replacement is [`REPLACEMENT_BEHIND`] updates behind, so that md leaves it out. One that is not was left by md.

use super::member::Member;
use super::ppl::verdict;
use super::refusal::{Fault, Note, Refusal};
use super::superblock::{CLEAN, RoleEntry, SUPERBLOCK_SECTORS, Superblock, feature};
use super::{MEMBERS_MAX, Role, SECTOR_BYTES_U64, Uuid, names};
use crate::md::refusal;
use std::fmt::Write as _;

/// Updates that a replacement of an array that is not clean is behind the others. It is written before them: between both it is behind
/// by one less, and has to be by two.
pub const REPLACEMENT_BEHIND: u64 = 3;

/// Manner in which an array keeps parity right over a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All of it is resynced.
    Resync,
    /// Regions named by the bitmap are.
    Bitmap,
    /// Partial parity log.
    Ppl,
    /// Journal.
    Journal,
}

/// Part that a device has in its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Whole member.
    Active(Role),
    /// Member that is whole below a sector of its data.
    Recovering(Role, u64),
    /// Copy in the making of a member that still works, whole below a sector of its data.
    Replacement(Role, u64),
    /// Journal device.
    Journal,
    /// Spare.
    Spare,
    /// Left out: it missed writes, or the others gave it up.
    Stale,
}

/// Array as its members show it.
#[derive(Clone, Debug)]
pub struct Assembly<'a> {
    /// Array UUID.
    pub array: Uuid,
    /// Devices with their parts, in the order they were given.
    pub devices: Vec<(&'a Member, Part)>,
    /// Device with the newest superblock, an index into the devices.
    pub newest: usize,
    /// Roles without a whole member.
    pub missing: Vec<Role>,
    /// Reasons why it is not served; empty when it is.
    pub refusals: Vec<Refusal>,
    /// Notes for the operator, which refuse nothing.
    pub notes: Vec<Note>,
    /// An operator takes parities that are in doubt for right.
    pub is_forced: bool,
}

impl Assembly<'_> {
    /// Newest superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.devices[self.newest].0.superblock()
    }

    /// True when it can be served.
    #[must_use]
    pub fn can_be_served(&self) -> bool {
        self.refusals.is_empty()
    }

    /// True when nothing speaks against it but that a member is missing beside writes that were cut off: it is not served, but what
    /// its members say can be read, and what of that is in doubt is known.
    #[must_use]
    pub fn is_only_in_doubt(&self) -> bool {
        let is_doubt = |refusal: &Refusal| matches!(refusal, Refusal::DirtyDegraded(_));
        !self.refusals.is_empty() && self.refusals.iter().all(is_doubt)
    }

    /// Takes parities that are in doubt for right, for an operator says so: what missing members had is then what they say. Logs are
    /// applied before, as ever.
    ///
    /// # Panics
    /// When anything but what is in doubt speaks against serving the array.
    pub fn force(&mut self) {
        assert!(self.is_only_in_doubt() || self.can_be_served(), "{}", self.in_words());
        self.refusals.clear();
        self.is_forced = true;
    }

    /// True when it is served without all of its members.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Roles that nobody has, not even a member that is being recovered.
    #[must_use]
    pub fn absent(&self) -> Vec<Role> {
        let is_recovering = |role: &Role| {
            self.devices.iter().any(|(_, part)| matches!(part, Part::Recovering(other, _) if other == role))
        };
        self.missing.iter().copied().filter(|role| !is_recovering(role)).collect()
    }

    /// Roles whose member is not there, and whose replacement is all that they have.
    #[must_use]
    pub fn forsaken(&self) -> Vec<Role> {
        let alone = |(member, part): &(&Member, Part)| match part {
            Part::Recovering(role, _) if member.superblock().has(feature::REPLACEMENT) => Some(*role),
            _ => None,
        };
        self.devices.iter().filter_map(alone).collect()
    }

    /// Manner in which it keeps parity right.
    #[must_use]
    pub fn policy(&self) -> Policy {
        policy(self.superblock())
    }

    /// Judgement in one line.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut text = if self.can_be_served() { self.service() } else { "cannot be served".to_owned() };
        let mut between = ": ";
        for refusal in &self.refusals {
            write!(text, "{between}{refusal}").expect("writing to a string");
            between = "; ";
        }
        for note in &self.notes {
            write!(text, "; {note}").expect("writing to a string");
        }
        text
    }

    fn service(&self) -> String {
        let superblock = self.superblock();
        let shape = superblock.shape;
        let whole = usize::try_from(shape.members).map_or(0, |members| members - self.missing.len());
        let layout =
            names::layout(shape.level, shape.layout).map_or(String::new(), |name| format!(" {name}"));
        let state = match (superblock.is_clean(), self.policy()) {
            (true, _) => "clean".to_owned(),
            (false, _) if self.is_forced && self.is_degraded() => {
                "dirty, and its parities are taken for right".to_owned()
            }
            (false, Policy::Resync) => match superblock.state.resync_offset {
                0 => "dirty, all of it is resynced".to_owned(),
                offset => format!("dirty, resynced from sector {offset} on"),
            },
            (false, Policy::Bitmap) => match self.regions_set() {
                Some((set, regions)) => format!("dirty, {set} of {regions} regions are resynced"),
                None => "dirty, all of it is resynced".to_owned(),
            },
            (false, Policy::Ppl) => match verdict::unsynced_from(self) {
                None => "dirty, its partial parity log is applied".to_owned(),
                Some(0) => "dirty, its partial parity log is applied, then all of it is resynced".to_owned(),
                Some(offset) => {
                    format!(
                        "dirty, its partial parity log is applied, then it is resynced from sector {offset} on"
                    )
                }
            },
            (false, Policy::Journal) => match journal_unsynced_from(self) {
                None => "dirty, its journal is replayed".to_owned(),
                Some(0) => "dirty, its journal is replayed, then all of it is resynced".to_owned(),
                Some(offset) => {
                    format!("dirty, its journal is replayed, then it is resynced from sector {offset} on")
                }
            },
        };
        let missing = if self.is_degraded() {
            format!(" (degraded: without {})", refusal::members(&self.missing))
        } else {
            String::new()
        };
        format!(
            "can be served: RAID-{}{layout}, {whole} of {} members{missing}, {state}",
            shape.level, shape.members
        )
    }

    /// Regions that the bitmap names, and all regions; `None` without one that counts.
    #[must_use]
    pub fn regions_set(&self) -> Option<(usize, u64)> {
        let bitmap = self.devices[self.newest].0.bitmap.as_ref()?.as_ref().ok()?;
        let counts = !bitmap.head.is_void(self.superblock().state.events);
        counts.then(|| (bitmap.bits.set().count(), bitmap.bits.regions()))
    }
}

/// Sector of the members from which on parities of an array with a journal are in doubt once that is replayed; `None` where none
/// are.
///
/// md marks such arrays dirty while it writes, if it did not find them clean at its start, and an array whose first resync is not
/// through in the same way. With all members it is resynced, as md does. Without some the mark is taken for the former, for
/// the journal has all that was written; of an offset behind the start that cannot be, nor of a mark of ours: here arrays with
/// parities that are right are clean at all times.
#[must_use]
pub fn journal_unsynced_from(assembly: &Assembly<'_>) -> Option<u64> {
    let superblock = assembly.superblock();
    match superblock.state.resync_offset {
        CLEAN => None,
        0 if superblock.mark() == 0 && assembly.is_degraded() => None,
        offset => Some(offset),
    }
}

/// Manner in which a superblock says that parities are kept right.
#[must_use]
pub fn policy(superblock: &Superblock) -> Policy {
    if superblock.has(feature::JOURNAL) {
        Policy::Journal
    } else if superblock.features & (feature::PPL | feature::PPL_RING) != 0 {
        Policy::Ppl
    } else if superblock.has(feature::BITMAP) {
        Policy::Bitmap
    } else {
        Policy::Resync
    }
}

/// Arrays that the members belong to, each judged.
#[must_use]
pub fn judge(members: &[Member]) -> Vec<Assembly<'_>> {
    let mut arrays: Vec<(Uuid, Vec<&Member>)> = Vec::new();
    for member in members {
        let array = member.superblock().array.uuid;
        match arrays.iter_mut().find(|(uuid, _)| *uuid == array) {
            Some((_, group)) => group.push(member),
            None => arrays.push((array, vec![member])),
        }
    }
    arrays.into_iter().map(|(array, group)| judge_array(array, &group)).collect()
}

fn judge_array<'a>(array: Uuid, members: &[&'a Member]) -> Assembly<'a> {
    assert!(!members.is_empty(), "an array has a member");
    // Where events are the same, a whole record counts before a damaged one, and an earlier one before a later.
    // A spare may not have what members have.
    let is_spare = |member: &Member| member.superblock().role() == RoleEntry::Spare;
    let rank = |member: &Member| (is_whole(member), member.events(), !is_spare(member));
    let newest = (0..members.len()).rev().max_by_key(|index| rank(members[*index])).unwrap_or(0);
    let first = members[newest].superblock();
    let part_of_each: Vec<Part> = members.iter().map(|member| part(member, first)).collect();
    let mut devices: Vec<(&Member, Part)> = members.iter().copied().zip(part_of_each).collect();
    promote_replacements(&mut devices);
    let mut assembly = Assembly {
        array,
        devices,
        newest,
        missing: Vec::new(),
        refusals: Vec::new(),
        notes: Vec::new(),
        is_forced: false,
    };
    let faults =
        |member: &Member| faults_of(member).into_iter().map(|fault| (member.name.clone(), fault)).collect();
    let faults: Vec<(String, Fault)> = members.iter().copied().flat_map::<Vec<_>, _>(faults).collect();
    for (member, fault) in faults {
        let is_said =
            |said: &Refusal| matches!(said, Refusal::Member { fault: other, .. } if *other == fault);
        if !assembly.refusals.iter().any(is_said) {
            assembly.refusals.push(Refusal::Member { member, fault });
        }
    }
    judge_agreement(&mut assembly);
    judge_replacements(&mut assembly);
    judge_notes(&mut assembly);
    if assembly.refusals.is_empty() {
        judge_presence(&mut assembly);
    }
    assembly
}

fn is_whole(member: &Member) -> bool {
    member.reading.stored == member.reading.computed
}

/// Part of a device, as the newest superblock has it.
fn part(member: &Member, newest: &Superblock) -> Part {
    let own = member.superblock();
    let role = newest.role_of(own.device.number);
    // A device that was taken in or out by the last update: both say what it is.
    if own.state.events.saturating_add(1) < newest.state.events && !is_held_back(own, newest) {
        // A spare needs no events: nothing of the array lies on it.
        let is_spare = own.role() == RoleEntry::Spare && matches!(role, Some(RoleEntry::Spare) | None);
        return if is_spare { Part::Spare } else { Part::Stale };
    }
    match role {
        Some(RoleEntry::Member(role)) if own.has(feature::REPLACEMENT) => {
            let is_whole = !own.has(feature::RECOVERY_OFFSET);
            Part::Replacement(role, if is_whole { u64::MAX } else { own.device.recovery_offset })
        }
        Some(RoleEntry::Member(role)) if own.has(feature::RECOVERY_OFFSET) => {
            Part::Recovering(role, own.device.recovery_offset)
        }
        // Whoever is whole says so itself: a device that was taken in by an update which it missed is not.
        Some(RoleEntry::Member(role)) if own.role() == RoleEntry::Member(role) => Part::Active(role),
        Some(RoleEntry::Member(_)) if own.role() == RoleEntry::Spare => Part::Spare,
        Some(RoleEntry::Member(_)) => Part::Stale,
        Some(RoleEntry::Journal) => Part::Journal,
        Some(RoleEntry::Spare) if own.role() == RoleEntry::Spare => Part::Spare,
        Some(RoleEntry::Spare | RoleEntry::Faulty) | None => Part::Stale,
    }
}

/// True of a replacement that is behind on purpose. Others name it as long as it gets what its member does: who writes without it says
/// so first.
fn is_held_back(own: &Superblock, newest: &Superblock) -> bool {
    let is_replacement = own.has(feature::REPLACEMENT) && own.has(feature::RECOVERY_OFFSET);
    let named = newest.role_of(own.device.number);
    let is_named = matches!(named, Some(RoleEntry::Member(_))) && named == Some(own.role());
    // An update that was cut off may be one more.
    let most = own.state.events.saturating_add(REPLACEMENT_BEHIND + 1);
    is_replacement && is_named && most >= newest.state.events
}

/// A replacement whose member is not there is all that its role has, as with md.
fn promote_replacements(devices: &mut [(&Member, Part)]) {
    let is_held = |role: Role| {
        devices.iter().any(|(_, part)| match part {
            Part::Active(other) | Part::Recovering(other, _) => *other == role,
            _ => false,
        })
    };
    let alone = |part: &Part| matches!(part, Part::Replacement(role, _) if !is_held(*role));
    let alone: Vec<usize> = (0..devices.len()).filter(|index| alone(&devices[*index].1)).collect();
    for index in alone {
        if let Part::Replacement(role, sectors) = devices[index].1 {
            devices[index].1 =
                if sectors == u64::MAX { Part::Active(role) } else { Part::Recovering(role, sectors) };
        }
    }
}

fn judge_agreement(assembly: &mut Assembly<'_>) {
    let newest = assembly.devices[assembly.newest].0;
    let shape = newest.superblock().shape;
    let fresh = assembly.devices.iter().filter(|(_, part)| *part != Part::Stale);
    let mut refusals = Vec::new();
    for (member, _) in fresh.clone() {
        let own = member.superblock().shape;
        let values: [(&'static str, i128, i128); 5] = [
            ("level", own.level.into(), shape.level.into()),
            ("layout", own.layout.into(), shape.layout.into()),
            ("chunk", own.chunk.into(), shape.chunk.into()),
            ("size", own.size.into(), shape.size.into()),
            ("number of members", own.members.into(), shape.members.into()),
        ];
        for (what, value, newest_value) in values.into_iter().filter(|(_, value, other)| value != other) {
            let (member, newest) = (member.name.clone(), newest.name.clone());
            refusals.push(Refusal::Disagree { member, newest, what, value, newest_value });
        }
    }
    let fresh: Vec<_> = fresh.collect();
    for (index, (member, part)) in fresh.iter().enumerate() {
        for (other, other_part) in &fresh[..index] {
            let devices = [other, member].map(|member| member.superblock().device.uuid);
            let names = [other.name.clone(), member.name.clone()];
            let role = |part: &Part| match part {
                Part::Active(role) | Part::Recovering(role, _) => Some(*role),
                Part::Replacement(role, _) => Some(role.replacement()),
                _ => None,
            };
            if devices[0] == devices[1] {
                refusals.push(Refusal::SameDevice(names));
            } else if let (Some(role), true) = (role(part), role(part) == role(other_part)) {
                let [one, two] = names;
                let members = [(one, other.events()), (two, member.events())];
                refusals.push(Refusal::SameRole { role: role.of_member(), members });
            }
        }
    }
    assembly.refusals.extend(refusals);
}

/// A replacement that md goes on with in an array that is not clean.
fn judge_replacements(assembly: &mut Assembly<'_>) {
    let newest = assembly.superblock();
    if newest.is_clean() || !matches!(policy(newest), Policy::Resync | Policy::Bitmap) {
        return;
    }
    let is_fresh = |member: &Member| member.events().saturating_add(1) >= newest.state.events;
    let refused = |(member, part): &(&Member, Part)| match part {
        Part::Replacement(role, _) if is_fresh(member) => {
            Some(Refusal::Replaced { member: member.name.clone(), role: *role })
        }
        _ => None,
    };
    let refused: Vec<Refusal> = assembly.devices.iter().filter_map(refused).collect();
    assembly.refusals.extend(refused);
}

fn judge_notes(assembly: &mut Assembly<'_>) {
    let newest = assembly.superblock().state.events;
    let mut notes = Vec::new();
    for (member, part) in &assembly.devices {
        let (name, events) = (member.name.clone(), member.events());
        match part {
            Part::Stale if events.saturating_add(1) < newest => {
                notes.push(Note::Stale { member: name.clone(), events, newest });
            }
            Part::Stale => notes.push(Note::GivenUp(name.clone())),
            Part::Spare => notes.push(Note::Spare(name.clone())),
            Part::Recovering(role, sectors) => notes.push(Note::Recovering(name.clone(), *role, *sectors)),
            Part::Replacement(role, _) => notes.push(Note::Replacement(name.clone(), *role)),
            Part::Active(_) | Part::Journal => {}
        }
        if matches!(part, Part::Stale | Part::Spare) {
            continue;
        }
        if let Ok(entries) = &member.bad_blocks
            && !entries.is_empty()
        {
            notes.push(Note::BadBlocks(name.clone(), entries.len()));
        }
        if let Some(Ok(bitmap)) = &member.bitmap
            && bitmap.head.is_void(events)
        {
            notes.push(Note::VoidBitmap(name, bitmap.head.events, events));
        }
    }
    let logical_block = assembly.superblock().logical_block;
    if logical_block != 0 {
        notes.push(Note::LogicalBlock(logical_block));
    }
    assembly.notes = notes;
}

/// Judges whether enough members are there for the state that the array is in.
fn judge_presence(assembly: &mut Assembly<'_>) {
    let superblock = assembly.superblock().clone();
    let is_there = |role: &Role| assembly.devices.iter().any(|(_, part)| *part == Part::Active(*role));
    let count = u16::try_from(superblock.shape.members).unwrap_or(u16::MAX);
    let missing: Vec<Role> = (0..count).map(Role).filter(|role| !is_there(role)).collect();
    let parities = if superblock.shape.level == 6 { 2 } else { 1 };
    let is_dirty = !superblock.is_clean();
    let has_journal = assembly.devices.iter().any(|(_, part)| *part == Part::Journal);
    let mut refusals = Vec::new();
    if missing.len() > parities {
        let present = usize::from(count) - missing.len();
        let needed = usize::from(count) - parities;
        refusals.push(Refusal::TooFew { present, needed, missing: missing.clone() });
    }
    assembly.missing.clone_from(&missing);
    match policy(&superblock) {
        Policy::Ppl if is_dirty && !missing.is_empty() && verdict::unsynced_from(assembly).is_some() => {
            refusals.push(Refusal::DirtyDegraded(missing));
        }
        Policy::Journal if !has_journal => refusals.push(Refusal::NoJournal),
        Policy::Journal if !missing.is_empty() && journal_unsynced_from(assembly).is_some() => {
            refusals.push(Refusal::DirtyDegraded(missing));
        }
        Policy::Resync | Policy::Bitmap if is_dirty && !missing.is_empty() => {
            refusals.push(Refusal::DirtyDegraded(missing));
        }
        _ => {}
    }
    assembly.refusals = refusals;
}

/// Faults of one member, whatever the others say.
pub(super) fn faults_of(member: &Member) -> Vec<Fault> {
    let superblock = member.superblock();
    let reading = &member.reading;
    let mut faults = Vec::new();
    if !is_whole(member) {
        faults.push(Fault::Checksum { stored: reading.stored, computed: reading.computed });
        return faults;
    }
    if reading.pad0 != 0 {
        faults.push(Fault::Reserved(12));
    }
    faults.extend(reading.pad3.map(Fault::Reserved));
    let unknown = superblock.features & !feature::known();
    if unknown != 0 {
        faults.push(Fault::Features(unknown));
    }
    let reshape = superblock.features & (feature::RESHAPE | feature::RESHAPE_BACKWARDS | feature::NEW_OFFSET);
    if reshape != 0 {
        faults.push(Fault::Reshape { position: superblock.reshape.position, features: reshape });
    }
    if superblock.has(feature::CLUSTERED) {
        faults.push(Fault::Clustered);
    }
    let of_shape = faults_of_shape(superblock);
    let is_known = of_shape.is_empty();
    faults.extend(of_shape);
    if is_known && reshape == 0 {
        faults.extend(faults_of_areas(member));
        faults.extend(faults_of_logs(member));
    }
    faults
}

fn faults_of_shape(superblock: &Superblock) -> Vec<Fault> {
    let shape = superblock.shape;
    if !matches!(shape.level, 4..=6) {
        return vec![Fault::Level(shape.level)];
    }
    let mut faults = Vec::new();
    if shape.level != 4 && names::layout(shape.level, shape.layout).is_none() {
        faults.push(Fault::Layout(shape.level, shape.layout));
    }
    if !shape.chunk.is_power_of_two() || shape.chunk < 8 {
        faults.push(Fault::Chunk(shape.chunk));
    } else if shape.size == 0 || !shape.size.is_multiple_of(u64::from(shape.chunk)) {
        faults.push(Fault::Size(shape.size, shape.chunk));
    }
    let least = if shape.level == 6 { 4 } else { 2 };
    if !(least..=MEMBERS_MAX).contains(&shape.members) {
        faults.push(Fault::Members(shape.level, shape.members));
    }
    let logical = superblock.logical_block;
    if logical != 0 && !(logical.is_power_of_two() && (512..=4096).contains(&logical)) {
        faults.push(Fault::LogicalBlock(logical));
    }
    let number = superblock.device.number;
    if superblock.role_of(number).is_none() {
        faults.push(Fault::Number(number.0));
    }
    faults
}

/// Area of a device: its name, its first sector and its sectors.
type Area = (&'static str, u64, u64);

/// Areas in use on a device.
fn areas(member: &Member) -> Vec<Area> {
    let superblock = member.superblock();
    let device = &superblock.device;
    let used = if superblock.role() == RoleEntry::Journal { device.data_size } else { superblock.shape.size };
    let mut areas = vec![
        ("the superblock", device.super_offset, SUPERBLOCK_SECTORS),
        ("the data", device.data_offset, used),
    ];
    if let (Some(sector), Some(Ok(bitmap))) = (superblock.bitmap_sector(), &member.bitmap) {
        areas.push(("the bitmap", sector, bitmap.head.bytes().div_ceil(SECTOR_BYTES_U64)));
    }
    areas.extend(superblock.bad_block_place().map(|(start, sectors)| ("the bad-block log", start, sectors)));
    areas.extend(superblock.ppl_place().map(|(start, sectors)| ("the partial parity log", start, sectors)));
    areas
}

fn faults_of_areas(member: &Member) -> Vec<Fault> {
    let areas = areas(member);
    let end = |area: &Area| area.1.checked_add(area.2);
    let mut faults = Vec::new();
    for area in &areas {
        if end(area).is_none_or(|end| end > member.sectors) {
            let (area, start, sectors) = *area;
            faults.push(Fault::Beyond { area, start, sectors, device: member.sectors });
        }
    }
    let device = &member.superblock().device;
    let whole = ("the room for data", device.data_offset, device.data_size);
    if faults.is_empty() && end(&whole).is_none_or(|end| end > member.sectors) {
        let (area, start, sectors) = whole;
        faults.push(Fault::Beyond { area, start, sectors, device: member.sectors });
    }
    if faults.is_empty() {
        for (index, one) in areas.iter().enumerate() {
            let overlaps = |other: &&Area| other.1 < one.1 + one.2 && one.1 < other.1 + other.2;
            let others = areas[..index].iter().filter(overlaps);
            faults.extend(others.map(|other| Fault::Overlap([other.0, one.0])));
        }
    }
    faults
}

fn faults_of_logs(member: &Member) -> Vec<Fault> {
    let superblock = member.superblock();
    let mut faults = Vec::new();
    // md says of spares that they have a bitmap, and writes none: it is written when a spare becomes a member.
    let is_spare = superblock.role() == RoleEntry::Spare;
    match &member.bitmap {
        _ if is_spare => {}
        Some(Err(reason)) => faults.push(Fault::Bitmap(reason.clone())),
        Some(Ok(bitmap)) if bitmap.head.array != superblock.array.uuid => {
            faults.push(Fault::Bitmap(format!("the bitmap is of another array, {}", bitmap.head.array)));
        }
        Some(Ok(bitmap)) if bitmap.head.sync_size != superblock.shape.size => {
            let (covered, size) = (bitmap.head.sync_size, superblock.shape.size);
            faults.push(Fault::Bitmap(format!("the bitmap covers {covered} sectors of {size}")));
        }
        _ => {}
    }
    let has_ppl = superblock.features & (feature::PPL | feature::PPL_RING) != 0;
    if has_ppl && superblock.shape.level != 5 {
        faults.push(Fault::Ppl(format!(
            "a partial parity log on RAID-{}: RAID-5 alone has one",
            superblock.shape.level
        )));
    }
    let kinds = [has_ppl, superblock.has(feature::BITMAP), superblock.has(feature::JOURNAL)];
    if kinds.into_iter().filter(|has| *has).count() > 1 {
        faults.push(Fault::Ppl("bitmap, partial parity log and journal exclude one another".to_owned()));
    }
    if let Err(reason) = &member.bad_blocks {
        faults.push(Fault::BadBlocks(reason.clone()));
    }
    if let Err(reason) = &member.ppl {
        faults.push(Fault::Ppl(reason.clone()));
    }
    faults
}
