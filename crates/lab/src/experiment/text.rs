//! Experiments on a terminal.

use super::draft::{Comparison, Verdict};
use super::measurement::Measurement;
use super::{Outcome, Report, contest};
use crate::characterise::readable;
use std::fmt::Write;

/// Columns of schemes and of settings.
const SCHEME_COLUMNS: usize = 17;
const SETTING_COLUMNS: usize = 58;

pub fn render(report: &Report) -> String {
    let mut text = format!(
        "Experiments of {}\n{} seeds each, scale {}\n",
        report.paper, report.options.seeds, report.options.scale
    );
    if let Some(line) = interrupted(report) {
        let _ = writeln!(text, "{line}");
    }
    for outcome in &report.outcomes {
        block(&mut text, outcome);
    }
    let verdicts = || report.outcomes.iter().flat_map(|outcome| &outcome.comparisons);
    let count = |verdict| verdicts().filter(|said| said.verdict == verdict).count();
    let checks = || report.outcomes.iter().flat_map(|outcome| &outcome.checks);
    let _ = writeln!(
        text,
        "\n{} of {} numbers of papers agree, {} differ and it is known why, {} differ; {} of {} rules hold.",
        count(Verdict::Agrees),
        verdicts().count(),
        count(Verdict::Explained),
        count(Verdict::Differs),
        checks().filter(|check| check.holds).count(),
        checks().count()
    );
    text
}

/// Names the measurements that are missing, if somebody stopped the runs.
pub fn interrupted(report: &Report) -> Option<String> {
    (!report.left_out.is_empty()).then(|| format!("Interrupted, without: {}.", report.left_out.join(", ")))
}

fn block(text: &mut String, outcome: &Outcome) {
    let _ = writeln!(text, "\n{}\n", outcome.experiment.title);
    if let Some(machine) = outcome.machine() {
        let _ = writeln!(text, "  {machine}\n");
    }
    let mut last = None;
    for measurement in outcome.measurements() {
        if measurement.setting.versus.is_some() || measurement.setting.rule.is_some() {
            continue;
        }
        cell(text, &measurement, &mut last);
    }
    text.push('\n');
    outcome.comparisons.iter().for_each(|said| compared(text, said));
    for check in &outcome.checks {
        let _ = writeln!(text, "  [{}] {}", if check.holds { "holds" } else { "DOES NOT HOLD" }, check.rule);
    }
    notes(text, outcome);
    contest::render(text, outcome);
}

/// Writes one metric of a cell; scheme and setting stand on the first line alone.
fn cell(text: &mut String, measurement: &Measurement, last: &mut Option<(String, String)>) {
    let name = (measurement.scheme.name().to_owned(), measurement.setting.to_string());
    let is_new = last.as_ref() != Some(&name);
    let (scheme, setting) = if is_new { (name.0.as_str(), name.1.as_str()) } else { ("", "") };
    let ci95 = measurement.ci95.map(|ci95| format!("\u{b1} {}", readable(ci95))).unwrap_or_default();
    let paper = measurement.paper_value.map(|paper| format!("paper {}", readable(paper))).unwrap_or_default();
    let row = format!(
        "  {scheme:SCHEME_COLUMNS$} {setting:SETTING_COLUMNS$} {:24} {:>9} {ci95:10} {:6} {paper}",
        measurement.metric,
        readable(measurement.value),
        measurement.unit
    );
    let _ = writeln!(text, "{}", row.trim_end());
    *last = Some(name);
}

fn compared(text: &mut String, said: &Comparison) {
    let setting = &said.cell.setting;
    let versus = setting.versus.as_ref().map(|versus| format!(" against {versus}")).unwrap_or_default();
    let _ = writeln!(
        text,
        "  [{}] {} {} {}{versus}: {} {}, paper {}",
        verdict(said.verdict),
        said.cell.scheme.name(),
        setting,
        said.metric.name,
        readable(said.value),
        said.metric.unit,
        readable(said.paper_value)
    );
}

fn notes(text: &mut String, outcome: &Outcome) {
    for said in outcome.comparisons.iter().filter(|said| said.verdict == Verdict::Explained) {
        if let Some(note) = &said.note {
            let _ = writeln!(text, "  {}: {note}", said.id);
        }
    }
}

/// In a word.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Agrees => "agrees",
        Verdict::Explained => "differs, explained",
        Verdict::Differs => "DIFFERS",
    }
}
