//! Cells as one page.

use super::drawing;
use super::several::Outcome;
use super::summary::{Goal, Summary};
use crate::characterise::finding::Check;
use crate::report::parts::{self, escaped, unit};
use std::fmt::Write;

pub fn render(outcome: &Outcome) -> String {
    let mut page = parts::begin("Experiments with the cache");
    let is_measured = outcome.summaries.iter().any(|summary| summary.cell.is_measured());
    let _ = match is_measured {
        true => writeln!(
            page,
            "<p>A served key-value cache beside others, measured on the wall clock of this host.</p>"
        ),
        false => writeln!(
            page,
            "<p>The engine of the key-value cache on modelled drives, in virtual time: scale {}. Of several seeds there are means \
             with 95 % confidence intervals by Student's t, and bars are judged by means.</p>",
            outcome.scale
        ),
    };
    if !outcome.left_out.is_empty() {
        let left_out = escaped(&outcome.left_out.join(", "));
        let _ = writeln!(page, "<p><strong>Interrupted, without: {left_out}</strong></p>");
    }
    contents(&mut page, &outcome.summaries);
    outcome.summaries.iter().for_each(|summary| section(&mut page, summary));
    page.push_str(parts::END);
    page
}

fn contents(page: &mut String, summaries: &[Summary]) {
    page.push_str(
        "<h2>Cells</h2>\n<div class=\"wide\"><table>\n<tr><th>Cell</th><th>What</th><th>Seeds</th>\
         <th class=\"number\">Bars met</th></tr>\n",
    );
    for summary in summaries {
        let met = summary.goals.iter().filter(|goal| goal.is_met()).count();
        let cell = summary.cell.name();
        let _ = writeln!(
            page,
            "<tr><td><a href=\"#{cell}\">{cell}</a></td><td>{}</td><td>{}</td><td class=\"number\">{}</td></tr>",
            escaped(summary.cell.title()),
            summary.seeds_in_words(),
            if summary.goals.is_empty() {
                String::new()
            } else {
                format!("{met} of {}", summary.goals.len())
            }
        );
    }
    page.push_str("</table></div>\n");
}

fn section(page: &mut String, summary: &Summary) {
    let (cell, title) = (summary.cell.name(), escaped(summary.cell.title()));
    let _ = writeln!(page, "<section id=\"{cell}\">\n<h2>{title}</h2>");
    let _ = writeln!(page, "<p>{}: {}</p>", summary.seeds_in_words(), escaped(&summary.scale));
    let check = |goal: &Goal| Check { rule: goal.rule(), holds: goal.is_met() };
    parts::checks(page, &summary.goals.iter().map(check).collect::<Vec<Check>>());
    parts::plots(page, &drawing::plots(summary));
    table(page, summary);
    page.push_str("</section>\n");
}

fn table(page: &mut String, summary: &Summary) {
    page.push_str(
        "<details><summary>All numbers</summary>\n<div class=\"wide\"><table>\n<tr><th>Setting</th>",
    );
    for column in summary.columns {
        let of_unit = match column.unit {
            "" => String::new(),
            own => format!(" ({})", escaped(unit(own))),
        };
        let _ = write!(page, "<th class=\"number\">{}{of_unit}</th>", column.name);
    }
    page.push_str("</tr>\n");
    for line in &summary.lines {
        let _ = write!(page, "<tr><td>{}</td>", escaped(&line.setting));
        for shown in summary.shown(line) {
            let _ = write!(page, "<td class=\"number\">{shown}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div></details>\n");
}
