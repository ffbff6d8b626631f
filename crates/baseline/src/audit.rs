//! What tests and operators ask of a running engine: how it stands, and whether its drives agree.

use crate::Raizn;
use zone::rules::Zone;

impl Raizn {
    /// True when a write to a logical zone may arrive: it has room, and may be open beside those that are.
    #[must_use]
    pub fn accepts_writes(&self, zone: u32) -> bool {
        let logical = &self.zones[zone as usize];
        logical.write_pointer < self.map.zone_blocks() && (logical.is_open(&self.map) || self.may_open())
    }

    /// State of the engine, in a line.
    pub(super) fn work_in_words(&self) -> String {
        let pending: usize = self.zones.iter().map(|zone| zone.pending.len()).sum();
        let stale = self.zones.iter().flat_map(|zone| &zone.stripes).filter(|stripe| stripe.is_stale).count();
        let (writes, flushes) = self.answers.waiting();
        format!(
            "{} writes, {} reads, {} flushes; {pending} requests wait in zones, {} zones for room in a log; {stale} \
             stripes to be checkpointed; failed {:?}, broken {:?}, fence {}; {} appends",
            writes,
            self.reads.len(),
            flushes,
            self.zones_waiting.len(),
            self.members.failed,
            self.members.broken,
            self.members.fence,
            self.logs.appends.len(),
        )
    }

    /// Difference between the zones of a member's drive and what the engine believes, if there is one. Only at rest.
    pub(super) fn mistaken_zone(&self, member: usize, states: &[Zone]) -> Option<String> {
        if self.members.is_failed(member) {
            return None;
        }
        (0_u32..).zip(states).find_map(|(zone, state)| {
            let expected = match zone.checked_sub(self.config.logical_zones()) {
                None => self.written_of(member, zone),
                Some(place) if place as usize == self.logs.drives[member].place => {
                    self.logs.drives[member].appended
                }
                Some(_) => 0,
            };
            let found = state.write_pointer;
            (found != expected).then(|| format!("zone {zone} holds {found} blocks; {expected} were written"))
        })
    }

    /// Blocks of a member's zone of a logical zone.
    fn written_of(&self, member: usize, zone: u32) -> u32 {
        let map = &self.map;
        let logical = &self.zones[zone as usize];
        let open: u32 = logical
            .stripes
            .iter()
            .map(|stripe| map.rows_below(map.piece_of(zone, stripe.number, member), stripe.issued))
            .sum();
        logical.closed_stripes(map) * map.chunk_blocks() + open
    }
}
