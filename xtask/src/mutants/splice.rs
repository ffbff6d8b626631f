//! Edits of one file: all at once, each where its `find` stands, which must be exactly one place of the clean text.

use super::list::Edit;
use std::ops::Range;

/// The text with all edits made, or what keeps them from being made.
///
/// # Errors
/// For every edit whose `find` is not there, is there twice, changes nothing, or meets that of another.
pub fn splice(clean: &str, edits: &[&Edit]) -> Result<String, Vec<String>> {
    let mut wrong = Vec::new();
    let mut places: Vec<(Range<usize>, &Edit)> = Vec::new();
    for edit in edits {
        match place_of(clean, edit) {
            Ok(place) => places.push((place, edit)),
            Err(what) => wrong.push(format!("{what}: `{}`", first_line(&edit.find))),
        }
    }
    places.sort_by_key(|(place, _)| place.start);
    for pair in places.windows(2) {
        let [(before, one), (after, other)] = pair else { unreachable!("windows of two") };
        if before.end > after.start {
            let (one, other) = (first_line(&one.find), first_line(&other.find));
            wrong.push(format!("two edits overlap; one edit can name both mutants: `{one}`, `{other}`"));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let (mut text, mut at) = (String::with_capacity(clean.len()), 0);
    for (place, edit) in places {
        text.push_str(&clean[at..place.start]);
        text.push_str(&edit.replace);
        at = place.end;
    }
    text.push_str(&clean[at..]);
    Ok(text)
}

fn place_of(clean: &str, edit: &Edit) -> Result<Range<usize>, &'static str> {
    if edit.find.is_empty() || edit.find == edit.replace {
        return Err("the edit changes nothing");
    }
    let at = clean.find(&edit.find).ok_or("`find` occurs nowhere")?;
    // The next letter, not the end of the first: occurrences may overlap.
    let next = clean[at..].chars().next().map_or(1, char::len_utf8);
    if clean[at + next..].contains(&edit.find) {
        return Err("`find` occurs more than once");
    }
    Ok(at..at + edit.find.len())
}

fn first_line(find: &str) -> &str {
    find.trim().lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: &str = "if a {\n    go();\n}\nif b {\n    go();\n}\n";

    fn edit(find: &str, replace: &str) -> Edit {
        Edit { file: "a.rs".to_owned(), find: find.to_owned(), replace: replace.to_owned() }
    }

    #[test]
    fn edits_are_made_where_their_text_stands_in_any_order() {
        let (later, earlier) = (edit("if b", "if b && !x"), edit("if a {\n", "if a {\n    if a"));
        let text = splice(CLEAN, &[&later, &earlier]).unwrap();
        assert_eq!(text, "if a {\n    if a    go();\n}\nif b && !x {\n    go();\n}\n");
        // What one edit writes is not where another looks.
        let (one, other) = (edit("if a", "if b"), edit("if b", "if c"));
        assert_eq!(
            splice(CLEAN, &[&one, &other]).unwrap(),
            CLEAN.replace("if b", "if c").replace("if a", "if b")
        );
    }

    #[test]
    fn an_edit_must_have_exactly_one_place_of_its_own() {
        let wrong = |edits: &[&Edit]| splice(CLEAN, edits).unwrap_err();
        assert_eq!(wrong(&[&edit("if c", "if d")]), ["`find` occurs nowhere: `if c`"]);
        assert_eq!(wrong(&[&edit("go();\n", "")]), ["`find` occurs more than once: `go();`"]);
        assert_eq!(splice("aaa", &[&edit("aa", "b")]).unwrap_err().len(), 1, "occurrences that overlap");
        assert_eq!(wrong(&[&edit("if a", "if a")]).len(), 1);
        assert_eq!(wrong(&[&edit("", "if a")]).len(), 1);
        assert_eq!(wrong(&[&edit("if a {", "x"), &edit("a {\n", "y")]).len(), 1);
        assert_eq!(
            splice(CLEAN, &[&edit("if a", "x"), &edit(" {\n    go();\n}\nif", "y")]).unwrap(),
            "xy b {\n    go();\n}\n"
        );
    }
}
