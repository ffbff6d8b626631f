//! The database: a MariaDB server with its data on a file system of ours.

use super::Host;
use super::program::{self, Background, Program, command};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Making a data directory.
const LIMIT: Duration = Duration::from_secs(300);
/// Smaller than the tables, so that rows are read from and written to the volume.
const BUFFER_POOL_MIB: u32 = 64;
/// Name of the database that clients use.
pub const NAME: &str = "sbtest";

/// Programs that the server needs.
pub const PROGRAMS: [Program; 2] = [
    Program { name: "mariadbd", package: "mariadb-server" },
    Program { name: "mariadb-install-db", package: "mariadb-server" },
];

/// A server; stopped when dropped.
#[derive(Debug)]
pub struct Database {
    _server: Background,
    socket: PathBuf,
}

impl Database {
    /// Makes a data directory in `file_system` and starts a server on it; its socket and log are in `folder`.
    ///
    /// # Errors
    /// When a program fails.
    pub fn start(host: &Host, folder: &Path, file_system: &Path) -> Result<Database> {
        let data = file_system.join("data");
        let mut install = command("mariadb-install-db");
        install.args(["--no-defaults", "--user=root", "--auth-root-authentication-method=normal"]);
        install.arg("--skip-test-db").arg(format!("--datadir={}", data.display()));
        program::run(host, LIMIT, &mut install)?;
        let orders = folder.join("begin.sql");
        std::fs::write(&orders, format!("CREATE DATABASE {NAME};\n"))
            .with_context(|| format!("{}", orders.display()))?;
        let socket = folder.join("database.sock");
        let mut server = command("mariadbd");
        server.args(["--no-defaults", "--user=root", "--skip-networking", "--innodb-flush-method=O_DIRECT"]);
        server.args(["--innodb-flush-log-at-trx-commit=1", "--innodb-log-file-size=256M"]);
        server.arg(format!("--innodb-buffer-pool-size={BUFFER_POOL_MIB}M"));
        let places = [("datadir", &data), ("socket", &socket), ("init-file", &orders)];
        for (name, path) in places {
            server.arg(format!("--{name}={}", path.display()));
        }
        server.arg(format!("--pid-file={}", folder.join("database.pid").display()));
        let server = Background::serve(host, &mut server, folder.join("database.log"), &socket)?;
        Ok(Database { _server: server, socket })
    }

    /// Returns the socket that clients connect to.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}
