//! Small workspaces with one mistake each.

use super::*;

const WORKSPACE: &str = r#"
[workspace.dependencies]
base = { path = "crates/base", package = "zoneweave-base" }
zone = { path = "crates/zone", package = "zoneweave-zone" }
drive = { path = "crates/drive", package = "zoneweave-drive" }
array = { path = "crates/array", package = "zoneweave-array" }
log = "0.4"
"#;

fn findings(path: &str, manifest: &str) -> Vec<String> {
    let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
    let files = [
        file("Cargo.toml", WORKSPACE),
        file(path, &format!("[package]\nname = \"x\"\n{manifest}")),
        file("docs/adr/0001-log.md", "We use `log`, and proptest for tests."),
    ];
    judge(&files).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn allowed_directions_pass() {
    let array = "[dependencies]\nbase.workspace = true\nzone.workspace = true\n\
                 [dev-dependencies]\ndrive.workspace = true\nproptest = \"1\"";
    assert_eq!(findings("crates/array/Cargo.toml", array), [""; 0]);
    assert_eq!(
        findings("crates/drive/Cargo.toml", "[dependencies]\nzone.workspace = true\nlog.workspace = true"),
        [""; 0]
    );
}

#[test]
fn wrong_directions_are_found() {
    let wrong = [
        ("crates/base", "[dependencies]\nzone.workspace = true"),
        ("crates/zone", "[dependencies]\narray.workspace = true"),
        ("crates/zone", "[dev-dependencies]\ndrive.workspace = true"),
        ("crates/array", "[dependencies]\ndrive.workspace = true"),
        ("crates/server", "[dependencies]\nrenamed = { package = \"zoneweave-drive\", path = \"../drive\" }"),
        ("crates/drive", "[target.'cfg(unix)'.dependencies]\narray.workspace = true"),
        ("crates/zone", "[dependencies]\nlog.workspace = true"),
        ("crates/unheard-of", ""),
    ];
    for (folder, manifest) in wrong {
        let found = findings(&format!("{folder}/Cargo.toml"), manifest);
        assert_eq!(found.len(), 1, "{folder} {manifest}: {found:?}");
    }
}

#[test]
fn a_dependency_without_a_record_is_found() {
    let found = findings("crates/drive/Cargo.toml", "[dev-dependencies]\nlog2 = \"1\"");
    assert_eq!(
        found,
        ["error: crates/drive/Cargo.toml: no record in docs/adr argues for depending on `log2`"]
    );
}
