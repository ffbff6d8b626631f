//! Servers that were started and are to listen.

use anyhow::{Result, bail, ensure};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// Waits until a server takes connections on its socket.
///
/// # Errors
/// When the server ends, or takes longer than the limit.
pub fn wait(server: &mut Child, socket: &Path, limit: Duration) -> Result<()> {
    let began = Instant::now();
    while UnixStream::connect(socket).is_err() {
        if let Some(status) = server.try_wait()? {
            bail!("the server of {} ended with {status}", socket.display());
        }
        ensure!(began.elapsed() < limit, "the server of {} does not answer", socket.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
