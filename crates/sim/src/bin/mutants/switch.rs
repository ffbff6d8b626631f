//! Which deliberate bug this process has.
//!
//! In an ordinary build there are none. `cargo xtask mutants` puts this file into `base` of its scratch copy, and into
//! [`ALL`] what `crates/sim/mutants` lists; there an edit asks with `mutant!("name")`.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Description of a mutant.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name of the mutant on command lines.
    pub name: &'static str,
    /// Description of the bug.
    pub what: &'static str,
    /// Origin of the idea: `others`, a mistake that another array of zoned drives has made; `past`, a bug that this
    /// engine once had; `ours`, a mechanism of this engine, or a check, taken away.
    pub source: &'static str,
    /// World that looks for it.
    pub world: World,
}

/// World in which a bug can show.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "an ordinary build lists no mutants")]
pub enum World {
    /// That of the log-structured engine and the baseline.
    Log,
    /// That of the in-place engine.
    InPlace,
    /// That of conventional drives.
    Conventional,
    /// That of drives with identities in-band.
    Inband,
    /// That of the cache.
    Cache,
}

/// All of them.
pub const ALL: &[About] = &[];

/// The number of the mutant that was chosen; zero is none, and [`UNASKED`] nobody has looked.
static CHOSEN: AtomicUsize = AtomicUsize::new(UNASKED);
/// Number of none: the variable is asked first.
const UNASKED: usize = usize::MAX;
/// Variable that names a mutant for programs that do not choose one: tests of a scratch copy.
const VARIABLE: &str = "ZONEWEAVE_MUTANT";

/// Chooses the mutant that this process is, from now on; `None` is none.
///
/// # Panics
/// Without a mutant of that name.
pub fn choose(name: Option<&str>) {
    CHOSEN.store(name.map_or(0, number), Ordering::SeqCst);
}

/// True when this process was made to have the bug of this number.
#[inline]
#[must_use]
pub fn is(number: usize) -> bool {
    let chosen = CHOSEN.load(Ordering::Relaxed);
    if chosen == UNASKED { named() == number } else { chosen == number }
}

/// The number of the mutant that the variable names; asked once.
#[cold]
fn named() -> usize {
    let named = std::env::var(VARIABLE).map_or(0, |name| number(&name));
    CHOSEN.store(named, Ordering::SeqCst);
    named
}

/// The number of a mutant, from one; known when the program is built.
///
/// # Panics
/// Without a mutant of that name; in a constant the program is not built.
#[must_use]
pub const fn number(name: &str) -> usize {
    let mut at = 0;
    while at < ALL.len() {
        if is_same(ALL[at].name.as_bytes(), name.as_bytes()) {
            return at + 1;
        }
        at += 1;
    }
    panic!("crates/sim/mutants names no such mutant")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}
