//! `unsafe` only in listed files, and always explained.

use super::Finding;
use super::source::{Source, mentions};

/// Files that may, and what for. A line here is a decision: take one out before adding one.
const ALLOWED: &[(&str, &str)] = &[
    (
        "crates/base/src/combine.rs",
        "kernels in GF(2^8): registers, and calls for CPU features that were detected",
    ),
    ("crates/base/src/xor.rs", "calls kernels compiled for CPU features that were detected"),
    ("crates/drive/src/emulated/map.rs", "the mapped drive file: no system call per entry or block"),
    ("crates/mapping/src/lib.rs", "a signal handler, and what it needs to know"),
    (
        "crates/drive/src/nvme/passthrough.rs",
        "NVMe commands by io_uring and ioctl: the kernel owns buffers for a while",
    ),
    ("crates/drive/src/zoned/ioctl.rs", "zone reports and changes of block devices: nothing else makes them"),
    ("crates/drive/src/lane.rs", "queues entries of io_uring, whose buffers its owners keep"),
    ("crates/drive/src/ordinary/ring.rs", "io_uring: the kernel owns buffers for a while"),
    ("crates/drive/examples/drive_cost.rs", "measures that"),
    ("crates/lab/src/allocations.rs", "counts allocations where they are made: in the allocator"),
    ("crates/server/src/ublk/control.rs", "commands of the ublk driver, which take pointers by io_uring"),
    (
        "crates/server/src/ublk/device.rs",
        "the mapped descriptors of a disk's requests: nothing else has them",
    ),
    ("crates/server/src/ring.rs", "io_uring: the kernel owns buffers and descriptors for a while"),
];

/// Words that must explain `unsafe`, and the most lines above it: each use is sound for a reason of its
/// own, while the gain may be that of a whole `impl`.
const EXPLANATIONS: [(&str, usize); 2] = [("SAFETY:", 12), ("WHY:", 24)];

/// Judges all files.
pub fn judge(sources: &[Source]) -> Vec<Finding> {
    judge_with(sources, ALLOWED)
}

fn judge_with(sources: &[Source], allowed: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let is_allowed = allowed.iter().any(|(path, _)| *path == source.path);
        let uses: Vec<usize> = unsafe_lines(source).collect();
        if is_allowed && uses.is_empty() {
            let what =
                "is listed as having unsafe code and has none: take it out of xtask/src/tidy/unsafe_code.rs";
            findings.push(Finding::error(source.path, what));
        }
        for index in uses {
            if !is_allowed {
                let what =
                    "unsafe code is only in files listed, with a reason, in xtask/src/tidy/unsafe_code.rs";
                findings.push(Finding::error(source.place(index), what));
            }
            findings.extend(unexplained(source, index));
        }
    }
    findings
}

fn unsafe_lines(source: &Source) -> impl Iterator<Item = usize> {
    let lines = source.code.iter().enumerate();
    lines.filter(|(_, line)| mentions(line, "unsafe")).map(|(index, _)| index)
}

fn unexplained(source: &Source, index: usize) -> Option<Finding> {
    let has = |word: &str, lines_above: usize| {
        let near = &source.lines[index.saturating_sub(lines_above)..=index];
        near.iter().any(|line| line.trim_start().strip_prefix("//").is_some_and(|text| text.contains(word)))
    };
    let missing = EXPLANATIONS.into_iter().filter(|&(word, lines_above)| !has(word, lines_above));
    let missing: Vec<&str> = missing.map(|(word, _)| word.trim_end_matches(':')).collect();
    let what = format!("unsafe without {}: why it is sound, and what it gains", missing.join(" and "));
    (!missing.is_empty()).then(|| Finding::error(source.place(index), what))
}

#[cfg(test)]
mod tests {
    use super::super::source::parse;
    use super::*;

    const EXPLAINED: &str = "// SAFETY: it is.\n// WHY: 3 ns.\nlet a = unsafe { f() };\n";

    fn count(path: &str, text: &str) -> usize {
        judge_with(&[parse(path, text)], &[("a.rs", "a reason")]).len()
    }

    #[test]
    fn unsafe_is_listed_and_explained() {
        assert_eq!(count("a.rs", EXPLAINED), 0);
        assert_eq!(count("b.rs", EXPLAINED), 1);
        assert_eq!(count("a.rs", "unsafe fn f() {}"), 1);
        assert_eq!(count("a.rs", "// SAFETY: it is.\nunsafe { f() }"), 1);
    }

    #[test]
    fn explanations_are_near() {
        let far = "// SAFETY: it is.\n// WHY: 3 ns.\n".to_owned() + &"\n".repeat(15) + "unsafe { f() }\n";
        assert_eq!(count("a.rs", &far), 1);
    }

    #[test]
    fn a_file_without_unsafe_is_not_listed() {
        assert_eq!(count("a.rs", "#![forbid(unsafe_code)] // unsafe\n"), 1);
        assert_eq!(count("b.rs", "#![forbid(unsafe_code)] // unsafe\n"), 0);
    }
}
