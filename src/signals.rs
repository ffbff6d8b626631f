//! Signals of commands that have something to clean up, and of servers that have not begun.

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Notes signals, so that what is half done can be undone. Until it is dropped.
pub struct Interruption {
    asked: Arc<AtomicBool>,
    ids: Vec<SigId>,
}

impl Interruption {
    /// Begins to note SIGINT, SIGTERM and SIGHUP.
    pub fn watch() -> io::Result<Interruption> {
        let mut watch = Interruption { asked: Arc::new(AtomicBool::new(false)), ids: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            watch.ids.push(signal_hook::flag::register(signal, Arc::clone(&watch.asked))?);
        }
        Ok(watch)
    }

    /// A signal came.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

/// Lets signals end the process at once, as if nobody had asked for them: a start that takes long can be given up.
/// Until it is dropped.
pub struct Impatience {
    ids: Vec<SigId>,
}

impl Impatience {
    /// Gives signals their default effect.
    pub fn begin() -> io::Result<Impatience> {
        let mut impatience = Impatience { ids: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            if signal == SIGHUP && server::stop::ignores_hangup() {
                continue;
            }
            let always = Arc::new(AtomicBool::new(true));
            impatience.ids.push(signal_hook::flag::register_conditional_default(signal, always)?);
        }
        Ok(impatience)
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        unregister(&self.ids);
    }
}

impl Drop for Impatience {
    fn drop(&mut self) {
        unregister(&self.ids);
    }
}

fn unregister(ids: &[SigId]) {
    for id in ids {
        signal_hook::low_level::unregister(*id);
    }
}
