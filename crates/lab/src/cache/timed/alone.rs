//! What a drive takes from one who does nothing but write, and from one beside whom others read.

use crate::precise::precise_u64;
use crate::workload::wall::NO_COSTS;
use crate::workload::{Job, Loop, Span, What, join};
use base::time::Nanos;
use drive::timing::{Model, ModelOptions, Profile};

/// Zones that are written at once: enough for every die of a drive.
const ZONES: u32 = 8;
/// Zones that each of them is followed by.
const ROUNDS: u32 = 8;
/// Bytes of each write: as many as the cache writes at a time.
const WRITE_BYTES: u64 = 256 << 10;
/// Bytes of a read: whole blocks of a value of 100 KB.
const READ_BYTES: u64 = 24 * 4096;
const READS: u32 = 16;
/// Measured after the drive's buffer is full.
const WARM_UP: Nanos = Nanos::from_micros(500_000);
const MEASURED: Nanos = Nanos::from_micros(10_000_000);

/// MiB a second that a drive takes, its zones as large as they are, while so many are read.
pub(super) fn writes_mib_s(profile: &Profile, read_mib_s: f64, seed: u64) -> f64 {
    let job = |what, bytes, depth, zones: Vec<u32>, rate_bytes_per_s| Job {
        what,
        bytes,
        depth,
        zones,
        rate_bytes_per_s,
        costs: NO_COSTS,
        resets: true,
    };
    let zones_of = |own: u32| (0..ROUNDS).map(|round| round * ZONES + own).collect();
    let mut jobs: Vec<Job> =
        (0..ZONES).map(|own| job(What::Write, WRITE_BYTES, 2, zones_of(own), None)).collect();
    if read_mib_s > 0.0 {
        let others = (ZONES * ROUNDS..ZONES * ROUNDS * 2).collect();
        jobs.push(job(What::ReadRandom, READ_BYTES, READS, others, Some(read_mib_s * 1_048_576.0)));
    }
    let model = Model::new(profile, ModelOptions { seed, ..ModelOptions::default() });
    let micros = |span: Nanos| precise_u64(span.0) / 1e3;
    let span = Span { warm_up_us: micros(WARM_UP), measured_us: micros(MEASURED) };
    let mut measured = Loop::on(model, jobs, seed).run(span).0;
    measured.truncate(ZONES as usize);
    join(measured).mib_s()
}
