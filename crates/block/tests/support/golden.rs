//! Golden arrays: members that the kernel wrote, and what mdadm says of them.

use std::io::Read;
use std::path::PathBuf;

/// Folder of the archives.
pub fn folder() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let in_crate = own.join("tests/golden");
    if in_crate.is_dir() { in_crate } else { own.join("crates/block/tests/golden") }
}

/// Names of all arrays, in order.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the golden arrays");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".tar.xz").map(str::to_owned)).collect();
    names.sort();
    assert_eq!(names.len(), 39);
    names
}

/// Members of an array: file names and contents, in order.
pub fn members(array: &str) -> Vec<(String, Vec<u8>)> {
    let path = folder().join(format!("{array}.tar.xz"));
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut unpacked = Vec::new();
    lzma_rs::xz_decompress(&mut &packed[..], &mut unpacked).expect("an archive");
    let mut members = Vec::new();
    for entry in tar::Archive::new(&unpacked[..]).entries().expect("an archive") {
        let mut entry = entry.expect("a member");
        let name = entry.path().expect("a name").display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).expect("a member's bytes");
        members.push((name, content));
    }
    members.sort();
    members
}

/// Output of `mdadm --examine` for each member of an array, without the line that names the device.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub fn examined(array: &str) -> Vec<(String, String)> {
    let path = folder().join("examine").join(format!("{array}.txt"));
    let text = std::fs::read_to_string(path).expect("what mdadm says");
    let mut members: Vec<(String, String)> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("# ") {
            members.push((name.to_owned(), String::new()));
            lines.next();
        } else {
            let (_, text) = members.last_mut().expect("a member's name first");
            *text += line;
            *text += "\n";
        }
    }
    members
}
