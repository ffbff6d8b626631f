//! fio as a client of NBD.

use anyhow::{Context, Result, ensure};
use std::process::Command;

/// Runs fio on an export; returns its report.
///
/// # Errors
/// When fio cannot be started, fails, or reports nothing.
pub fn run(uri: &str, arguments: &[&str]) -> Result<serde_json::Value> {
    let output = Command::new("fio")
        .args(["--name=compare", "--ioengine=nbd", "--randrepeat=0", "--output-format=json"])
        .arg(format!("--uri={uri}"))
        .args(arguments)
        .output()
        .context("fio")?;
    ensure!(output.status.success(), "fio failed: {}", String::from_utf8_lossy(&output.stderr));
    // fio 3.33 prints notes before its JSON.
    let text = String::from_utf8_lossy(&output.stdout);
    let start = text.find('{').context("fio printed no JSON")?;
    serde_json::from_str(&text[start..]).context("fio's JSON")
}
