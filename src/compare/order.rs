//! The one order in which two accounts of a run are compared: that in which things go into a token.

use std::ops::Range;

/// What a comparison looks at. Each method says whether the comparison ends there, at a difference or because it cannot go
/// on; which of them, the implementation keeps to itself.
pub(super) trait Parts {
    /// The ids that the first step sees.
    fn input_ids(&mut self) -> bool;
    /// What the model gave for a step.
    fn logits(&mut self, place: usize) -> bool;
    /// Temperature, top-k, top-p, processors and constraint, which are those of all steps.
    fn settings(&mut self) -> bool;
    /// The tokens a token was chosen among.
    fn candidates(&mut self, place: usize) -> bool;
    /// The seed and the place in its stream, from which the numbers of all steps follow.
    fn draw(&mut self) -> bool;
    /// The token of a step, after which the step counts as compared.
    fn token(&mut self, place: usize) -> bool;
    /// When and why the run ended.
    fn stop(&mut self) -> bool;
}

/// Compares the steps at these places, up to the first part at which the comparison ends.
pub(super) fn compare(parts: &mut impl Parts, places: Range<usize>) {
    if parts.input_ids() {
        return;
    }
    // What is the same for all steps is compared with the first step, and by itself where there is none.
    if places.is_empty() && (parts.settings() || parts.draw()) {
        return;
    }
    for place in places.clone() {
        let first = place == places.start;
        if parts.logits(place)
            || first && parts.settings()
            || parts.candidates(place)
            || first && parts.draw()
            || parts.token(place)
        {
            return;
        }
    }
    parts.stop();
}
