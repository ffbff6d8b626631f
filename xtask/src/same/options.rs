//! What can be typed after `cargo xtask same`.

use super::measure::Part;
use super::record::{Instructions, Record};
use anyhow::{Context, Result, bail, ensure};

/// Seeds when nothing is said.
const SEEDS: u64 = 1_500;

/// Options of a comparison.
#[derive(Debug, PartialEq)]
pub struct Options {
    pub base: Option<String>,
    pub head: Option<String>,
    pub seeds: u64,
    /// `--scale` of `lab run all`; `None` leaves it out.
    pub lab_scale: Option<String>,
    pub with_instructions: bool,
    /// Records that are kept are not used.
    pub again: bool,
    pub json: bool,
}

impl Options {
    /// # Errors
    /// When they cannot be understood.
    pub fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            base: None,
            head: None,
            seeds: SEEDS,
            lab_scale: Some("1".to_owned()),
            with_instructions: true,
            again: false,
            json: false,
        };
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--seeds" => {
                    let text = words.next().context("--seeds needs a number")?;
                    options.seeds =
                        text.parse().with_context(|| format!("`{text}` is no number of seeds"))?;
                }
                "--lab-scale" => options.lab_scale = Some(scale(words.next())?),
                "--no-lab" => options.lab_scale = None,
                "--no-instructions" => options.with_instructions = false,
                "--again" => options.again = true,
                "--json" => options.json = true,
                option if option.starts_with('-') => {
                    bail!("there is no option `{option}`; see `cargo xtask --help`")
                }
                commit if options.base.is_none() => options.base = Some(commit.to_owned()),
                commit if options.head.is_none() => options.head = Some(commit.to_owned()),
                other => bail!("two commits are compared: `{other}` is one more"),
            }
        }
        Ok(options)
    }

    /// The parts that a record lacks.
    pub fn wanted(&self, record: &Record) -> Vec<Part> {
        let mut parts = Vec::new();
        let lacking: Vec<u64> = (0..self.seeds).filter(|seed| !record.seeds.contains_key(seed)).collect();
        if !lacking.is_empty() {
            parts.push(Part::Seeds(lacking));
        }
        if record.scenarios.is_none() {
            parts.push(Part::Scenarios);
        }
        if self.with_instructions && !matches!(record.instructions, Some(Instructions::Counted { .. })) {
            parts.push(Part::Instructions);
        }
        if let Some(scale) = &self.lab_scale
            && !record.lab.contains_key(scale)
        {
            parts.push(Part::Lab(scale.clone()));
        }
        parts
    }

    /// Leaves of a record only what was asked for: what is kept may be more.
    pub fn narrow(&self, record: &mut Record) {
        record.seeds.retain(|seed, _| *seed < self.seeds);
        record.lab.retain(|scale, _| Some(scale) == self.lab_scale.as_ref());
        record.instructions.take_if(|_| !self.with_instructions);
    }
}

fn scale(text: Option<&str>) -> Result<String> {
    let text = text.context("--lab-scale needs a number")?;
    let number: f64 = text.parse().with_context(|| format!("`{text}` is no scale"))?;
    ensure!(number > 0.0 && number.is_finite(), "--lab-scale {text}: must be above 0");
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_and_commits_stand_in_any_order() {
        let options = parse("--seeds 20 abc --no-lab def --json").unwrap();
        assert_eq!((options.base.as_deref(), options.head.as_deref()), (Some("abc"), Some("def")));
        assert_eq!((options.seeds, options.lab_scale, options.json), (20, None, true));
        assert_eq!(parse("--lab-scale 0.1").unwrap().lab_scale.as_deref(), Some("0.1"));
    }

    #[test]
    fn what_cannot_be_understood_is_refused() {
        for line in ["--seeds", "--seeds many", "--lab-scale -1", "--lab-scale 0", "--lap", "a b c"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn only_what_a_record_lacks_is_wanted_and_only_what_was_asked_for_stays() {
        let mut record = Record::default();
        let options = parse("--seeds 3 --no-lab --no-instructions").unwrap();
        record.seeds.insert(1, "a".to_owned());
        record.seeds.insert(7, "b".to_owned());
        assert_eq!(options.wanted(&record), [Part::Seeds(vec![0, 2]), Part::Scenarios]);
        options.narrow(&mut record);
        assert_eq!(record.seeds.into_keys().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn instructions_that_could_not_be_counted_are_tried_again() {
        let mut record = Record::default();
        let options = parse("--seeds 0 --no-lab").unwrap();
        record.scenarios = Some(std::collections::BTreeMap::new());
        record.instructions = Some(Instructions::NotCounted { why: "no valgrind".to_owned() });
        assert_eq!(options.wanted(&record), [Part::Instructions]);
    }
}
