//! Speculation: the output follows the target, shown by exact integration and by χ², with wrong rules as controls; and
//! drafter-invariant runs are the runs without speculation.

use proptest::prelude::*;
use quillmate_sampler::{
    Chain, Distribution, Draft, Refusal, Run, Settings, Speculation, distribution, draw, sample, speculative_step,
    streams, uniform,
};

/// A rule under test: (p, q, draft, u_accept, u_resample) to a token.
type Rule = fn(&[f64], &[f64], u32, f64, f64) -> Speculation;

fn ours(p: &[f64], q: &[f64], draft: u32, u_accept: f64, u_resample: f64) -> Speculation {
    speculative_step(p, q, draft, u_accept, u_resample).unwrap()
}

/// Wrong on purpose: accepts with min(1, q/p).
fn inverted(p: &[f64], q: &[f64], draft: u32, u_accept: f64, u_resample: f64) -> Speculation {
    if u_accept * p[draft as usize] < q[draft as usize] {
        return Speculation { token: draft, accepted: true };
    }
    speculative_step(p, q, draft, 1.0f64.next_down(), u_resample).unwrap()
}

/// Wrong on purpose: resamples from p instead of the residual.
fn resampling_from_p(p: &[f64], q: &[f64], draft: u32, u_accept: f64, u_resample: f64) -> Speculation {
    if u_accept * q[draft as usize] < p[draft as usize] {
        return Speculation { token: draft, accepted: true };
    }
    Speculation { token: walk(p, u_resample), accepted: false }
}

fn walk(p: &[f64], u: f64) -> u32 {
    let mut sum = 0.0;
    p.iter()
        .position(|p| {
            sum += p;
            sum > u
        })
        .unwrap_or(p.len() - 1) as u32
}

/// How many of the 2^53 uniform numbers satisfy a condition that holds up to some point and not after it.
fn measure(holds: impl Fn(f64) -> bool) -> u128 {
    let number = |count: u64| count as f64 / (1u64 << 53) as f64;
    let (mut yes, mut no) = (0u64, 1u64 << 53);
    if !holds(0.0) {
        return 0;
    }
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if holds(number(middle)) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    u128::from(no)
}

/// Distributions over 4 tokens in sixteenths.
fn sixteenths() -> Vec<[u32; 4]> {
    let mut all = Vec::new();
    for a in 0..=16 {
        for b in 0..=16 - a {
            for c in 0..=16 - a - b {
                all.push([a, b, c, 16 - a - b - c]);
            }
        }
    }
    all
}

/// The probability of every token under a rule, integrated over the draft and both uniform numbers: sixteenths of 2^106.
fn integrate(rule: Rule, p: &[f64], q: &[f64], q16: &[u32; 4]) -> [u128; 4] {
    const ALL: u128 = 1 << 53;
    let mut total = [0u128; 4];
    for (draft, &weight) in (0u32..).zip(q16).filter(|(_, weight)| **weight > 0) {
        let accepted = measure(|u| rule(p, q, draft, u, 0.0).accepted);
        total[draft as usize] += u128::from(weight) * accepted * ALL;
        if accepted < ALL {
            let mut below = 0;
            for token in 0..4u32 {
                let up_to = measure(|u| rule(p, q, draft, 1.0f64.next_down(), u).token <= token);
                total[token as usize] += u128::from(weight) * (ALL - accepted) * (up_to - below);
                below = up_to;
            }
        }
    }
    total
}

/// Pairs (p, q) for which every product, residual and quotient of the rule is a dyadic number that a double holds, so
/// that the integral must be equal to p, not near it.
fn exact_pairs() -> Vec<([u32; 4], [u32; 4])> {
    let all = sixteenths();
    let is_dyadic = |n: &u32| *n == 0 || n.is_power_of_two();
    let mut pairs = Vec::new();
    for q in all.iter().filter(|q| q.iter().all(is_dyadic)) {
        for p in &all {
            let residual: u32 = p.iter().zip(q).map(|(p, q)| p.saturating_sub(*q)).sum();
            if is_dyadic(&residual) {
                pairs.push((*p, *q));
            }
        }
    }
    pairs
}

fn agrees_exactly(rule: Rule, p16: &[u32; 4], q16: &[u32; 4]) -> bool {
    let [p, q] = [p16, q16].map(|n| n.map(|n| f64::from(n) / 16.0));
    integrate(rule, &p, &q, q16) == p16.map(|n| u128::from(n) << 106)
}

/// Which draw decides what: acceptance by stream 1, resampling by stream 2, and a token without a draft by stream 0.
#[test]
fn each_draw_of_a_chain_comes_from_its_own_stream() {
    let logits: Vec<f64> = (0..64).map(|id| f64::from(id % 7)).collect();
    let settings = Settings::default();
    let p = distribution(&logits, &settings).unwrap().dense(64).unwrap();
    let draft = Draft { token: 5, distribution: Distribution::new(vec![5], vec![1.0]).unwrap() };
    let q: Vec<f64> = (0..64).map(|id| if id == 5 { 1.0 } else { 0.0 }).collect();
    let (mut rejected, mut told_apart) = (0, [0; 3]);
    for seed in 0..200 {
        let at = |step, stream| uniform(seed, step, stream);
        let expected = ours(&p, &q, 5, at(0, streams::ACCEPTANCE), at(0, streams::RESAMPLING));
        let mut run = Run::new(vec![1], seed, settings);
        let chain = run.step_speculative(&[&logits[..], &logits], std::slice::from_ref(&draft)).unwrap();
        assert_eq!((chain.tokens[0], chain.accepted == 1), (expected.token, expected.accepted), "seed {seed}");
        if expected.accepted {
            assert_eq!(chain.tokens[1], sample(&logits, &settings, at(1, streams::TOKENS)).unwrap(), "seed {seed}");
            continue;
        }
        rejected += 1;
        // Any other stream for the resampling would be seen here.
        for (told_apart, stream) in told_apart.iter_mut().zip([streams::TOKENS, streams::ACCEPTANCE, streams::DRAFT]) {
            let other = ours(&p, &q, 5, at(0, streams::ACCEPTANCE), at(0, stream));
            *told_apart += usize::from(other.token != expected.token);
        }
    }
    assert!(rejected > 100 && told_apart.iter().all(|count| *count > 50), "{rejected} {told_apart:?}");
}

#[test]
fn integrated_exactly_the_output_is_the_target() {
    let pairs = exact_pairs();
    assert_eq!(pairs.len(), 9437);
    let equal = pairs.iter().filter(|(p, q)| p == q).count();
    assert!(equal > 10);
    for (p, q) in &pairs {
        assert!(agrees_exactly(ours, p, q), "p {p:?}, q {q:?} in sixteenths");
    }
    for wrong in [inverted as Rule, resampling_from_p] {
        let right = pairs.iter().filter(|(p, q)| agrees_exactly(wrong, p, q)).count();
        assert!(right < pairs.len() / 4, "a wrong rule agrees on {right} of {} pairs", pairs.len());
    }
}

/// χ² of a million seeded draws against p, over its critical value at 10^-6; infinite where a token came that p bans.
fn chi_square(rule: Rule, p: &[f64], q: &[f64], seed: u64) -> f64 {
    const DRAWS: u64 = 1_000_000;
    let mut counts = vec![0u64; p.len()];
    for step in 0..DRAWS {
        let u = |stream| uniform(seed, step, stream);
        let draft = walk(q, u(streams::DRAFT));
        let found = rule(p, q, draft, u(streams::ACCEPTANCE), u(streams::RESAMPLING));
        counts[found.token as usize] += 1;
    }
    let (mut statistic, mut cells) = (0.0, 0.0);
    for (count, p) in counts.iter().zip(p) {
        let expected = p * DRAWS as f64;
        if *p > 0.0 {
            let off = *count as f64 - expected;
            statistic += off * off / expected;
            cells += 1.0;
        } else if *count > 0 {
            return f64::INFINITY;
        }
    }
    // Wilson & Hilferty 1931: the quantile of χ² at the normal quantile 4.7534 (10^-6).
    let freedom: f64 = cells - 1.0;
    let root = 1.0 - 2.0 / (9.0 * freedom) + 4.7534 * (2.0 / (9.0 * freedom)).sqrt();
    statistic / (freedom * root * root * root)
}

#[test]
fn a_million_draws_follow_the_target() {
    let near = 0.25f64.next_up();
    let pairs: [(&str, Vec<f64>, Vec<f64>); 6] = [
        ("p = q", vec![0.5, 0.25, 0.125, 0.125], vec![0.5, 0.25, 0.125, 0.125]),
        ("disjoint", vec![0.5, 0.5, 0.0, 0.0], vec![0.0, 0.0, 0.75, 0.25]),
        ("q zero where p is not", vec![0.4, 0.3, 0.2, 0.1], vec![0.7, 0.3, 0.0, 0.0]),
        ("near-equal", vec![0.25, 0.25, 0.25, 0.25], vec![near, 0.25, 0.25, 0.25f64.next_down()]),
        ("sharpened", vec![0.3, 0.25, 0.2, 0.15, 0.1], vec![0.8, 0.1, 0.05, 0.03, 0.02]),
        ("opposed", vec![0.05, 0.1, 0.15, 0.3, 0.4], vec![0.4, 0.3, 0.15, 0.1, 0.05]),
    ];
    let mut worst = [0.0f64; 2];
    for (seed, (name, p, q)) in (1000..).zip(&pairs) {
        let ratio = chi_square(ours, p, q, seed);
        assert!(ratio < 1.0, "{name}: χ² is {ratio} of its critical value");
        for (wrong, worst) in [inverted as Rule, resampling_from_p].into_iter().zip(&mut worst) {
            let ratio = chi_square(wrong, p, q, seed);
            if ratio > *worst {
                *worst = ratio;
            }
        }
    }
    assert!(worst.iter().all(|ratio| *ratio > 100.0), "the wrong rules pass: {worst:?}");
}

/// Where p and q are the same, nothing is left of p above q: a draft without any probability is replaced by a draw from p,
/// divided by what it adds up to.
#[test]
fn without_a_residual_the_token_is_drawn_from_the_target() {
    for (p, u, token) in [
        ([0.0, 0.25, 0.75], 0.0, 1),
        ([0.0, 0.25, 0.75], 0.249, 1),
        ([0.0, 0.25, 0.75], 0.25, 2),
        ([0.0, 0.25, 0.75], 0.9, 2),
        // Their sum is 1 and half a millionth: token 1 ends at 0.49999975.
        ([0.0, 0.5, 0.500_000_5], 0.499_999_7, 1),
        ([0.0, 0.5, 0.500_000_5], 0.499_999_8, 2),
    ] {
        assert_eq!(ours(&p, &p, 0, 0.5, u), Speculation { token, accepted: false }, "{p:?} at {u}");
    }
}

#[test]
fn refusals_name_what_is_wrong() {
    let p = [0.5, 0.5];
    let refused = |p: &[f64], q: &[f64], d, a, r| {
        let error = speculative_step(p, q, d, a, r).unwrap_err();
        (error.code(), error.index(), error.to_string())
    };
    assert_eq!(refused(&p, &[1.0], 0, 0.0, 0.0).0, "distribution_lengths_differ");
    assert_eq!(refused(&[], &[], 0, 0.0, 0.0).0, "distribution_empty");
    let (code, index, text) = refused(&p, &[1.5, -0.5], 0, 0.0, 0.0);
    assert_eq!((code, index), ("distribution_probability", Some(1)));
    assert_eq!(text, "the draft's distribution: probability 1 must be finite and at least 0, but is -0.5");
    assert_eq!(refused(&[f64::NAN, 1.0], &p, 0, 0.0, 0.0).1, Some(0));
    assert_eq!(refused(&[f64::INFINITY, 1.0], &p, 0, 0.0, 0.0).0, "distribution_probability");
    assert_eq!(refused(&[0.5, 0.50001], &p, 0, 0.0, 0.0).0, "distribution_sum");
    assert_eq!(refused(&p, &[0.5, 0.49999], 0, 0.0, 0.0).0, "distribution_sum");
    assert_eq!(refused(&p, &p, 2, 0.0, 0.0).0, "draft_token_out_of_range");
    for (a, r) in [(1.0, 0.0), (0.0, 1.0), (-0.1, 0.0), (0.0, f64::NAN)] {
        assert_eq!(refused(&p, &p, 0, a, r).0, "uniform_out_of_range");
    }
    // Within the tolerance, and equal residuals of 0: drawn from p.
    let heavy = [0.5, 0.5 + 5e-7];
    assert_eq!(speculative_step(&p, &heavy, 1, 1.0f64.next_down(), 0.4), Ok(Speculation { token: 0, accepted: false }));
    assert_eq!(Distribution::new(vec![3, 3], vec![0.5, 0.5]).unwrap_err().code(), "distribution_ids");
    assert_eq!(Distribution::new(vec![3], vec![0.5, 0.5]).unwrap_err().code(), "distribution_lengths_differ");
    assert_eq!(
        Distribution::new(vec![3, 7], vec![0.5, 0.5]).unwrap().dense(7).unwrap_err().code(),
        "distribution_vocabulary"
    );
}

/// The target: a function of the context alone.
fn row(context: &[u32]) -> Vec<f32> {
    let seed = context.iter().fold(3u64, |hash, token| draw(hash ^ u64::from(*token), 1, 9));
    (0..40).map(|id| (draw(seed, id, 9) % 32) as f32 / 8.0).collect()
}

/// Rows after the context and each prefix of the drafts, as one forward pass gives them.
fn rows(run: &Run, drafts: &[u32]) -> Vec<Vec<f32>> {
    let mut context = run.context();
    let mut rows = vec![row(&context)];
    for draft in drafts {
        context.push(*draft);
        rows.push(row(&context));
    }
    rows
}

fn plain(run: &Run, steps: usize) -> Run {
    let mut run = run.clone();
    for _ in 0..steps {
        let logits = row(&run.context());
        run.step_with(&logits).unwrap();
    }
    run
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_drafted_the_text_is_the_text_without_speculation(
        seed in any::<u64>(), temperature in prop_oneof![Just(0.0), 0.1..2.0f64], top_k in 0u32..30, top_p in 0.0..=1.0f64,
        // For each chain: how many drafts, and how many of them are what the run will emit.
        chains in prop::collection::vec((0usize..6, 0usize..6), 1..12), noise in any::<u64>()
    ) {
        let start = Run::new(vec![1, 2, 3], seed, Settings::new(temperature, top_k, top_p).unwrap());
        let mut run = start.clone();
        for (gamma, good) in chains {
            let right = plain(&run, gamma).tokens()[run.tokens().len()..].to_vec();
            let drafts: Vec<u32> = (0..gamma)
                .map(|at| if at < good { right[at] } else { (draw(noise, run.position() + at as u64, 0) % 40) as u32 })
                .collect();
            let before = run.tokens().len();
            let chain = run.step_with_drafts(&rows(&run, &drafts), &drafts).unwrap();
            let agreed = drafts.iter().zip(&right).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(chain.accepted, agreed);
            prop_assert_eq!(chain.tokens.len(), agreed + 1);
            prop_assert_eq!(&run.tokens()[before..], &chain.tokens);
        }
        prop_assert_eq!(&run, &plain(&start, run.tokens().len()));
    }

    #[test]
    fn a_chain_stored_anywhere_and_resumed_gives_the_same_tokens(
        seed in any::<u64>(), temperature in 0.3..2.0f64, cut in 0usize..5, sharper in 0.2..1.0f64
    ) {
        let settings = Settings::new(temperature, 0, 0.95).unwrap();
        let run = plain(&Run::new(vec![9], seed, settings), 3);
        let drafts = drafts(&run, 4, sharper);
        let tokens: Vec<u32> = drafts.iter().map(|draft| draft.token).collect();
        let rows = rows(&run, &tokens);
        let mut whole = run.clone();
        let chain = whole.step_speculative(&rows, &drafts).unwrap();
        let agreed = chain.tokens.iter().zip(&tokens).take_while(|(a, b)| a == b).count();
        prop_assert!(agreed >= chain.accepted);

        // Up to the cut in one call, through text, and the rest in another. A cut chain has a last row of its own, whose
        // token is drawn without a draft, so it is one that ends before that row.
        let cut = cut.min(chain.accepted);
        let mut first = run.clone();
        for at in 0..cut {
            let one = first.clone();
            let mut part = one;
            part.step_speculative(&rows[at..at + 2], &drafts[at..at + 1]).unwrap();
            let mut state = part.state().clone();
            state.tokens.truncate(first.tokens().len() + 1);
            first = Run::from_state(quillmate_sampler::GeneratorState::from_json(&state.to_json()).unwrap());
        }
        first.step_speculative(&rows[cut..], &drafts[cut..]).unwrap();
        prop_assert_eq!(first, whole);
    }
}

/// Drafts of a model that is the target with logits scaled, drawing from the draft stream.
fn drafts(run: &Run, gamma: usize, scale: f64) -> Vec<Draft> {
    let mut context = run.context();
    (0..gamma)
        .map(|at| {
            let logits: Vec<f64> = row(&context).iter().map(|logit| f64::from(*logit) * scale).collect();
            let u = uniform(run.seed(), run.position() + at as u64, streams::DRAFT);
            let token = sample(&logits, run.settings(), u).unwrap();
            context.push(token);
            Draft { token, distribution: distribution(&logits, run.settings()).unwrap() }
        })
        .collect()
}

#[test]
fn a_chain_uses_the_reserved_streams_at_each_tokens_own_position() {
    let run = plain(&Run::new(vec![4], 7, Settings::default()), 5);
    let drafts = drafts(&run, 3, 0.5);
    let tokens: Vec<u32> = drafts.iter().map(|draft| draft.token).collect();
    let rows = rows(&run, &tokens);
    let mut expected = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let position = run.position() + at as u64;
        let Some(draft) = drafts.get(at) else {
            expected.push(sample(row, run.settings(), uniform(7, position, 0)).unwrap());
            break;
        };
        let p = distribution(row, run.settings()).unwrap().dense(40).unwrap();
        let q = draft.distribution.dense(40).unwrap();
        let one = speculative_step(&p, &q, draft.token, uniform(7, position, 1), uniform(7, position, 2)).unwrap();
        expected.push(one.token);
        if !one.accepted {
            break;
        }
    }
    let mut stepped = run.clone();
    let chain = stepped.step_speculative(&rows, &drafts).unwrap();
    assert_eq!(chain, Chain { accepted: expected.len() - 1, tokens: expected });
}

#[test]
fn a_refused_chain_costs_nothing() {
    let run = plain(&Run::new(vec![4], 7, Settings::default()), 5);
    let right = plain(&run, 3).tokens()[5..].to_vec();
    let mut with_nan = rows(&run, &right);
    with_nan[2][3] = f32::NAN;
    let mut stepped = run.clone();
    let error = stepped.step_with_drafts(&with_nan, &right).unwrap_err();
    assert_eq!(
        (error.code(), error.index(), error.to_string().as_str()),
        ("logits_nan", Some(3), "row 2: logit 3 is NaN")
    );
    assert_eq!(stepped.step_with_drafts(&with_nan[..3], &right).unwrap_err().code(), "chain_rows");
    let mut bad = drafts(&run, 3, 1.0);
    bad[0].distribution = Distribution::new(vec![90], vec![1.0]).unwrap();
    let error = stepped.step_speculative(&rows(&run, &right), &bad).unwrap_err();
    assert_eq!((error.code(), error.to_string().split(':').next()), ("distribution_vocabulary", Some("draft 0")));
    assert_eq!(stepped, run);
    // A refused row behind the first rejection is never looked at.
    let wrong = [(right[0] + 1) % 40, 0, 0];
    let mut unreached = rows(&run, &wrong);
    unreached[1][0] = f32::NAN;
    assert_eq!(stepped.step_with_drafts(&unreached, &wrong).unwrap(), Chain { tokens: vec![right[0]], accepted: 0 });
}
