//! Parts of pages: what every report in HTML is put together from.

use super::svg;
use crate::characterise::finding::Check;
use crate::characterise::plot::Plot;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// A page up to its heading; styles are inside.
pub fn begin(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    )
}

/// The end of a page.
pub const END: &str = "</body>\n</html>\n";

/// Rules, and whether each holds.
pub fn checks(page: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    page.push_str("<ul class=\"checks\">\n");
    for check in checks {
        let (class, mark) = if check.holds { ("good", "yes") } else { ("bad", "no") };
        let rule = escaped(&check.rule);
        let _ = writeln!(page, "<li><span class=\"badge {class}\">{mark}</span> {rule}</li>");
    }
    page.push_str("</ul>\n");
}

/// Plots with their captions.
pub fn plots(page: &mut String, plots: &[Plot]) {
    for plot in plots {
        let _ = writeln!(
            page,
            "<figure id=\"plot-{}\">\n{}\n<figcaption>{}</figcaption>\n</figure>",
            plot.id,
            svg::draw(plot),
            escaped(plot.caption)
        );
    }
}

/// A unit as people write it.
pub fn unit(unit: &str) -> &str {
    match unit {
        "us" => "\u{b5}s",
        "percent" => "%",
        "factor" | "x" => "\u{d7}",
        unit => unit,
    }
}

/// Text that stands for itself in HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
