//! A characterisation as one page.

use super::parts::{self, escaped, unit};
use super::verdict;
use crate::characterise::finding::{Figure, Finding};
use crate::characterise::{Report, readable};
use std::fmt::Write;

pub fn render(report: &Report) -> String {
    let mut page = parts::begin(&format!("Characterisation of {}", report.profile));
    introduction(&mut page, report);
    contents(&mut page, report);
    for finding in &report.findings {
        section(&mut page, finding);
    }
    exceptions(&mut page, report);
    page.push_str(parts::END);
    page
}

fn introduction(page: &mut String, report: &Report) {
    let summary = &report.summary;
    let _ = writeln!(
        page,
        "<p>The published characterisation of zoned drives, run again on a modelled drive in virtual time: profile \
         <code>{}</code>, seed {}{}. Verdicts follow from our measurements by the rules listed with each finding; \
         published figures stand beside ours where they were measured on the same kind of drive. Tolerances: 5 % for \
         means, throughputs and ratios of means, 15 % for percentiles and for differences of means, 10 % for numbers \
         quoted as \"about\".</p>",
        escaped(&report.profile),
        report.seed,
        if report.quick { ", short runs (figures are rough)" } else { "" }
    );
    let _ = writeln!(
        page,
        "<p class=\"counts\"><b>{}</b> of {} findings expected of this drive hold. Published figures: <b>{}</b> within \
         tolerance, <b>{}</b> outside, <b>{}</b> explained exceptions.</p>",
        summary.holds,
        summary.holds + summary.fails,
        summary.within,
        summary.outside,
        summary.exceptions
    );
}

fn badge(finding: &Finding) -> String {
    let class = match finding.holds {
        Some(true) => "good",
        Some(false) if finding.expected => "bad",
        Some(false) | None => "plain",
    };
    format!("<span class=\"badge {class}\">{}</span>", verdict(finding))
}

fn contents(page: &mut String, report: &Report) {
    page.push_str(
        "<h2>Verdicts</h2>\n<div class=\"wide\"><table>\n<tr><th>Verdict</th><th>Finding</th>\
         <th class=\"number\">Figures within</th><th class=\"number\">Largest error</th></tr>\n",
    );
    for finding in &report.findings {
        let compared: Vec<&Figure> =
            finding.figures.iter().filter(|figure| figure.published.is_some()).collect();
        let within = compared.iter().filter(|figure| figure.within).count();
        let largest =
            compared.iter().filter(|figure| !figure.is_exception()).filter_map(|figure| figure.error_percent);
        let largest = largest.max_by(|first, second| first.abs().total_cmp(&second.abs()));
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td><a href=\"#{}\">{}</a>{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td></tr>",
            badge(finding),
            finding.id,
            escaped(finding.title),
            if finding.expected { "" } else { " <small>(of another drive)</small>" },
            if compared.is_empty() { String::new() } else { format!("{within} of {}", compared.len()) },
            largest.map(|error| format!("{error:+.1} %")).unwrap_or_default()
        );
    }
    page.push_str("</table></div>\n");
}

fn section(page: &mut String, finding: &Finding) {
    let _ = writeln!(
        page,
        "<section id=\"{}\">\n<h2>{} {}</h2>\n<blockquote>{}</blockquote>",
        finding.id,
        escaped(finding.title),
        badge(finding),
        escaped(finding.statement)
    );
    if !finding.expected {
        page.push_str(
            "<p>Found on another drive: the rules are judged, and the verdict does not count.</p>\n",
        );
    }
    if finding.holds.is_none() {
        page.push_str(
            "<p>This drive cannot do what the finding needs, or there is nothing to compare it with.</p>\n",
        );
    }
    for note in &finding.notes {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escaped(note));
    }
    parts::checks(page, &finding.checks);
    figures(page, finding);
    parts::plots(page, &finding.plots);
    page.push_str("</section>\n");
}

fn figures(page: &mut String, finding: &Finding) {
    if finding.figures.is_empty() {
        return;
    }
    page.push_str(
        "<div class=\"wide\"><table>\n<tr><th>Figure</th><th class=\"number\">Ours</th>\
         <th class=\"number\">Published</th><th>Unit</th><th class=\"number\">Error</th>\
         <th class=\"number\">Tolerance</th><th>Source</th></tr>\n",
    );
    for figure in &finding.figures {
        let class = match () {
            () if figure.within => "",
            () if figure.is_exception() => " class=\"exception\"",
            () => " class=\"outside\"",
        };
        let source = figure.source.as_deref().map(escaped).unwrap_or_default();
        let quote = figure.quote.as_deref().map(|quote| format!(" <small>\"{}\"</small>", escaped(quote)));
        let _ = writeln!(
            page,
            "<tr{class}><td>{}{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td><td>{source}{}</td></tr>",
            escaped(&figure.name),
            if figure.note.is_some() { " <a href=\"#exceptions\">*</a>" } else { "" },
            readable(figure.ours),
            figure.published.map(readable).unwrap_or_default(),
            escaped(unit(&figure.unit)),
            figure.error_percent.map(|error| format!("{error:+.1} %")).unwrap_or_default(),
            figure.tolerance_percent.map(tolerance).unwrap_or_default(),
            quote.unwrap_or_default()
        );
    }
    page.push_str("</table></div>\n");
}

fn tolerance(percent: f64) -> String {
    if percent < 1.0 { "exact".to_owned() } else { format!("{percent} %") }
}

fn exceptions(page: &mut String, report: &Report) {
    let explained: Vec<(&Finding, &Figure)> = report
        .findings
        .iter()
        .flat_map(|finding| finding.figures.iter().map(move |figure| (finding, figure)))
        .filter(|(_, figure)| figure.note.is_some())
        .collect();
    if explained.is_empty() {
        return;
    }
    page.push_str(
        "<section id=\"exceptions\">\n<h2>Exceptions and remarks</h2>\n<p>Where a paper's text and its data disagree, \
         where it leaves something open, or where ours differs for a known reason.</p>\n<dl>\n",
    );
    for (finding, figure) in explained {
        let state = if figure.within { "within tolerance" } else { "outside, explained" };
        let _ = writeln!(
            page,
            "<dt><a href=\"#{}\">{}</a>: {} ({state}; ours {}, published {} {})</dt><dd>{}</dd>",
            finding.id,
            escaped(finding.title),
            escaped(&figure.name),
            readable(figure.ours),
            figure.published.map(readable).unwrap_or_default(),
            escaped(unit(&figure.unit)),
            figure.note.as_deref().map(escaped).unwrap_or_default()
        );
    }
    page.push_str("</dl>\n</section>\n");
}
