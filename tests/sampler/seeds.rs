//! Derived seeds beyond the vectors, and the three ways to continue from a state.

use proptest::prelude::*;
use quillmate_sampler::{GeneratorState, LabelError, MAX_LABEL, Refusal, Run, Settings, derive_seed, draw, streams};

fn row(context: &[u32]) -> Vec<f32> {
    let mut hash = 17u32;
    for id in context {
        hash = hash.wrapping_mul(31).wrapping_add(*id);
    }
    (0..40).map(|id| (hash.wrapping_mul(2 * id + 1) >> 24) as f32 / 64.0).collect()
}

fn steps(mut run: Run, count: usize) -> Run {
    for _ in 0..count {
        run.step_with(&row(&run.context())).unwrap();
    }
    run
}

#[test]
fn a_label_that_is_empty_or_too_long_is_refused() {
    assert_eq!(derive_seed(42, "", 0), Err(LabelError::Empty));
    assert_eq!(derive_seed(42, &"é".repeat(128), 0), Err(LabelError::TooLong(256)));
    assert!(derive_seed(42, &"x".repeat(MAX_LABEL), 0).is_ok());
    assert_eq!(LabelError::Empty.code(), "label_empty");
    assert_eq!(LabelError::TooLong(256).code(), "label_too_long");
    assert!(LabelError::TooLong(256).to_string().contains("256"));
}

#[test]
fn replay_gives_the_same_run_a_candidate_another_and_resume_the_rest() {
    let start = Run::new(vec![5, 6], 42, Settings::new(0.9, 20, 0.95).unwrap());
    let straight = steps(start.clone(), 12);
    let middle = steps(start.clone(), 5).state().clone();

    assert_eq!(Run::replay(&middle), start);
    assert_eq!(steps(Run::replay(&middle), 12), straight);
    assert_eq!(steps(Run::resume(middle.clone()), 7), straight);

    let candidates: Vec<Run> = (0..20).map(|attempt| Run::new_candidate(&middle, attempt)).collect();
    for (attempt, candidate) in (0..).zip(&candidates) {
        let seed = derive_seed(42, "candidate", attempt).unwrap();
        let expected = GeneratorState { seed, tokens: vec![], ..middle.clone() };
        assert_eq!(candidate.state(), &expected);
    }
    let mut texts: Vec<_> = candidates.into_iter().map(|run| steps(run, 12).tokens().to_vec()).collect();
    texts.push(straight.tokens().to_vec());
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 21, "each candidate is a run of its own");
}

/// What one run needs seeds of its own for, each by its label and its attempt.
const TASKS: [(&str, u64); 6] =
    [("draft-model", 0), ("repair", 0), ("repair", 1), ("candidate", 0), ("candidate", 7), ("title", 0)];

/// A task as it is done: its seed derived when it begins, one draw or one token at a time.
struct Task {
    run: Run,
    drawn: Vec<u64>,
}

impl Task {
    fn begin((label, attempt): (&str, u64)) -> Self {
        let seed = derive_seed(42, label, attempt).unwrap();
        Self { run: Run::new(vec![5, 6], seed, Settings::new(0.9, 20, 0.95).unwrap()), drawn: Vec::new() }
    }

    fn advance(&mut self) {
        self.drawn.push(draw(self.run.seed(), self.run.position(), streams::DRAFT));
        self.run.step_with(&row(&self.run.context())).unwrap();
    }
}

/// The stream and the tokens of each task, alone.
fn alone() -> Vec<(Vec<u64>, Vec<u32>)> {
    let one = |name| {
        let mut task = Task::begin(name);
        (0..10).for_each(|_| task.advance());
        (task.drawn, task.run.tokens().to_vec())
    };
    TASKS.map(one).to_vec()
}

#[test]
fn each_derived_task_has_a_stream_of_its_own() {
    let mut streams: Vec<Vec<u64>> = alone().into_iter().map(|(drawn, _)| drawn).collect();
    streams.sort();
    streams.dedup();
    assert_eq!(streams.len(), TASKS.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Tasks begun in any order, some never, and advanced in any order between each other: what each draws is what it draws
    /// alone.
    #[test]
    fn derived_tasks_keep_their_streams_in_whatever_order_they_are_done(
        begun in Just((0..TASKS.len()).collect::<Vec<_>>()).prop_shuffle(), count in 1..=TASKS.len(),
        order in prop::collection::vec(0..TASKS.len(), 0..60)
    ) {
        let mut tasks: Vec<(usize, Task)> = begun[..count].iter().map(|&at| (at, Task::begin(TASKS[at]))).collect();
        for at in order {
            let (_, task) = &mut tasks[at % count];
            if task.drawn.len() < 10 {
                task.advance();
            }
        }
        let alone = alone();
        // Some have advanced a little, and the last is finished first.
        for (at, task) in tasks.iter_mut().rev() {
            let (drawn, tokens) = &alone[*at];
            let done = task.drawn.len();
            prop_assert_eq!((&task.drawn[..], task.run.tokens()), (&drawn[..done], &tokens[..done]));
            (done..10).for_each(|_| task.advance());
            prop_assert_eq!((&task.drawn, task.run.tokens()), (drawn, &tokens[..]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Moving a character from the label into the next field, or a bit from one argument to another, is another input.
    #[test]
    fn no_two_inputs_share_a_seed(
        a in (any::<u64>(), "\\PC{1,20}", any::<u64>()), b in (any::<u64>(), "\\PC{1,20}", any::<u64>())
    ) {
        let seed = |(root, label, attempt): &(u64, String, u64)| derive_seed(*root, label, *attempt).unwrap();
        prop_assert_eq!(seed(&a), seed(&a.clone()));
        for other in [
            b.clone(),
            (b.0, a.1.clone(), a.2),
            (a.0, b.1.clone(), a.2),
            (a.0, a.1.clone(), b.2),
            (a.2, a.1.clone(), a.0),
            (a.0, format!("{}\0", a.1), a.2),
            (a.0 ^ 1, a.1.clone(), a.2),
            (a.0, a.1.clone(), a.2 ^ 1),
        ] {
            prop_assert_eq!(seed(&a) == seed(&other), a == other);
        }
    }
}
