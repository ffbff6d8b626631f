//! No path of a developer's machine in what is tracked.

use super::{Finding, TextFile};

/// Places where people and machines of this project build. Spelled in two halves, so that this file may
/// be tracked.
const PRIVATE: &[&str] = &[concat!("/wo", "rk/"), concat!("/tmp/tar", "get")];

/// Judges all files.
pub fn judge(files: &[TextFile]) -> Vec<Finding> {
    files.iter().flat_map(judge_file).collect()
}

fn judge_file(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for path in PRIVATE.iter().filter(|path| begins_a_path(line, path)) {
            let place = format!("{}:{}", file.path, index + 1);
            findings.push(Finding::error(place, format!("`{path}` is a path of one machine")));
        }
    }
    findings
}

/// Returns true when `path` occurs in `line` other than in the middle of a longer path.
fn begins_a_path(line: &str, path: &str) -> bool {
    let in_longer = |letter: char| letter.is_alphanumeric() || "_-.*".contains(letter);
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(in_longer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_machine_are_found() {
        let judge_text = |text: &str| judge(&[TextFile { path: "a.md".to_owned(), text: text.to_owned() }]);
        for path in PRIVATE {
            let findings = judge_text(&format!("fine\nsee `{path}main`\n"));
            assert_eq!(findings[0].place, "a.md:2");
        }
        assert_eq!(judge_text("https://example.org/net/work/ and teamwork/"), []);
    }
}
