//! Resets beside other commands: observations 12 and 13, figure 7.

use super::finding::{Draft, Subject};
use super::numbers::{are_close, percent_above, readable};
use super::plot::{Horizontal, Plot, Series, Shape};
use super::setting::{PROGRAM, RESETS, Resets, Setting, Summary};
use crate::workload::What;

const PAPER: &str = "Zoned Namespaces";
const PROGRAMS: [(&str, What); 3] =
    [("read", What::ReadRandom), ("write", What::Write), ("append", What::Append)];

/// Effect of resets on other commands.
pub const OBSERVATION_12: Subject = Subject {
    id: "observation-12",
    title: "Observation 12: resets do not disturb",
    statement: "Reset operations do not interfere with read, write or append latency.",
    paper: PAPER,
    find: observation_12,
};

/// Apparent effect of other commands on resets.
pub const OBSERVATION_13: Subject = Subject {
    id: "observation-13",
    title: "Observation 13: resets are disturbed (in the mode that imitates the published host)",
    statement: "Read, write and append operations interfere with the reset latency significantly.",
    paper: PAPER,
    find: observation_13,
};

fn beside(draft: &Draft, what: What, resets: bool, host_artefact: bool) -> Option<Vec<Summary>> {
    draft.all(&Setting::Resets(Resets { beside: Some(what), resets, host_artefact }))
}

/// Mean latencies of a program alone and beside resets.
pub fn disturbed_us(draft: &Draft, what: What) -> Option<[f64; 2]> {
    let alone = beside(draft, what, false, false)?.swap_remove(PROGRAM).mean_us;
    Some([alone, beside(draft, what, true, false)?.swap_remove(PROGRAM).mean_us])
}

/// Returns true when no program notices resets.
pub fn nobody_disturbed(draft: &Draft) -> Option<bool> {
    let found: Option<Vec<bool>> = PROGRAMS
        .into_iter()
        .map(|(_, what)| {
            let [alone, disturbed] = disturbed_us(draft, what)?;
            Some(are_close(alone, disturbed, 0.05))
        })
        .collect();
    Some(found?.into_iter().all(|undisturbed| undisturbed))
}

/// Resets beside nothing, reads, writes and appends: 95th percentiles in milliseconds.
pub fn resets_p95_ms(draft: &Draft, host_artefact: bool) -> Option<[f64; 4]> {
    let alone = Setting::Resets(Resets { beside: None, resets: true, host_artefact });
    let mut found = [draft.one(&alone, RESETS)?.p95_us / 1000.0, 0.0, 0.0, 0.0];
    for (place, (_, what)) in PROGRAMS.into_iter().enumerate() {
        found[place + 1] = beside(draft, what, true, host_artefact)?.swap_remove(RESETS).p95_us / 1000.0;
    }
    Some(found)
}

fn observation_12(draft: &mut Draft) -> Option<()> {
    for (name, what) in PROGRAMS {
        let [alone, disturbed] = disturbed_us(draft, what)?;
        draft.ours(&format!("12-{name}"), &format!("{name} 4 KiB, alone"), alone, "us");
        draft.ours(&format!("12-{name}-resets"), &format!("{name} 4 KiB, beside resets"), disturbed, "us");
        let figures = format!("{} and {} us", readable(alone), readable(disturbed));
        let same = are_close(alone, disturbed, 0.05);
        draft.check(format!("a {name} takes the same beside resets of other zones (5 %): {figures}"), same);
    }
    Some(())
}

fn observation_13(draft: &mut Draft) -> Option<()> {
    let host = resets_p95_ms(draft, true)?;
    let drive = resets_p95_ms(draft, false)?;
    draft.published("13-reset-idle", host[0]);
    for (place, (name, _)) in PROGRAMS.into_iter().enumerate() {
        let (host_ms, drive_ms) = (host[place + 1], drive[place + 1]);
        draft.published(&format!("13-reset-{name}"), host_ms);
        draft.published(&format!("13-increase-{name}"), percent_above(host_ms, host[0]));
        draft.ours(
            &format!("13-drive-{name}"),
            &format!("the same beside {name}s, the drive itself"),
            drive_ms,
            "ms",
        );
        draft.check(
            format!(
                "imitating the host, resets beside {name}s take 25 % longer or more at the 95th percentile"
            ),
            host_ms > 1.25 * host[0],
        );
        draft.check(
            format!("the drive itself resets beside {name}s as it does alone (10 %)"),
            are_close(drive_ms, drive[0], 0.1),
        );
    }
    draft.note(
        "This is not what the drive does. In the published benchmark two polling threads share one core, because the \
         core mask is never set: the kernel lets each run for some multiples of 4 ms and then the other. 98.96 % of \
         the reset latencies beside writes are within 20 us of a multiple of 4 ms (80 % are 32.000 ms); the thread \
         of reads or writes shows gaps of 16 ms that take half of its time, and between them its latencies are those \
         of an idle drive (11.59 us for writes); beside reads, the median reset is faster (15.08 ms) than without any \
         (15.97 ms). A drive that slowed its resets down would do none of this.",
    );
    draft.note(
        "The model has a mode that imitates this host (ModelOptions::fig7_host_artefact): resets progress at a \
         fraction of their speed while other commands are in flight. Only this figure uses it; in the usual mode, \
         resets are not slowed down, as the second half of the checks shows.",
    );
    plot_7(draft, &host, &drive);
    Some(())
}

fn plot_7(draft: &mut Draft, host: &[f64; 4], drive: &[f64; 4]) {
    let quoted = ["13-reset-idle", "13-reset-read", "13-reset-write", "13-reset-append"];
    // Over the bars of the host's mode, which are the left ones.
    let quoted = (0..).map(|place| f64::from(place) - 0.19).zip(quoted.map(|id| draft.quoted(id)));
    let series =
        |name: &str, values: &[f64; 4]| Series::by_name(name, values.iter().map(|value| Some(*value)));
    draft.plot(Plot {
        id: "7",
        title: "Resets beside other commands",
        caption: "95th percentile of resets of full zones (figure 7): with the published host's scheduling imitated, \
                  and as the drive does it.",
        x_title: "concurrent command",
        y_title: "95th percentile (ms)",
        x: Horizontal::Names(["none", "read", "write", "append"].map(str::to_owned).to_vec()),
        shape: Shape::Bars,
        series: vec![
            series("imitating the published host", host),
            series("the drive", drive),
            Series::quoted(quoted),
        ],
    });
}
