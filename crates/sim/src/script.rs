//! What happens in a run: the steps drawn from a seed for a plan.
//!
//! Each run has a theme that says which faults there may be; within it, everything is drawn. Some members
//! are the culprits, no more than the array can lose: it must stand everything from them. Only some runs have
//! more.

use crate::plan::{Plan, pick};
use crate::run::members_of;
use crate::step::{At, Damage, KINDS, Kind, Manner, Part, Scope, Step};
use base::erasure::{ErasureCode, PieceSet};
use base::random::Random;

/// Troubles that may occur in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    /// Nothing but slow drives.
    Calm,
    /// The power fails.
    Power,
    /// The power fails, and members break in several ways, as many as the array can lose.
    Culprit,
    /// More members break than the array can lose.
    Ruin,
}

/// Draws steps one after the other.
struct Author<'a> {
    plan: &'a Plan,
    random: Random,
    theme: Theme,
    code: ErasureCode,
    culprits: Vec<usize>,
    blocks: u64,
    hot: u64,
    weights: [u64; 5],
    steps: Vec<Step>,
}

/// Kinds of commands of the log-structured engine: the first of [`KINDS`].
const ENGINE_KINDS: usize = 10;
/// Kinds of commands of the baseline.
const BASELINE_KINDS: &[Kind] =
    &[Kind::Any, Kind::Read, Kind::Chunk, Kind::Log, Kind::Log, Kind::Superblock, Kind::Reset];

/// Those of the baseline after ZRAID.
const ZRAID_KINDS: &[Kind] = &[
    Kind::Any,
    Kind::Read,
    Kind::Chunk,
    Kind::Chunk,
    Kind::Log,
    Kind::Superblock,
    Kind::Reset,
    Kind::Area,
    Kind::Commit,
    Kind::Commit,
];

/// True for what the baseline after RAIZN promises something for (ADR 16): not for blocks and zones that break, nor for
/// scrubs, which it does not have.
pub fn is_of_baseline(step: &Step) -> bool {
    !matches!(
        step,
        Step::Scrub { .. }
            | Step::Rot(_)
            | Step::Unreadable(_)
            | Step::Misread { .. }
            | Step::MisreadAt { .. }
            | Step::Stale { .. }
            | Step::Miswrite { .. }
            | Step::Zone { .. }
            | Step::Shrink { .. }
            | Step::Rollback { .. }
            | Step::Apart { .. }
            | Step::ReAdd { .. }
            | Step::AreaTake { .. }
            | Step::AreaDrop { .. }
            | Step::AreaRefuse { .. }
            | Step::ScrubStop
            | Step::Restart
            | Step::Kill
            | Step::Rates { .. }
            | Step::Hiccup { .. }
            | Step::Rival { .. }
    )
}

/// The steps of a plan.
#[must_use]
pub fn draw(plan: &Plan) -> Vec<Step> {
    let mut random = Random::from_seed(plan.seed ^ 0x7363_7269);
    plan.check();
    let array = plan.array().expect("a plan that works");
    let (blocks, code) = (array.volume_blocks(), array.code());
    assert!(blocks > 0, "a volume has blocks");
    let theme = match random.below(20) {
        0..=1 => Theme::Calm,
        2..=8 => Theme::Power,
        // Where those who missed writes can be enough for a mount, they are believed when they are alone.
        _ if code.parity_count() >= code.data_count() => Theme::Culprit,
        9..=16 => Theme::Culprit,
        _ => Theme::Ruin,
    };
    let mut culprits = draw_culprits(&code, &mut random);
    // What destroys metadata hits one of them only, beside those that are lost.
    culprits.truncate(if theme == Theme::Ruin { 1 } else { code.piece_count() });
    let hot = pick(&mut random, &[1, 4, 16, 64]);
    // Writes, reads, trims, flushes, pauses.
    let weights = pick(&mut random, &[[12, 4, 1, 1, 8], [20, 1, 0, 0, 4], [6, 6, 6, 1, 4], [8, 1, 1, 8, 8]]);
    let mut author = Author {
        plan,
        random,
        theme,
        code,
        culprits,
        blocks,
        hot: blocks.min(hot),
        weights,
        steps: Vec::new(),
    };
    author.write();
    author.roll_back();
    author.re_add();
    author.operate();
    author.take_areas();
    author.kill();
    author.hiccup();
    author.meet_rival();
    author.refuse_areas();
    author.misdirect_later();
    author.steps.iter().for_each(Step::check);
    assert!(
        author.steps.iter().flat_map(members_of).all(|member| member < plan.members),
        "members of the array"
    );
    author.steps
}

/// Members that the array can lose together, at least one.
fn draw_culprits(code: &ErasureCode, random: &mut Random) -> Vec<usize> {
    let members = code.piece_count();
    let mut culprits = vec![random.index(members)];
    for _ in 1..code.parity_count() {
        let next = random.index(members);
        let lost: PieceSet = culprits.iter().copied().chain([next]).collect();
        if random.chance(2, 3) && !culprits.contains(&next) && code.can_decode(code.pieces().without(lost)) {
            culprits.push(next);
        }
    }
    let lost: PieceSet = culprits.iter().copied().collect();
    assert!(culprits.len() == 1 || code.can_decode(code.pieces().without(lost)), "the array can lose them");
    culprits
}

impl Author<'_> {
    fn write(&mut self) {
        assert!(self.steps.is_empty(), "a script begins with a mount");
        assert!(self.hot > 0 && self.hot <= self.blocks, "hot blocks are some of the volume's");
        self.steps.push(Step::Mount { cut: None });
        if self.random.chance(1, 2) {
            self.fill();
        }
        let rounds = if self.theme == Theme::Calm { 1 } else { 1 + self.random.below(4) };
        for _ in 0..rounds {
            self.work();
            if self.random.chance(1, 4) {
                self.steps.push(Step::Idle);
                // At rest, so that nothing may be left damaged.
                if self.random.chance(1, 3) && self.plan.raizn.is_none() {
                    self.steps.extend([Step::Scrub { repair: true }, Step::Idle]);
                }
            }
            if self.theme != Theme::Calm {
                self.outage();
            }
        }
        self.work();
    }

    /// Writes everything once.
    fn fill(&mut self) {
        let length = pick(&mut self.random, &[7, 16, 64]);
        let mut lba = 0;
        while lba < self.blocks {
            self.steps.push(Step::Write { lba, blocks: length.min(self.blocks - lba), fua: false });
            lba += length;
        }
    }

    /// Requests, with faults among them.
    fn work(&mut self) {
        // The baseline's logs fill slowly.
        let times = if self.plan.raizn.is_some() { 3 } else { 1 };
        let count = times * pick(&mut self.random, &[5, 30, 100, 200]);
        let breaks = matches!(self.theme, Theme::Culprit | Theme::Ruin);
        for _ in 0..self.random.below(count) {
            self.request();
            let one_in = if self.plan.raizn.is_some() { 40 } else { 60 };
            if breaks && self.random.chance(1, one_in) {
                self.fault();
            }
            if breaks && self.random.chance(1, 60) {
                let member = self.victim();
                self.steps.push(Step::Replace { member });
            }
            if self.random.chance(1, 150) {
                let repair = self.random.chance(2, 3);
                let scrub = Step::Scrub { repair };
                self.steps.extend(Some(scrub).filter(|_| self.plan.raizn.is_none()));
            }
        }
    }

    fn request(&mut self) {
        let span = if self.random.chance(1, 4) { self.hot } else { self.blocks };
        let lba = self.random.below(span);
        let most = self.blocks - lba;
        assert!(most > 0, "a request lies within the volume");
        let blocks = pick(&mut self.random, &[1, 1, 1, 2, 3, 5, 17, 64]).min(most);
        let fua = self.random.chance(1, 8);
        let mut draw = self.random.below(self.weights.iter().sum());
        let choice = self.weights.iter().position(|weight| {
            let hit = draw < *weight;
            draw = draw.saturating_sub(*weight);
            hit
        });
        let step = match choice {
            Some(0) => Step::Write { lba, blocks, fua },
            Some(1) => Step::Read { lba, blocks },
            Some(2) if self.random.chance(1, 8) => Step::Trim { lba, blocks: most, fua },
            Some(2) => Step::Trim { lba, blocks, fua },
            Some(3) => Step::Flush,
            _ if self.random.chance(1, 30) => {
                Step::Stall { us: pick(&mut self.random, &[100, 10_000, 2_000_000]) }
            }
            _ => Step::Run { events: 1 + self.random.below(20) },
        };
        self.steps.push(step);
    }

    /// A moment: rare kinds come soon, common ones late.
    fn at(&mut self) -> At {
        if self.plan.raizn.is_some() {
            let kinds = if self.plan.is_zraid() { ZRAID_KINDS } else { BASELINE_KINDS };
            let kind = pick(&mut self.random, kinds);
            return self.at_kind(kind);
        }
        let kind = KINDS[self.random.index(ENGINE_KINDS)].0;
        self.at_kind(kind)
    }

    fn at_kind(&mut self, kind: Kind) -> At {
        let most = match kind {
            Kind::Any | Kind::Read | Kind::Chunk | Kind::Move | Kind::Log => 60,
            Kind::Area
            | Kind::Commit
            | Kind::Marker
            | Kind::Header
            | Kind::Footer
            | Kind::Finish
            | Kind::Reset
            | Kind::Superblock
            | Kind::Flush => 6,
        };
        At { kind, skip: u32::try_from(self.random.below(most)).expect("a small number") }
    }

    /// The power fails, now or while the next requests are under way, and comes back.
    fn outage(&mut self) {
        let at = self.random.chance(3, 4).then(|| self.at());
        self.steps.push(Step::Crash { at });
        if at.is_some() {
            for _ in 0..self.random.below(60) {
                self.request();
            }
        }
        if self.random.chance(1, 8) && self.plan.members > 1 {
            let (a, b) = (self.random.index(self.plan.members), self.random.index(self.plan.members));
            self.steps.push(Step::Exchange { a, b });
        }
        if matches!(self.theme, Theme::Culprit | Theme::Ruin) && self.random.chance(1, 2) {
            self.replug();
        }
        match self.random.below(12) {
            // A lone drive of each of two arrays: nobody can tell which was meant.
            0 if self.plan.members > 2 => {
                let member = self.random.index(self.plan.members);
                self.steps.push(Step::Foreign { member });
            }
            1 => self.away_together(),
            _ => {}
        }
        while self.random.chance(1, 3) {
            let cut = match self.plan.raizn {
                Some(_) => self.at(),
                None => {
                    let kinds = [Kind::Any, Kind::Superblock, Kind::Reset, Kind::Chunk, Kind::Read];
                    let kind = pick(&mut self.random, &kinds);
                    self.at_kind(kind)
                }
            };
            let cut = Some(cut);
            self.steps.push(Step::Mount { cut });
        }
        self.steps.push(Step::Mount { cut: None });
    }

    /// More drives are unplugged than the array can lose: it is refused, and nothing has changed.
    fn away_together(&mut self) {
        let first = self.random.index(self.plan.members);
        // Of mirrors, both copies of something.
        let apart = if self.code.is_mirrored() { self.code.data_count() } else { 1 };
        for member in 0..=self.code.tolerance() {
            self.steps.push(Step::Away { member: (first + member * apart) % self.plan.members });
        }
    }

    /// Drives go back to earlier moments before a mount. Drawn from a stream of its own, so that all other steps stay what
    /// they were. Culprits only: of members beyond those that the array can lose, not everything is noticed (TESTING.md).
    fn roll_back(&mut self) {
        let mut random = Random::from_seed(self.plan.seed ^ 0x726f_6c6c);
        let may_go_back =
            self.theme == Theme::Culprit && self.plan.raizn.is_none() && self.code.tolerance() > 0;
        if !may_go_back || !random.chance(1, 2) {
            return;
        }
        for step in std::mem::take(&mut self.steps) {
            let done = self.steps.len();
            if matches!(step, Step::Mount { .. }) && done > 0 && random.chance(1, 3) {
                let span = pick(&mut random, &[10, 60, done]).min(done);
                let member = pick(&mut random, &self.culprits);
                self.steps.push(Step::Rollback { member, steps: 1 + random.index(span) });
            }
            self.steps.push(step);
        }
    }

    /// Culprits that failed or went away are taken in again. Drawn from a stream of its own, like rollbacks, after them.
    /// Where nothing damaged the media of one, another member is lost next: what was re-added must do.
    fn re_add(&mut self) {
        let mut random = Random::from_seed(self.plan.seed ^ 0x7265_6164);
        let may_return =
            self.theme == Theme::Culprit && self.plan.raizn.is_none() && self.code.tolerance() > 0;
        if !may_return || !random.chance(1, 2) {
            return;
        }
        // Where those who missed writes can be enough for a mount, they are believed when they are alone.
        let has_majority = self.code.parity_count() < self.code.data_count();
        let mut gone = None;
        let steps = std::mem::take(&mut self.steps);
        // Another member may stay out, should the culprit fail meanwhile: then nobody can tell what a damaged drive lacks.
        let is_spoilt = steps.iter().any(Step::spoils_media);
        // Nobody can tell that a drive went back while another is out, if the array can lose one.
        let calm_from =
            steps.iter().rposition(|step| matches!(step, Step::Rollback { .. })).map_or(0, |at| at + 1);
        let mut steps = steps.into_iter().enumerate().peekable();
        while let Some((at, step)) = steps.next() {
            if !matches!(step, Step::Hang { .. } | Step::Hiccup { .. }) && !step.spoils_media() {
                gone = step.member().or(gone);
            }
            if let Step::Away { member } | Step::Lose { member } = step {
                gone = Some(member);
            }
            let one_in = if matches!(step, Step::Mount { .. }) { 3 } else { 30 };
            let is_unplugged = matches!(step, Step::Away { .. });
            self.steps.push(step);
            // Drives that are unplugged together must be refused together: none of them is a culprit.
            if is_unplugged && matches!(steps.peek(), Some((_, Step::Away { .. }))) {
                continue;
            }
            let Some(member) = gone.filter(|_| random.chance(1, one_in)) else { continue };
            let cut = random.chance(1, 6).then(|| {
                let kind = pick(&mut random, &[Kind::Superblock, Kind::Any, Kind::Reset, Kind::Chunk]);
                At { kind, skip: u32::try_from(random.below(12)).expect("a small number") }
            });
            self.steps.push(Step::ReAdd { member, cut });
            gone = gone.filter(|_| random.chance(1, 2));
            if at >= calm_from && !is_spoilt && has_majority && random.chance(1, 2) {
                let other = random.index(self.plan.members);
                let back = match random.chance(1, 2) {
                    true => Step::ReAdd { member: other, cut: None },
                    false => Step::Replace { member: other },
                };
                let fails = [Step::Idle, Step::Fail { member: other }, Step::Verify, Step::Idle];
                self.steps.extend(fails.into_iter().chain([back, Step::Idle]));
            }
        }
    }

    /// The power fails as zones are opened with areas or committed, and windows of culprits are lost or taken; those of
    /// any drives, where all may break. Drawn from a stream of its own, where drives have areas.
    fn take_areas(&mut self) {
        let mut random = Random::from_seed(self.plan.seed ^ 0x7461_6b65);
        if self.plan.areas.is_none() || self.plan.raizn.is_some() || self.theme == Theme::Calm {
            return;
        }
        let breaks = self.theme != Theme::Power && self.code.tolerance() > 0 && random.chance(1, 2);
        for step in std::mem::take(&mut self.steps) {
            let is_mount = matches!(step, Step::Mount { .. }) && !self.steps.is_empty();
            if is_mount && breaks && random.chance(1, 4) {
                self.steps.push(Step::AreaDrop { member: pick(&mut random, &self.culprits) });
                let drops_any = self.theme == Theme::Ruin && random.chance(1, 4);
                let others = (0..self.plan.members).filter(|_| drops_any && random.chance(1, 2));
                self.steps.extend(others.map(|member| Step::AreaDrop { member }));
            }
            let step = match step {
                Step::Crash { at: Some(_) } if random.chance(1, 5) => {
                    let kind = pick(&mut random, &[Kind::Area, Kind::Commit, Kind::Commit]);
                    let skip = u32::try_from(random.below(12)).expect("a small number");
                    Step::Crash { at: Some(At { kind, skip }) }
                }
                step => step,
            };
            self.steps.push(step);
            if breaks && random.chance(1, 100) {
                let member = pick(&mut random, &self.culprits);
                self.steps.push(Step::AreaTake { member, seed: random.bits() >> 32 });
            }
        }
    }

    /// One drive now and then has no random write area left when it is asked, in one run in six with areas. Drawn last, from a stream of
    /// its own.
    fn refuse_areas(&mut self) {
        let mut random = Random::from_seed(self.plan.seed ^ 0x7265_6675);
        if self.plan.areas.is_none() || self.plan.raizn.is_some() || !random.chance(1, 6) {
            return;
        }
        let member = random.index(self.plan.members);
        for step in std::mem::take(&mut self.steps) {
            self.steps.push(step);
            if random.chance(1, 30) {
                let count = 1 + u32::try_from(random.below(4)).expect("a small number");
                self.steps.push(Step::AreaRefuse { member, count });
            }
        }
    }

    /// Who misdirects reads does so again, one read later or many, in one run in three. Drawn last, from a stream of its own.
    fn misdirect_later(&mut self) {
        let mut random = Random::from_seed(self.plan.seed ^ 0x6c61_7465);
        if !random.chance(1, 3) {
            return;
        }
        for step in std::mem::take(&mut self.steps) {
            let misdirects = if let Step::Misread { member, .. } = step { Some(member) } else { None };
            self.steps.push(step);
            let Some(member) = misdirects else { continue };
            for _ in 0..=random.below(4) {
                let skip = u32::try_from(random.below(60)).expect("a small number");
                self.steps.push(Step::MisreadAt { member, at: At { kind: Kind::Read, skip } });
            }
        }
    }

    /// An operator restarts the server, stops scrubs and changes rates. Drawn from a stream of its own, after all others.
    fn operate(&mut self) {
        let mut random = Random::from_seed(self.plan.seed ^ 0x6f70_6572);
        if self.plan.raizn.is_some() || !random.chance(1, 3) {
            return;
        }
        for step in std::mem::take(&mut self.steps) {
            let is_scrub = matches!(step, Step::Scrub { .. });
            self.steps.push(step);
            if is_scrub && random.chance(1, 6) {
                self.steps.extend([Step::Run { events: random.below(20) }, Step::ScrubStop]);
            }
            if random.chance(1, 120) {
                let act = match random.below(3) {
                    0 => Step::Rates { kib: pick(&mut random, &[0, 3_000, 20_000]) },
                    _ => Step::Restart,
                };
                self.steps.push(act);
            }
        }
    }

    /// The server is killed where the power would have failed, or is killed and begins anew shortly before. Drawn from a stream of
    /// its own.
    fn kill(&mut self) {
        let mut random = Random::from_seed(self.plan.seed ^ 0x6b69_6c6c);
        if self.plan.raizn.is_some() || !random.chance(1, 4) {
            return;
        }
        for step in std::mem::take(&mut self.steps) {
            if matches!(step, Step::Crash { .. }) && random.chance(1, 2) {
                self.steps.push(Step::Kill);
                if matches!(step, Step::Crash { at: None }) && random.chance(1, 3) {
                    continue;
                }
                self.steps.push(Step::Mount { cut: None });
                self.steps.push(Step::Run { events: random.below(200) });
            }
            self.steps.push(step);
        }
    }

    /// Drives are away for a while. Drawn from a stream of its own. What may cost a drive something hits culprits only.
    fn hiccup(&mut self) {
        let mut random = Random::from_seed(self.plan.seed ^ 0x6869_6363_7570);
        if self.plan.patience_ms == 0 {
            return;
        }
        let one_in = pick(&mut random, &[8, 25, 60]);
        let breaks = matches!(self.theme, Theme::Culprit | Theme::Ruin) && self.code.tolerance() > 0;
        let mut is_mounted = false;
        for step in std::mem::take(&mut self.steps) {
            is_mounted |= matches!(step, Step::Mount { .. });
            self.steps.push(step);
            if !is_mounted || !random.chance(1, one_in) {
                continue;
            }
            let ms = pick(&mut random, &[0, 1, 20, 300, 1_500]);
            let manner = pick(&mut random, &[Manner::Plain, Manner::Plain, Manner::Pulled, Manner::Power]);
            let any = random.index(self.plan.members);
            let culprit = pick(&mut random, &self.culprits);
            let costs = random.chance(1, 4);
            let step = match (costs && breaks, random.chance(1, 4)) {
                (true, true) => Step::Hiccup { member: culprit, ms: 3 * self.plan.patience_ms, manner },
                (true, false) => Step::Hiccup { member: culprit, ms, manner: Manner::Torn },
                _ if manner == Manner::Power && breaks => Step::Hiccup { member: culprit, ms, manner },
                _ if manner == Manner::Power => Step::Hiccup { member: any, ms, manner: Manner::Plain },
                _ => Step::Hiccup { member: any, ms, manner },
            };
            self.steps.push(step);
            // Others at once: they all come back.
            while random.chance(1, 4) {
                let member = random.index(self.plan.members);
                self.steps.push(Step::Hiccup { member, ms, manner: Manner::Plain });
            }
        }
    }

    /// Other servers take the drives at any time, one after the other, while this one goes on for a while. Drawn from a stream of its own,
    /// where nothing else breaks.
    fn meet_rival(&mut self) {
        let mut random = Random::from_seed(self.plan.seed ^ 0x7269_7661);
        let is_calm = matches!(self.theme, Theme::Calm | Theme::Power);
        if !self.plan.fences || self.plan.areas.is_some() || !is_calm {
            return;
        }
        let one_in = pick(&mut random, &[10, 40, 150]);
        for step in std::mem::take(&mut self.steps) {
            self.steps.push(step);
            if random.chance(1, one_in) {
                let (blocks, seed) = (pick(&mut random, &[0, 1, 30, 300]), random.bits() >> 32);
                self.steps.push(Step::Rival { blocks, seed });
            }
        }
    }

    /// The member a fault hits.
    fn victim(&mut self) -> usize {
        // Without redundancy nobody else knows what the metadata of two members said.
        let other = self.theme == Theme::Ruin && self.code.tolerance() > 0 && self.random.chance(1, 2);
        if other { self.random.index(self.plan.members) } else { self.culprit() }
    }

    fn culprit(&mut self) -> usize {
        pick(&mut self.random, &self.culprits)
    }

    fn replug(&mut self) {
        let member = self.victim();
        let step = match self.random.below(6) {
            0 => Step::Lose { member },
            1 | 2 => Step::Away { member },
            3 => Step::Back { member },
            4 => Step::Blank { member },
            _ => return self.fault(),
        };
        self.steps.push(step);
    }

    /// Something breaks that the baseline must stand: a drive as a whole, or a write of it. Often it is replaced.
    fn fault_of_baseline(&mut self) {
        let member = self.victim();
        let step = match self.random.below(8) {
            0 | 1 => Step::Die { member, at: Some(self.at()) },
            2 => Step::Die { member, at: None },
            3 | 4 => Step::Fail { member },
            5 => Step::Hang { member, ms: pick(&mut self.random, &[1, 100, 30_000]) },
            _ => Step::WriteFault { member, at: self.at() },
        };
        self.steps.push(step);
        if self.random.chance(1, 2) {
            (0..self.random.below(12)).for_each(|_| self.request());
            self.steps.push(Step::Replace { member });
            let rest = if self.random.chance(1, 2) { Step::Idle } else { Step::Flush };
            self.steps.push(rest);
        }
    }

    fn damage(&mut self, member: usize) -> Damage {
        let scope = pick(
            &mut self.random,
            &[Scope::All, Scope::All, Scope::Open, Scope::Headers, Scope::Footers, Scope::Superblocks],
        );
        let per_mille = match scope {
            Scope::All | Scope::Open => pick(&mut self.random, &[3, 10, 40, 150]),
            Scope::Headers | Scope::Footers | Scope::Superblocks => {
                pick(&mut self.random, &[100, 500, 1_000])
            }
        };
        // Without redundancy the metadata of a block is all that is known of it.
        let parts = [Part::Data, Part::Oob, Part::Any];
        let part = pick(&mut self.random, if self.code.tolerance() > 0 { &parts } else { &parts[..1] });
        Damage { member, per_mille, part, scope, seed: self.random.bits() >> 32 }
    }

    /// Something breaks. What destroys metadata hits culprits only: when more metadata of a stripe is gone than
    /// members can be lost, and members are lost besides, nobody knows what it held (README, limits).
    fn fault(&mut self) {
        if self.plan.raizn.is_some() {
            return self.fault_of_baseline();
        }
        let culprit = self.culprit();
        let member = self.victim();
        let count = 1 + u32::try_from(self.random.below(5)).expect("small");
        let seed = self.random.bits() >> 32;
        let step = match self.random.below(16) {
            0 => Step::Die { member, at: Some(self.at()) },
            1 => Step::Die { member, at: None },
            2 => Step::Fail { member },
            3 | 4 => Step::Hang { member, ms: pick(&mut self.random, &[1, 100, 30_000]) },
            5..=7 => Step::Rot(self.damage(culprit)),
            8 if self.code.tolerance() > 0 => Step::Unreadable(self.damage(culprit)),
            8 => Step::Rot(self.damage(culprit)),
            9 => Step::Misread { member: culprit, count },
            10 => Step::Stale { member: culprit, count },
            // Without redundancy a write that never arrived is not told from one that was torn.
            11 if self.theme == Theme::Culprit && self.code.tolerance() > 0 => {
                Step::Miswrite { member: culprit, at: self.at_kind(Kind::Chunk) }
            }
            11 => Step::Misread { member: culprit, count },
            12 => Step::WriteFault { member, at: self.at() },
            13 => Step::Zone { member, offline: false, seed },
            14 => Step::Zone { member: culprit, offline: true, seed },
            _ => Step::Shrink { member, blocks: 1 + u32::try_from(self.random.below(8)).expect("small") },
        };
        self.steps.push(step);
    }
}
