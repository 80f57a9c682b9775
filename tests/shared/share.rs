//! Which share of the long tests is run.

/// `QUILLMATE_ONE_IN=16`: one in sixteen of their cases, for a processor that is emulated. All of them where it is not set.
pub fn one_in() -> usize {
    std::env::var("QUILLMATE_ONE_IN").map_or(1, |number| number.parse().expect("QUILLMATE_ONE_IN is a number"))
}
