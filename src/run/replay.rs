//! The three ways to continue from a state.
//!
//! | call | begins at | seed | gives |
//! |---|---|---|---|
//! | [`replay`](GeneratorState::replay) | step 0 | the same | the same run again, token for token |
//! | [`new_candidate`](GeneratorState::new_candidate) | step 0 | derived from the same | another run from the same prompt |
//! | [`resume`](Run::resume) | where it is | the same | the rest of the same run |

use super::run::Run;
use crate::core::derive::candidate_seed;
use crate::wire::state::GeneratorState;

impl GeneratorState {
    /// The state at the start of this run: the same prompt, seed and settings, no tokens.
    #[must_use]
    pub fn replay(&self) -> Self {
        Self { tokens: Vec::new(), ..self.clone() }
    }

    /// The start of another run: the same prompt and settings, no tokens, and the seed
    /// `derive_seed(seed, "candidate", attempt)`. Call it on the root run's state with attempts 1, 2, 3, and so on: a
    /// candidate of a candidate has another seed.
    #[must_use]
    pub fn new_candidate(&self, attempt: u64) -> Self {
        Self { seed: candidate_seed(self.seed, attempt), ..self.replay() }
    }
}

impl Run {
    /// The same run from step 0. The same logits give the same tokens.
    #[must_use]
    pub fn replay(state: &GeneratorState) -> Self {
        Self::from_state(state.replay())
    }

    /// Another run from the same prompt; see [`GeneratorState::new_candidate`].
    #[must_use]
    pub fn new_candidate(state: &GeneratorState, attempt: u64) -> Self {
        Self::from_state(state.new_candidate(attempt))
    }

    /// The same run from where it is: its next token is the one it would have emitted. The same as
    /// [`from_state`](Self::from_state).
    #[must_use]
    pub fn resume(state: GeneratorState) -> Self {
        Self::from_state(state)
    }
}
