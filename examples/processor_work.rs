//! How long a processor takes for one token in cases made to be hard: `cargo run --release --example processor_work`.
//!
//! All of them are linear in the history and the parameters; `tests/sampler/processors.rs` holds that without a clock.

use std::time::Instant;

use quillmate_sampler::{Dry, Ngram, Penalty, Position, Processor, ProcessorError, Processors, Window};

const VOCABULARY: usize = 49_152;

/// A number below `below` from a fixed sequence.
fn next(state: &mut u64, below: u64) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % below) as u32
}

fn main() -> Result<(), ProcessorError> {
    let window = Window::default();
    let mut state = 1;
    let equal = vec![7; 100_000];
    let mixed: Vec<u32> = (0..100_000).map(|_| next(&mut state, 2)).collect();
    // Breakers that agree with the history for 40 tokens.
    let breakers: Vec<Vec<u32>> = (0..8000).map(|at| [&mixed[at..at + 40], &[1000 + at as u32]].concat()).collect();
    let dry = |breakers| Dry { multiplier: 0.8, base: 1.75, allowed_length: 2, window, breakers };
    let exempt = || (0..20_000).collect();
    let words = breakers.clone();
    for (name, processor, history) in [
        ("no_repeat_ngram, size 3, equal tokens", Processor::NoRepeatNgram(Ngram { size: 3, window }), &equal),
        (
            "no_repeat_ngram, size 50,000, equal tokens",
            Processor::NoRepeatNgram(Ngram { size: 50_000, window }),
            &equal,
        ),
        ("dry without breakers, equal tokens", Processor::DryV2(dry(vec![])), &equal),
        ("dry, 8,000 breakers of 41 tokens", Processor::DryV2(dry(breakers)), &mixed),
        ("bad_words, 8,000 words of 41 tokens", Processor::BadWords(words), &mixed),
        (
            "repetition_penalty, 20,000 exempt",
            Processor::RepetitionPenalty(Penalty { penalty: 1.1, window, exempt: exempt() }),
            &mixed,
        ),
    ] {
        let start = Instant::now();
        let processors = Processors::new(vec![processor])?;
        let made = start.elapsed();
        let mut row = vec![1.0; VOCABULARY];
        let start = Instant::now();
        processors.apply(&mut row, &Position { prompt: history, tokens: &[], seed: 1 }, &mut |_, _| ())?;
        println!("{name}: {:.1?} a token, {made:.1?} to make", start.elapsed());
    }
    Ok(())
}
