//! Reports of a characterisation: plain text for terminals, JSON for programs, one HTML page for
//! people.

mod html;
mod names;
pub(crate) mod parts;
mod svg;
mod text;

use crate::characterise::Report;
use crate::characterise::finding::Finding;

impl Report {
    /// Renders one block per finding, and a line of counts at the end.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::render(self)
    }

    /// Renders one JSON object, with the same keys in the same order every time.
    ///
    /// # Panics
    /// Never: the report is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is plain data with finite numbers or nulls")
    }

    /// Renders one page that needs nothing else: plots are inline, styles too.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::render(self)
    }
}

/// The verdict in words.
fn verdict(finding: &Finding) -> &'static str {
    match finding.holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "not measured",
    }
}

#[cfg(test)]
mod tests;
