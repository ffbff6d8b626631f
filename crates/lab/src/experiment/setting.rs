//! Settings: what an experiment varies, with stable names.

use serde::Serialize;
use std::fmt;

/// Conditions of one measurement. Fields that do not apply are left out of JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Setting {
    /// Drives, by the name of their profile.
    pub profile: &'static str,
    /// Count of drives.
    pub drives: usize,
    /// RAID level: 0, 4, 5 and so on.
    pub level: u8,
    /// Size of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_kib: Option<u32>,
    /// Size of chunks, of small ones where there are two sizes.
    pub chunk_kib: u32,
    /// Size of large chunks, where there are two sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_chunk_kib: Option<u32>,
    /// Requests in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// Stripes of a group, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// Open segments of small chunks.
    pub small_segments: u32,
    /// Open segments of large chunks.
    pub large_segments: u32,
    /// Workload of clients, or the trace that they follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<&'static str>,
    /// Connections to a database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Attachment by which a served volume became a block device, on the wall clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment: Option<&'static str>,
    /// Zones of each drive for the write area, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_area_zones: Option<u32>,
    /// Size of drives' windows, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_kib: Option<u32>,
    /// Logical zones that are written at a time, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_zones: Option<u32>,
    /// Each write is flushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flushes: Option<bool>,
    /// Lifetime estimate that tells which blocks are worth a slot of it, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetimes: Option<&'static str>,
    /// Clients' writes avoid channels that the collector writes to, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avoids_channels: Option<bool>,
    /// Channel groups of the drive, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_groups: Option<u32>,
    /// Map of zones to channel groups in drives, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_map: Option<&'static str>,
    /// Zones that lie elsewhere than the rule of the drive says, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong_percent: Option<u32>,
    /// Physical space beyond the volume, as a share of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_percent: Option<u32>,
    /// Share of the index that is in memory, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_percent: Option<u32>,
    /// Size of the cache of parities, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_mib: Option<u32>,
    /// Size of the volume, where that is varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mib: Option<u32>,
    /// Base of the value where it is a ratio: a scheme, or a key of the setting with its other value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versus: Option<String>,
    /// The rule that was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl Setting {
    /// Four ZN540 4 TB in RAID-5 with one open segment, queue depth 64: what section 5.2 of the ZapRAID paper uses
    /// unless it says otherwise.
    #[must_use]
    pub fn paper(request_kib: u32, chunk_kib: u32) -> Setting {
        Setting {
            profile: "zn540-4tb",
            drives: 4,
            level: 5,
            request_kib: Some(request_kib),
            chunk_kib,
            queue_depth: Some(64),
            small_segments: 1,
            ..Setting::default()
        }
    }
}

impl fmt::Display for Setting {
    /// Writes what differs from the paper's usual setting as `key=value`, without the attachment: it is the machine's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Setting::paper(0, 0);
        let mut words = Vec::new();
        if self.profile != usual.profile || self.drives != usual.drives {
            words.push(format!("{}x{}", self.drives, self.profile));
        }
        if self.level != usual.level {
            words.push(format!("level={}", self.level));
        }
        let segments = (self.small_segments, self.large_segments);
        let is_usual = segments == (usual.small_segments, usual.large_segments) || segments == (0, 0);
        let numbers = [
            ("request_kib", self.request_kib),
            ("chunk_kib", Some(self.chunk_kib)),
            ("large_chunk_kib", self.large_chunk_kib),
            ("small_segments", (!is_usual).then_some(self.small_segments)),
            ("large_segments", (!is_usual).then_some(self.large_segments)),
            ("queue_depth", self.queue_depth.filter(|depth| Some(*depth) != usual.queue_depth)),
            ("group", self.group),
            ("connections", self.connections),
            ("write_area_zones", self.write_area_zones),
            ("window_kib", self.window_kib),
            ("logical_zones", self.logical_zones),
            ("reserved_percent", self.reserved_percent),
            ("index_percent", self.index_percent),
            ("cache_mib", self.cache_mib),
            ("volume_mib", self.volume_mib),
            ("channel_groups", self.channel_groups),
            ("wrong_percent", self.wrong_percent),
        ];
        for (key, value) in numbers {
            words.extend(value.map(|value| format!("{key}={value}")));
        }
        words.extend(self.flushes.map(|flushes| format!("flushes={flushes}")));
        words.extend(self.lifetimes.map(|lifetimes| format!("lifetimes={lifetimes}")));
        words.extend(self.avoids_channels.map(|avoids| format!("avoids_channels={avoids}")));
        words.extend(self.zone_map.map(|map| format!("zone_map={map}")));
        words.extend(self.workload.map(|workload| format!("workload={workload}")));
        f.write_str(&words.join(" "))
    }
}
