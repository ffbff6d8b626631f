//! Verdicts can fall, every published number is used, and reports repeat.

use super::bench::ModelBench;
use super::made_up::{self, drive, judge, subject};
use super::published::Published;
use super::setting::{
    FIRST, Fill, Groups, LATER, Load, Managed, Mixed, OPEN, PROGRAM, READER, RESETS, Resets, Setting,
    Summary, WRITERS, Which, Windows,
};
use super::{Options, Report, run, run_on, subjects};
use crate::workload::{ManageOp, Order, What};
use drive::timing::{HostStack, LbaFormat, Profile};
use std::collections::BTreeMap;

type Change = fn(&Setting, &mut [Summary]);

fn unchanged(_: &Setting, _: &mut [Summary]) {}

fn load_of(setting: &Setting) -> Option<Load> {
    match setting {
        Setting::Load(load) => Some(*load),
        _ => None,
    }
}

/// Changes the first program's summary of loads.
fn loads(setting: &Setting, summaries: &mut [Summary], change: impl Fn(&Load, &mut Summary)) {
    if let Some(load) = load_of(setting) {
        change(&load, &mut summaries[0]);
    }
}

fn scale(summary: &mut Summary, factor: f64) {
    summary.kiops *= factor;
    summary.mib_s *= factor;
}

/// Changes of answers that break each finding.
const BREAKS: &[(&str, Change)] = &[
    ("observation-1", |setting, summaries| {
        loads(setting, summaries, |load, summary| {
            if load.lba_format == LbaFormat::Bytes512 {
                summary.mean_us = 12.0;
            }
        });
    }),
    ("observation-2", kernel_is_faster),
    ("observation-3", |setting, summaries| {
        loads(setting, summaries, |load, summary| {
            if load.bytes > 16384 {
                scale(summary, 0.5);
            }
        });
    }),
    ("observation-4", appends_are_faster),
    ("observation-5", |setting, summaries| {
        loads(setting, summaries, |load, summary| scale(summary, if load.depth > 1 { 0.1 } else { 1.0 }));
    }),
    ("observation-6", |setting, summaries| {
        loads(setting, summaries, |load, summary| scale(summary, if load.zones > 1 { 1.2 } else { 1.0 }));
    }),
    ("observation-7", |setting, summaries| {
        loads(setting, summaries, |load, summary| {
            if load.what == What::Append && load.depth == 64 {
                summary.kiops = 350.0;
            }
        });
    }),
    ("observation-8", eight_kib_are_slower),
    ("observation-9", |setting, summaries| {
        if let Setting::Opening(opening) = setting {
            summaries[LATER].mean_us *= if opening.explicit { 1.1 } else { 1.0 };
        }
    }),
    ("observation-10", resets_are_constant),
    ("observation-11", |setting, summaries| {
        if let Setting::Mixed(mixed) = setting {
            let zoned = Setting::Mixed(Mixed { which: Which::Zoned, ..*mixed });
            summaries.clone_from_slice(&made_up::answer(&zoned));
        }
    }),
    ("observation-12", resets_disturb),
    ("observation-13", no_artefact),
    ("appendix", |setting, summaries| {
        loads(setting, summaries, |load, summary| {
            if load.what == What::Append && load.depth == 2 {
                summary.mean_us = 1000.0;
            }
        });
    }),
    ("insight-1", appends_are_faster),
    ("insight-2", |setting, summaries| {
        loads(setting, summaries, |load, summary| scale(summary, if load.zones > 1 { 5.0 } else { 1.0 }));
    }),
    ("insight-3", finishes_are_fast),
    ("insight-4", |setting, summaries| {
        if let Setting::Mixed(_) = setting {
            summaries[READER].mib_s = 1.0;
        }
    }),
    ("insight-5", no_artefact),
    ("recommendation-1", kernel_is_faster),
    ("recommendation-2", eight_kib_are_slower),
    ("recommendation-3", finishes_are_fast),
    ("recommendation-4", |setting, summaries| {
        if let Setting::Mixed(_) = setting {
            summaries[WRITERS].by_second[3] = 10.0;
        }
    }),
    ("recommendation-5", resets_disturb),
    ("emulator-1", appends_are_faster),
    ("emulator-2", resets_are_constant),
    ("emulator-3", |setting, summaries| {
        if let Setting::Opening(_) = setting {
            summaries[OPEN].mean_us = 0.0;
            summaries[FIRST].mean_us = 0.0;
        }
    }),
    ("zapraid-figure-2", |setting, summaries| {
        loads(setting, summaries, |load, summary| scale(summary, if load.depth == 4 { 0.5 } else { 1.0 }));
    }),
    ("biza-isolation", |setting, summaries| {
        loads(setting, summaries, |load, summary| {
            if load.groups == Groups::Different {
                scale(summary, 0.5);
            }
        });
    }),
    ("biza-zrwa", |setting, summaries| {
        loads(setting, summaries, |load, summary| {
            if let What::Area(_) = load.what {
                scale(summary, 0.2);
            }
        });
    }),
    ("windows-order", |setting, summaries| {
        loads(setting, summaries, |load, summary| {
            if let What::Area(Order::Shuffled { .. }) = load.what {
                scale(summary, 0.5);
            }
        });
    }),
    ("windows-overwrite", |setting, summaries| {
        loads(setting, summaries, |load, summary| {
            if let What::Area(Order::Again { .. }) = load.what {
                summary.wear.programmed_bytes = summary.wear.window_bytes;
            }
        });
    }),
    ("windows-commits", commits_are_slow),
    ("windows-end", |setting, summaries| {
        if let Setting::Windows(Windows::End { finish: true }) = setting {
            summaries[1].wear.programmed_bytes = 0;
        }
    }),
    ("zraid-windows", commits_are_slow),
];

fn commits_are_slow(setting: &Setting, summaries: &mut [Summary]) {
    if let Setting::Windows(Windows::Commits { explicit: true }) = setting {
        summaries[1].mean_us = 100.0;
    }
}

fn kernel_is_faster(setting: &Setting, summaries: &mut [Summary]) {
    loads(setting, summaries, |load, summary| {
        if load.stack == HostStack::Kernel {
            summary.mean_us = 10.0;
        }
    });
}

fn appends_are_faster(setting: &Setting, summaries: &mut [Summary]) {
    loads(setting, summaries, |load, summary| {
        if load.what == What::Append {
            summary.mean_us = 5.0;
        }
    });
}

fn eight_kib_are_slower(setting: &Setting, summaries: &mut [Summary]) {
    loads(setting, summaries, |load, summary| scale(summary, if load.bytes == 8192 { 0.4 } else { 1.0 }));
}

fn resets_are_constant(setting: &Setting, summaries: &mut [Summary]) {
    if let Setting::Managed(Managed { op: ManageOp::Reset, .. }) = setting {
        summaries[0].mean_us = 3000.0;
    }
}

fn finishes_are_fast(setting: &Setting, summaries: &mut [Summary]) {
    if let Setting::Managed(Managed { op: ManageOp::Finish, .. }) = setting {
        summaries[0].mean_us = 5000.0;
    }
}

fn resets_disturb(setting: &Setting, summaries: &mut [Summary]) {
    if let Setting::Resets(Resets { resets: true, .. }) = setting {
        summaries[PROGRAM].mean_us *= 2.0;
    }
}

fn no_artefact(setting: &Setting, summaries: &mut [Summary]) {
    if let Setting::Resets(_) = setting {
        summaries[RESETS].p95_us = 17_900.0;
    }
}

#[test]
fn everything_holds_for_numbers_as_the_papers_have_them() {
    for subject in subjects() {
        let finding = judge(&subject, &drive("zn540-1tb"), &unchanged);
        let broken: Vec<&str> =
            finding.checks.iter().filter(|check| !check.holds).map(|check| check.rule.as_str()).collect();
        assert_eq!(finding.holds, Some(true), "{}: {broken:?}", finding.id);
    }
}

#[test]
fn every_verdict_can_fall() {
    for (id, change) in BREAKS {
        let finding = judge(&subject(id), &drive("zn540-1tb"), change);
        assert_eq!(finding.holds, Some(false), "{id}");
    }
    let mut odd = drive("zn540-1tb");
    odd.geometry.zone_capacity_blocks = odd.geometry.zone_size_blocks + 1;
    assert_eq!(judge(&subject("table-2"), &odd, &unchanged).holds, Some(false));
    assert_eq!(BREAKS.len() + 1, subjects().len(), "one for each");
}

#[test]
fn what_a_drive_cannot_do_has_no_verdict() {
    let published = Published::load();
    let drive = drive("zn540-1tb");
    let subject = subject("observation-11");
    let finding = subject.judge(&drive, &published, &|setting: &Setting| match setting {
        Setting::Mixed(Mixed { which: Which::Conventional, .. }) => None,
        setting => Some(made_up::answer(setting)),
    });
    assert_eq!(finding.holds, None);
    assert!(!finding.figures.is_empty(), "what could be measured is still told");
}

#[test]
fn every_published_number_is_used_exactly_once() {
    let mut uses: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for subject in subjects() {
        let finding = judge(&subject, &drive("zn540-1tb"), &unchanged);
        for figure in &finding.figures {
            uses.entry(figure.id.clone()).or_default().push(subject.id);
        }
    }
    for (id, subjects) in &uses {
        assert_eq!(subjects.len(), 1, "{id} is used by {subjects:?}");
    }
    let published = Published::load();
    for number in published.numbers() {
        assert_eq!(uses.get(&number.id), Some(&vec![number.finding.as_str()]), "{}", number.id);
        assert!(number.value.is_finite() && number.value > 0.0, "{}", number.id);
        assert!(!number.quote.is_empty() && !number.source.is_empty(), "{}", number.id);
    }
}

#[test]
fn numbers_are_compared_on_their_own_drive_only() {
    let compared = |report: &Report, word: &str| {
        let findings = report.findings.iter().filter(|finding| finding.id.starts_with(word));
        findings.flat_map(|finding| &finding.figures).filter(|figure| figure.published.is_some()).count()
    };
    let (small, large) = (made_up::report("zn540-1tb"), made_up::report("zn540-4tb"));
    assert!(compared(&small, "observation") > 40 && compared(&large, "observation") == 0);
    assert!(compared(&small, "biza") == 0 && compared(&large, "biza") > 20);
    assert!(compared(&small, "zapraid") == 0 && compared(&large, "zapraid") == 13);
    assert_eq!(made_up::report("another").summary, super::Summary::default());
}

#[test]
fn figures_are_judged_by_their_kind() {
    let finding = judge(&subject("observation-2"), &drive("zn540-1tb"), &|setting, summaries| {
        loads(setting, summaries, |load, summary| {
            if load.stack == HostStack::Spdk {
                summary.mean_us = 11.36 * 1.06;
            }
        });
    });
    let figure = finding.figures.iter().find(|figure| figure.id == "2-write-spdk").unwrap();
    assert!(!figure.within && !figure.is_exception(), "6 % is too much for a mean");
    assert_eq!(figure.error_percent, Some(6.0));
}

#[test]
fn what_is_asked_does_not_depend_on_answers() {
    let bench = made_up::MadeUpBench(drive("zn540-1tb"));
    let settings = run::settings(&subjects(), &bench, &Published::load());
    assert!(settings.len() > 150, "{}", settings.len());
    for (place, setting) in settings.iter().enumerate() {
        assert!(!settings[..place].contains(setting));
    }
}

#[test]
fn fills_are_named_as_in_the_figures() {
    let labels =
        [Fill::Empty, Fill::OneBlock, Fill::Sixteenths(1), Fill::AllButOne, Fill::Full].map(Fill::label);
    assert_eq!(labels, ["0 %", "1 block", "6.25 %", "~100 %", "100 %"]);
}

/// Two short runs of a few findings on the real model.
#[test]
fn a_seed_gives_the_same_report_every_time() {
    let profile = Profile::named("zn540-1tb").unwrap();
    let subjects = ["observation-2", "observation-9", "observation-12"].map(subject);
    let findings = |seed: u64| {
        let bench = ModelBench::new(&profile, None, seed, true);
        let findings = run::findings(&subjects, &bench, &Published::load(), &|_, _, _| {});
        serde_json::to_string(&findings).unwrap()
    };
    assert_eq!(findings(5), findings(5));
    assert_ne!(findings(5), findings(6));
}

#[test]
fn a_drive_without_zones_has_no_verdicts() {
    let Some(profile) = Profile::named("conventional-nvme") else { return };
    let bench = ModelBench::new(&profile, None, 1, true);
    let report = run_on(&bench, Options { seed: 1, quick: true, zone_map: None }, &|_, _, _| {});
    for finding in report.findings.iter().filter(|finding| finding.id != "table-2") {
        assert_eq!(finding.holds, None, "{}", finding.id);
    }
    assert_eq!(report.failures(), 0);
}
