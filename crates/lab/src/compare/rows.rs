//! Reading the table.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;

/// Flags of rows that measured the host and not the drive.
const ARTEFACTS: [&str; 4] = [
    "host_timeslice_artefact",
    "host_cpu_oversubscribed",
    "invalid_sub_us_no_device_roundtrip",
    "mean_inflated_by_host_timeslices",
];

const COLUMNS: &str = "figure,op,request_bytes,lba_format,stack,concurrency_kind,concurrency,metric,value,n_runs,\
                       spread,n_samples,condition,flag";

/// A table.
pub struct Rows {
    /// Rows gathered by experiment.
    pub settings: Vec<Setting>,
    /// Rows.
    pub rows: usize,
    /// Rows that were left out.
    pub rows_flagged: usize,
}

/// An experiment.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Description in words.
    pub name: String,
    /// The operation.
    pub op: String,
    /// Metric and value of each row.
    pub metrics: Vec<(String, f64)>,
    pub(super) bytes: u64,
    pub(super) small_blocks: bool,
    pub(super) stack: String,
    pub(super) by_zones: bool,
    pub(super) concurrency: u32,
    pub(super) condition: String,
    pub(super) by_second: bool,
}

impl Setting {
    /// The experiment of a row.
    #[must_use]
    pub fn of(fields: &[&str]) -> Setting {
        let (op, bytes, format, stack) = (fields[1], fields[2], fields[3], fields[4]);
        let (kind, concurrency, condition) = (fields[5], fields[6], fields[12]);
        Setting {
            name: format!("{op} {bytes} B, {format}, {stack}, {kind}={concurrency} {condition}"),
            op: op.to_owned(),
            metrics: Vec::new(),
            bytes: bytes.parse().unwrap_or(0),
            small_blocks: format == "512",
            stack: stack.to_owned(),
            by_zones: kind == "zones",
            concurrency: concurrency.parse().unwrap_or(1),
            condition: condition.to_owned(),
            by_second: fields[0] == "6",
        }
    }
}

/// Gathers the rows of a table.
///
/// # Errors
/// Names the first line that is not as it should be.
pub fn parse(text: &str) -> Result<Rows> {
    let mut lines = (1..).zip(text.lines());
    let header = lines.next().map(|(_, line)| line).unwrap_or_default();
    ensure!(header == COLUMNS, "the first line must be `{COLUMNS}`");
    let mut settings: BTreeMap<String, Setting> = BTreeMap::new();
    let (mut rows, mut rows_flagged) = (0, 0);
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split(',').collect();
        ensure!(fields.len() == 14, "line {number}: {} fields instead of 14", fields.len());
        rows += 1;
        if ARTEFACTS.contains(&fields[13]) {
            rows_flagged += 1;
            continue;
        }
        let value: f64 =
            fields[8].parse().with_context(|| format!("line {number}: value `{}`", fields[8]))?;
        ensure!(value.is_finite(), "line {number}: value `{}` is no measurement", fields[8]);
        let setting = Setting::of(&fields);
        let metrics = &mut settings.entry(setting.name.clone()).or_insert(setting).metrics;
        metrics.push((fields[7].to_owned(), value));
    }
    Ok(Rows { settings: settings.into_values().collect(), rows, rows_flagged })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_experiment_are_one_setting() {
        let text = format!(
            "{COLUMNS}\n\
             2a,write,4096,4096,spdk,qd,1,mean_lat_us,11.36,1,,,,\n\
             2a,write,4096,4096,spdk,qd,1,p99_us,14.5,1,,,,\n\
             7,reset,0,4096,spdk,qd,1,p95_us,28000,1,,,,host_timeslice_artefact\n"
        );
        let rows = parse(&text).unwrap();
        assert_eq!((rows.rows, rows.rows_flagged, rows.settings.len()), (3, 1, 1));
        assert_eq!(rows.settings[0].metrics.len(), 2);
        assert!(parse("figure,op\n").is_err());
        let error = parse(&format!("{COLUMNS}\n1,2,3\n")).err().unwrap();
        assert!(error.to_string().contains("line 2"), "{error}");
        for value in ["fast", "nan", "-inf"] {
            let row = format!("{COLUMNS}\n2a,write,4096,4096,spdk,qd,1,p99_us,{value},1,,,,\n");
            assert!(parse(&row).is_err(), "{value}");
        }
    }
}
