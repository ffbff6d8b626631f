//! RocksDB with blobs, as its own benchmark drives it: the processor time of a run, and what the run says of itself.

use crate::wall::processor;
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Memory for what is not yet written, two of them at most, and for what was read: 64 MiB in all, as our side has.
const WRITE_BUFFER_BYTES: &str = "16777216";
const CACHE_BYTES: &str = "33554432";

/// A database, and its load.
pub(super) struct DbBench {
    /// Directory of the database.
    pub(super) dir: PathBuf,
    /// File for what is said.
    pub(super) log: PathBuf,
    pub(super) objects: u64,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    pub(super) threads: usize,
}

/// Results of a run of db_bench.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ran {
    /// Seconds on a processor of all threads, from the start of the process to its end.
    pub(super) processor_seconds: f64,
    pub(super) operations: f64,
    pub(super) seconds: f64,
    /// Microseconds of reads and of writes: median and 99th percentile.
    pub(super) reads_us: [f64; 2],
    pub(super) writes_us: [f64; 2],
    /// Bytes of keys and values that were put.
    pub(super) bytes_put: f64,
    /// Bytes of blobs that were written, those that garbage collection moved included.
    pub(super) bytes_blobs: f64,
}

impl DbBench {
    /// Makes the database, with each key once.
    pub(super) fn fill(&self) -> Result<Ran> {
        self.run(&["--benchmarks=fillseq,flush", "--use_existing_db=false", "--threads=1"], "fillseq")
    }

    /// Reads and puts any keys for a time, so many per cent of it reads; what is put is written before the process ends.
    pub(super) fn mix(&self, reads_percent: u64, seconds: u32, seed: u64) -> Result<Ran> {
        let name = match reads_percent {
            0 => "overwrite",
            100 => "readrandom",
            _ => "readrandomwriterandom",
        };
        let words = [
            format!("--benchmarks={name},flush"),
            // Those who only read or write do not look at it, and it is refused where it is 0 or 100.
            format!("--readwritepercent={}", reads_percent.clamp(1, 99)),
            format!("--duration={seconds}"),
            format!("--threads={}", self.threads),
            format!("--seed={seed}"),
            "--use_existing_db=true".to_owned(),
        ];
        self.run(&words.each_ref().map(String::as_str), name)
    }

    fn run(&self, words: &[&str], name: &str) -> Result<Ran> {
        let mut command = Command::new("db_bench");
        command.arg(format!("--db={}", self.dir.display())).arg(format!("--num={}", self.objects));
        command
            .arg(format!("--key_size={}", self.key_bytes))
            .arg(format!("--value_size={}", self.value_bytes));
        command.args([
            "--enable_blob_files=true",
            "--min_blob_size=4096",
            "--enable_blob_garbage_collection=true",
        ]);
        command.args(["--compression_type=none", "--blob_compression_type=none", "--disable_wal=true"]);
        command.args(["--use_direct_reads=true", "--use_direct_io_for_flush_and_compaction=true"]);
        command.args(["--use_blob_cache=true", "--use_shared_block_and_blob_cache=true"]);
        command.arg(format!("--write_buffer_size={WRITE_BUFFER_BYTES}")).arg("--max_write_buffer_number=2");
        command.arg(format!("--cache_size={CACHE_BYTES}")).args(["--statistics=true", "--histogram=true"]);
        let log = File::create(&self.log).with_context(|| self.log.display().to_string())?;
        command.args(words).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = command.spawn().context("db_bench does not start")?;
        let pid = Pid::from_child(&child);
        // It stays a zombie, whose account can be read, until it is waited for.
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        let processor_seconds = processor::seconds_of(child.id())?;
        let status = child.wait()?;
        let said = String::from_utf8_lossy(&std::fs::read(&self.log)?).into_owned();
        ensure!(status.success(), "db_bench ended with {status}:\n{said:.4000}");
        let ran = Ran::parse(&said, name)
            .with_context(|| format!("what db_bench says of {name}:\n{said:.4000}"))?;
        Ok(Ran { processor_seconds, ..ran })
    }
}

impl Ran {
    /// Reads the line of a benchmark, and the statistics of the process.
    fn parse(said: &str, name: &str) -> Option<Ran> {
        let line = said.lines().find(|line| line.split_whitespace().next() == Some(name))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let before = |unit: &str| -> Option<f64> {
            let at = words.iter().position(|word| *word == unit)?;
            words[at.checked_sub(1)?].parse().ok()
        };
        Some(Ran {
            processor_seconds: 0.0,
            operations: before("operations;")?,
            seconds: before("seconds")?,
            reads_us: ["P50", "P99"].map(|field| statistic(said, "rocksdb.db.get.micros", field)),
            writes_us: ["P50", "P99"].map(|field| statistic(said, "rocksdb.db.write.micros", field)),
            bytes_put: statistic(said, "rocksdb.bytes.written", "COUNT"),
            bytes_blobs: statistic(said, "rocksdb.blobdb.blob.file.bytes.written", "COUNT"),
        })
    }
}

/// A field of a line such as `NAME P50 : 1.0 P99 : 2.0 COUNT : 3`; 0 when there is none, as of what did not happen.
fn statistic(said: &str, name: &str, field: &str) -> f64 {
    let line = said.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap_or_default();
    let mut words = line.split_whitespace().skip_while(|word| *word != field).skip(1);
    words.find_map(|word| word.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_says_is_read() {
        let said = "readrandomwriterandom :     283.036 micros/op 3532 ops/sec 5.095 seconds 17999 operations; ( reads:9000 writes:8999)\n\
                    rocksdb.bytes.written COUNT : 921938551\n\
                    rocksdb.blobdb.blob.file.bytes.written COUNT : 1114296990\n\
                    rocksdb.db.get.micros P50 : 276.5 P95 : 1896.3 P99 : 4862.0 P100 : 29221.0 COUNT : 9000 SUM : 4545065\n";
        let ran = Ran::parse(said, "readrandomwriterandom").unwrap();
        assert_eq!((ran.operations, ran.seconds, ran.reads_us), (17_999.0, 5.095, [276.5, 4862.0]));
        assert_eq!((ran.bytes_put, ran.bytes_blobs), (921_938_551.0, 1_114_296_990.0));
        assert_eq!(ran.writes_us, [0.0; 2]);
        assert!(Ran::parse(said, "overwrite").is_none());
    }
}
