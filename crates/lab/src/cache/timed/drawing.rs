//! What plots of a cell show: columns over settings, in the report as a page.

use super::Cell;
use super::summary::{Line, Summary};
use crate::characterise::plot::{Horizontal, Plot, Series, Shape};

/// Part of a setting, `a, b, c`, that is along the horizontal axis; the others name series.
#[derive(Clone, Copy, Debug)]
enum Along {
    /// All of it.
    Whole,
    /// Part before the first comma.
    First,
    /// Part behind the first comma.
    Rest,
    /// Part behind the last comma.
    Last,
}

/// A plot of a cell.
#[derive(Clone, Copy, Debug)]
struct Drawing {
    id: &'static str,
    title: &'static str,
    caption: &'static str,
    x_title: &'static str,
    y_title: &'static str,
    along: Along,
    shape: Shape,
    /// Settings that end in this.
    only: &'static str,
    columns: &'static [&'static str],
}

impl Along {
    fn split(self, setting: &str) -> (&str, &str) {
        match self {
            Along::Whole => ("", setting),
            Along::First => setting.split_once(", ").map_or(("", setting), |(first, rest)| (rest, first)),
            Along::Rest => setting.split_once(", ").unwrap_or(("", setting)),
            Along::Last => setting.rsplit_once(", ").unwrap_or(("", setting)),
        }
    }
}

/// Plots of a cell that was run.
pub fn plots(summary: &Summary) -> Vec<Plot> {
    of_cell(summary.cell).iter().map(|drawing| drawing.of(summary)).collect()
}

impl Drawing {
    fn of(&self, summary: &Summary) -> Plot {
        let (mut names, mut series): (Vec<String>, Vec<Series>) = (Vec::new(), Vec::new());
        for column in self.columns {
            let place = summary.columns.iter().position(|own| own.name == *column);
            let place = place.expect("plots show columns of their cell");
            for Line { setting, figures } in
                summary.lines.iter().filter(|line| line.setting.ends_with(self.only))
            {
                let Some(figure) = figures[place] else { continue };
                let (group, name) = self.along.split(setting);
                let x = names.iter().position(|own| own == name).unwrap_or_else(|| {
                    names.push(name.to_owned());
                    names.len() - 1
                });
                let of_column = if self.columns.len() > 1 { *column } else { "" };
                let words: Vec<&str> =
                    [group, of_column].into_iter().filter(|word| !word.is_empty()).collect();
                let legend = if words.is_empty() { *column } else { &words.join(", ") };
                let own = series.iter().position(|own| own.name == legend).unwrap_or_else(|| {
                    let published = group == "paper";
                    series.push(Series { name: legend.to_owned(), points: Vec::new(), published });
                    series.len() - 1
                });
                series[own].points.push((crate::precise::precise(x), figure.mean));
            }
        }
        Plot {
            id: self.id,
            title: self.title,
            caption: self.caption,
            x_title: self.x_title,
            y_title: self.y_title,
            x: Horizontal::Names(names),
            shape: self.shape,
            series,
        }
    }
}

fn of_cell(cell: Cell) -> &'static [Drawing] {
    match cell {
        Cell::Table1 => TABLE1,
        Cell::EvictionTail => EVICTION_TAIL,
        Cell::Invalidate => INVALIDATE,
        Cell::Batch => BATCH,
        Cell::Sizes => SIZES,
        Cell::Admission => ADMISSION,
        Cell::Drives => DRIVES,
        Cell::Recovery => RECOVERY,
        Cell::Usage => USAGE,
        Cell::Ttl => TTL,
        Cell::Tenants => TENANTS,
        Cell::Policies => POLICIES,
        Cell::Hits => HITS,
        Cell::Peers => PEERS,
        Cell::Cores => CORES,
        Cell::Fig5 => FIG5,
        Cell::Memory => MEMORY,
        Cell::Foyer => FOYER,
        Cell::SizesWall => SIZES_WALL,
        Cell::InvalidateWall => INVALIDATE_WALL,
    }
}

const TABLE1: &[Drawing] = &[
    Drawing {
        id: "table1-qps",
        title: "Requests of 100 KB, half of them stores",
        caption: "32 in flight; open diamonds are Table I of the paper, of another drive.",
        x_title: "Capacity in the paper",
        y_title: "Requests (1/s)",
        along: Along::Last,
        shape: Shape::Bars,
        only: "",
        columns: &["qps"],
    },
    Drawing {
        id: "table1-p99",
        title: "The slowest of a hundred requests",
        caption: "The 99th percentile of gets and stores together.",
        x_title: "Capacity in the paper",
        y_title: "P99 (ms)",
        along: Along::Last,
        shape: Shape::Bars,
        only: "",
        columns: &["p99"],
    },
];

const EVICTION_TAIL: &[Drawing] = &[Drawing {
    id: "eviction-tail",
    title: "Gets of 4 KiB beside eviction",
    caption: "Percentiles of gets while there is room, and while zones are evicted and reset.",
    x_title: "Phase",
    y_title: "Latency (us)",
    along: Along::Last,
    shape: Shape::Bars,
    only: "",
    columns: &["p50", "p99"],
}];

const INVALIDATE: &[Drawing] = &[Drawing {
    id: "invalidate",
    title: "Stores over objects on flash",
    caption: "Median latency of an overwrite, by the share of changes that hide something; they wait for the journal.",
    x_title: "Changes that hide something",
    y_title: "Overwrites, P50 (us)",
    along: Along::Last,
    shape: Shape::Bars,
    only: " %",
    columns: &["over_p50"],
}];

const BATCH: &[Drawing] = &[
    Drawing {
        id: "batch-pages",
        title: "Pages that leave together",
        caption: "By the number of connections that store.",
        x_title: "Connections",
        y_title: "Pages of a batch",
        along: Along::Last,
        shape: Shape::Lines,
        only: "",
        columns: &["batch"],
    },
    Drawing {
        id: "batch-stores",
        title: "Stores",
        caption: "By the number of connections, answered from memory, or when their objects are on flash.",
        x_title: "Connections",
        y_title: "Stores (1/s)",
        along: Along::Last,
        shape: Shape::Lines,
        only: "",
        columns: &["stores"],
    },
];

const SIZES: &[Drawing] = &[
    Drawing {
        id: "sizes-written",
        title: "Bytes written over bytes admitted",
        caption: "All of them, and what pages alone take of it: headers and gaps.",
        x_title: "Value",
        y_title: "Written (B/B)",
        along: Along::Whole,
        shape: Shape::Bars,
        only: "",
        columns: &["written", "pages"],
    },
    Drawing {
        id: "sizes-memory",
        title: "Memory of an object",
        caption: "Index, ghosts and listings over objects.",
        x_title: "Value",
        y_title: "Memory (B/object)",
        along: Along::Whole,
        shape: Shape::Bars,
        only: "",
        columns: &["memory"],
    },
];

const ADMISSION: &[Drawing] = &[
    Drawing {
        id: "admission-hits",
        title: "Hits by admission",
        caption: "Gets that found something, in memory or on flash, and those in memory.",
        x_title: "Admission",
        y_title: "Hit ratio",
        along: Along::Whole,
        shape: Shape::Bars,
        only: "",
        columns: &["hits", "memory_hits"],
    },
    Drawing {
        id: "admission-written",
        title: "Bytes written by admission",
        caption: "Over those that are written when everything is admitted.",
        x_title: "Admission",
        y_title: "Written, of all",
        along: Along::Whole,
        shape: Shape::Bars,
        only: "",
        columns: &["of_all"],
    },
];

const DRIVES: &[Drawing] = &[Drawing {
    id: "drives",
    title: "Hits after a drive is lost, and after it is replaced",
    caption: "Hit ratio over that before, in windows of a twentieth of the keys.",
    x_title: "Window",
    y_title: "Hit ratio, of that before",
    along: Along::Rest,
    shape: Shape::Lines,
    only: "",
    columns: &["of_before"],
}];

const RECOVERY: &[Drawing] = &[Drawing {
    id: "recovery",
    title: "Time of a mount after a crash",
    caption: "Over the time in which the drives read as many bytes as the directories have.",
    x_title: "Objects, their values first",
    y_title: "Time, of reading directories",
    along: Along::Whole,
    shape: Shape::Bars,
    only: "",
    columns: &["ratio"],
}];

const USAGE: &[Drawing] = &[
    Drawing {
        id: "usage-stored",
        title: "Stores by how much of the flash is used",
        caption: "Half of the requests are stores (W5R5), on zones and on a conventional drive of the same flash.",
        x_title: "Flash that the cache uses",
        y_title: "Stored (MiB/s)",
        along: Along::First,
        shape: Shape::Bars,
        only: ", W5R5",
        columns: &["stored"],
    },
    Drawing {
        id: "usage-moved",
        title: "What the drive writes of its own",
        caption: "Bytes programmed over bytes that the cache wrote, under the same mix.",
        x_title: "Flash that the cache uses",
        y_title: "Programmed over written",
        along: Along::First,
        shape: Shape::Bars,
        only: ", W5R5",
        columns: &["wa_drive"],
    },
];

const TTL: &[Drawing] = &[Drawing {
    id: "ttl",
    title: "Objects that expire together in zones of their own",
    caption: "Means over settings: hit ratio, and the part of the flash in use that expired objects take.",
    x_title: "Zones",
    y_title: "Part",
    along: Along::Whole,
    shape: Shape::Bars,
    only: "",
    columns: &["hits", "expired"],
}];

const TENANTS: &[Drawing] = &[Drawing {
    id: "tenants",
    title: "A namespace beside a flood",
    caption: "Mean hit ratio of the quiet namespace over settings.",
    x_title: "The quiet namespace",
    y_title: "Hit ratio",
    along: Along::Whole,
    shape: Shape::Bars,
    only: "",
    columns: &["hits"],
}];

const POLICIES: &[Drawing] = &[Drawing {
    id: "policies",
    title: "Which zones go",
    caption: "Hit ratio of the engine's policies by zone, and of models that choose regions and objects, or know the future.",
    x_title: "Load, flash of a hundred bytes of its objects, zones",
    y_title: "Hit ratio",
    along: Along::Whole,
    shape: Shape::Lines,
    only: "",
    columns: &["fifo", "lru", "sieve", "s3fifo", "region-lru", "object-lru", "belady"],
}];

const HITS: &[Drawing] = &[Drawing {
    id: "hits",
    title: "Hits at the same memory and flash",
    caption: "The first of the two that are named, and the other.",
    x_title: "Memory and flash",
    y_title: "Hit ratio",
    along: Along::Whole,
    shape: Shape::Bars,
    only: "",
    columns: &["hits", "other"],
}];

const PEERS: &[Drawing] = &[Drawing {
    id: "peers",
    title: "Processor time of a request",
    caption: "All threads of the servers; medians.",
    x_title: "Load and peer",
    y_title: "Processor time (us)",
    along: Along::Whole,
    shape: Shape::Bars,
    only: "",
    columns: &["ours", "other"],
}];

const CORES: &[Drawing] = &[Drawing {
    id: "cores",
    title: "What more cores bring",
    caption: "Processor time of the busiest thread with one core over that with more.",
    x_title: "Cores and shards",
    y_title: "Gain",
    along: Along::Last,
    shape: Shape::Bars,
    only: "",
    columns: &["gain"],
}];

const FIG5: &[Drawing] = &[Drawing {
    id: "fig5",
    title: "Mixes of reads and writes of 100 KB",
    caption: "Processor time of an operation, beside RocksDB with blobs; medians.",
    x_title: "Mix",
    y_title: "Processor time (us)",
    along: Along::Whole,
    shape: Shape::Bars,
    only: "",
    columns: &["ours", "rocksdb"],
}];

const MEMORY: &[Drawing] = &[Drawing {
    id: "memory",
    title: "Memory of an object",
    caption: "What storing them adds to the resident memory of a server; drives and files left out.",
    x_title: "Server",
    y_title: "Memory (B/object)",
    along: Along::Last,
    shape: Shape::Bars,
    only: "",
    columns: &["added"],
}];

const FOYER: &[Drawing] = &[Drawing {
    id: "foyer",
    title: "What foyer finds after kills",
    caption: "Share of the objects that were neither overwritten nor removed.",
    x_title: "Setting",
    y_title: "Share",
    along: Along::Whole,
    shape: Shape::Bars,
    only: "",
    columns: &["found"],
}];

const SIZES_WALL: &[Drawing] = &[
    Drawing {
        id: "sizes-wall-rate",
        title: "Requests of a server by size of objects",
        caption: "16 connections with one request under way on each; medians.",
        x_title: "Value",
        y_title: "Requests (1/s)",
        along: Along::Whole,
        shape: Shape::Lines,
        only: "",
        columns: &["gets", "stores"],
    },
    Drawing {
        id: "sizes-wall-processor",
        title: "Processor time of a request by size of objects",
        caption: "All threads of the server, emulated drives included; medians.",
        x_title: "Value",
        y_title: "Processor time (us)",
        along: Along::Whole,
        shape: Shape::Lines,
        only: "",
        columns: &["get_processor", "store_processor"],
    },
];

const INVALIDATE_WALL: &[Drawing] = &[
    Drawing {
        id: "invalidate-wall-over",
        title: "Stores over objects on flash, by a server",
        caption: "Median latency; 1 and 64 connections with one request under way on each.",
        x_title: "Changes that hide an object",
        y_title: "P50 (us)",
        along: Along::Last,
        shape: Shape::Lines,
        only: "",
        columns: &["over_p50"],
    },
    Drawing {
        id: "invalidate-wall-processor",
        title: "Processor time of a change",
        caption: "All threads of the server, emulated drives included; medians.",
        x_title: "Changes that hide an object",
        y_title: "Processor time (us)",
        along: Along::Last,
        shape: Shape::Lines,
        only: "",
        columns: &["processor"],
    },
];
