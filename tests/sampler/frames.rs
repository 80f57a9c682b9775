//! Frames: lossless, sufficient for the settings they claim, and never a token from damaged bytes.

use proptest::prelude::*;
use quillmate_sampler::{
    Claim, Dtype, Filter, Frame, FrameError, Layout, Processor, Processors, Record, Refusal, Run, Settings, SparseRow,
    Verdict, distribution, verify,
};

fn real_rows() -> Vec<Vec<f32>> {
    let bytes = include_bytes!("../vectors/golden_run.f32");
    let logits: Vec<f32> = bytes.as_chunks().0.iter().map(|logit| f32::from_le_bytes(*logit)).collect();
    logits.chunks(512).map(<[f32]>::to_vec).collect()
}

/// Rows with many ties, some banned tokens, both zeros, subnormals and the ends of f32.
fn row() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        4 => (-6i8..6).prop_map(f32::from),
        3 => -30.0..30.0f32,
        1 => Just(f32::NEG_INFINITY),
        1 => Just(-0.0f32),
        1 => Just(f32::from_bits(1)),
        1 => Just(f32::MIN),
        1 => Just(f32::MAX),
    ];
    prop::collection::vec(logit, 1..400)
        .prop_filter("at least one is allowed", |row| row.iter().any(|logit| *logit != f32::NEG_INFINITY))
}

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|logit| logit.to_bits()).collect()
}

/// Bit-equal distributions give the same token for every u: the walk looks at nothing else.
fn same_for_every_u(full: &[f32], frame: &Frame, settings: &Settings) {
    let sent = frame.logits_for(settings).unwrap();
    let (whole, part) = (distribution(full, settings).unwrap(), distribution(&sent, settings).unwrap());
    assert_eq!(whole.ids(), part.ids(), "{settings:?}");
    let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(whole.probabilities()), bits(part.probabilities()), "{settings:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn dense_frames_keep_every_bit(row in row(), step in any::<u64>()) {
        let frame = Frame::dense(step, &row).unwrap();
        let read = Frame::decode(&frame.encode()).unwrap();
        prop_assert_eq!(&read, &frame);
        prop_assert_eq!(read.step(), step);
        prop_assert_eq!(bits(&read.logits_for(&Settings::default()).unwrap()), bits(&row));
    }

    #[test]
    fn sparse_frames_give_the_token_of_the_whole_row_for_every_u(
        row in row(), k in 1u32..420, temperature in prop_oneof![Just(0.0), 0.05..3.0f64], top_p in 0.0..=1.0f64
    ) {
        let frame = Frame::decode(&Frame::sparse(3, &row, k).unwrap().encode()).unwrap();
        for top_k in [1, k / 2, k, k + 1, 0] {
            let settings = Settings::new(temperature, top_k, top_p).unwrap();
            if frame.suffices_for(&settings) {
                same_for_every_u(&row, &frame, &settings);
            } else {
                prop_assert!(top_k == 0 || top_k > k);
                prop_assert_eq!(frame.logits_for(&settings).unwrap_err().code(), "frame_insufficient");
            }
        }
        prop_assert!(frame.suffices_for(&Settings::new(0.0, 0, 1.0).unwrap()));
    }

    #[test]
    fn a_step_with_its_frame_is_the_frame_and_the_step(
        row in row(), temperature in prop_oneof![Just(0.0), 0.05..3.0f64], top_k in 0u32..60, top_p in 0.0..=1.0f64,
        seed in any::<u64>(), penalized in any::<bool>(),
    ) {
        let settings = Settings::new(temperature, top_k, top_p).unwrap();
        let list = if penalized { vec![Processor::MinP(Filter { value: 0.1, min_keep: 2 })] } else { vec![] };
        let mut run = Run::with_processors(vec![1], seed, settings, Processors::new(list).unwrap());
        let mut apart = run.clone();
        let (token, frame) = run.step_with_frame_of(&row).unwrap();
        prop_assert_eq!(&frame, &apart.frame(0, &row).unwrap());
        let mut from_frame = apart.clone();
        prop_assert_eq!(from_frame.step_with_frame(&Frame::decode(&frame.encode()).unwrap()), Ok(token));
        prop_assert_eq!(apart.step_with(&row), Ok(token));
        prop_assert!(run == apart && run == from_frame);
        // Each remembers how long its rows are.
        for run in [&mut run, &mut from_frame] {
            let longer = vec![0.0f32; row.len() + 1];
            prop_assert_eq!(run.step_with_frame_of(&longer).unwrap_err().code(), "logits_length_changed");
            prop_assert!(*run == apart);
        }
    }

    #[test]
    fn a_frame_for_settings_suffices_for_them(
        row in row(), top_k in 0u32..500, temperature in prop_oneof![Just(0.0), 0.05..3.0f64], top_p in 0.0..=1.0f64
    ) {
        let settings = Settings::new(temperature, top_k, top_p).unwrap();
        let frame = Frame::for_settings(0, &row, &settings).unwrap();
        same_for_every_u(&row, &frame, &settings);
    }

    #[test]
    fn bytes_that_are_no_frame_are_refused_and_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Frame::decode(&bytes).is_err());
    }

    /// Bytes with a good checksum around a wrong body, as a careless or hostile writer would make them: refused, or a
    /// frame that writes the same bytes again.
    #[test]
    fn a_forged_body_is_refused_or_is_a_frame(at in 4usize..200, value in any::<u8>(), sparse in any::<bool>()) {
        let row: Vec<f32> = (0..60).map(|n| n as f32 / 3.0).collect();
        let frame = if sparse { Frame::sparse(0, &row, 20) } else { Frame::dense(0, &row) }.unwrap();
        let mut bytes = frame.encode();
        let end = bytes.len() - 4;
        bytes[at % end] = value;
        let checksum = crc32fast::hash(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&checksum);
        if let Ok(frame) = Frame::decode(&bytes) {
            prop_assert_eq!(frame.encode(), bytes);
        }
    }
}

#[test]
fn where_few_tokens_are_allowed_a_frame_has_them_and_suffices_for_everything() {
    let mut row = vec![f32::NEG_INFINITY; 1000];
    for id in [3, 500, 999] {
        row[id] = id as f32 / 7.0;
    }
    for (temperature, top_k) in [(1.0, 0), (1.0, 900), (0.7, 3)] {
        let frame = Frame::for_settings(0, &row, &Settings::new(temperature, top_k, 1.0).unwrap()).unwrap();
        assert_eq!((frame.layout(), frame.max_top_k()), (Layout::Sparse, None));
        assert!(frame.encode().len() < 60);
        for settings in [Settings::default(), Settings::new(2.0, 0, 0.5).unwrap(), Settings::new(0.0, 0, 1.0).unwrap()]
        {
            assert_eq!(bits(&frame.logits_for(&settings).unwrap()), bits(&row));
        }
    }
    // Half of the vocabulary or more is sent whole.
    row[..500].fill(1.0);
    let frame = Frame::for_settings(0, &row, &Settings::default()).unwrap();
    assert_eq!(frame.layout(), Layout::Dense);
}

#[test]
fn narrow_dtypes_only_where_every_bit_survives() {
    let wide = [1.0f32, 0.1];
    let bf16 = [1.0f32, -2.5, f32::NEG_INFINITY];
    let f16 = [1.0f32, 1.0009766, f32::NEG_INFINITY];
    assert_eq!(Frame::dense(0, &wide).unwrap().dtype(), Dtype::F32);
    assert_eq!(Frame::dense(0, &bf16).unwrap().dtype(), Dtype::Bf16);
    assert_eq!(Frame::dense(0, &f16).unwrap().dtype(), Dtype::F16);
}

#[test]
fn on_real_rows_a_sparse_frame_gives_the_same_token_for_every_u() {
    let rows = real_rows();
    assert_eq!(rows.len(), 15);
    for (step, row) in (0u64..).zip(&rows) {
        for top_k in [1, 2, 50, 200, 511, 512] {
            for (temperature, top_p) in [(0.8, 0.95), (1.0, 1.0), (1.5, 0.5), (0.0, 1.0)] {
                let settings = Settings::new(temperature, top_k, top_p).unwrap();
                same_for_every_u(row, &Frame::for_settings(step, row, &settings).unwrap(), &settings);
                same_for_every_u(row, &Frame::sparse(step, row, top_k).unwrap(), &settings);
            }
        }
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_refused() {
    let row = &real_rows()[0];
    for frame in [Frame::dense(9, row).unwrap(), Frame::sparse(9, row, 50).unwrap()] {
        let bytes = frame.encode();
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            let error = Frame::decode(&damaged).unwrap_err();
            let known = ["frame_damaged", "frame_not_a_frame", "frame_format_unknown"];
            assert!(known.contains(&error.code()), "bit {at}: {error}");
        }
        for length in 0..bytes.len() {
            let error = Frame::decode(&bytes[..length]).unwrap_err();
            assert!(["frame_truncated", "frame_damaged"].contains(&error.code()), "{length} bytes: {error}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Frame::decode(&longer).unwrap_err().code(), "frame_damaged");
    }
}

/// Each field of a frame with a good checksum, just inside and just outside of what it may be.
#[test]
fn a_forged_field_is_refused_for_what_it_is() {
    /// Magic, format, layout, dtype, reserved; step; vocabulary, count, limit; then ids and logits.
    fn forged(layout: u8, dtype: u8, reserved: u8, numbers: [u32; 3], rest: &[u8]) -> String {
        let mut bytes = Frame::dense(0, &[1.0]).unwrap().encode()[..5].to_vec();
        bytes.extend([layout, dtype, reserved]);
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(rest);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        match Frame::decode(&bytes) {
            Ok(frame) => {
                assert_eq!(frame.encode(), bytes);
                "read".into()
            }
            Err(error) => error.to_string().trim_start_matches("the frame is malformed: ").into(),
        }
    }
    let two = [0x80, 0x3f, 0x00, 0x40];
    let sparse = |ids: &[u8]| [ids, &two].concat();
    for (said, expected) in [
        (forged(0, 1, 0, [2, 2, 0], &two), "read"),
        (forged(0, 1, 1, [2, 2, 0], &two), "reserved byte is not 0"),
        (forged(0, 3, 0, [2, 2, 0], &two), "unknown dtype"),
        (forged(2, 1, 0, [2, 2, 0], &two), "unknown layout"),
        (forged(0, 1, 0, [3, 2, 0], &two), "a dense frame that has not every logit"),
        (forged(0, 1, 0, [2, 2, 2], &two), "a dense frame with a limit on top-k"),
        (forged(0, 1, 0, [3, 3, 0], &two), "the logits do not fill the frame"),
        // 28 bytes of a header and 4 could hold 16 logits at the most.
        (forged(0, 1, 0, [16, 16, 0], &two), "the logits do not fill the frame"),
        (forged(0, 1, 0, [17, 17, 0], &two), "more logits announced than there are bytes"),
        (forged(0, 1, 0, [1 << 24, 2, 0], &two), "a dense frame that has not every logit"),
        (
            forged(0, 1, 0, [(1 << 24) + 1, 2, 0], &two),
            "a frame's vocabulary is at most 16777216, but this one says 16777217",
        ),
        (forged(1, 1, 0, [9, 2, 2], &sparse(&[3, 4])), "read"),
        (forged(1, 1, 0, [9, 2, 0], &sparse(&[3, 4])), "read"),
        (forged(1, 1, 0, [9, 2, 1], &sparse(&[3, 4])), "a limit on top-k that is not the number of logits"),
        (forged(1, 1, 0, [8, 2, 2], &sparse(&[3, 4])), "an id outside the vocabulary"),
        (forged(1, 1, 0, [300, 2, 2], &sparse(&[0xff, 0x01, 0])), "read"),
        (forged(1, 1, 0, [9, 2, 2], &sparse(&[0x80, 0x00, 4])), "an id gap not in its shortest form"),
        (forged(1, 1, 0, [9, 2, 2], &sparse(&[0xff, 0xff, 0xff, 0xff, 0x1f, 4])), "an id gap above 32 bits"),
        (forged(1, 1, 0, [9, 2, 2], &[3]), "it ends early"),
        (forged(1, 1, 0, [9, 2, 2], &[3, 4, 0x80, 0x3f, 0x80, 0xff]), "a sparse frame with a banned token"),
    ] {
        assert_eq!(said, expected);
    }
}

/// Half of the vocabulary or more is sent whole, and the largest vocabulary is 2^24.
#[test]
fn where_a_frame_changes_its_layout_and_ends() {
    let row: Vec<f32> = (0..10).map(|id| id as f32 / 3.0).collect();
    for (top_k, layout) in [(4, Layout::Sparse), (5, Layout::Dense), (6, Layout::Dense)] {
        let settings = Settings::new(1.0, top_k, 1.0).unwrap();
        assert_eq!(Frame::for_settings(0, &row, &settings).unwrap().layout(), layout, "top-k {top_k}");
    }
    let of = |vocabulary| Frame::from_sparse(0, &SparseRow::new(&[1, 2], &[1.0f32, 0.0], vocabulary).unwrap());
    assert_eq!(of(1 << 24).unwrap().vocabulary(), 1 << 24);
    assert_eq!(of((1 << 24) + 1), Err(FrameError::Vocabulary((1 << 24) + 1)));
}

#[test]
fn a_frame_of_no_use_to_a_run_leaves_it_where_it_is() {
    let row = &real_rows()[0];
    let mut run = Run::new(vec![], 1, Settings::new(0.8, 50, 1.0).unwrap());
    let before = run.clone();
    let other_step = Frame::dense(1, row).unwrap();
    assert_eq!(run.step_with_frame(&other_step).unwrap_err().code(), "frame_step_mismatch");
    let too_few = Frame::sparse(0, row, 49).unwrap();
    assert_eq!(run.step_with_frame(&too_few).unwrap_err().code(), "frame_insufficient");
    assert_eq!(run, before);
    let enough = Frame::sparse(0, row, 50).unwrap();
    assert_eq!(enough.layout(), Layout::Sparse);
    let token = run.step_with_frame(&enough).unwrap();
    assert_eq!(before.clone().step_with(row), Ok(token));
}

#[test]
fn a_frame_of_any_other_step_is_refused() {
    let row = &real_rows()[0];
    let mut run = Run::new(vec![], 1, Settings::default());
    for position in 0..5 {
        let before = run.clone();
        for step in (0..8).filter(|step| *step != position) {
            let error = run.step_with_frame(&Frame::dense(step, row).unwrap()).unwrap_err();
            assert_eq!(error, FrameError::StepMismatch { expected: position, found: step });
            assert_eq!(run, before);
        }
        run.step_with_frame(&Frame::dense(position, row).unwrap()).unwrap();
    }
}

#[test]
fn a_frame_that_lacks_one_allowed_token_does_not_suffice_for_everything() {
    // Of 7 tokens, 5 are allowed.
    let mut row = [2.0f32, f32::NEG_INFINITY, 1.0, 0.5, f32::NEG_INFINITY, -1.0, 3.0];
    let all = [Settings::default(), Settings::new(0.7, 0, 0.9).unwrap(), Settings::new(1.0, 6, 1.0).unwrap()];
    for (k, most) in [(1, Some(1)), (3, Some(3)), (4, Some(4)), (5, None), (6, None), (7, None)] {
        let frame = Frame::sparse(0, &row, k).unwrap();
        assert_eq!(frame.max_top_k(), most, "k {k}");
        for settings in &all {
            assert_eq!(frame.suffices_for(settings), most.is_none(), "k {k}, {settings:?}");
            assert_eq!(frame.logits_for(settings).is_ok(), most.is_none());
        }
    }
    // And where the one left out equals the last one sent.
    row[5] = 0.5;
    assert_eq!(Frame::sparse(0, &row, 4).unwrap().max_top_k(), Some(4));
}

#[test]
fn frames_of_several_lengths_in_a_record_still_replay() {
    let rows = [vec![0.5f32, 1.5, -2.0], vec![1.0f32; 7]];
    let start = Run::new(vec![1], 42, Settings::default()).state().clone();
    let (mut state, mut frames) = (start.clone(), Vec::new());
    for (step, row) in (0..).zip(&rows) {
        let frame = Frame::dense(step, row).unwrap();
        // Each step by a run of its own: one run refuses it.
        let mut run = Run::from_state(state);
        run.step_with_frame(&frame).unwrap();
        let other = Frame::dense(step + 1, &[0.0f32; 9]).unwrap();
        assert_eq!(run.step_with_frame(&other).unwrap_err().code(), "logits_length_changed");
        state = run.state().clone();
        frames.push(frame.encode());
    }
    let claim = Claim { tokens: state.tokens.clone(), state, frame_checksums: None };
    assert_eq!(verify(&Record { start, frames }, &claim), Verdict::Match { steps: 2 });
}

#[test]
fn rows_no_token_can_come_from_make_no_frame() {
    assert_eq!(Frame::dense(0, &[]).unwrap_err().code(), "logits_empty");
    assert_eq!(Frame::dense(0, &[1.0, f32::NAN]).unwrap_err().index(), Some(1));
    assert_eq!(Frame::sparse(0, &[f32::INFINITY], 1).unwrap_err().code(), "logits_positive_infinity");
    assert_eq!(Frame::sparse(0, &[f32::NEG_INFINITY], 1).unwrap_err().code(), "logits_all_banned");
    assert_eq!(Frame::sparse(0, &[1.0], 0).unwrap_err().code(), "top_k_out_of_range");
}

#[test]
fn no_frame_is_larger_than_the_bound_of_its_run() {
    const V: u32 = 49_152;
    // Values that no narrower type can hold, far apart in the vocabulary, so that frames are as large as they get.
    let row: Vec<f32> = (0..V).map(|id| (id.wrapping_mul(2_654_435_761) >> 8) as f32 / 3.0).collect();
    let few: Vec<f32> = (0..V).map(|id| if id % 3 == 0 { row[id as usize] } else { f32::NEG_INFINITY }).collect();
    for top_k in [0, 1, 50, 20_000, V / 2 - 1, V / 2, 49_000, u32::MAX] {
        for temperature in [0.0, 1.0] {
            let settings = Settings::new(temperature, top_k, 0.9).unwrap();
            for list in [vec![], vec![Processor::TopK(50)]] {
                let processors = Processors::new(list).unwrap();
                let bound = Frame::max_bytes_for_run(V, &settings, &processors);
                for row in [&row, &few] {
                    let bytes = Frame::for_run(u64::MAX, row, &settings, &processors).unwrap().encode().len() as u64;
                    assert!(bytes <= bound, "temperature {temperature}, top_k {top_k}: {bytes}");
                }
            }
        }
    }
}

#[test]
fn the_bound_of_a_run_is_reached() {
    let none = Processors::default();
    let third = 1.0f32 / 3.0;
    // An id of four bytes, alone.
    let mut row = vec![0.0; 1 << 22];
    row[(1 << 22) - 1] = third;
    let greedy = Settings::new(0.0, 0, 1.0).unwrap();
    let frame = Frame::for_run(0, &row, &greedy, &none).unwrap();
    assert_eq!(frame.encode().len() as u64, Frame::max_bytes_for_run(1 << 22, &greedy, &none));
    // All logits, each of four bytes.
    let all = Settings::new(1.0, 0, 1.0).unwrap();
    let frame = Frame::for_run(0, &vec![third; 1000], &all, &none).unwrap();
    assert_eq!(frame.encode().len() as u64, Frame::max_bytes_for_run(1000, &all, &none));
}

/// Where few tokens are allowed, a sparse frame holds all of them and suffices for processors too.
#[test]
fn a_sparse_frame_of_all_allowed_tokens_goes_through_the_processors() {
    let mut row = vec![f32::NEG_INFINITY; 512];
    (row[3], row[7]) = (2.0, 1.0);
    let greedy = Settings::new(0.0, 0, 1.0).unwrap();
    let processors = Processors::new(vec![Processor::Deny(vec![3])]).unwrap();
    let mut run = Run::with_processors(vec![], 5, greedy, processors);
    let frame = Frame::for_run(0, &row, run.settings(), run.processors()).unwrap();
    assert_eq!(frame.layout(), Layout::Sparse);
    assert_eq!(run.step_with_frame(&frame).unwrap(), 7);
}
