//! `zoneweave status` of an array of md: from the server if there is one, else from the members.

use super::array::{Access, Array};
use super::description::Description;
use super::report::{Report, paths_by_role};
use crate::cli::Query;
use crate::exit::Exit;
use crate::export::WithExports;
use crate::status::ask_at;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Prints the state.
pub fn run(options: &Query) -> Result<Exit> {
    let report = current(&options.dir)?;
    let shown = WithExports::of(&options.dir, report.identity.capacity_bytes, &report);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&shown)?);
    } else {
        print!("{report}");
        shown.words().for_each(|export| println!("export    {export}"));
    }
    Ok(report.exit())
}

/// Path of the socket at which the server of an array answers questions.
pub fn control_path(dir: &Path) -> PathBuf {
    dir.join("control.sock")
}

pub fn current(dir: &Path) -> Result<Report> {
    let description = Description::open(dir)?;
    if let Some(answer) = ask_at(&control_path(dir), "status")? {
        return serde_json::from_str(&answer).context("the server's answer");
    }
    let array = Array::open_those_there(&description.uuid, &description.paths(dir), Access::Look)?;
    let assembly = array.judge()?;
    let paths = paths_by_role(&assembly);
    let mut report = Report::of_assembly(&assembly, &paths);
    if let Err(refused) = array::inplace::start::members_of(&assembly) {
        report.refused.get_or_insert(refused.to_string());
    }
    array.absent.iter().for_each(|why| log::warn!("{why}"));
    Ok(report)
}
