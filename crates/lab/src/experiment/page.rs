//! Experiments as one page.

use super::draft::{Comparison, Verdict};
use super::measurement::Measurement;
use super::text::{interrupted, verdict};
use super::{Outcome, Report};
use crate::characterise::readable;
use crate::report::parts::{self, escaped, unit};
use std::fmt::Write;

pub fn render(report: &Report) -> String {
    let mut page = parts::begin("Experiments of published designs");
    let _ = writeln!(
        page,
        "<p>{}, run again on modelled drives, in virtual time unless an experiment says otherwise: {} seeds each, scale {}, means with 95 % confidence \
         intervals by Student's t. Published figures stand beside ours. Tolerances: 10 % for throughputs, medians \
         and their ratios, 25 % for tails and durations, 0.5 % for sizes.</p>",
        escaped(&report.paper),
        report.options.seeds,
        report.options.scale
    );
    if let Some(line) = interrupted(report) {
        let _ = writeln!(page, "<p><strong>{}</strong></p>", escaped(&line));
    }
    contents(&mut page, report);
    for outcome in &report.outcomes {
        section(&mut page, outcome);
    }
    page.push_str(parts::END);
    page
}

fn contents(page: &mut String, report: &Report) {
    page.push_str(
        "<h2>Verdicts</h2>\n<div class=\"wide\"><table>\n<tr><th>Experiment</th><th class=\"number\">Agree</th>\
         <th class=\"number\">Explained</th><th class=\"number\">Differ</th><th class=\"number\">Rules</th></tr>\n",
    );
    for outcome in &report.outcomes {
        let count = |wanted| outcome.comparisons.iter().filter(|said| said.verdict == wanted).count();
        let held = outcome.checks.iter().filter(|check| check.holds).count();
        let _ = writeln!(
            page,
            "<tr><td><a href=\"#{}\">{}</a></td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{held} of {}</td></tr>",
            outcome.experiment.id,
            escaped(outcome.experiment.title),
            count(Verdict::Agrees),
            count(Verdict::Explained),
            count(Verdict::Differs),
            outcome.checks.len()
        );
    }
    page.push_str("</table></div>\n");
}

fn section(page: &mut String, outcome: &Outcome) {
    let _ = writeln!(
        page,
        "<section id=\"{}\">\n<h2>{}</h2>\n<blockquote>{}</blockquote>",
        outcome.experiment.id,
        escaped(outcome.experiment.title),
        escaped(outcome.experiment.statement)
    );
    if let Some(machine) = outcome.machine() {
        let _ = writeln!(page, "<p>{}</p>", escaped(&machine));
    }
    parts::checks(page, &outcome.checks);
    comparisons(page, outcome);
    parts::plots(page, &outcome.plots);
    measurements(page, outcome);
    page.push_str("</section>\n");
}

fn comparisons(page: &mut String, outcome: &Outcome) {
    if outcome.comparisons.is_empty() {
        return;
    }
    page.push_str(
        "<div class=\"wide\"><table>\n<colgroup><col style=\"width:40%\"><col span=\"4\">\
         <col style=\"width:32%\"></colgroup>\n<tr><th>Number</th><th class=\"number\">Ours</th>\
         <th class=\"number\">Paper</th><th>Unit</th><th>Verdict</th><th>Source</th></tr>\n",
    );
    for said in &outcome.comparisons {
        let class = match said.verdict {
            Verdict::Agrees => "",
            Verdict::Explained => " class=\"exception\"",
            Verdict::Differs => " class=\"outside\"",
        };
        let note = said.note.as_deref().filter(|_| said.verdict == Verdict::Explained);
        let note = note.map(|note| format!("<br><small>{}</small>", escaped(note))).unwrap_or_default();
        let _ = writeln!(
            page,
            "<tr{class}><td>{}{note}</td><td class=\"number\">{}{}</td><td class=\"number\">{}</td><td>{}</td>\
             <td>{}</td><td>{} <small>\"{}\"</small></td></tr>",
            escaped(&described(said)),
            readable(said.value),
            interval(said.ci95),
            readable(said.paper_value),
            unit(said.metric.unit),
            verdict(said.verdict),
            escaped(&said.source),
            escaped(&said.quote)
        );
    }
    page.push_str("</table></div>\n");
}

fn described(said: &Comparison) -> String {
    let versus = said.cell.setting.versus.as_ref();
    let versus = versus.map(|versus| format!(" against {versus}")).unwrap_or_default();
    format!("{} {} {}{versus}", said.cell.scheme.name(), said.cell.setting, said.metric.name)
}

fn measurements(page: &mut String, outcome: &Outcome) {
    page.push_str(
        "<details><summary>All measurements</summary>\n<div class=\"wide\"><table>\n<tr><th>Scheme</th>\
         <th>Setting</th><th>Metric</th><th class=\"number\">Value</th><th>Unit</th></tr>\n",
    );
    let plain = |measurement: &Measurement| {
        measurement.setting.versus.is_none() && measurement.setting.rule.is_none()
    };
    for measurement in outcome.measurements().iter().filter(|measurement| plain(measurement)) {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"number\">{}{}</td><td>{}</td></tr>",
            measurement.scheme.name(),
            measurement.setting,
            measurement.metric,
            readable(measurement.value),
            interval(measurement.ci95),
            unit(measurement.unit)
        );
    }
    page.push_str("</table></div></details>\n");
}

fn interval(ci95: Option<f64>) -> String {
    ci95.map(|ci95| format!(" \u{b1} {}", readable(ci95))).unwrap_or_default()
}
