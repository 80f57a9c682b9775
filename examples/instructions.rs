//! `instructions CASE`: one of the cases whose instructions `scripts/instructions` counts; without an argument, their names.
//!
//! Each is a function of its own, which is all that is counted: the rows and what else it needs are made before.
//! Rows are made by rule and the path is fixed, so that a count depends on the compiler and the source alone.

#[path = "../tests/shared/differential.rs"]
mod differential;

use std::hint::black_box;

use quillmate_sampler::core::fast::{Path, Vectors, sample_by};
use quillmate_sampler::{
    Claim, Dry, Filter, Frame, Penalty, Position, Processor, Processors, Record, Run, Settings, Verdict, Window, exp,
    uniform, verify,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const VOCABULARY: usize = 49_152;
const FAST: Path = Path::Fast(Vectors::Baseline);

/// Eight draws; a sum of the tokens, so that none can be left out.
fn tokens(path: Path, row: &[f32], settings: &Settings) -> u64 {
    let mut sum = 0;
    for step in 0..8 {
        sum += sample_by(path, black_box(row), settings, uniform(7, step, 0)).map_or(0, |(token, _)| u64::from(token));
    }
    sum
}

#[inline(never)]
fn case_greedy(row: &[f32], settings: &Settings) -> u64 {
    tokens(FAST, row, settings)
}

#[inline(never)]
fn case_k50_p95(row: &[f32], settings: &Settings) -> u64 {
    tokens(FAST, row, settings) + 1
}

#[inline(never)]
fn case_p90(row: &[f32], settings: &Settings) -> u64 {
    tokens(FAST, row, settings) + 2
}

#[inline(never)]
fn case_temperature(row: &[f32], settings: &Settings) -> u64 {
    tokens(FAST, row, settings) + 3
}

#[inline(never)]
fn case_flat_p90(row: &[f32], settings: &Settings) -> u64 {
    tokens(FAST, row, settings) + 4
}

#[inline(never)]
fn case_contract_k50_p95(row: &[f32], settings: &Settings) -> u64 {
    tokens(Path::Contract, row, settings)
}

#[inline(never)]
fn case_contract_p90(row: &[f32], settings: &Settings) -> u64 {
    tokens(Path::Contract, row, settings) + 1
}

#[inline(never)]
fn case_exp(arguments: &[f64]) -> u64 {
    let mut sum = 0.0;
    for x in arguments {
        sum += exp(black_box(*x));
    }
    sum.to_bits()
}

#[inline(never)]
fn case_frame_k50(row: &[f32], settings: &Settings) -> u64 {
    let frame = Frame::for_settings(0, black_box(row), settings).ok();
    let bytes = frame.map(|frame| frame.encode()).unwrap_or_default();
    Frame::decode(black_box(&bytes)).map_or(0, |frame| u64::from(frame.checksum()))
}

#[inline(never)]
fn case_processors(processors: &Processors, row: &mut [f64], history: &[u32]) -> u64 {
    let position = Position { prompt: history, tokens: &[], seed: 7 };
    u64::from(processors.apply(row, &position, &mut |_, _| ()).is_ok())
}

#[inline(never)]
fn case_verify_15(record: &Record, claim: &Claim) -> u64 {
    u64::from(verify(record, claim) == Verdict::Match { steps: 15 })
}

/// A record of 15 steps over rows of the vocabulary, and the claim that is true of it.
fn record() -> Outcome<(Record, Claim)> {
    let settings = Settings::new(0.8, 50, 0.95)?;
    let mut run = Run::new(vec![1, 403, 407], 41, settings);
    let mut record = Record { start: run.state().clone(), frames: Vec::new() };
    let mut checksums = Vec::new();
    for step in 0..15 {
        let frame = Frame::for_settings(step, &differential::row("peaky", step, VOCABULARY), &settings)?;
        run.step_with_frame(&frame)?;
        checksums.push(frame.checksum());
        record.frames.push(frame.encode());
    }
    let claim = Claim { tokens: run.tokens().to_vec(), state: run.state().clone(), frame_checksums: Some(checksums) };
    Ok((record, claim))
}

fn processors() -> Outcome<Processors> {
    let window = |last| Window { last: Some(last), prompt: true };
    Ok(Processors::new(vec![
        Processor::RepetitionPenalty(Penalty { penalty: 1.1, window: window(64), exempt: Vec::new() }),
        Processor::Dry(Dry {
            multiplier: 0.8,
            base: 1.75,
            allowed_length: 2,
            window: window(512),
            breakers: vec![vec![13]],
        }),
        Processor::MinP(Filter { value: 0.05, min_keep: 1 }),
    ])?)
}

const CASES: [&str; 11] = [
    "case_greedy",
    "case_k50_p95",
    "case_p90",
    "case_temperature",
    "case_flat_p90",
    "case_contract_k50_p95",
    "case_contract_p90",
    "case_exp",
    "case_frame_k50",
    "case_processors",
    "case_verify_15",
];

fn main() -> Outcome<()> {
    let Some(case) = std::env::args().nth(1) else {
        for case in CASES {
            println!("{case}");
        }
        return Ok(());
    };
    let row = differential::row("peaky", 1, VOCABULARY);
    let k50 = Settings::new(0.8, 50, 0.95)?;
    let p90 = Settings::new(0.8, 0, 0.9)?;
    let told = match case.as_str() {
        "case_greedy" => case_greedy(&row, &Settings::new(0.0, 0, 1.0)?),
        "case_k50_p95" => case_k50_p95(&row, &k50),
        "case_p90" => case_p90(&row, &p90),
        "case_temperature" => case_temperature(&row, &Settings::new(0.8, 0, 1.0)?),
        "case_flat_p90" => case_flat_p90(&differential::row("flat", 1, VOCABULARY), &p90),
        "case_contract_k50_p95" => case_contract_k50_p95(&row, &k50),
        "case_contract_p90" => case_contract_p90(&row, &p90),
        "case_exp" => {
            let arguments: Vec<f64> = (0..65_536).map(|step| -40.0 * uniform(1, step, 0)).collect();
            case_exp(&arguments)
        }
        "case_frame_k50" => case_frame_k50(&row, &k50),
        "case_processors" => {
            let history: Vec<u32> = (0..512).map(|step| (uniform(3, step, 0) * 40.0) as u32).collect();
            let mut wide: Vec<f64> = row.iter().map(|logit| f64::from(*logit)).collect();
            case_processors(&processors()?, &mut wide, &history)
        }
        "case_verify_15" => {
            let (record, claim) = record()?;
            let matches = case_verify_15(&record, &claim);
            if matches == 0 {
                return Err("the claim does not match".into());
            }
            matches
        }
        other => return Err(format!("no such case: {other}").into()),
    };
    println!("{told}");
    Ok(())
}
