//! Another journal for an array that lost its own: cut off after any write, the array lacks its journal and gets one, or has the new one.

#![allow(clippy::unwrap_used)]

#[path = "support/golden.rs"]
mod golden;

use block::md::assembly::{Assembly, Part, journal_unsynced_from, judge};
use block::md::create::{Blank, MemberPlan};
use block::md::member::Member;
use block::md::new_journal::{NewJournal, NoNewJournal, plan};
use block::md::refusal::Refusal;
use block::md::{SECTOR_BYTES, Uuid};

const SECTORS: u64 = 16 << 11;
const LEAST: u64 = 1024;

type Media = Vec<(String, Vec<u8>)>;

fn judged<T>(media: &Media, then: impl FnOnce(&Assembly<'_>) -> T) -> T {
    let members: Vec<Member> =
        media.iter().filter_map(|(name, bytes)| Member::read(name, &bytes[..]).ok()).collect();
    then(&judge(&members)[0])
}

fn planned(media: &Media) -> Result<NewJournal, NoNewJournal> {
    let device = Blank { sectors: SECTORS, uuid: Uuid([7; 16]) };
    judged(media, |assembly| plan(assembly, &device, LEAST, 1_800_000_000))
}

/// Members of an array that the kernel wrote, and its journal.
fn lost(array: &str) -> (Media, (String, Vec<u8>)) {
    let mut media = golden::members(array);
    let is_journal =
        |media: &Media, index: &usize| judged(media, |assembly| assembly.devices[*index].1 == Part::Journal);
    let index = (0..media.len()).find(|index| is_journal(&media, index)).unwrap();
    let journal = media.remove(index);
    (media, journal)
}

fn write(bytes: &mut [u8], plan: &MemberPlan) {
    let record = (plan.superblock.device.super_offset, plan.record().to_vec());
    for (sector, content) in plan.before.iter().chain([&record]) {
        let start = usize::try_from(*sector).unwrap() * SECTOR_BYTES;
        bytes[start..start + content.len()].copy_from_slice(content);
    }
}

/// The media after so many writes.
fn after(media: &Media, new: &NewJournal, writes: usize) -> Media {
    let mut media = media.clone();
    media.push(("new".to_owned(), vec![0xa5; usize::try_from(SECTORS).unwrap() * SECTOR_BYTES]));
    let last = media.len() - 1;
    let of_journal = [(last, new.journal.clone())];
    for (index, plan) in new.first.iter().chain(&of_journal).chain(&new.last).take(writes) {
        write(&mut media[*index].1, plan);
    }
    media
}

#[test]
fn a_journal_that_is_added_is_there_or_can_be_added_again_after_each_write() {
    for array in ["r5-journal-clean", "r5-journal-wb-crash"] {
        let (media, before) = lost(array);
        let new = planned(&media).unwrap();
        let writes = new.first.len() + 1 + new.last.len();
        for cut in 0..=writes {
            let case = format!("{array}, {cut} of {writes} writes");
            let mut media = after(&media, &new, cut);
            let is_new = cut > new.first.len();
            judged(&media, |assembly| {
                assert_eq!(assembly.can_be_served(), is_new, "{case}: {}", assembly.in_words());
                if is_new {
                    assert_eq!(journal_unsynced_from(assembly), Some(0), "{case}: all of it is resynced");
                    assert!(assembly.missing.is_empty() && assembly.superblock().mark() > 0, "{case}");
                } else {
                    assert_eq!(assembly.refusals, [Refusal::NoJournal], "{case}");
                }
            });
            match is_new {
                true => assert!(matches!(planned(&media), Err(NoNewJournal::Present(_))), "{case}"),
                false => {
                    let again = after(&media, &planned(&media).unwrap(), usize::MAX);
                    judged(&again, |assembly| assert!(assembly.can_be_served(), "{case}, again"));
                }
            }
            if cut > 0 {
                // What the journal before says is never believed again.
                media.push(before.clone());
                judged(&media, |assembly| {
                    let old = assembly.devices.iter().find(|(member, _)| member.name == before.0).unwrap();
                    assert_eq!(old.1, Part::Stale, "{case}: {}", assembly.in_words());
                    assert_eq!(assembly.can_be_served(), is_new, "{case}: {}", assembly.in_words());
                });
            }
        }
    }
}

#[test]
fn only_what_lacks_its_journal_and_nothing_else_gets_one() {
    let (mut media, journal) = lost("r5-journal-clean");
    let device = media.len();
    media.push(journal);
    assert!(matches!(planned(&media), Err(NoNewJournal::Present(name)) if name == media[device].0));
    media.truncate(device - 1);
    assert!(matches!(planned(&media), Err(NoNewJournal::Missing(roles)) if roles.len() == 1));
    assert!(matches!(planned(&golden::members("r5-bitmap")), Err(NoNewJournal::Policy(_))));
    let (media, _) = lost("r5-journal-clean");
    let small = Blank { sectors: 2048, uuid: Uuid([7; 16]) };
    let refused = judged(&media, |assembly| plan(assembly, &small, LEAST, 1));
    assert!(matches!(refused, Err(NoNewJournal::Impossible(_))), "{refused:?}");
}
