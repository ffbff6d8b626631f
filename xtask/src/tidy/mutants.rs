//! Deliberate bugs: each of `crates/sim/mutants` still applies, and those that the docs name exist.

use super::{Finding, TextFile};
use crate::mutants::{DOCUMENT, list, table};

/// Judges the lists, the files that their edits are of, and the table in the docs.
pub fn judge(files: &[TextFile]) -> Vec<Finding> {
    let texts = list::texts(files);
    let mutants = match list::read(&texts) {
        Ok(mutants) => mutants,
        Err(wrong) => {
            let finding = |(place, what)| Finding::error(place, format!("mutants: {what}"));
            return wrong.into_iter().map(finding).collect();
        }
    };
    let told = texts.get(DOCUMENT).and_then(|document| table(document)).unwrap_or_default();
    // Every second part stands between backquotes.
    let unknown =
        told.split('`').skip(1).step_by(2).filter(|name| mutants.iter().all(|mutant| mutant.name != *name));
    unknown.map(|name| Finding::error(DOCUMENT, format!("there is no mutant `{name}`"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "[[mutant]]\nname = \"never-full\"\nbreaks = \"It is never full.\"\nkind = \"ours\"\n\n\
        [[mutant.edit]]\nfile = \"crates/a.rs\"\nfind = 'if full'\nreplace = 'if full && !mutant!(\"never-full\")'\n";
    const TABLE: &str = "Of `old` more below.\n<!-- mutants -->\n| `never-full` | \n<!-- /mutants -->\n";

    fn findings(list: &str, source: &str, document: &str) -> Vec<Finding> {
        let list_path = format!("{}a.toml", list::FOLDER);
        let files = [(list_path.as_str(), list), ("crates/a.rs", source), (DOCUMENT, document)];
        judge(&files.map(|(path, text)| TextFile { path: path.to_owned(), text: text.to_owned() }))
    }

    #[test]
    fn a_mutant_that_applies_and_is_told_of_is_right() {
        assert_eq!(findings(LIST, "if full {}\n", TABLE), []);
    }

    #[test]
    fn a_mutant_that_no_longer_applies_is_an_error() {
        assert_eq!(findings(LIST, "if empty {}\n", TABLE).len(), 1);
        assert_eq!(findings(LIST, "if full {}\nif full {}\n", TABLE).len(), 1);
        assert_eq!(findings("[[mutant]", "if full {}\n", TABLE).len(), 1);
    }

    #[test]
    fn a_mutant_that_only_the_docs_know_is_an_error() {
        let found = findings(LIST, "if full {}\n", &TABLE.replace("never-full", "always-full"));
        assert_eq!(found, [Finding::error(DOCUMENT, "there is no mutant `always-full`")]);
    }
}
