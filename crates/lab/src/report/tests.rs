//! Reports are complete, stable and self-contained.

use crate::characterise::made_up;
use serde_json::Value;

#[test]
fn a_page_needs_nothing_else() {
    let report = made_up::report("zn540-1tb");
    let page = report.to_html();
    for outside in ["http:", "https:", "//", "src=", "url(", "@import", "<link", "<script", "<img"] {
        assert!(!page.contains(outside), "the page has {outside}");
    }
    for link in page.split("href=\"").skip(1) {
        let target = link.split('"').next().unwrap();
        let place = target.strip_prefix('#').expect("links stay inside the page");
        assert!(page.contains(&format!("id=\"{place}\"")), "nothing is at {target}");
    }
    let plots: usize = report.findings.iter().map(|finding| finding.plots.len()).sum();
    assert!(plots >= 19);
    assert_eq!(page.matches("<svg ").count(), plots);
    assert_eq!(page.matches("<figcaption>").count(), plots);
    for id in [
        "2a",
        "2b",
        "3a",
        "3b",
        "4a",
        "4b",
        "4c",
        "5a",
        "5b",
        "6a",
        "6b",
        "7",
        "8a",
        "zapraid-2a",
        "biza-rate",
    ] {
        assert!(page.contains(&format!("id=\"plot-{id}\"")), "plot {id}");
    }
}

#[test]
fn a_page_says_why_observation_13_is_not_the_drive() {
    let page = made_up::report("zn540-1tb").to_html();
    assert!(page.contains("This is not what the drive does"));
    assert!(page.contains("text reversed") || page.contains("direction reversed"));
}

#[test]
fn plots_take_the_colours_of_the_page() {
    let page = made_up::report("zn540-1tb").to_html();
    assert!(page.contains("currentColor") && !page.contains("#010203"));
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn json_has_stable_keys() {
    let json: Value = serde_json::from_str(&made_up::report("zn540-1tb").to_json()).unwrap();
    let has = |value: &Value, keys: &[&str]| {
        for key in keys {
            assert!(value.get(key).is_some(), "{key}");
        }
    };
    has(&json, &["profile", "seed", "findings", "summary"]);
    has(&json["summary"], &["holds", "fails", "within", "outside", "exceptions"]);
    has(&json["findings"][1], &["id", "title", "holds", "expected", "checks", "figures"]);
    let figure = &json["findings"][1]["figures"][0];
    has(figure, &["id", "name", "ours", "published", "unit", "error_percent", "within", "note"]);
}

#[test]
fn text_has_a_block_per_finding_and_counts() {
    let report = made_up::report("zn540-1tb");
    let text = report.to_text();
    for finding in &report.findings {
        assert!(text.contains(finding.title), "{}", finding.title);
    }
    assert!(text.contains("[holds] Observation 4"));
    assert!(text.contains("[holds] (of another drive) BIZA"));
    let expected = report.summary.holds + report.summary.fails;
    assert!(text.contains(&format!("{} of {expected} findings expected", report.summary.holds)));
    let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= 122, "{widest}");
}
