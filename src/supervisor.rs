//! What the service manager that started a server is told: when clients are served, and when the server ends.
//!
//! systemd says by `NOTIFY_SOCKET` where it listens (`Type=notify`); without it nobody is told.

use sd_notify::NotifyState;

/// Says that clients are served.
pub fn say_ready() {
    say(&NotifyState::Ready);
}

/// Says that the server ends: clients are finished with, and state is written.
pub fn say_stopping() {
    say(&NotifyState::Stopping);
}

/// A manager that cannot be told is none that a server should end for.
fn say(state: &NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(std::slice::from_ref(state)) {
        log::warn!("the service manager at NOTIFY_SOCKET was not told {state:?}: {error}");
    }
}
