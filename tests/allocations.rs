//! After the first token of a kind, a token allocates nothing that grows with the vocabulary.
#![cfg(not(target_arch = "wasm32"))]

#[path = "shared/differential.rs"]
mod differential;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use differential::row;
use quillmate_sampler::core::fast::{Decided, Path, sample_by};
use quillmate_sampler::{Filter, Frame, Penalty, Processor, Processors, Run, Settings, Window, Xtc, sample, uniform};

/// The system's allocator, counting the bytes each thread asks for.
struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "the trait of an allocator is unsafe; every call goes on to the system's")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.with(|asked| asked.set(asked.get() + layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ASKED.with(|asked| asked.set(asked.get() + size));
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that were asked for meanwhile.
fn asked(work: impl FnOnce()) -> usize {
    let before = ASKED.get();
    work();
    ASKED.get() - before
}

#[test]
fn nothing_grows_with_the_vocabulary_after_the_first_token() {
    let vocabulary = 128_256;
    for kind in ["peaky", "bell", "flat", "bf16"] {
        let row = row(kind, 1, vocabulary);
        for (temperature, top_k, top_p) in [(0.0, 0, 1.0), (0.8, 50, 0.95), (0.8, 0, 0.9), (0.8, 0, 1.0)] {
            let settings = Settings::new(temperature, top_k, top_p).expect("valid");
            let first = asked(|| assert!(sample(&row, &settings, 0.5).is_ok()));
            let later = asked(|| {
                for step in 0..50 {
                    let (_, decided) = sample_by(Path::widest(), &row, &settings, uniform(2, step, 0)).expect("good");
                    assert_ne!(decided, Decided::Contract, "{kind} {settings:?}");
                }
            });
            assert!(later < 50 * 16_384, "{kind} {settings:?}: {first} bytes, then {later} for 50");
            if top_k == 0 {
                assert_eq!(later, 0, "{kind} {settings:?}");
            }
        }
    }
    // The counter counts: the contract's own steps take numbers for every token.
    let row = row("flat", 1, vocabulary);
    let contract = asked(|| assert!(sample_by(Path::Contract, &row, &Settings::default(), 0.5).is_ok()));
    assert!(contract >= 12 * vocabulary, "{contract}");
}

/// Nor with these processors: what is asked for grows with the history alone.
#[test]
fn nothing_grows_with_the_vocabulary_in_a_run_with_processors() {
    let vocabulary = 128_256;
    let penalty = Penalty { penalty: 1.1, window: Window::default(), exempt: Vec::new() };
    let filter = |value| Filter { value, min_keep: 2 };
    let before = Processor::RepetitionPenalty(penalty);
    for filter in [
        Processor::Temperature(0.8),
        Processor::TopK(50),
        Processor::MinP(filter(0.05)),
        Processor::TopNSigma(filter(1.0)),
        Processor::Epsilon(filter(0.001)),
        Processor::Eta(filter(0.001)),
        Processor::Xtc(Xtc { probability: 1.0, threshold: 0.1, exempt: Vec::new() }),
    ] {
        let name = filter.name();
        let processors = Processors::new(vec![before.clone(), filter]).expect("valid");
        let settings = Settings::new(0.8, 0, 0.9).expect("valid");
        let mut run = Run::with_processors(vec![3, 4], 1, settings, processors);
        let frame = |step| Frame::dense(step, &row("peaky", step, vocabulary)).expect("good");
        let frames: Vec<Frame> = (0..20).map(frame).collect();
        assert!(run.step_with_frame(&frames[0]).is_ok());
        let later = asked(|| {
            for frame in &frames[1..] {
                assert!(run.step_with_frame(frame).is_ok());
            }
        });
        assert!(later < 19 * 32_768, "{name}: {later} bytes for 19 tokens");
    }
}
