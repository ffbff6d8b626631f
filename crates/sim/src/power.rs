//! The power all drives hang on, and fuses that blow at a certain command.

use crate::step::{At, Kind};

/// Effect of a fuse that blows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// The power fails: this command and all others in flight take effect, or not, or partly.
    PowerOff,
    /// The drive dies.
    Die,
    /// The command is refused with a write fault.
    WriteFault,
    /// The data of the command lands in another place.
    Miswrite,
    /// The command, or else the next read, returns the data of another place.
    Misread,
}

/// A fuse.
#[derive(Clone, Copy, Debug)]
struct Fuse {
    /// Whose commands count; `None`: everybody's.
    member: Option<usize>,
    kind: Kind,
    /// Commands yet to pass.
    left: u32,
    blow: Blow,
}

/// The power.
#[derive(Debug, Default)]
pub struct Power {
    off: bool,
    /// Recovery is under way: code that waits for every command. Drives then answer at once, and all of
    /// them when the power fails.
    pub recovering: bool,
    /// Recovery keeps several commands in flight: they take their time, and those in flight when the power fails may have
    /// taken effect.
    pub reorders: bool,
    fuses: Vec<Fuse>,
}

impl Power {
    /// The power is on, and drives answer at once.
    #[must_use]
    pub fn in_recovery() -> Power {
        Power { recovering: true, ..Power::default() }
    }

    /// True when the power has failed.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.off
    }

    /// The power fails now.
    pub fn fail(&mut self) {
        self.off = true;
        self.fuses.retain(|fuse| fuse.blow != Blow::PowerOff);
    }

    /// The power comes back.
    pub fn restore(&mut self) {
        self.off = false;
    }

    /// Something will happen at a certain command.
    pub fn arm(&mut self, at: At, member: Option<usize>, blow: Blow) {
        assert!(blow == Blow::PowerOff || member.is_some(), "only the power is everybody's");
        self.fuses.push(Fuse { member, kind: at.kind, left: at.skip, blow });
    }

    /// No fuse cuts the power any more; the others remain.
    pub fn disarm_cuts(&mut self) {
        self.fuses.retain(|fuse| fuse.blow != Blow::PowerOff);
    }

    /// A member has a new drive, and what waited for the old one waits no more.
    pub fn disarm(&mut self, member: usize) {
        self.fuses.retain(|fuse| fuse.member != Some(member));
    }

    /// True when something will still happen to a member.
    #[must_use]
    pub fn is_armed(&self, member: usize) -> bool {
        self.fuses.iter().any(|fuse| fuse.member == Some(member))
    }

    /// A command of a member is about to take effect.
    pub fn burn(&mut self, member: usize, kind: Kind) -> Option<Blow> {
        let mut blown = None;
        let mut index = 0;
        while index < self.fuses.len() {
            let fuse = &mut self.fuses[index];
            let counts = fuse.member.is_none_or(|own| own == member) && matches(fuse.kind, kind);
            if !counts {
                index += 1;
            } else if fuse.left > 0 {
                fuse.left -= 1;
                index += 1;
            } else if blown.is_none() {
                blown = Some(self.fuses.remove(index).blow);
            } else {
                index += 1;
            }
        }
        if blown == Some(Blow::PowerOff) {
            self.fail();
            assert!(self.fuses.iter().all(|fuse| fuse.blow != Blow::PowerOff), "the power fails once");
        }
        blown
    }
}

fn matches(wanted: Kind, kind: Kind) -> bool {
    match wanted {
        Kind::Any => kind != Kind::Read,
        Kind::Chunk => matches!(kind, Kind::Chunk | Kind::Move),
        _ => wanted == kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuse_lets_some_commands_pass_and_blows_once() {
        let mut power = Power::default();
        power.arm(At { kind: Kind::Chunk, skip: 1 }, Some(2), Blow::Die);
        assert_eq!(power.burn(1, Kind::Chunk), None);
        assert_eq!(power.burn(2, Kind::Header), None);
        assert_eq!(power.burn(2, Kind::Move), None);
        assert_eq!(power.burn(2, Kind::Chunk), Some(Blow::Die));
        assert_eq!(power.burn(2, Kind::Chunk), None);
    }
}
