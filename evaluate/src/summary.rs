//! From texts to paired differences.

use serde::Serialize;

use crate::failures::{Failures, failures};
use crate::metrics::{Metric, Schema};
use crate::plan::{Arm, ENOUGH_PROMPTS, FORMAT, Header, Plan};
use crate::results::TextLine;
use crate::statistics::{self, Interval, RESAMPLES, SEED, mean};

/// All that was found, as `summary.json` has it.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Version of this form.
    pub format: u64,
    /// What was compared on what.
    pub evaluation: Header,
    /// Pairs of texts with the same prompt and seed.
    pub pairs: usize,
    /// Pairs whose two texts are the same, token for token.
    pub same_pairs: usize,
    /// How the intervals are made.
    pub method: Method,
    /// What the numbers do not say.
    pub cautions: Vec<String>,
    /// The measures.
    pub metrics: Vec<Compared>,
    /// Texts that are not what was asked for, by category.
    pub failures: Vec<Failures>,
}

/// How the intervals are made.
#[derive(Debug, Serialize)]
pub struct Method {
    /// In words.
    pub interval: &'static str,
    /// The share of intervals that hold the true mean, in the long run.
    pub level: f64,
    /// How often the prompts are drawn anew.
    pub resamples: usize,
    /// Seed of these draws.
    pub seed: String,
}

/// One measure, compared.
#[derive(Debug, Serialize)]
pub struct Compared {
    /// A stable name.
    pub name: String,
    /// A name for people.
    pub title: String,
    /// What it is counted in.
    pub unit: &'static str,
    /// What it is.
    pub meaning: String,
    /// Whether another machine, or another day, gives other numbers.
    pub machine_dependent: bool,
    /// Pairs in which both texts have this measure.
    pub pairs: usize,
    /// Pairs left out because one of the texts does not.
    pub pairs_missing: usize,
    /// Mean under A, of the means per prompt.
    pub a: Option<f64>,
    /// Mean under B.
    pub b: Option<f64>,
    /// Mean of B − A.
    pub difference: Option<f64>,
    /// Its interval.
    pub interval: Option<Interval>,
    /// Whether 0 is outside; no proof of quality.
    pub excludes_zero: bool,
    /// The means of each prompt over its seeds.
    pub prompts: Vec<OfPrompt>,
}

/// A prompt's means over its seeds.
#[derive(Debug, Serialize)]
pub struct OfPrompt {
    /// The prompt's id.
    pub prompt: String,
    /// Under A.
    pub a: f64,
    /// Under B.
    pub b: f64,
    /// Mean of B − A.
    pub difference: f64,
}

/// The two texts of a prompt and seed.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// With the settings A.
    pub a: &'a TextLine,
    /// With the settings B.
    pub b: &'a TextLine,
}

/// The texts of a finished evaluation two by two, in the plan's order: for each prompt, for each seed.
pub fn pairs(lines: &[TextLine]) -> Vec<Pair<'_>> {
    // The results are in the order of the plan, which makes the two one after the other.
    let mut pairs = Vec::new();
    for [one, two] in lines.as_chunks::<2>().0 {
        let (a, b) = if one.side == Arm::A { (one, two) } else { (two, one) };
        pairs.push(Pair { a, b });
    }
    pairs
}

impl Summary {
    /// Compares the texts of a finished evaluation.
    pub fn new(plan: &Plan, lines: &[TextLine], schema: Option<&Schema>) -> Self {
        let pairs = pairs(lines);
        let seeds = plan.header.seeds.len();
        let metrics: Vec<Compared> = Metric::all(schema.is_some())
            .into_iter()
            .map(|metric| Compared::new(metric, &pairs, seeds, |line| metric.of(line, schema)))
            .collect();
        Self {
            format: FORMAT,
            evaluation: plan.header.clone(),
            pairs: pairs.len(),
            same_pairs: pairs.iter().filter(|pair| pair.a.tokens == pair.b.tokens).count(),
            method: Method {
                interval: "percentile bootstrap of the mean over prompts of B - A, each prompt's seeds averaged first",
                level: 0.95,
                resamples: RESAMPLES,
                seed: SEED.to_string(),
            },
            cautions: cautions(plan.prompts.len(), &metrics),
            failures: failures(&pairs, schema),
            metrics,
        }
    }
}

impl Compared {
    fn new(metric: Metric, pairs: &[Pair], seeds: usize, of: impl Fn(&TextLine) -> Option<f64>) -> Self {
        let mut prompts = Vec::new();
        let mut there = 0;
        for pairs in pairs.chunks(seeds) {
            let (mut a, mut b, mut differences) = (Vec::new(), Vec::new(), Vec::new());
            for pair in pairs {
                if let (Some(of_a), Some(of_b)) = (of(pair.a), of(pair.b)) {
                    a.push(of_a);
                    b.push(of_b);
                    differences.push(of_b - of_a);
                }
            }
            there += differences.len();
            if let (Some(a), Some(b), Some(difference)) = (mean(&a), mean(&b), mean(&differences)) {
                prompts.push(OfPrompt { prompt: pairs[0].a.prompt.clone(), a, b, difference });
            }
        }
        let column = |of: fn(&OfPrompt) -> f64| prompts.iter().map(of).collect::<Vec<f64>>();
        let differences = column(|prompt| prompt.difference);
        let interval = statistics::interval(&differences, SEED);
        Self {
            name: metric.name(),
            title: metric.title(),
            unit: metric.unit(),
            meaning: metric.meaning(),
            machine_dependent: metric.of_the_machine(),
            pairs: there,
            pairs_missing: pairs.len() - there,
            a: mean(&column(|prompt| prompt.a)),
            b: mean(&column(|prompt| prompt.b)),
            difference: mean(&differences),
            interval,
            excludes_zero: interval.is_some_and(Interval::excludes_zero),
            prompts,
        }
    }
}

fn cautions(prompts: usize, metrics: &[Compared]) -> Vec<String> {
    let mut cautions = vec![
        "A difference whose interval excludes 0 is not proof of quality. These are measures of length, repetition, the \
            model's own judgement and speed; whether a text is any good, only a reader can say."
            .to_owned(),
        format!(
            "Where there is no difference at all, one interval in twenty excludes 0 by chance; there are {} here, and \
                they are not widened for it.",
            metrics.len()
        ),
        "The intervals speak of prompts like these, with these seeds and this model, and of no others.".to_owned(),
        "A longer text repeats more: distinct-n compares only where the lengths agree.".to_owned(),
    ];
    if prompts < ENOUGH_PROMPTS {
        cautions.push(format!("There are only {prompts} prompts. With so few the intervals are too narrow."));
    }
    for metric in metrics.iter().filter(|metric| metric.pairs_missing > 0) {
        cautions.push(format!(
            "{}: {} of {} pairs are left out, because a text does not have it: it is too short, it was refused, or it was \
                made by a release that did not measure it.",
            metric.title,
            metric.pairs_missing,
            metric.pairs + metric.pairs_missing
        ));
    }
    cautions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lengths: &[[usize; 2]]) -> Vec<TextLine> {
        let line =
            |side, length| TextLine { tokens: (0..length as u32).collect(), ..crate::results::tests::line(side, &[]) };
        // Every other pair has B first, as a plan has it.
        let mut lines = Vec::new();
        for (at, &[a, b]) in lengths.iter().enumerate() {
            let mut pair = [line(Arm::A, a), line(Arm::B, b)];
            if at % 2 == 1 {
                pair.reverse();
            }
            lines.extend(pair);
        }
        lines
    }

    #[test]
    fn seeds_are_averaged_before_prompts_are() {
        // Two prompts of two seeds: differences 2, 4 and -1, -3; per prompt 3 and -2.
        let lines = texts(&[[1, 3], [1, 5], [4, 3], [6, 3]]);
        let found = Compared::new(Metric::Length, &pairs(&lines), 2, |line| Metric::Length.of(line, None));
        assert_eq!(found.prompts.iter().map(|prompt| prompt.difference).collect::<Vec<_>>(), [3.0, -2.0]);
        assert_eq!((found.a, found.b, found.difference), (Some(3.0), Some(3.5), Some(0.5)));
        // Two clusters and not four values: the ends are the clusters' own means.
        assert_eq!(found.interval, Some(Interval { low: -2.0, high: 3.0 }));
        assert!(!found.excludes_zero);
        assert_eq!((found.pairs, found.pairs_missing), (4, 0));
    }

    /// Two prompts of one seed: the times of fixed texts, and the interval of their paired differences.
    #[test]
    fn times_and_costs_are_compared_in_pairs() {
        let text = |side, first, seconds, passes, cpu| TextLine {
            first_token_seconds: Some(first),
            seconds,
            passes: Some(passes),
            cpu_seconds: Some(cpu),
            ..crate::results::tests::line(side, &[7, 8, 9])
        };
        let lines = [
            text(Arm::A, 0.5, 2.0, 3, 4.0),
            text(Arm::B, 0.75, 1.0, 3, 2.0),
            text(Arm::B, 0.25, 4.0, 5, 6.0),
            text(Arm::A, 0.25, 2.0, 3, 4.0),
        ];
        for (metric, a, b, interval) in [
            (Metric::FirstToken, 375.0, 500.0, (0.0, 250.0)),
            (Metric::PerToken, 1000.0, 1250.0, (-500.0, 1000.0)),
            (Metric::Passes, 3.0, 4.0, (0.0, 2.0)),
            (Metric::Cpu, 4.0, 4.0, (-2.0, 2.0)),
        ] {
            let found = Compared::new(metric, &pairs(&lines), 1, |line| metric.of(line, None));
            assert_eq!((found.a, found.b), (Some(a), Some(b)), "{metric:?}");
            assert_eq!(found.interval, Some(Interval { low: interval.0, high: interval.1 }), "{metric:?}");
            assert_eq!((found.pairs, found.machine_dependent), (2, metric != Metric::Passes));
        }
        // A pair of which one text is of form 1 is left out.
        let mut lines = lines;
        lines[1].cpu_seconds = None;
        let found = Compared::new(Metric::Cpu, &pairs(&lines), 1, |line| Metric::Cpu.of(line, None));
        assert_eq!((found.pairs, found.pairs_missing, found.difference), (1, 1, Some(2.0)));
    }

    #[test]
    fn a_pair_of_which_one_text_lacks_the_measure_is_left_out_and_counted() {
        let lines = texts(&[[2, 4], [4, 4], [1, 2], [0, 0]]);
        let of = Metric::Distinct(3);
        let found = Compared::new(of, &pairs(&lines), 2, |line| of.of(line, None));
        assert_eq!((found.pairs, found.pairs_missing, found.prompts.len()), (1, 3, 1));
        // One prompt has a difference and no interval.
        assert_eq!((found.difference, found.interval, found.excludes_zero), (Some(0.0), None, false));
        assert_eq!(cautions(60, &[found]).len(), 5);
    }
}
