//! Runs what all findings ask for, each setting once, on as many threads as there are processors.

use super::bench::Bench;
use super::finding::{Finding, Subject};
use super::published::Published;
use super::setting::{Load, Mixed, PROGRAMS_MAX, Resets, Setting, Summary};
use crate::pool;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Told how many settings are done, of how many, and which was the last.
pub type Progress<'a> = dyn Fn(usize, usize, &str) + Sync + 'a;

type Measurements = BTreeMap<String, Option<Vec<Summary>>>;

/// Measures and judges all subjects; the findings are in the order of the subjects.
pub fn findings(
    subjects: &[Subject],
    bench: &dyn Bench,
    published: &Published,
    progress: &Progress,
) -> Vec<Finding> {
    let settings = settings(subjects, bench, published);
    let measured = measure(&settings, bench, progress);
    let source = |setting: &Setting| {
        let found = measured.get(&key(setting));
        found.unwrap_or_else(|| panic!("what a finding asks for depends on answers: {setting:?}")).clone()
    };
    subjects.iter().map(|subject| subject.judge(bench.drive(), published, &source)).collect()
}

/// Returns the settings that the findings ask for: the findings are made once with empty answers.
pub fn settings(subjects: &[Subject], bench: &dyn Bench, published: &Published) -> Vec<Setting> {
    let asked = RefCell::new(Vec::new());
    let source = |setting: &Setting| {
        let mut asked = asked.borrow_mut();
        if !asked.contains(setting) {
            asked.push(*setting);
        }
        Some(vec![Summary { by_second: vec![0.0], ..Summary::default() }; PROGRAMS_MAX])
    };
    for subject in subjects {
        subject.judge(bench.drive(), published, &source);
    }
    asked.into_inner()
}

fn key(setting: &Setting) -> String {
    format!("{setting:?}")
}

/// The longest runs go first, so that no thread is left with one at the end.
fn measure(settings: &[Setting], bench: &dyn Bench, progress: &Progress) -> Measurements {
    let mut order: Vec<&Setting> = settings.iter().collect();
    order.sort_by_key(|setting| std::cmp::Reverse(effort(setting)));
    let measured = pool::map(
        &order,
        |setting| bench.measure(setting),
        |done, setting| progress(done, order.len(), &describe(setting)),
    );
    order.iter().map(|setting| key(setting)).zip(measured).collect()
}

/// Roughly how long a setting takes; only the order depends on it.
fn effort(setting: &Setting) -> u32 {
    match setting {
        Setting::Mixed(Mixed { writers: true, .. }) => 4,
        Setting::Resets(Resets { beside: Some(_), .. }) => 3,
        Setting::Load(load) if load.bytes <= 8192 && load.zones * load.depth > 1 => 2,
        Setting::Managed(_) => 1,
        _ => 0,
    }
}

/// For people who wait.
fn describe(setting: &Setting) -> String {
    match setting {
        Setting::Load(Load { what, bytes, depth, zones, .. }) => {
            format!("{what:?} of {bytes} bytes, {zones} zones, depth {depth}")
        }
        Setting::Managed(managed) => format!("{:?} of a zone, {}", managed.op, managed.fill.label()),
        Setting::Mixed(mixed) => format!("reads beside writes, {:?} drive", mixed.which),
        Setting::Resets(_) => "resets beside other commands".to_owned(),
        Setting::Opening(_) => "opening and closing zones".to_owned(),
        Setting::Windows(_) => "the life of a window".to_owned(),
    }
}
