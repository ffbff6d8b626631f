//! The table of measurements of `lab compare`: every row is counted, once, and is a number.
#![no_main]

// The file alone: a laboratory of experiments takes long to build.
#[allow(dead_code, reason = "a target reads the table and runs no model")]
#[path = "../../crates/lab/src/compare/rows.rs"]
mod rows;

use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use rows::parse;

fn seeds() {
    let text = "figure,op,request_bytes,lba_format,stack,concurrency_kind,concurrency,metric,value,n_runs,spread,\
                n_samples,condition,flag\n\
                2a,write,4096,4096,spdk,qd,1,mean_lat_us,11.36,1,,,,\n\
                2a,write,4096,4096,spdk,qd,1,p99_us,14.5,1,,,,\n\
                7,reset,0,4096,spdk,qd,1,p95_us,28000,1,,,,host_timeslice_artefact\n";
    seed("measurements", &[text.as_bytes().to_vec()]);
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(table) = parse(text) else { return };
    let kept: usize = table.settings.iter().map(|setting| setting.metrics.len()).sum();
    assert_eq!(kept + table.rows_flagged, table.rows);
    assert!(table.rows < text.lines().count());
    let metrics = table.settings.iter().flat_map(|setting| &setting.metrics);
    assert!(metrics.into_iter().all(|(_, value)| value.is_finite()));
});
