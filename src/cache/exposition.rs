//! The status of a cache in Prometheus' text format.
//!
//! [`FAMILIES`] and [`GROUPS`] are what is told: a metric, and where in the answer to `status` its value is. What the
//! answer lacks, a budget that nobody set or the age of zones that are not there, is not told.

use base::units::BLOCK_BYTES_U64;
use prometheus::TextEncoder;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use serde_json::Value;

pub use prometheus::TEXT_FORMAT as CONTENT_TYPE;

/// Begin of all names.
const PREFIX: &str = "zoneweave_cache_";

/// A metric.
struct Family {
    name: &'static str,
    kind: MetricType,
    help: &'static str,
    /// Name of the label by which samples differ; none where there is one sample.
    label: &'static str,
    /// Value of the label, and a pointer to the value of the sample.
    samples: &'static [(&'static str, &'static str)],
    /// Factor from a value of the answer to a sample: bytes of a block, or 1.
    unit: u64,
}

/// Metrics of each element of an array of the answer.
struct Group {
    array: &'static str,
    /// Fields that name the element.
    labels: &'static [&'static str],
    families: &'static [Family],
}

type Samples = &'static [(&'static str, &'static str)];

const fn counter(name: &'static str, help: &'static str, label: &'static str, samples: Samples) -> Family {
    Family { name, kind: MetricType::COUNTER, help, label, samples, unit: 1 }
}

const fn gauge(name: &'static str, help: &'static str, label: &'static str, samples: Samples) -> Family {
    Family { name, kind: MetricType::GAUGE, help, label, samples, unit: 1 }
}

const fn in_blocks(family: Family) -> Family {
    Family { unit: BLOCK_BYTES_U64, ..family }
}

const FAMILIES: &[Family] = &[
    counter(
        "hits_total",
        "Reads that found an object, by where it was.",
        "place",
        &[("memory", "/hits/memory"), ("buffers", "/hits/buffers"), ("flash", "/hits/flash")],
    ),
    counter("misses_total", "Reads that found nothing.", "", &[("", "/misses")]),
    counter("stores_total", "Objects that clients stored.", "", &[("", "/stores")]),
    counter("removes_total", "Objects that clients removed.", "", &[("", "/removes")]),
    counter(
        "stored_bytes_total",
        "Bytes of keys and values that clients stored.",
        "",
        &[("", "/bytes_stored")],
    ),
    counter(
        "admitted_bytes_total",
        "Bytes of keys and values that went to flash.",
        "",
        &[("", "/admission/bytes_admitted")],
    ),
    in_blocks(counter(
        "written_bytes_total",
        "Bytes written to flash, by what they are.",
        "what",
        &[
            ("data", "/blocks_written/data"),
            ("directory", "/blocks_written/directory"),
            ("journal", "/blocks_written/journal"),
            ("superblock", "/blocks_written/superblock"),
        ],
    )),
    in_blocks(counter("read_bytes_total", "Bytes of pages read from flash.", "", &[("", "/pages_read")])),
    counter("batches_total", "Batches of pages written to flash.", "", &[("", "/batches")]),
    counter(
        "reinserted_total",
        "Objects written anew as their zone went.",
        "",
        &[("", "/reinserted/objects")],
    ),
    counter("reinserted_bytes_total", "Bytes of these.", "", &[("", "/reinserted/bytes")]),
    counter("invalidations_total", "Entries of the journals.", "", &[("", "/invalidations")]),
    counter(
        "invalidations_carried_total",
        "Entries written again as their zone had to go.",
        "",
        &[("", "/invalidations_carried")],
    ),
    counter(
        "forgotten_total",
        "Objects that admission kept from flash and memory forgot.",
        "",
        &[("", "/admission/forgotten/objects")],
    ),
    counter("index_full_total", "Objects that found no slot in the index.", "", &[("", "/index_full")]),
    counter("damaged_total", "Objects whose checksum was wrong.", "", &[("", "/damaged")]),
    counter(
        "zones_evicted_total",
        "Zones that made room, by why: a policy chose them, or all in them had expired.",
        "why",
        &[("policy", "/zones/evicted"), ("expired", "/zones/expired")],
    ),
    counter(
        "zones_spared_total",
        "Zones that were to go and stayed, for they were hit.",
        "",
        &[("", "/zones/spared")],
    ),
    gauge("objects", "Objects in the index.", "", &[("", "/objects")]),
    gauge(
        "zones",
        "Zones by state.",
        "state",
        &[
            ("free", "/zones/free"),
            ("open", "/zones/open"),
            ("full", "/zones/full"),
            ("journal", "/zones/journal"),
            ("leaving", "/zones/leaving"),
        ],
    ),
    gauge(
        "stream_oldest_seconds",
        "Age of the oldest zone of a stream.",
        "stream",
        &[
            ("young", "/zones/streams/young/oldest_seconds"),
            ("main", "/zones/streams/main/oldest_seconds"),
            ("minutes", "/zones/streams/minutes/oldest_seconds"),
            ("hours", "/zones/streams/hours/oldest_seconds"),
            ("days", "/zones/streams/days/oldest_seconds"),
            ("shares", "/zones/streams/shares/oldest_seconds"),
        ],
    ),
    gauge(
        "memory_bytes",
        "Memory by what takes it.",
        "what",
        &[
            ("index", "/memory/index"),
            ("ghost", "/memory/ghost"),
            ("listings", "/memory/listings"),
            ("buffers", "/memory/buffers"),
            ("held", "/memory/held"),
            ("copies", "/memory/copies"),
        ],
    ),
    gauge("memory_max_bytes", "Memory that these may take in all.", "", &[("", "/memory/max")]),
    gauge("index_slots", "Slots of the index in use.", "", &[("", "/index_slots")]),
    gauge("index_slots_max", "Slots of the index.", "", &[("", "/index_slots_max")]),
    gauge(
        "expired_share",
        "Part of the flash in use that expired objects take.",
        "",
        &[("", "/expired_share")],
    ),
    gauge(
        "endurance_bytes_per_day",
        "Bytes that may be written in a day.",
        "",
        &[("", "/admission/bytes_per_day")],
    ),
    gauge("endurance_left", "Part of an hour's budget that is left.", "", &[("", "/admission/budget_left")]),
    gauge("drives", "Drives in service.", "", &[("", "/drives")]),
    gauge("takes_writes", "1 while a drive takes writes.", "", &[("", "/takes_writes")]),
    gauge("recovery_seconds", "Time that the last start took.", "", &[("", "/recovery/seconds")]),
    gauge("recovery_records", "Objects that the last start found.", "", &[("", "/recovery/records_found")]),
];

const GROUPS: &[Group] = &[
    Group {
        array: "/drive_states",
        labels: &["drive"],
        families: &[
            gauge("drive_up", "1 of a drive in service.", "", &[("", "/state")]),
            gauge("drive_bytes", "Flash of a drive.", "", &[("", "/bytes")]),
            gauge("drive_used_bytes", "Flash in use.", "", &[("", "/bytes_used")]),
            gauge("drive_free_zones", "Zones that are free.", "", &[("", "/zones/free")]),
            gauge("drive_in_flight", "Commands under way.", "", &[("", "/in_flight")]),
        ],
    },
    Group {
        array: "/namespaces",
        labels: &["namespace", "name"],
        families: &[
            gauge("namespace_objects", "Objects of a namespace.", "", &[("", "/objects")]),
            counter("namespace_hits_total", "Reads that found an object.", "", &[("", "/hits")]),
            counter("namespace_misses_total", "Reads that found nothing.", "", &[("", "/misses")]),
            counter("namespace_stores_total", "Objects that clients stored.", "", &[("", "/stores")]),
            gauge("namespace_zones", "Zones of its own.", "", &[("", "/zones")]),
            gauge(
                "namespace_copies_bytes",
                "Copies in the part of memory that it has for itself.",
                "",
                &[("", "/copies_bytes")],
            ),
        ],
    },
];

/// Metrics of a served cache, of its answer to `status`.
///
/// # Errors
/// When a metric breaks a rule of the format.
pub fn text(status: &Value) -> prometheus::Result<String> {
    let whole = [(status, Vec::new())];
    let mut families: Vec<MetricFamily> = FAMILIES.iter().map(|family| family.of(&whole)).collect();
    for group in GROUPS {
        let elements = status.pointer(group.array).and_then(Value::as_array);
        let named: Vec<_> = elements.into_iter().flatten().map(|one| (one, group.name(one))).collect();
        families.extend(group.families.iter().map(|family| family.of(&named)));
    }
    families.retain(|family| !family.get_metric().is_empty());
    let mut text = String::new();
    TextEncoder::new().encode_utf8(&families, &mut text)?;
    Ok(text)
}

impl Family {
    /// Samples of all sources, each with the labels of its source.
    fn of(&self, sources: &[(&Value, Vec<LabelPair>)]) -> MetricFamily {
        let mut metrics = Vec::new();
        for (source, of_source) in sources {
            for (value, pointer) in self.samples {
                let Some(number) = source.pointer(pointer).and_then(|found| number(found, self.unit)) else {
                    continue;
                };
                let own = (!self.label.is_empty()).then(|| label(self.label, value));
                metrics.push(self.sample(number, of_source.iter().cloned().chain(own).collect()));
            }
        }
        let mut family = MetricFamily::default();
        family.set_name(format!("{PREFIX}{}", self.name));
        family.set_help(self.help.to_owned());
        family.set_field_type(self.kind);
        family.set_metric(metrics);
        family
    }

    fn sample(&self, number: f64, labels: Vec<LabelPair>) -> Metric {
        let mut metric = Metric::from_label(labels);
        if self.kind == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(number);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(number);
            metric.set_gauge(gauge);
        }
        metric
    }
}

impl Group {
    /// Labels of an element: of those of its fields that name it.
    fn name(&self, element: &Value) -> Vec<LabelPair> {
        let one = |name: &&str| match &element[name] {
            Value::Null => label(name, ""),
            Value::String(text) => label(name, text),
            other => label(name, &other.to_string()),
        };
        self.labels.iter().map(one).collect()
    }
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut label = LabelPair::default();
    label.set_name(name.to_owned());
    label.set_value(value.to_owned());
    label
}

/// A value as Prometheus has it: of truth and of the state of a drive 1 or 0.
#[allow(clippy::cast_precision_loss, reason = "all values are such to Prometheus")]
fn number(value: &Value, unit: u64) -> Option<f64> {
    match value {
        Value::Bool(is_true) => Some(f64::from(u8::from(*is_true))),
        Value::String(state) => Some(f64::from(u8::from(state == "active"))),
        Value::Number(number) => number.as_f64().map(|number| number * unit as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_known_is_told_and_nothing_else() {
        let status = json!({
            "hits": { "memory": 3, "buffers": 0, "flash": 7 },
            "blocks_written": { "data": 2, "directory": 0, "journal": 1, "superblock": 4 },
            "expired_share": 0.25,
            "takes_writes": true,
            "admission": { "budget_left": null },
            "drive_states": [{ "drive": 0, "state": "active", "bytes": 4096 }, { "drive": 1, "state": "failed" }],
            "namespaces": [{ "namespace": 1, "name": "web", "objects": 5 }, { "namespace": 2, "name": null, "objects": 6 }],
        });
        let said = text(&status).expect("metrics by the rules");
        let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(
            lines,
            [
                "# TYPE zoneweave_cache_hits_total counter",
                "zoneweave_cache_hits_total{place=\"memory\"} 3",
                "zoneweave_cache_hits_total{place=\"buffers\"} 0",
                "zoneweave_cache_hits_total{place=\"flash\"} 7",
                "# TYPE zoneweave_cache_written_bytes_total counter",
                "zoneweave_cache_written_bytes_total{what=\"data\"} 8192",
                "zoneweave_cache_written_bytes_total{what=\"directory\"} 0",
                "zoneweave_cache_written_bytes_total{what=\"journal\"} 4096",
                "zoneweave_cache_written_bytes_total{what=\"superblock\"} 16384",
                "# TYPE zoneweave_cache_expired_share gauge",
                "zoneweave_cache_expired_share 0.25",
                "# TYPE zoneweave_cache_takes_writes gauge",
                "zoneweave_cache_takes_writes 1",
                "# TYPE zoneweave_cache_drive_up gauge",
                "zoneweave_cache_drive_up{drive=\"0\"} 1",
                "zoneweave_cache_drive_up{drive=\"1\"} 0",
                "# TYPE zoneweave_cache_drive_bytes gauge",
                "zoneweave_cache_drive_bytes{drive=\"0\"} 4096",
                "# TYPE zoneweave_cache_namespace_objects gauge",
                "zoneweave_cache_namespace_objects{namespace=\"1\",name=\"web\"} 5",
                "zoneweave_cache_namespace_objects{namespace=\"2\",name=\"\"} 6",
            ]
        );
        assert_eq!(text(&json!({})).expect("no metrics"), "");
    }
}
