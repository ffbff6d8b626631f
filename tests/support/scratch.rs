//! A folder for the length of a test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A folder that is removed with its owner, unless `ZONEWEAVE_KEEP=1`.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        Scratch::make(new_path(name))
    }

    /// The same below `root`: on a disk or in memory, whatever `ZONEWEAVE_TEST_DIR` says.
    pub fn below(root: &str, name: &str) -> Scratch {
        Scratch::make(new_path_below(Path::new(root), name))
    }

    fn make(path: PathBuf) -> Scratch {
        std::fs::create_dir(&path).unwrap();
        Scratch { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::env::var_os("ZONEWEAVE_KEEP").is_some() {
            println!("kept: {}", self.path.display());
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            println!("could not remove {}: {error}", self.path.display());
        }
    }
}

/// A path that nobody else uses: short, for it may hold a socket.
pub fn new_path(name: &str) -> PathBuf {
    let folder = std::env::var_os("ZONEWEAVE_TEST_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    new_path_below(&folder, name)
}

fn new_path_below(folder: &Path, name: &str) -> PathBuf {
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("zw-{name}-{}-{count}", std::process::id()))
}
