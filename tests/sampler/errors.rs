//! Every refusal: its code, the offending index and value, and its message.

use quillmate_sampler::core::refusal::RejectedNumber;
use quillmate_sampler::json::FieldError;
use quillmate_sampler::mosaic::MosaicError;
use quillmate_sampler::{
    BatchError, ChainError, DistributionError, FrameError, LabelError, LoadError, LogitsError, Problem, ProcessorError,
    ReadProcessorsError, RecordError, Refusal, Role, RowError, SampleError, SettingsError, SparseRowError,
    SpeculativeError, StateError, StepBatchError, StepError, constraint::ConstraintError,
};

/// Code, index, value, message.
type Said<'a> = (&'a str, Option<u64>, Option<f64>, &'a str);

fn check(cases: &[(&dyn Refusal, Said)]) {
    for (error, (code, index, value, message)) in cases {
        let said = (error.code(), error.index(), error.value().map(f64::to_bits), error.to_string());
        assert_eq!(said, (*code, *index, value.map(f64::to_bits), (*message).to_owned()));
    }
}

fn number(value: f64) -> RejectedNumber {
    value.into()
}

fn problem(problem: Problem) -> ProcessorError {
    ProcessorError { at: 2, name: "dry", problem }
}

#[test]
fn of_settings_and_rows() {
    let nan = LogitsError::NotANumber(7);
    check(&[
        (
            &SettingsError::Temperature(number(f64::NAN)),
            ("temperature_out_of_range", None, Some(f64::NAN), "temperature must be finite and at least 0, but is NaN"),
        ),
        (
            &SettingsError::TopK(number(-1.5)),
            ("top_k_out_of_range", None, Some(-1.5), "top_k must be an integer from 0 to 4294967295, but is -1.5"),
        ),
        (
            &SettingsError::TopP(number(2.0)),
            ("top_p_out_of_range", None, Some(2.0), "top_p must be from 0 to 1, but is 2.0"),
        ),
        (&LogitsError::Empty, ("logits_empty", None, None, "there are no logits")),
        (&LogitsError::TooLong(1 << 33), ("logits_too_long", None, None, "8589934592 logits are more than 4294967295")),
        (&nan, ("logits_nan", Some(7), None, "logit 7 is NaN")),
        (&LogitsError::PositiveInfinity(3), ("logits_positive_infinity", Some(3), None, "logit 3 is +infinity")),
        (
            &LogitsError::AllBanned(5),
            ("logits_all_banned", None, None, "all 5 logits are -infinity, so every token is banned"),
        ),
        (
            &LogitsError::LengthChanged { expected: 4, found: 8 },
            (
                "logits_length_changed",
                None,
                Some(8.0),
                "a row of this run has 4 logits, but this one has 8; is it a single row?",
            ),
        ),
        (&SampleError::Logits(nan), ("logits_nan", Some(7), None, "logit 7 is NaN")),
        (
            &SampleError::Settings(SettingsError::TopP(number(-0.5))),
            ("top_p_out_of_range", None, Some(-0.5), "top_p must be from 0 to 1, but is -0.5"),
        ),
        (
            &SampleError::Uniform(number(1.0)),
            ("uniform_out_of_range", None, Some(1.0), "u must be at least 0 and below 1, but is 1.0"),
        ),
        (&RowError { row: 3, error: SampleError::Logits(nan) }, ("logits_nan", Some(7), None, "row 3: logit 7 is NaN")),
        (
            &RowError { row: 0, error: SampleError::Uniform(number(2.0)) },
            ("uniform_out_of_range", None, Some(2.0), "row 0: u must be at least 0 and below 1, but is 2.0"),
        ),
        (
            &BatchError::Logits { rows: 2, vocabulary: 3, logits: 5 },
            ("batch_logits_length", None, None, "2 rows over a vocabulary of 3 are not 5 logits"),
        ),
        (
            &BatchError::Settings { rows: 3, settings: 2 },
            ("batch_settings_length", None, None, "3 rows need 3 settings or 1, not 2"),
        ),
        (
            &SparseRowError::Lengths { ids: 2, logits: 3 },
            ("sparse_lengths_differ", None, None, "a sparse row needs one logit an id, not 3 for 2"),
        ),
        (
            &SparseRowError::Id { index: 4, id: 10, vocabulary: 10 },
            ("sparse_id_out_of_range", Some(4), Some(10.0), "id 10 at index 4 is outside the vocabulary of 10"),
        ),
        (
            &SparseRowError::Repeated { index: 4, id: 9 },
            ("sparse_id_repeated", Some(4), Some(9.0), "id 9 at index 4 is in the list already"),
        ),
        (&SparseRowError::Logits(nan), ("logits_nan", Some(7), None, "logit 7 is NaN")),
    ]);
    // An offender is shown as the number it is.
    assert_eq!(format!("{:?}", SettingsError::TopP(number(0.1 + 0.2))), "TopP(0.30000000000000004)");
}

#[test]
fn of_distributions_and_drafts() {
    let sum = DistributionError::Sum(number(0.5));
    let speculative = SpeculativeError::Distribution {
        role: Role::Target,
        error: DistributionError::Probability { index: 1, value: number(-0.25) },
    };
    check(&[
        (&DistributionError::Empty, ("distribution_empty", None, None, "there are no probabilities")),
        (
            &DistributionError::Lengths { first: 2, second: 3 },
            ("distribution_lengths_differ", None, None, "the lengths 2 and 3 differ"),
        ),
        (
            &DistributionError::Ids(6),
            ("distribution_ids", Some(6), None, "ids must ascend, but the one at index 6 is not above the one before"),
        ),
        (
            &DistributionError::Vocabulary { id: 9, vocabulary: 8 },
            ("distribution_vocabulary", None, Some(9.0), "id 9 is outside the vocabulary of 8"),
        ),
        (
            &DistributionError::Probability { index: 2, value: number(f64::INFINITY) },
            (
                "distribution_probability",
                Some(2),
                Some(f64::INFINITY),
                "probability 2 must be finite and at least 0, but is inf",
            ),
        ),
        (&sum, ("distribution_sum", None, Some(0.5), "the probabilities must sum to 1 within 1e-6, but sum to 0.5")),
        (
            &speculative,
            (
                "distribution_probability",
                Some(1),
                Some(-0.25),
                "the target's distribution: probability 1 must be finite and at least 0, but is -0.25",
            ),
        ),
        (
            &SpeculativeError::DraftToken { token: 4, vocabulary: 3 },
            ("draft_token_out_of_range", None, Some(4.0), "draft token 4 is outside the vocabulary of 3"),
        ),
        (
            &SpeculativeError::Uniform(number(1.5)),
            ("uniform_out_of_range", None, Some(1.5), "u must be at least 0 and below 1, but is 1.5"),
        ),
        (
            &ChainError::Rows { drafts: 2, rows: 2 },
            ("chain_rows", None, None, "2 drafts need 3 rows of logits, but there are 2"),
        ),
        (
            &ChainError::Sample { row: 1, error: SampleError::Logits(LogitsError::NotANumber(5)) },
            ("logits_nan", Some(5), None, "row 1: logit 5 is NaN"),
        ),
        (
            &ChainError::Sample { row: 1, error: SampleError::Uniform(number(1.0)) },
            ("uniform_out_of_range", None, Some(1.0), "row 1: u must be at least 0 and below 1, but is 1.0"),
        ),
        (
            &ChainError::Speculative { draft: 2, error: speculative },
            (
                "distribution_probability",
                Some(1),
                Some(-0.25),
                "draft 2: the target's distribution: probability 1 must be finite and at least 0, but is -0.25",
            ),
        ),
    ]);
}

#[test]
fn of_processors_and_constraints() {
    let parameter = problem(Problem::Parameter { parameter: "base", value: number(0.5) });
    check(&[
        (&parameter, ("processor_parameter", Some(2), Some(0.5), "processor 2, dry: base is out of range: 0.5")),
        (
            &problem(Problem::Empty { parameter: "breakers" }),
            ("processor_empty", Some(2), None, "processor 2, dry: breakers must not be empty, nor hold anything empty"),
        ),
        (
            &problem(Problem::TokenRepeated(4)),
            ("processor_token_repeated", Some(2), Some(4.0), "processor 2, dry: token 4 is given twice"),
        ),
        (
            &problem(Problem::Repeated),
            ("processor_repeated", Some(2), None, "processor 2, dry: it is in the list already"),
        ),
        (
            &problem(Problem::Token { id: 8, vocabulary: 8 }),
            ("processor_token", Some(2), Some(8.0), "processor 2, dry: token 8 is outside the vocabulary of 8"),
        ),
        (
            &problem(Problem::Overflow(Some(3))),
            ("processor_overflow", Some(2), Some(3.0), "processor 2, dry: the logit of token 3 is no longer finite"),
        ),
        (
            &problem(Problem::Overflow(None)),
            ("processor_overflow", Some(2), None, "processor 2, dry: the logits are too large for it"),
        ),
        (&problem(Problem::AllBanned), ("processor_all_banned", Some(2), None, "processor 2, dry: no token is left")),
        (
            &ConstraintError::DeadEnd { step: 3 },
            ("constraint_dead_end", Some(3), None, "at step 3 the constraint and the model together allow no token"),
        ),
        (
            &ConstraintError::Violated { index: 1, token: 9 },
            ("constraint_violated", Some(1), Some(9.0), "token 9 at index 1 breaks the constraint"),
        ),
        (
            &ConstraintError::Vocabulary { vocabulary: 4, found: 5 },
            ("constraint_vocabulary", None, Some(5.0), "the constraint is for a vocabulary of 4, which 5 does not fit"),
        ),
        (&ConstraintError::Empty, ("constraint_empty", None, None, "the constraint allows no text at all")),
        (
            &ConstraintError::TooComplex("9 states".into()),
            ("constraint_too_complex", None, None, "the constraint is too complex: 9 states"),
        ),
        (
            &ConstraintError::Failed("it broke".into()),
            ("constraint_failed", None, None, "the constraint failed: it broke"),
        ),
        (&ConstraintError::Logits(LogitsError::NotANumber(2)), ("logits_nan", Some(2), None, "logit 2 is NaN")),
    ]);
}

#[test]
fn of_states_records_and_frames() {
    let missing = || FieldError::Missing("settings.top_k".into());
    let nan = SampleError::Logits(LogitsError::NotANumber(7));
    let uniform = SampleError::Uniform(number(1.0));
    let damaged = FrameError::Damaged { stored: 0x12, computed: 0xab_cdef };
    let processor = problem(Problem::Token { id: 8, vocabulary: 8 });
    check(&[
        (&FieldError::Syntax("oh".into()), ("json_syntax", None, None, "not valid JSON: oh")),
        (&missing(), ("field_missing", None, None, "field settings.top_k is missing")),
        (&FieldError::Unknown("x".into()), ("field_unknown", None, None, "field x is not known")),
        (&FieldError::Repeated("x".into()), ("field_repeated", None, None, "field x is given twice")),
        (
            &FieldError::Type { path: "tokens[1]".into(), expected: "a token id", found: "-3".into() },
            ("field_type", None, None, "tokens[1] must be a token id, but is -3"),
        ),
        (&StateError::Field(missing()), ("field_missing", None, None, "field settings.top_k is missing")),
        (
            &StateError::Settings(SettingsError::TopP(number(2.0))),
            ("top_p_out_of_range", None, Some(2.0), "top_p must be from 0 to 1, but is 2.0"),
        ),
        (
            &StateError::from(processor),
            ("processor_token", Some(2), Some(8.0), "processor 2, dry: token 8 is outside the vocabulary of 8"),
        ),
        (
            &StateError::from(ReadProcessorsError::Unknown("best".into())),
            ("processor_unknown", None, None, "processor \"best\" is not known"),
        ),
        (
            &StateError::from(ReadProcessorsError::Version(9)),
            ("processor_version_unknown", None, None, "version 9 of this processor is not known"),
        ),
        (
            &StateError::Contract("mosaic-splitmix64-top-k-top-p-v1".into()),
            (
                "contract_unknown",
                None,
                None,
                "a run of \"mosaic-splitmix64-top-k-top-p-v1\" does not go on under \"quillmate-v1\"; it is loaded as what it is",
            ),
        ),
        (
            &StateError::Contract("other".into()),
            (
                "contract_unknown",
                None,
                None,
                "contract \"other\" is not known; this release keeps \"quillmate-v1\" and \"mosaic-splitmix64-top-k-top-p-v1\"",
            ),
        ),
        (&StateError::Format(2), ("format_unknown", None, None, "state format 2 is not known; this release reads 1")),
        (
            &StateError::SeedNotString("the number 42".into()),
            ("seed_not_string", None, None, "the seed must be a string of decimal digits, but is the number 42"),
        ),
        (
            &StateError::SeedMalformed("-1".into()),
            (
                "seed_malformed",
                None,
                None,
                "the seed must be a decimal integer from 0 to 18446744073709551615, but is \"-1\"",
            ),
        ),
        (
            &StateError::StepMismatch { step: 9, tokens: 2 },
            ("step_mismatch", None, None, "the step is 9, but there are 2 tokens"),
        ),
        (
            &LoadError::Draws { draws: 3, expected: 2 },
            ("draws_mismatch", None, None, "the run has consumed 3 draws, but its tokens took 2"),
        ),
        (
            &LoadError::from(MosaicError::TopP(number(0.0))),
            ("top_p_out_of_range", None, Some(0.0), "top-p must be above 0 and at most 1, but is 0.0"),
        ),
        (
            &RecordError::State(StateError::Format(2)),
            ("format_unknown", None, None, "state format 2 is not known; this release reads 1"),
        ),
        (
            &RecordError::State(StateError::from(processor)),
            ("processor_token", Some(2), Some(8.0), "processor 2, dry: token 8 is outside the vocabulary of 8"),
        ),
        (
            &RecordError::Form(9),
            ("record_unknown", None, None, "record form 9 is not known; this release reads 1 to 3"),
        ),
        (&RecordError::NotBase64(4), ("frame_not_base64", Some(4), None, "frames[4] is not base64")),
        (
            &RecordError::Frame { index: 5, error: FrameError::Sample(uniform) },
            ("uniform_out_of_range", Some(5), Some(1.0), "frames[5]: u must be at least 0 and below 1, but is 1.0"),
        ),
        (
            &RecordError::Lengths { what: "frames", count: 3, tokens: 4 },
            ("record_lengths", None, None, "there are 3 frames for 4 tokens"),
        ),
        (&RecordError::Decision(6), ("decision_mismatch", Some(6), None, "decisions[6] is for another token")),
        (
            &RecordError::Draws { draws: 1, expected: 2 },
            ("draws_mismatch", None, None, "the record says 1 draws were used, but its tokens took 2"),
        ),
        (
            &FrameError::Truncated { bytes: 3 },
            ("frame_truncated", None, None, "a frame has at least 32 bytes, but there are 3"),
        ),
        (&FrameError::NotAFrame, ("frame_not_a_frame", None, None, "these bytes do not begin as a frame does")),
        (
            &FrameError::Format(9),
            ("frame_format_unknown", None, None, "frame format 9 is not known; this release reads 1"),
        ),
        (
            &damaged,
            (
                "frame_damaged",
                None,
                None,
                "the frame is damaged: its checksum is 00000012, but its bytes give 00abcdef",
            ),
        ),
        (&FrameError::Malformed("oh"), ("frame_malformed", None, None, "the frame is malformed: oh")),
        (
            &FrameError::Vocabulary(1 << 25),
            (
                "frame_vocabulary_too_large",
                None,
                Some(33_554_432.0),
                "a frame's vocabulary is at most 16777216, but this one says 33554432",
            ),
        ),
        (&FrameError::NoTokens, ("top_k_out_of_range", None, Some(0.0), "a sparse frame holds at least 1 logit")),
        (
            &FrameError::Insufficient { largest: 50, top_k: 0 },
            (
                "frame_insufficient",
                None,
                Some(0.0),
                "the frame holds the 50 best logits, but without top-k, or with processors, all are needed",
            ),
        ),
        (
            &FrameError::Insufficient { largest: 50, top_k: 60 },
            ("frame_insufficient", None, Some(60.0), "the frame holds the 50 best logits, but top-k 60 needs more"),
        ),
        (
            &FrameError::StepMismatch { expected: 3, found: 4 },
            ("frame_step_mismatch", None, None, "the run is at step 3, but the frame is for step 4"),
        ),
        (&FrameError::Sample(nan), ("logits_nan", Some(7), None, "logit 7 is NaN")),
        (
            &FrameError::Sample(uniform),
            ("uniform_out_of_range", None, Some(1.0), "u must be at least 0 and below 1, but is 1.0"),
        ),
    ]);
}

#[test]
fn of_steps_and_of_the_older_contract() {
    let model = "no answer";
    check(&[
        (&StepError::Model(model), ("model_failed", None, None, "the model failed: no answer")),
        (
            &StepError::<&str>::Sample(SampleError::Logits(LogitsError::NotANumber(7))),
            ("logits_nan", Some(7), None, "logit 7 is NaN"),
        ),
        (
            &StepError::<&str>::Sample(SampleError::Uniform(number(1.0))),
            ("uniform_out_of_range", None, Some(1.0), "u must be at least 0 and below 1, but is 1.0"),
        ),
        (&StepBatchError::Model(model), ("model_failed", None, None, "the model failed: no answer")),
        (
            &StepBatchError::<&str>::Rows { asked: 2, given: 3 },
            ("batch_rows", None, None, "the model was asked for 2 rows and gave 3"),
        ),
        (
            &StepBatchError::<&str>::Width { row: 1, first: 4, width: 5 },
            ("batch_width", Some(1), None, "row 1 of the model has 5 logits, but row 0 has 4"),
        ),
        (
            &MosaicError::Temperature(number(-1.0)),
            ("temperature_out_of_range", None, Some(-1.0), "temperature must be finite and above 0, but is -1.0"),
        ),
        (&MosaicError::TopKZero, ("top_k_out_of_range", None, Some(0.0), "top-k must be at least 1, but is 0")),
        (
            &MosaicError::TopKAboveVocabulary { top_k: 9, vocabulary: 8 },
            ("top_k_above_vocabulary", None, Some(9.0), "top-k must be at most the 8 logits there are, but is 9"),
        ),
        (
            &MosaicError::TopP(number(1.5)),
            ("top_p_out_of_range", None, Some(1.5), "top-p must be above 0 and at most 1, but is 1.5"),
        ),
        (&MosaicError::Empty, ("logits_empty", None, None, "there are no logits")),
        (&MosaicError::TooLong(1 << 33), ("logits_too_long", None, None, "8589934592 logits are more than 4294967295")),
        (
            &MosaicError::NotFinite { index: 3, value: number(f64::NEG_INFINITY) },
            ("logits_not_finite", Some(3), Some(f64::NEG_INFINITY), "logit 3 must be finite, but is -inf"),
        ),
        (
            &MosaicError::Overflow { index: 3, value: number(1e300) },
            ("scaled_not_finite", Some(3), Some(1e300), "logit 3 (1e300) divided by the temperature is not finite"),
        ),
    ]);
}

/// A refusal of one's own that says neither index nor value has none.
#[test]
fn without_an_index_or_a_value_there_is_none() {
    struct Bare;
    impl std::fmt::Display for Bare {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bare")
        }
    }
    impl Refusal for Bare {
        fn code(&self) -> &'static str {
            "bare"
        }
    }
    check(&[(&Bare, ("bare", None, None, "bare"))]);
    let label = quillmate_sampler::derive_seed(1, "", 0).unwrap_err();
    let _: &LabelError = &label;
    assert_eq!((label.index(), label.value()), (None, None));
}
