//! The fast path gives the contract's token, at every level and on every processor.

use crate::rows::{Answers, Counts, KINDS, draws, real_rows, row};
use crate::share::one_in;
use quillmate_sampler::core::fast::{Decided, Path, sample_by};
use quillmate_sampler::{Logit, Settings, distribution, uniform};

fn settings() -> Vec<Settings> {
    let all = [
        (0.0, 0, 1.0),
        (0.8, 0, 1.0),
        (1.0, 0, 1.0),
        (0.8, 0, 0.9),
        (1.0, 0, 0.5),
        (1.5, 0, 0.99),
        (0.8, 50, 0.95),
        (1.5, 50, 1.0),
        (3.0, 20, 1.0),
        (0.8, 7, 1.0),
        (0.3, 0, 0.95),
        (1.0, 0, 0.0),
        (1.0, 0, 5e-324),
    ];
    all.iter().map(|&(t, k, p)| Settings::new(t, k, p).expect("valid")).collect()
}

#[test]
fn random_draws() {
    let mut all = Counts::default();
    for length in [1, 2, 63, 64, 65, 300, 1000, 4096, 20_000] {
        for kind in KINDS {
            let row = row(kind, length as u64, length);
            for settings in settings() {
                let count = if length > 4096 { 40 } else { 300u64 };
                all.add(draws(&row, &settings, 7, count.div_ceil(one_in() as u64)));
            }
        }
    }
    println!("{all:?}");
    assert!(all.coarse > all.draws() / 4 && all.fine > 0 && all.compared > 0, "{all:?}");
}

#[test]
fn rows_of_models() {
    let rows = real_rows();
    assert!(!rows.is_empty());
    for (name, rows) in &rows {
        let mut all = Counts::default();
        for (at, row) in rows.iter().enumerate().step_by(one_in()) {
            for settings in settings() {
                let few = if row.len() < 1000 { 100 } else { 40u64.div_ceil(one_in() as u64) };
                all.add(draws(row, &settings, at as u64, few));
            }
        }
        println!("{name}: {all:?}");
        assert!(all.contract * 100 < all.draws(), "{name}: {all:?}");
    }
}

fn near(x: f64) -> impl Iterator<Item = f64> {
    let up = std::iter::successors(Some(x), |x| Some(x.next_up())).take(4);
    up.chain(std::iter::successors(Some(x.next_down()), |x| Some(x.next_down())).take(4))
        .filter(|u| (0.0..1.0).contains(u))
}

fn boundaries<L: Logit>(row: &[L], settings: &Settings) -> Counts {
    let answers = Answers::new(row, settings);
    let mut counts = Counts::default();
    for path in Path::all() {
        for &boundary in answers.boundaries().iter().step_by(one_in()) {
            for u in near(boundary) {
                let decided = counts.compare(path, row, settings, u, answers.at(u));
                assert!(
                    matches!(decided, Decided::Compared | Decided::Contract),
                    "{path:?} {decided:?} cannot know: {settings:?} {u:e} {boundary:e} {:?} {:?}",
                    answers.at(u),
                    answers.boundaries()
                );
            }
        }
    }
    counts
}

#[test]
fn every_boundary_of_the_walk() {
    let mut all = Counts::default();
    for length in [5, 64, 200] {
        for kind in KINDS {
            let row = row(kind, 11, length);
            let wide: Vec<f64> = row.iter().map(|logit| f64::from(*logit) * 1.000_000_1).collect();
            for settings in settings() {
                all.add(boundaries(&row, &settings));
                all.add(boundaries(&wide, &settings));
            }
        }
    }
    println!("{all:?}");
    let part = one_in() as u64;
    assert!(all.contract > 100_000 / part && all.compared > 1000 / part, "{all:?}");
}

#[test]
fn every_cut_of_the_nucleus() {
    let mut all = Counts::default();
    for length in [5, 100, 200] {
        for kind in KINDS {
            let row = row(kind, 5, length);
            let plain = distribution(&row, &Settings::new(0.9, 0, 1.0).expect("valid")).expect("good");
            // Probabilities before renormalization differ from these by a unit in the last place, which is among the neighbours.
            let mut sorted = plain.probabilities().to_vec();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let mut sum = 0.0;
            let sums = sorted.into_iter().map(|p| {
                sum += p;
                sum
            });
            for sum in sums.step_by(one_in()) {
                for top_p in near(sum) {
                    let settings = Settings::new(0.9, 0, top_p).expect("valid");
                    let answers = Answers::new(&row, &settings);
                    for path in Path::all() {
                        for step in 0..3 {
                            let u = uniform(3, step, 0);
                            all.compare(path, &row, &settings, u, answers.at(u));
                        }
                    }
                }
            }
        }
    }
    println!("{all:?}");
    assert!(all.contract > 10_000 / one_in() as u64, "{all:?}");
}

/// Logits that differ and have one probability are ranked by id, not by logit: the fast path must see that it cannot cut
/// between them, whichever neighbour of the cut is the one too near.
#[test]
fn different_logits_of_one_probability_at_the_cut() {
    // Their differences are so small that exp of them is 1.
    let (low, high, higher) = (0.0, 1e-18, 2e-18);
    for (row, top_p, kept) in [
        // The lower id, though its logit is lower: the next logit below the cut is too near.
        (vec![low, high], 0.3, vec![0]),
        (vec![low, high, low - 3.0], 0.3, vec![0]),
        (vec![low - 3.0, low, high], 0.3, vec![1]),
        (vec![low, high, higher], 0.5, vec![0, 1]),
        // Two of three by id, though the highest logit has the last: the next logit above the cut is too near.
        (vec![low, low, high], 0.5, vec![0, 1]),
        (vec![low - 3.0, low, low, high, low - 4.0], 0.5, vec![1, 2]),
    ] {
        for (pad, temperature) in [(0, 1.0), (61, 1.0), (1000, 1.0), (61, 1000.0)] {
            // And among many tokens that are never kept.
            let row =
                [row.clone(), vec![-30.0; pad]].concat().iter().map(|logit| logit * temperature).collect::<Vec<_>>();
            let settings = Settings::new(temperature, 0, top_p).expect("valid");
            let answers = Answers::new(&row, &settings);
            assert_eq!(distribution(&row, &settings).expect("good").ids(), kept, "{top_p}");
            let mut counts = Counts::default();
            for path in Path::all() {
                for u in [0.0, 0.2, 0.49, 0.51, 0.8, 0.999] {
                    counts.compare(path, &row, &settings, u, answers.at(u));
                }
            }
        }
    }
}

#[test]
fn paths_agree_on_who_decides_too() {
    for kind in KINDS {
        for length in [70, 1000, 5000] {
            let row = row(kind, 17, length);
            for settings in settings() {
                for step in (0..20).step_by(one_in()) {
                    let u = uniform(23, step, 0);
                    let answers: Vec<_> = Path::all()
                        .into_iter()
                        .map(|path| sample_by(path, &row, &settings, u).expect("good"))
                        .collect();
                    assert!(
                        answers.iter().all(|answer| answer.0 == answers[0].0),
                        "{kind} {length} {settings:?} {u:e}"
                    );
                    assert!(
                        answers[1..].iter().all(|answer| answer == &answers[1]),
                        "{kind} {length} {settings:?} {u:e}"
                    );
                }
            }
        }
    }
}

#[test]
fn refusals_are_the_contracts() {
    let good = row("bell", 3, 1000);
    let mut bad: Vec<Vec<f32>> = vec![vec![], vec![f32::NEG_INFINITY; 1000], vec![f32::NEG_INFINITY; 3]];
    for first in [0, 1, 15, 63, 64, 640, 998, 999] {
        for offender in [f32::NAN, -f32::NAN, f32::INFINITY] {
            let mut row = good.clone();
            row[first] = offender;
            bad.push(row.clone());
            row[999] = f32::NAN;
            bad.push(row);
            let mut row = vec![f32::NEG_INFINITY; 1000];
            row[first] = offender;
            bad.push(row);
        }
    }
    for row in bad {
        let wide: Vec<f64> = row.iter().map(|logit| f64::from(*logit)).collect();
        for settings in settings() {
            let expected = distribution(&row, &settings).expect_err("refused");
            for path in Path::all() {
                assert_eq!(sample_by(path, &row, &settings, 0.5), Err(expected.into()), "{path:?}");
                assert_eq!(sample_by(path, &wide, &settings, 0.5), Err(expected.into()), "{path:?}");
            }
        }
    }
}

#[test]
fn logits_at_the_ends_of_their_range() {
    for ends in
        [[f32::MIN, f32::MIN], [f32::MIN, f32::MAX], [f32::NEG_INFINITY, f32::MIN], [f32::MAX, f32::NEG_INFINITY]]
    {
        for length in [1, 70, 1000] {
            let mut row = row("bell", 9, length);
            for (logit, end) in row.iter_mut().zip(ends.iter().cycle()).skip(1).step_by(2) {
                *logit = *end;
            }
            let wide: Vec<f64> = row.iter().map(|logit| f64::from(*logit) * 5e269).collect();
            for settings in settings() {
                draws(&row, &settings, 1, 20);
                draws(&wide, &settings, 1, 20);
            }
        }
    }
}
