//! Subjects and bodies of commits: `area: what`, and why.

use super::Finding;

/// Columns of a subject that a one-line log shows whole beside its hash.
const SUBJECT_COLUMNS_GOOD: usize = 60;

/// Columns beyond which tools cut off a subject.
const SUBJECT_COLUMNS_MAX: usize = 72;

/// Judges a log in which 0x1f parts hash, subject and body, and 0x1e ends a commit.
pub fn judge(log: &str) -> Vec<Finding> {
    log.split('\x1e').filter_map(parse).flat_map(judge_commit).collect()
}

struct Commit<'a> {
    hash: &'a str,
    subject: &'a str,
    body: &'a str,
}

fn parse(record: &str) -> Option<Commit<'_>> {
    let mut fields = record.trim().splitn(3, '\x1f');
    let (hash, subject) = (fields.next()?, fields.next()?);
    Some(Commit { hash, subject, body: fields.next().unwrap_or_default() })
}

fn judge_commit(commit: Commit) -> Vec<Finding> {
    let place = format!("commit {} ({})", commit.hash, commit.subject);
    let mut findings = Vec::new();
    if !names_an_area(commit.subject) {
        findings
            .push(Finding::error(&place, "the subject is `area: what`, as in `array: trims of one block`"));
    }
    let columns = commit.subject.chars().count();
    if columns > SUBJECT_COLUMNS_MAX {
        findings.push(Finding::error(&place, format!("{columns} columns; at most {SUBJECT_COLUMNS_MAX}")));
    } else if columns > SUBJECT_COLUMNS_GOOD {
        findings.push(Finding::warning(&place, format!("{columns} columns; better {SUBJECT_COLUMNS_GOOD}")));
    }
    if commit.body.trim().is_empty() {
        findings.push(Finding::error(&place, "a body says why, and what was tried"));
    }
    findings
}

/// Returns true when a subject begins like `array: ` or `base, zone: ` and goes on.
fn names_an_area(subject: &str) -> bool {
    let Some((areas, what)) = subject.split_once(": ") else { return false };
    let is_area = |area: &str| {
        let mut letters = area.chars();
        letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '.')
            && letters.all(|letter| letter.is_ascii_alphanumeric() || "-_/.".contains(letter))
    };
    areas.split(", ").all(is_area) && !what.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(subject: &str, body: &str) -> usize {
        judge(&format!("abc\x1f{subject}\x1f{body}\n\x1e\n")).len()
    }

    #[test]
    fn a_good_commit_passes() {
        assert_eq!(count("base, zone: vocabulary, zone rules", "Because."), 0);
        assert_eq!(count("array/log: a: b", "Because."), 0);
        assert_eq!(judge(""), []);
    }

    #[test]
    fn subject_and_body_are_checked() {
        assert_eq!(count("fix things", "Because."), 1);
        assert_eq!(count("Fix: things", "Because."), 1);
        assert_eq!(count("array: ", "Because."), 1);
        assert_eq!(count("array: trims", ""), 1);
        assert_eq!(count(&format!("array: {}", "x".repeat(58)), "Because."), 1);
        assert_eq!(count(&format!("array: {}", "x".repeat(70)), "Because."), 1);
    }
}
