//! Rust text as the rules see it: code without comments and literals, and which lines are tests.
//!
//! A lexer of strings, characters and comments, not a parser; that is all the rules need.

use super::TextFile;
use std::collections::BTreeSet;

/// A file of Rust.
pub struct Source<'a> {
    pub path: &'a str,
    /// The text as it is.
    pub lines: Vec<&'a str>,
    /// The same lines with comments, strings and characters blanked out.
    pub code: Vec<String>,
    /// True for each line that is part of a test.
    pub in_test: Vec<bool>,
}

impl Source<'_> {
    /// `path:line` of the line with this index.
    pub fn place(&self, index: usize) -> String {
        format!("{}:{}", self.path, index + 1)
    }

    /// Lines of code outside tests with their indices.
    pub fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.iter().map(String::as_str).enumerate();
        lines.filter(|&(index, _)| !self.in_test[index])
    }
}

/// All files of Rust among `files`.
pub fn parse_all(files: &[TextFile]) -> Vec<Source<'_>> {
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    let mut sources: Vec<_> = rust.map(|file| parse(&file.path, &file.text)).collect();
    let test_files: BTreeSet<String> = sources.iter().flat_map(declared_test_files).collect();
    for source in &mut sources {
        if test_files.contains(source.path) {
            source.in_test.fill(true);
        }
    }
    sources
}

/// Reads one file.
pub fn parse<'a>(path: &'a str, text: &'a str) -> Source<'a> {
    let code: Vec<String> = blank(text).lines().map(str::to_owned).collect();
    let is_test_file = path.split('/').any(|part| part == "tests" || part == "tests.rs");
    let in_test = if is_test_file { vec![true; code.len()] } else { test_lines(&code) };
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), code.len(), "blanking keeps the lines of {path}");
    Source { path, lines, code, in_test }
}

/// `text` with spaces for comments and literals.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after_word = code.chars().next_back().is_some_and(is_word);
        let hidden = if after_word { hidden_after_word(rest) } else { hidden_bytes(rest) };
        if hidden == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        code.extend(rest[..hidden].chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
        rest = &rest[hidden..];
    }
    code
}

/// As [`hidden_bytes`] where `r"` would be the end of a name.
fn hidden_after_word(text: &str) -> usize {
    if text.starts_with(['r', 'b']) { 0 } else { hidden_bytes(text) }
}

/// Length of the comment or literal that `text` begins with; 0 when it begins with code.
fn hidden_bytes(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment_bytes(text);
    }
    let literal = text.trim_start_matches(['b', 'c']);
    let prefix = text.len() - literal.len();
    if prefix > 1 {
        return 0;
    }
    if let Some(raw) = literal.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if !raw[hashes..].starts_with('"') {
            return 0;
        }
        let closing = format!("\"{}", "#".repeat(hashes));
        let body = prefix + 1 + hashes + 1;
        return text[body..].find(&closing).map_or(text.len(), |end| body + end + closing.len());
    }
    if literal.starts_with('"') {
        return prefix + quoted_bytes(literal, '"');
    }
    if literal.starts_with('\'') && !is_lifetime(literal) {
        return prefix + quoted_bytes(literal, '\'');
    }
    0
}

fn block_comment_bytes(text: &str) -> usize {
    let mut depth = 0_u32;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of a literal between two `quote`s, the first of which `text` begins with.
fn quoted_bytes(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns true when `'` begins a lifetime: a name that no `'` closes.
fn is_lifetime(text: &str) -> bool {
    let mut letters = text.chars().skip(1);
    letters.next().is_some_and(is_word) && letters.next() != Some('\'')
}

/// For each line whether it belongs to an item under `#[cfg(test)]`.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut in_test = vec![false; code.len()];
    let mut next = 0;
    while next < code.len() {
        if !is_test_attribute(&code[next]) {
            next += 1;
            continue;
        }
        let end = item_end(code, next);
        in_test[next..end].fill(true);
        next = end;
    }
    in_test
}

fn is_test_attribute(line: &str) -> bool {
    line.contains("#[cfg(test)]") || line.contains("#[cfg(all(test")
}

/// Index of the line after the item whose attributes begin at `start`.
fn item_end(code: &[String], start: usize) -> usize {
    let mut depth = 0_i32;
    for (index, line) in code.iter().enumerate().skip(start) {
        for letter in line.chars() {
            match letter {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth -= 1,
                _ => {}
            }
            let closes = letter == '}' || letter == ';';
            if closes && depth == 0 {
                return index + 1;
            }
        }
    }
    code.len()
}

/// Files that `source` declares as `#[cfg(test)] mod name;`.
fn declared_test_files(source: &Source) -> Vec<String> {
    let folder = match source.path.rsplit_once('/') {
        Some((folder, "lib.rs" | "main.rs" | "mod.rs")) => folder.to_owned(),
        _ => source.path.trim_end_matches(".rs").to_owned(),
    };
    let test_code = source.code.iter().zip(&source.in_test).filter(|&(_, &in_test)| in_test);
    let names = test_code.filter_map(|(line, _)| line.split_once("mod ")?.1.trim().strip_suffix(';'));
    names.flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")]).collect()
}

/// Returns true when `letter` may be part of a name.
pub fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns true when `pattern` occurs in `code` where no name runs into either end of it.
pub fn mentions(code: &str, pattern: &str) -> bool {
    code.match_indices(pattern).any(|(at, _)| {
        let runs_in = code[..at].ends_with(is_word) && pattern.starts_with(is_word);
        let runs_out = code[at + pattern.len()..].starts_with(is_word) && pattern.ends_with(is_word);
        !runs_in && !runs_out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_kept() {
        let text = "let a = \"std::fs \\\" x\"; // std::io\n/* a /* b */ std\n::os */ let b = 'x';\n";
        assert_eq!(blank(text).lines().count(), 3);
        let code = blank(text);
        for word in ["std", "::os", "'x'"] {
            assert!(!code.contains(word), "{word} in {code}");
        }
        assert!(code.contains("let a =") && code.contains("let b ="));
        assert_eq!(blank("r#\"a \" b\"# + br\"c\" + b'd'").trim(), "+       +");
    }

    #[test]
    fn lifetimes_are_code() {
        let text = "fn f<'a>(x: &'a str, c: char) -> &'static str { g('{', '\\'') }";
        let code = blank(text);
        assert!(code.contains("&'a str") && code.contains("&'static str"));
        assert!(!code.contains("'{'"));
    }

    #[test]
    fn items_under_cfg_test_are_tests() {
        let text =
            "use a;\n#[cfg(test)]\nmod tests {\n    fn x() {}\n}\nfn y() {}\n#[cfg(test)]\nuse b;\nfn z() {}";
        let source = parse("src/x.rs", text);
        let product: Vec<_> = source.product_code().map(|(_, line)| line).collect();
        assert_eq!(product, ["use a;", "fn y() {}", "fn z() {}"]);
    }

    #[test]
    fn modules_under_cfg_test_may_lie_in_their_own_file() {
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let files =
            [file("src/lib.rs", "#[cfg(test)]\nmod twin;\nmod real;"), file("src/twin.rs", "fn x() {}")];
        let sources = parse_all(&files);
        assert_eq!(sources[1].in_test, [true]);
        assert_eq!(sources[0].in_test, [true, true, false]);
    }

    #[test]
    fn names_are_matched_whole() {
        assert!(mentions("use std::io;", "std::io"));
        assert!(!mentions("use std::iota;", "std::io"));
        assert!(mentions("a: Rc<B>", "Rc<"));
        assert!(!mentions("a: Arc<B>", "Rc<"));
        assert!(!mentions("base::operand::x", "rand::"));
    }
}
