//! Rows of which only the best logits are known: the token of the whole row whatever is unknown, or a refusal.

use proptest::prelude::*;
use quillmate_sampler::{
    Distribution, Filter, Frame, Layout, Processor, Processors, Refusal, Run, SampleError, Settings, SparseRow,
    distribution, draw, sample,
};

const BANNED: f32 = f32::NEG_INFINITY;

/// Few different values, so that most rows tie at the cut; some tokens are banned.
fn logit() -> impl Strategy<Value = f32> {
    prop_oneof![
        6 => (-3i8..3).prop_map(f32::from),
        2 => -3.0..3.0f32,
        1 => Just(BANNED),
        1 => Just(-0.0f32),
    ]
}

/// A whole row, and the places of those that are known: the best, in any order and with any choice among equals, and
/// some that are banned.
fn known() -> impl Strategy<Value = (Vec<f32>, Vec<u32>)> {
    let row = prop::collection::vec(logit(), 1..24)
        .prop_filter("at least one is allowed", |row| row.iter().any(|logit| *logit != BANNED));
    (row, any::<u64>(), 1usize..30).prop_map(|(row, seed, count)| {
        let chance = |id: u32, stream| draw(seed, u64::from(id), stream);
        let mut ids: Vec<u32> = (0..row.len() as u32).collect();
        // partial_cmp, for which -0 and 0 are equal as they are for the contract.
        let falling = |a: u32, b: u32| row[b as usize].partial_cmp(&row[a as usize]).unwrap();
        ids.sort_by(|a, b| falling(*a, *b).then(chance(*a, 0).cmp(&chance(*b, 0))));
        let unknown = ids.split_off(count.min(ids.len()));
        ids.extend(unknown.into_iter().filter(|id| row[*id as usize] == BANNED && chance(*id, 1) % 2 == 0));
        ids.sort_by_key(|id| chance(*id, 2));
        (row, ids)
    })
}

fn sparse(row: &[f32], ids: &[u32]) -> SparseRow<f32> {
    let logits: Vec<f32> = ids.iter().map(|id| row[*id as usize]).collect();
    SparseRow::new(ids, &logits, row.len() as u32).unwrap()
}

/// Every row of which these may be the best: the unknown banned, as high as they can be, the true ones, and mixtures.
fn completions(row: &[f32], ids: &[u32]) -> Vec<Vec<f32>> {
    let known = |id: usize| ids.contains(&(id as u32));
    let finite = ids.iter().map(|id| row[*id as usize]).filter(|logit| *logit != BANNED);
    let lowest = finite.reduce(|lowest, logit| if logit < lowest { logit } else { lowest }).unwrap_or(5.0);
    let with = |unknown: &dyn Fn(usize) -> f32| -> Vec<f32> {
        row.iter().enumerate().map(|(id, logit)| if known(id) { *logit } else { unknown(id) }).collect()
    };
    let mut rows = vec![with(&|_| BANNED), with(&|_| lowest), row.to_vec()];
    for mixture in 0..24 {
        rows.push(with(&|id| match draw(mixture, id as u64, 7) % 4 {
            0 => BANNED,
            1 => lowest,
            2 => lowest - 0.25,
            _ => lowest - 9.0,
        }));
    }
    rows
}

fn bits(kept: &Distribution) -> (Vec<u32>, Vec<u64>) {
    (kept.ids().to_vec(), kept.probabilities().iter().map(|p| p.to_bits()).collect())
}

fn settings() -> impl Strategy<Value = Settings> {
    let top_k = prop_oneof![1 => Just(0u32), 6 => 1u32..26];
    (prop_oneof![1 => Just(0.0), 4 => 0.3..2.0f64], top_k, prop_oneof![Just(1.0), 0.0..1.0f64])
        .prop_map(|(temperature, top_k, top_p)| Settings::new(temperature, top_k, top_p).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_unknown_never_matters_or_the_row_is_refused(
        (row, ids) in known(), settings in settings(), u in 0.0..1.0f64
    ) {
        let sparse = sparse(&row, &ids);
        let rows = completions(&row, &ids);
        let run = Run::new(vec![1], 7, settings);
        if sparse.suffices_for(&settings) {
            let token = sparse.sample(&settings, u).unwrap();
            let kept = bits(&sparse.distribution(&settings).unwrap());
            let mut stepped = run.clone();
            let emitted = stepped.step_with_sparse(&sparse).unwrap();
            for row in rows {
                prop_assert_eq!(sample(&row, &settings, u), Ok(token));
                prop_assert_eq!(&bits(&distribution(&row, &settings).unwrap()), &kept);
                prop_assert_eq!(run.decide(&row), Ok(emitted));
                if let Ok(decision) = run.decision_sparse(&sparse) {
                    prop_assert_eq!(run.decision(&row), Ok(decision));
                }
            }
            prop_assert_eq!(stepped.tokens(), [emitted]);
            // A decision is refused only where its count of allowed tokens would look at what is unknown.
            prop_assert_eq!(run.decision_sparse(&sparse).is_err(), settings.is_greedy() && sparse.max_top_k().is_some());
        } else {
            prop_assert_eq!(sparse.sample(&settings, u).unwrap_err().code(), "frame_insufficient");
            prop_assert_eq!(sparse.distribution(&settings).unwrap_err().code(), "frame_insufficient");
            prop_assert_eq!(run.clone().step_with_sparse(&sparse).unwrap_err().code(), "frame_insufficient");
            prop_assert_eq!(run.decision_sparse(&sparse).unwrap_err().code(), "frame_insufficient");
            // Not refused without need: two of the rows have other candidates, before top-p.
            let whole = Settings::new(settings.temperature(), settings.top_k(), 1.0).unwrap();
            let ids = |row: &Vec<f32>| distribution(row, &whole).map(|kept| kept.ids().to_vec());
            prop_assert!(rows.iter().any(|row| ids(row) != ids(&rows[0])));
        }
    }

    #[test]
    fn a_frame_of_such_a_row_suffices_for_what_the_row_does(
        (row, ids) in known(), settings in settings(), u in 0.0..1.0f64
    ) {
        let sparse = sparse(&row, &ids);
        if sparse.max_top_k() == Some(0) {
            prop_assert_eq!(Frame::from_sparse(3, &sparse).unwrap_err().code(), "frame_insufficient");
            return Ok(());
        }
        let frame = Frame::decode(&Frame::from_sparse(3, &sparse).unwrap().encode()).unwrap();
        prop_assert_eq!((frame.step(), frame.vocabulary()), (3, row.len() as u32));
        prop_assert_eq!(frame.max_top_k(), sparse.max_top_k());
        prop_assert_eq!(frame.suffices_for(&settings), sparse.suffices_for(&settings));
        if let Ok(sent) = frame.logits_for(&settings) {
            prop_assert_eq!(sample(&sent, &settings, u), sample(&row, &settings, u));
        }
    }
}

#[test]
fn the_place_of_an_equal_logit_is_certain_where_all_lower_ids_are_known() {
    let most = |ids: &[u32], logits: &[f32], vocabulary| SparseRow::new(ids, logits, vocabulary).unwrap().max_top_k();
    assert_eq!(most(&[5, 2, 9], &[3.0, 2.0, 1.0], 100), Some(2));
    assert_eq!(most(&[0, 1, 2], &[3.0, 2.0, 1.0], 100), Some(3));
    assert_eq!(most(&[0, 1, 7], &[1.0, 1.0, 1.0], 100), Some(2));
    assert_eq!(most(&[4, 7], &[1.0, 1.0], 100), Some(0));
    assert_eq!(most(&[0], &[1.0], 100), Some(1));
    // -0 and 0 are equal.
    assert_eq!(most(&[3, 8], &[0.0, -0.0], 100), Some(0));
    // Known to be banned is known: id 0 cannot tie.
    assert_eq!(most(&[1, 0], &[1.0, BANNED], 100), Some(1));
    assert_eq!(most(&[1, 5], &[BANNED, BANNED], 100), Some(0));
    assert_eq!(most(&[1, 0], &[1.0, BANNED], 2), None);
    assert_eq!(most(&[2, 1, 0], &[1.0, 1.0, 1.0], 3), None);
}

#[test]
fn what_is_no_row_is_refused_and_named() {
    let refused = |ids: &[u32], logits: &[f64], vocabulary| {
        let error = SparseRow::new(ids, logits, vocabulary).unwrap_err();
        (error.code(), error.index(), error.value())
    };
    assert_eq!(refused(&[1, 2], &[1.0], 9), ("sparse_lengths_differ", None, None));
    assert_eq!(refused(&[], &[], 9), ("logits_empty", None, None));
    assert_eq!(refused(&[1, 9], &[1.0, 0.0], 9), ("sparse_id_out_of_range", Some(1), Some(9.0)));
    assert_eq!(refused(&[0], &[1.0], 0), ("sparse_id_out_of_range", Some(0), Some(0.0)));
    assert_eq!(refused(&[7, 3, 5, 3, 7], &[0.0; 5], 9), ("sparse_id_repeated", Some(3), Some(3.0)));
    assert_eq!(refused(&[7, 3], &[0.0, f64::NAN], 9), ("logits_nan", Some(1), None));
    assert_eq!(refused(&[7, 3], &[f64::INFINITY, 0.0], 9), ("logits_positive_infinity", Some(0), None));
    assert_eq!(refused(&[1, 0], &[f64::NEG_INFINITY; 2], 2), ("logits_all_banned", None, None));
    let large = SparseRow::new(&[1, 2], &[1.0f32, 0.0], 1 << 25).unwrap();
    assert_eq!(Frame::from_sparse(0, &large).unwrap_err().code(), "frame_vocabulary_too_large");
}

#[test]
fn what_looks_at_the_whole_row_needs_it() {
    let part = SparseRow::new(&[3, 8, 1], &[2.0f32, 1.0, 0.0], 10).unwrap();
    assert_eq!((part.ids(), part.logits()), (&[1, 3, 8][..], &[0.0, 2.0, 1.0][..]));
    let settings = Settings::new(0.8, 2, 1.0).unwrap();
    let filter = Processor::MinP(Filter { value: 0.1, min_keep: 1 });
    let processors = Processors::new(vec![filter]).unwrap();
    let processed = Run::with_processors(vec![], 1, settings, processors.clone());
    let refusal = SampleError::Insufficient { certain: 2, top_k: 0 };
    assert_eq!(processed.decide_sparse(&part), Err(refusal));
    assert_eq!(processed.decision_sparse(&part), Err(refusal));
    let plain = Run::new(vec![], 1, settings);
    assert!(plain.decide_sparse(&part).is_ok());
    assert_eq!(plain.trace_sparse(&part), Err(refusal));
    assert_eq!(Run::new(vec![], 1, Settings::default()).decide_sparse(&part), Err(refusal));
    assert_eq!(refusal.to_string(), "only the 2 best logits of the row are certain, but this needs all of them");
    let more = Run::new(vec![], 1, Settings::new(0.8, 3, 1.0).unwrap()).decide_sparse(&part).unwrap_err();
    assert_eq!(more.to_string(), "only the 2 best logits of the row are certain, but the 3 best are needed");
    assert_eq!(more.value(), Some(3.0));

    // A row given in parts, all of them: as whole as any.
    let row = [0.5f32, 2.0, BANNED, 1.0];
    let all = sparse(&row, &[3, 1, 0, 2]);
    assert_eq!((all.whole(), all.vocabulary()), (Some(&row[..]), 4));
    let processed = Run::with_processors(vec![], 1, Settings::default(), processors);
    assert_eq!(processed.decide_sparse(&all), processed.decide(&row));
    assert_eq!(processed.trace_sparse(&all), processed.trace(&row));
    assert_eq!(processed.decision_sparse(&all), processed.decision(&row));
    let frame = Frame::from_sparse(0, &all).unwrap();
    assert_eq!((frame.layout(), frame.max_top_k()), (Layout::Dense, None));
}
