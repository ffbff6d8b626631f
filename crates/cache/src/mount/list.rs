//! Objects of a cache that is not served, told without a write: what a mount would find, page by page.

use super::media::Media;
use super::reader::Reader;
use super::{MountError, Survey, members};
use crate::format::page::PageView;
use crate::format::record::RecordHead;
use crate::format::stamp::{Kind, Life, Stamp};
use crate::hash::{FullKey, KeyHash};
use crate::index::PageNumber;
use crate::request::{Told, WallMillis};
use crate::shard::{Drive, Recovered, Zone};
use crate::shared::Host;
use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use zone::drives::DriveSet;

/// Tells all live objects, in the order in which they lie, and changes nothing.
///
/// # Errors
/// As for mounting.
pub fn list(
    drives: &mut DriveSet,
    now: Instant,
    (wall, host): (WallMillis, &Host),
    tell: &mut dyn FnMut(Told),
) -> Result<(), MountError> {
    let mut media = Media::new(drives, now);
    let agreed = members::agree(&mut media)?;
    let survey = Survey::of(&mut media, agreed)?;
    let options = survey.options();
    let (recovered, _) = survey.recover(wall, options, host);
    for (place, drive) in recovered.drives.iter().enumerate().filter(|(_, drive)| drive.up) {
        for (zone, own) in (0..).map(ZoneIndex).zip(drive.zones.iter()).filter(|(_, own)| own.is_readable()) {
            let told = media.side_by_side(&[place], |_, seat| {
                let reader = Reader { seat, zone, transfer_max: drive.transfer_max };
                list_zone(&recovered, (reader, drive, own))
            });
            told.into_iter().flatten().for_each(&mut *tell);
        }
    }
    Ok(())
}

/// Live objects of a zone.
async fn list_zone(recovered: &Recovered, (reader, drive, own): (Reader, &Drive, &Zone)) -> Vec<Told> {
    let zone = reader.zone;
    let member = u8::try_from(reader.seat.place()).expect("at most 32 members");
    let life = Life { cache: recovered.identity.cache, member, zone, birth: own.birth, stream: own.stream };
    let mut told = Vec::new();
    for first in (1..own.end).step_by(reader.stride() as usize) {
        let count = reader.stride().min(own.end - first);
        let is_whole = |page, frame: &Frame| Stamp::read_at(frame, &life, page).is_some();
        for (page, frame) in (first..).zip(reader.read_as(first, count, is_whole).await) {
            let number = PageNumber(drive.base + zone.0 * drive.capacity + page);
            let stamp = frame.as_ref().and_then(|frame| Stamp::read_at(frame, &life, page));
            let Some((frame, stamp)) = frame.zip(stamp).filter(|(_, stamp)| stamp.kind == Kind::Records)
            else {
                continue;
            };
            tell_page(recovered, (number, stamp.sequence), &frame, &mut told);
        }
    }
    told
}

/// Tells the live objects that begin in a page: those that a slot leads to.
fn tell_page(
    recovered: &Recovered,
    (number, sequence): (PageNumber, u64),
    frame: &Frame,
    told: &mut Vec<Told>,
) {
    let Some(view) = PageView::parse(&frame.data) else { return };
    let (index, clears, wall) = (&recovered.index, &recovered.clears, recovered.wall);
    for bytes in view.records() {
        let Some(head) = RecordHead::parse(bytes) else { continue };
        let Some(key) = head.key(bytes) else { continue };
        let hash = KeyHash::of(&recovered.identity.secret, &FullKey::new(head.namespace, key));
        let place = usize::from(head.namespace.0);
        let is_over = head.expires.is_some_and(|at| at <= wall);
        let is_cleared = sequence < clears.below[place] || clears.planned[place].is_some_and(|at| at <= wall);
        let has_slot = index.find(index.shape().ident(hash)).any(|page| page == number);
        if has_slot && !is_over && !is_cleared {
            let RecordHead { namespace, expires, value_bytes, .. } = head;
            told.push(Told { namespace, key: key.to_vec(), value_bytes: value_bytes as u64, expires });
        }
    }
}
