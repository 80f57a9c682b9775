//! What was decided at a step, under either contract.

/// What was decided at a step, and from what.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Decision {
    /// The token.
    pub token_id: u32,
    /// How many tokens it was chosen among: after processors, top-k and top-p when sampling; all allowed ones when
    /// greedy.
    pub candidate_count: u32,
    /// The token's probability among these; `None` when greedy.
    pub selected_probability: Option<f64>,
    /// The uniform number that chose it, in [0, 1); `None` when greedy.
    pub random_draw: Option<f64>,
    /// The index of that number in its stream, from 0; `None` when greedy.
    pub draw_index: Option<u64>,
    /// The name of the contract that decided.
    pub algorithm_version: &'static str,
}
