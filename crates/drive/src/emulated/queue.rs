//! Commands in flight, and which of them follow each other in a zone.
//!
//! ```text
//!   place    0      1      2      3      4           zone: first untaken
//!            A      B      A      C      A              A: 0, B: 1, C: 3
//!   next     2      -      4      -      -
//! ```
//! The places are in the order of execution; `link` draws the chains once per poll, at the cost of
//! two stores per command. A chain is taken from its front: nothing of a zone overtakes anything of
//! the same zone. Memory grows to the caller's queue depth and stays.

use zone::device::Command;

/// No such place.
const NONE: u32 = u32::MAX;

/// Commands that were submitted and not yet executed. The caller bounds its queue depth.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Commands by place; `None` where one was taken.
    commands: Vec<Option<Command>>,
    /// Per command, the place of the next one of its zone.
    next: Vec<u32>,
    /// Per zone, the place of its front while chains are drawn; `NONE` otherwise.
    front: Vec<u32>,
}

impl Queue {
    pub(super) fn new(zones: u32) -> Queue {
        Queue { commands: Vec::new(), next: Vec::new(), front: vec![NONE; zones as usize] }
    }

    #[inline]
    pub(super) fn push(&mut self, command: Command) {
        self.commands.push(Some(command));
    }

    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    /// The commands, for changing their order before they are linked.
    pub(super) fn commands_mut(&mut self) -> &mut [Option<Command>] {
        &mut self.commands
    }

    /// Puts commands before those that are there, before they are linked.
    pub(super) fn put_first(&mut self, commands: Vec<Command>) {
        self.commands.splice(0..0, commands.into_iter().map(Some));
    }

    /// Draws the chains. From here on commands are only taken.
    pub(super) fn link(&mut self) {
        self.next.clear();
        self.next.resize(self.commands.len(), NONE);
        let places = 0..u32::try_from(self.commands.len()).expect("a u32 of commands in flight");
        for ((place, command), next) in places.zip(&self.commands).zip(&mut self.next).rev() {
            let zone = command.as_ref().expect("nothing is taken before the chains are drawn").zone;
            if let Some(front) = self.front.get_mut(zone.index()) {
                *next = std::mem::replace(front, place);
            }
        }
    }

    /// Takes the command at a place, unless it was taken with one before it.
    #[inline]
    pub(super) fn take(&mut self, place: usize) -> Option<Command> {
        let command = self.commands[place].take()?;
        if let Some(front) = self.front.get_mut(command.zone.index()) {
            *front = NONE;
        }
        Some(command)
    }

    /// Commands that follow the one at `place` in its zone.
    #[inline]
    pub(super) fn followers(&mut self, place: usize) -> Followers<'_> {
        let next = self.next[place];
        Followers { queue: self, next }
    }

    /// Forgets the places, all of which were taken.
    pub(super) fn clear(&mut self) {
        self.commands.clear();
    }
}

/// The rest of a zone's chain.
pub(super) struct Followers<'a> {
    queue: &'a mut Queue,
    next: u32,
}

impl Followers<'_> {
    /// The next command of the zone.
    #[inline]
    pub(super) fn peek(&self) -> Option<&Command> {
        let command = self.queue.commands.get(self.next as usize)?;
        assert!(command.is_some(), "a chain is taken from its front");
        command.as_ref()
    }

    /// Takes the command that was peeked at.
    #[inline]
    pub(super) fn take(&mut self) -> Command {
        let place = self.next as usize;
        let command = self.queue.take(place).expect("a chain is taken from its front");
        self.next = self.queue.next[place];
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::units::ZoneIndex;
    use zone::device::{Op, Token};

    fn queue(zones: &[u32]) -> Queue {
        let mut queue = Queue::new(4);
        for (token, zone) in (0..).zip(zones) {
            queue.push(Command { token: Token(token), zone: ZoneIndex(*zone), op: Op::Close });
        }
        queue.link();
        queue
    }

    fn follow(queue: &mut Queue, place: usize) -> Vec<u64> {
        let mut followers = queue.followers(place);
        std::iter::from_fn(|| followers.peek().is_some().then(|| followers.take().token.0)).collect()
    }

    #[test]
    fn chains_hold_one_zone_each_in_order() {
        let mut queue = queue(&[0, 1, 0, 3, 0, 9, 9]);
        assert_eq!(queue.take(0).unwrap().token, Token(0));
        assert_eq!(follow(&mut queue, 0), [2, 4]);
        assert_eq!(queue.take(1).unwrap().token, Token(1));
        assert_eq!(follow(&mut queue, 1), []);
        assert!(queue.take(2).is_none(), "taken with place 0");
        assert_eq!(queue.take(5).unwrap().token, Token(5));
        assert_eq!(follow(&mut queue, 5), [], "zones that do not exist have no chain");
    }

    #[test]
    fn one_poll_leaves_nothing_for_the_next() {
        let mut queue = queue(&[2, 2, 1]);
        (0..3).for_each(|place| assert!(queue.take(place).is_some()));
        queue.clear();
        queue.push(Command { token: Token(7), zone: ZoneIndex(2), op: Op::Close });
        queue.link();
        assert_eq!(follow(&mut queue, 0), []);
    }
}
