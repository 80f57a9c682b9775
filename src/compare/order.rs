//! The one order in which two accounts of a run are compared: that in which things go into a token.

use std::ops::Range;

/// What a comparison looks at. Each method says whether the two accounts differ there; what differs it keeps to itself.
pub(super) trait Parts {
    /// Why a comparison cannot go on.
    type Refusal;

    /// The ids that the first step sees.
    fn input_ids(&mut self) -> Result<bool, Self::Refusal>;
    /// What the model gave for a step.
    fn logits(&mut self, place: usize) -> Result<bool, Self::Refusal>;
    /// Temperature, top-k, top-p, processors and constraint, which are those of all steps.
    fn settings(&mut self) -> Result<bool, Self::Refusal>;
    /// The tokens a token was chosen among.
    fn candidates(&mut self, place: usize) -> Result<bool, Self::Refusal>;
    /// The seed and the place in its stream, from which the numbers of all steps follow.
    fn draw(&mut self) -> Result<bool, Self::Refusal>;
    /// The token of a step, after which the step counts as compared.
    fn token(&mut self, place: usize) -> Result<bool, Self::Refusal>;
    /// When and why the run ended.
    fn stop(&mut self) -> Result<bool, Self::Refusal>;
}

/// Compares the steps at these places, up to the first difference. Whether there is one.
///
/// # Errors
/// The first refusal of a part.
pub(super) fn compare<P: Parts>(parts: &mut P, places: Range<usize>) -> Result<bool, P::Refusal> {
    if parts.input_ids()? {
        return Ok(true);
    }
    if places.is_empty() {
        return Ok(parts.settings()? || parts.draw()? || parts.stop()?);
    }
    for place in places.clone() {
        let first = place == places.start;
        if parts.logits(place)?
            || first && parts.settings()?
            || parts.candidates(place)?
            || first && parts.draw()?
            || parts.token(place)?
        {
            return Ok(true);
        }
    }
    parts.stop()
}
