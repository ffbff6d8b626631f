//! The load of the experiments on the wall clock: settings, and what the machine did meanwhile.

use super::Conditions;
use super::draft::{Cell, Draft};
use super::measurement::{Metric, Value};
use super::scheme::{self, Scheme};
use super::setting::Setting;
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};
use crate::wall::Host;
use crate::wall::array::ServedArray;
use crate::wall::block_device::Attachment;
use crate::wall::file_system;
use crate::wall::processor::Machine;
use crate::wall::program::Program;
use anyhow::{Context, Result};
use std::time::Instant;

/// Processor time of the server, of one processor's; it waits awake for drives of a profile.
pub const SERVER_PROCESSOR: Metric = Metric { name: "server_processor_percent", unit: "percent" };
/// Busy share of all processors.
pub const MACHINE_PROCESSOR: Metric = Metric { name: "machine_processor_percent", unit: "percent" };

/// Segments that are open for clients: one with chunks of one size, or four of small and large chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// A segment with chunks of so many KiB.
    One(u32),
    /// So many of 8-KiB and of 16-KiB chunks, as in experiment 7.
    Four(u32, u32),
}

/// As in the paper.
pub const OPEN: [Open; 4] = [Open::One(4), Open::One(16), Open::Four(1, 3), Open::Four(2, 2)];

/// A cell of a load. `adaptive` is told nothing of a setting, and has one cell.
pub fn cell(scheme: Scheme, open: Open, load: &Setting) -> Cell {
    let open = if scheme == Scheme::Adaptive { OPEN[0] } else { open };
    let attachment = Some(Attachment::of_this_machine().name());
    let setting = match open {
        Open::One(chunk_kib) => Setting { chunk_kib, attachment, ..load.clone() },
        Open::Four(small_segments, large_segments) => Setting {
            chunk_kib: 8,
            large_chunk_kib: Some(16),
            small_segments,
            large_segments,
            attachment,
            ..load.clone()
        },
    };
    Cell { scheme, setting }
}

/// All cells of a load.
pub fn cells(load: &Setting) -> Vec<Cell> {
    let fixed = OPEN.into_iter().flat_map(|open| scheme::ALL.map(|scheme| cell(scheme, open, load)));
    fixed.chain([cell(Scheme::Adaptive, OPEN[0], load)]).collect()
}

/// A metric of every scheme beside every setting.
pub fn bars_of_schemes(draft: &Draft, load: &Setting, metric: Metric) -> Vec<Series> {
    let schemes = scheme::ALL.into_iter().chain([Scheme::Adaptive]);
    schemes
        .map(|scheme| draft.bars(scheme.name(), &OPEN.map(|open| cell(scheme, open, load)), metric))
        .collect()
}

/// A plot of bars beside every setting; what it is called is up to the experiment.
pub fn plot(series: Vec<Series>) -> Plot {
    Plot {
        id: "",
        title: "",
        caption: "",
        x_title: "open segments and chunks, or small and large segments",
        y_title: "",
        x: Horizontal::Names(names()),
        shape: Shape::Bars,
        series,
    }
}

/// As they stand along an axis.
fn names() -> Vec<String> {
    let name = |open| match open {
        Open::One(chunk_kib) => format!("1 x {chunk_kib} KiB"),
        Open::Four(small, large) => format!("({small},{large})"),
    };
    OPEN.map(name).to_vec()
}

/// Lists the programs that any load on a file system needs.
pub fn programs() -> Vec<Program> {
    [Attachment::of_this_machine().programs(), file_system::PROGRAMS.to_vec()].concat()
}

/// The machine to run on.
pub fn host<'a>(conditions: Conditions<'a>) -> Result<&'a Host> {
    conditions.host.context("an experiment on the wall clock needs a host")
}

/// Watch of processor time, from its making on.
pub struct Watch<'a> {
    array: &'a ServedArray,
    began: Instant,
    server_seconds: f64,
    machine: Machine,
}

impl Watch<'_> {
    /// From now on.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn start(array: &ServedArray) -> Result<Watch<'_>> {
        let server_seconds = array.processor_seconds()?;
        Ok(Watch { array, began: Instant::now(), server_seconds, machine: Machine::now()? })
    }

    /// Up to now.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn values(&self) -> Result<[Value; 2]> {
        let server = self.array.processor_seconds()? - self.server_seconds;
        let machine = Machine::now()?.busy_percent_since(self.machine);
        Ok([
            Value { metric: SERVER_PROCESSOR, value: 100.0 * server / self.began.elapsed().as_secs_f64() },
            Value { metric: MACHINE_PROCESSOR, value: machine },
        ])
    }
}
