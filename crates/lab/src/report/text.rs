//! A characterisation on a terminal.

use super::verdict;
use crate::characterise::finding::{Figure, Finding};
use crate::characterise::{Report, readable};
use std::fmt::Write;

/// Columns of the names of figures.
const NAME_COLUMNS: usize = 66;
const TEXT_COLUMNS: usize = 100;

pub fn render(report: &Report) -> String {
    let mut text = format!("Characterisation of {} (seed {})\n", report.profile, report.seed);
    if report.quick {
        text.push_str("Short runs: figures are rough.\n");
    }
    for finding in &report.findings {
        text.push('\n');
        block(&mut text, finding);
    }
    let summary = &report.summary;
    let judged = report.findings.iter().filter(|finding| !finding.expected).count();
    let counts = format!(
        "{} of {} findings expected of this drive hold, {} do not; {} published figures are within tolerance, {} are \
         not, {} more are explained exceptions.",
        summary.holds,
        summary.holds + summary.fails,
        summary.fails,
        summary.within,
        summary.outside,
        summary.exceptions
    );
    text.push('\n');
    wrapped(&mut text, &counts, "", "");
    if judged > 0 {
        let _ = writeln!(text, "{judged} more findings are about other drives and do not count.");
    }
    text
}

fn block(text: &mut String, finding: &Finding) {
    let other = if finding.expected { "" } else { " (of another drive)" };
    let _ = writeln!(text, "[{}]{other} {}", verdict(finding), finding.title);
    wrapped(text, finding.statement, "    ", "    ");
    if finding.holds.is_none() {
        text.push_str(
            "    This drive cannot do what the finding needs, or there is nothing to compare it with.\n",
        );
    }
    for check in &finding.checks {
        let first = if check.holds { "    + " } else { "    - NOT: " };
        wrapped(text, &check.rule, first, "      ");
    }
    if !finding.figures.is_empty() {
        let (ours, published, error) = ("ours", "published", "error");
        let _ = writeln!(text, "    {:NAME_COLUMNS$} {ours:>9} {published:>9} unit    {error:>8}", "");
    }
    for figure in &finding.figures {
        line(text, figure);
    }
    for note in &finding.notes {
        wrapped(text, note, "    Note: ", "    ");
    }
}

fn line(text: &mut String, figure: &Figure) {
    let published = figure.published.map(readable).unwrap_or_default();
    let error = figure.error_percent.map(|error| format!("{error:+.1} %")).unwrap_or_default();
    let mark = match () {
        () if figure.within => "",
        () if figure.is_exception() => "  (explained)",
        () => "  OUTSIDE",
    };
    let name: String = figure.name.chars().take(NAME_COLUMNS).collect();
    let ours = readable(figure.ours);
    let unit = &figure.unit;
    let row = format!("    {name:NAME_COLUMNS$} {ours:>9} {published:>9} {unit:7} {error:>8}{mark}");
    let _ = writeln!(text, "{}", row.trim_end());
    if let Some(note) = &figure.note {
        wrapped(text, note, "        ", "        ");
    }
}

fn wrapped(text: &mut String, words: &str, first: &str, later: &str) {
    let mut row = first.to_owned();
    let mut begins = true;
    for word in words.split_whitespace() {
        let fits = row.chars().count() + 1 + word.chars().count() <= TEXT_COLUMNS;
        if !begins && !fits {
            let _ = writeln!(text, "{row}");
            later.clone_into(&mut row);
            begins = true;
        }
        if !begins {
            row.push(' ');
        }
        row.push_str(word);
        begins = false;
    }
    let _ = writeln!(text, "{row}");
}
