//! What differs between two records.

use super::record::{Instructions, Record};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Most instructions that a head may execute, as a multiple of those of the base.
const INSTRUCTIONS_RATIO_MAX: f64 = 1.02;
/// Differences of a kind that are printed; `--json` has them all.
const SHOWN_MAX: usize = 20;

/// Two records side by side.
#[derive(Debug, Serialize)]
pub struct Comparison {
    base: String,
    head: String,
    seeds: Differences,
    scenarios: Differences,
    lab: Differences,
    instructions: InstructionsRatio,
    /// Reasons why something could not be compared: no difference, and no proof either.
    not_compared: Vec<String>,
}

/// Differences between results of one kind.
#[derive(Debug, Default, Serialize)]
struct Differences {
    compared: usize,
    differing: Vec<Difference>,
}

/// A result that is not the same. A side is empty where the name is unknown.
#[derive(Debug, PartialEq, Serialize)]
struct Difference {
    name: String,
    base: Option<String>,
    head: Option<String>,
}

/// Instructions per 4-KiB write.
#[derive(Debug, Default, Serialize)]
struct InstructionsRatio {
    base: Option<f64>,
    head: Option<f64>,
    ratio: Option<f64>,
}

impl Comparison {
    pub fn of(base: &Record, head: &Record) -> Comparison {
        let mut not_compared = Vec::new();
        let empty = BTreeMap::new();
        let scales = base.lab.keys().chain(head.lab.keys()).collect::<BTreeSet<_>>();
        let mut lab = Differences::default();
        for scale in scales {
            let of = |record: &Record| record.lab.get(scale).cloned().unwrap_or_default();
            lab.join(Differences::between(&of(base), &of(head)));
        }
        if lab.compared == 0 {
            not_compared.push("lab run: not asked for".to_owned());
        }
        let scenarios = |record: &Record| record.scenarios.clone().unwrap_or_else(|| empty.clone());
        Comparison {
            base: base.commit.clone(),
            head: head.commit.clone(),
            seeds: Differences::between(&base.seeds, &head.seeds),
            scenarios: Differences::between(&scenarios(base), &scenarios(head)),
            lab,
            instructions: InstructionsRatio::between(base, head, &mut not_compared),
            not_compared,
        }
    }

    /// Returns true when nothing that was compared differs.
    pub fn is_same(&self) -> bool {
        let kinds = [&self.seeds, &self.scenarios, &self.lab];
        kinds.iter().all(|kind| kind.differing.is_empty()) && !self.instructions.is_too_many()
    }
}

impl Differences {
    fn between<K: Ord + ToString>(base: &BTreeMap<K, String>, head: &BTreeMap<K, String>) -> Differences {
        let names = base.keys().chain(head.keys()).collect::<BTreeSet<_>>();
        let difference = |name: &&K| {
            let (base, head) = (base.get(name).cloned(), head.get(name).cloned());
            (base != head).then(|| Difference { name: name.to_string(), base, head })
        };
        Differences { compared: names.len(), differing: names.iter().filter_map(difference).collect() }
    }

    fn join(&mut self, more: Differences) {
        self.compared += more.compared;
        self.differing.extend(more.differing);
    }

    /// Returns one line for the overview.
    fn line(&self) -> String {
        match (self.compared, self.differing.len()) {
            (0, _) => "not compared".to_owned(),
            (compared, 0) => format!("{compared} the same"),
            (compared, differing) => format!("{differing} of {compared} DIFFER"),
        }
    }
}

impl InstructionsRatio {
    fn between(base: &Record, head: &Record, not_compared: &mut Vec<String>) -> InstructionsRatio {
        let mut counts = Vec::new();
        for (side, record) in [("base", base), ("head", head)] {
            match &record.instructions {
                Some(Instructions::Counted { per_write, counted_by }) => {
                    counts.push((*per_write, counted_by))
                }
                Some(Instructions::NotCounted { why }) => {
                    not_compared.push(format!("instructions of the {side}: not counted, {why}"));
                }
                None => not_compared.push(format!("instructions of the {side}: not asked for")),
            }
        }
        let [(base, base_by), (head, head_by)] = counts[..] else { return InstructionsRatio::default() };
        if base_by != head_by {
            not_compared.push(format!("instructions: counted by `{base_by}` and by `{head_by}`"));
            return InstructionsRatio { base: Some(base), head: Some(head), ratio: None };
        }
        InstructionsRatio { base: Some(base), head: Some(head), ratio: Some(head / base) }
    }

    fn is_too_many(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio > INSTRUCTIONS_RATIO_MAX)
    }

    fn line(&self) -> String {
        let verdict = if self.is_too_many() { ", more than 2 % MORE" } else { "" };
        match (self.base, self.head, self.ratio) {
            (Some(base), Some(head), Some(ratio)) => {
                format!("{base:.1} -> {head:.1} per 4-KiB write, ratio {ratio:.4}{verdict}")
            }
            _ => "not compared".to_owned(),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "base          {}\nhead          {}", self.base, self.head)?;
        let kinds = [("seeds", &self.seeds), ("scenarios", &self.scenarios), ("lab run", &self.lab)];
        for (kind, differences) in kinds {
            writeln!(f, "{kind:13} {}", differences.line())?;
        }
        writeln!(f, "instructions  {}", self.instructions.line())?;
        for (kind, differences) in kinds.iter().filter(|(_, differences)| !differences.differing.is_empty()) {
            writeln!(f, "\n{kind}")?;
            for difference in differences.differing.iter().take(SHOWN_MAX) {
                writeln!(f, "  {difference}")?;
            }
            let more = differences.differing.len().saturating_sub(SHOWN_MAX);
            if more > 0 {
                writeln!(f, "  and {more} more: --json names them all")?;
            }
        }
        self.not_compared.iter().try_for_each(|what| writeln!(f, "not compared: {what}"))?;
        writeln!(f, "\n{}", if self.is_same() { "the same" } else { "DIFFERENT" })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { name, base, head } = self;
        match (base, head) {
            (Some(base), Some(head)) => {
                let (base, head) = shortest(base, head);
                write!(f, "{name}: {base} -> {head}")
            }
            (Some(_), None) => write!(f, "{name}: only in the base"),
            (None, _) => write!(f, "{name}: only in the head"),
        }
    }
}

/// Two results, as short as they still differ: of lines of `lab run` their values.
fn shortest(base: &str, head: &str) -> (String, String) {
    let value = |text: &str| Some(serde_json::from_str::<Value>(text).ok()?.get("value")?.to_string());
    match (value(base), value(head)) {
        (Some(base), Some(head)) if base != head => (base, head),
        _ => (base.to_owned(), head.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(per_write: f64) -> Record {
        let mut record = Record { commit: "abc".to_owned(), ..Record::default() };
        record.seeds = (0..30).map(|seed| (seed, format!("{seed:016x}"))).collect();
        record.scenarios = Some(BTreeMap::from([("gc.toml".to_owned(), "1".to_owned())]));
        let line = r#"{"value":338.535,"ci95":null}"#.to_owned();
        record.lab.insert("1".to_owned(), BTreeMap::from([("fig2 p50".to_owned(), line)]));
        record.instructions = Some(Instructions::Counted { per_write, counted_by: "valgrind".to_owned() });
        record
    }

    #[test]
    fn a_record_is_the_same_as_itself() {
        let comparison = Comparison::of(&record(6_208.0), &record(6_208.0));
        assert!(comparison.is_same());
        let text = comparison.to_string();
        assert!(text.contains("seeds         30 the same\n") && text.ends_with("\nthe same\n"), "{text}");
    }

    #[test]
    fn what_differs_is_named() {
        type Change = (fn(&mut Record), &'static str);
        const CHANGES: [Change; 5] = [
            (|head| drop(head.seeds.insert(17, "x".to_owned())), "  17: 0000000000000011 -> x\n"),
            (|head| drop(head.seeds.remove(&29)), "  29: only in the base\n"),
            (
                |head| drop(head.scenarios.as_mut().unwrap().insert("new.toml".to_owned(), "2".to_owned())),
                "  new.toml: only in the head\n",
            ),
            (
                |head| {
                    let line = r#"{"value":338.536,"ci95":null}"#.to_owned();
                    head.lab.get_mut("1").unwrap().insert("fig2 p50".to_owned(), line);
                },
                "  fig2 p50: 338.535 -> 338.536\n",
            ),
            (|head| head.lab.clear(), "  fig2 p50: only in the base\n"),
        ];
        let base = record(6_208.0);
        for (change, said) in CHANGES {
            let mut head = base.clone();
            change(&mut head);
            let comparison = Comparison::of(&base, &head);
            assert!(!comparison.is_same(), "{said}");
            let text = comparison.to_string();
            assert!(text.contains(said) && text.ends_with("\nDIFFERENT\n"), "{text}");
        }
    }

    #[test]
    fn a_line_of_the_lab_differs_in_other_fields_than_its_value_too() {
        let text = r#"{"value":1,"unit":"us"}"#;
        let (base, head) = shortest(text, r#"{"value":1,"unit":"ms"}"#);
        assert_eq!((base.as_str(), head.contains("ms")), (text, true));
    }

    #[test]
    fn two_percent_more_instructions_are_allowed_and_any_less() {
        let ratio = |head| Comparison::of(&record(6_000.0), &record(head));
        assert!(ratio(6_120.0).is_same() && ratio(3_000.0).is_same());
        assert!(!ratio(6_121.0).is_same());
    }

    #[test]
    fn what_was_not_counted_is_said_and_no_difference() {
        let mut head = record(9_000.0);
        head.instructions = Some(Instructions::NotCounted { why: "valgrind is not installed".to_owned() });
        let comparison = Comparison::of(&record(6_000.0), &head);
        assert!(comparison.is_same());
        assert!(comparison.to_string().contains("of the head: not counted, valgrind is not installed\n"));
        head.instructions = Some(Instructions::Counted { per_write: 9.0, counted_by: "perf".to_owned() });
        let comparison = Comparison::of(&record(6_000.0), &head);
        assert!(
            comparison.is_same() && comparison.to_string().contains("counted by `valgrind` and by `perf`")
        );
    }

    #[test]
    fn many_differences_are_counted_and_some_shown() {
        let mut head = record(1.0);
        head.seeds.values_mut().for_each(|hash| hash.push('!'));
        let text = Comparison::of(&record(1.0), &head).to_string();
        assert!(text.contains("seeds         30 of 30 DIFFER\n") && text.contains("  and 10 more"), "{text}");
    }
}
