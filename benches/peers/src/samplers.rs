//! One token, by every sampler in turn: a round asks each of them about the same row, and medians of the rounds are given.

use std::hint::black_box;
use std::time::{Duration, Instant};

use candle_core::{Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use llm_samplers::prelude::{
    Logits, SampleGreedy, SampleRandDistrib, SampleTemperature, SampleTopK, SampleTopP, Sampler, SamplerChain,
    SimpleSamplerResources,
};
use quillmate_sampler::core::fast::{Path, Vectors, sample_by};
use quillmate_sampler::{Settings, sample_batch, uniform};
use rand::SeedableRng;
use serde_json::{Value, json};

use crate::llama::{Chain, Link, Llama};
use crate::rows::Rows;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// At least so many rounds, and more until the time is over.
const ROUNDS: usize = 24;
const TIME: Duration = Duration::from_secs(4);

struct Contender<'a> {
    path: String,
    lacks: &'static str,
    run: Box<dyn FnMut(usize) -> u32 + 'a>,
}

pub fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// One pass over the row: what no sampler can do without.
#[inline(never)]
fn highest(row: &[f32]) -> f32 {
    let (chunks, rest) = row.as_chunks::<32>();
    let mut lanes = [f32::NEG_INFINITY; 32];
    for chunk in chunks {
        for (lane, logit) in lanes.iter_mut().zip(chunk) {
            *lane = if *logit > *lane { *logit } else { *lane };
        }
    }
    let mut highest = f32::NEG_INFINITY;
    for logit in lanes.iter().chain(rest) {
        highest = if *logit > highest { *logit } else { highest };
    }
    highest
}

fn name(path: Path) -> String {
    match path {
        Path::Contract => "quillmate, contract".into(),
        Path::Fast(Vectors::Baseline) => "quillmate, baseline vectors".into(),
        // AVX2, or whatever else there is.
        Path::Fast(_) => "quillmate, widest vectors".into(),
    }
}

/// What the four settings are in each of the four libraries. All keep the same tokens, except where candle's top-p follows its
/// top-k: it takes the mass of the whole vocabulary there.
struct Case {
    setting: &'static str,
    ours: Settings,
    llama: Vec<Link>,
    candle: Sampling,
    llm: SamplerChain,
}

fn cases() -> Outcome<Vec<Case>> {
    let new = Settings::new;
    Ok(vec![
        Case {
            setting: "greedy",
            ours: new(0.0, 0, 1.0)?,
            llama: vec![Link::Greedy],
            candle: Sampling::ArgMax,
            llm: SamplerChain::new() + SampleGreedy::new(),
        },
        Case {
            setting: "k 50, p .95",
            ours: new(0.8, 50, 0.95)?,
            llama: vec![Link::TopK(50), Link::Temperature(0.8), Link::TopP(0.95), Link::Draw(1)],
            candle: Sampling::TopKThenTopP { k: 50, p: 0.95, temperature: 0.8 },
            llm: SamplerChain::new()
                + SampleTopK::new(50, 1)
                + SampleTemperature::new(0.8)
                + SampleTopP::new(0.95, 1)
                + SampleRandDistrib::new(),
        },
        Case {
            setting: "p .9",
            ours: new(0.8, 0, 0.9)?,
            llama: vec![Link::Temperature(0.8), Link::TopP(0.9), Link::Draw(1)],
            candle: Sampling::TopP { p: 0.9, temperature: 0.8 },
            llm: SamplerChain::new() + SampleTemperature::new(0.8) + SampleTopP::new(0.9, 1) + SampleRandDistrib::new(),
        },
        Case {
            setting: "T alone",
            ours: new(0.8, 0, 1.0)?,
            llama: vec![Link::Temperature(0.8), Link::Draw(1)],
            candle: Sampling::All { temperature: 0.8 },
            llm: SamplerChain::new() + SampleTemperature::new(0.8) + SampleRandDistrib::new(),
        },
    ])
}

/// Seconds this process has computed. What it waits, for a core that another program holds, is not in them; all that is timed
/// here is one thread's work.
fn computed() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to `time`; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Rounds over the contenders; the medians of each in microseconds, of time computed and of time gone by.
fn rounds(contenders: &mut [Contender<'_>], rows: &[Vec<f32>]) -> Vec<(f64, f64)> {
    let mut times = vec![(Vec::new(), Vec::new()); contenders.len()];
    let start = Instant::now();
    let mut round = 0;
    while round < ROUNDS || (start.elapsed() < TIME && round < 4000) {
        for (contender, times) in contenders.iter_mut().zip(&mut times) {
            // Each finds the row in the cache, as after a model has written it, whoever came before.
            black_box(highest(black_box(&rows[round % rows.len()])));
            let (begin, before) = (Instant::now(), computed());
            black_box((contender.run)(round % rows.len()));
            times.0.push((computed() - before) * 1e6);
            times.1.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        round += 1;
    }
    times.iter_mut().map(|(computed, gone)| (median(computed), median(gone))).collect()
}

pub fn tokens(llama: &Llama, all: &[Rows]) -> Outcome<Vec<Value>> {
    let mut results = Vec::new();
    for Rows { source, rows } in all {
        let vocabulary = rows[0].len();
        let tensors: Vec<Tensor> =
            rows.iter().map(|row| Tensor::from_slice(row, vocabulary, &Device::Cpu)).collect::<Result<_, _>>()?;
        for case in cases()? {
            let mut contenders: Vec<Contender<'_>> = vec![Contender {
                path: "one pass".into(),
                lacks: "",
                run: Box::new(|row| highest(black_box(&rows[row])) as u32),
            }];
            for path in Path::all() {
                let mut step = 0;
                let settings = case.ours;
                contenders.push(Contender {
                    path: name(path),
                    lacks: "",
                    run: Box::new(move |row| {
                        step += 1;
                        sample_by(path, black_box(&rows[row]), &settings, uniform(1, step, 0)).map_or(0, |(id, _)| id)
                    }),
                });
            }
            let mut chain = Chain::new(llama, &case.llama)?;
            contenders.push(Contender {
                path: "llama.cpp".into(),
                lacks: "f32 sums; which of equal logits stays is left open; the generator's state is not saved",
                run: Box::new(move |row| chain.sample(black_box(&rows[row]))),
            });
            let mut processor = LogitsProcessor::from_sampling(1, case.candle);
            let tensors = &tensors;
            contenders.push(Contender {
                path: "candle".into(),
                lacks: "f32 sums; after top-k, top-p is of the whole mass; the logits are a tensor already (their copy is not counted); the generator's state is not saved",
                run: Box::new(move |row| processor.sample(black_box(&tensors[row])).unwrap_or(0)),
            });
            let mut resources =
                SimpleSamplerResources::new(Some(Box::new(rand::rngs::StdRng::seed_from_u64(1))), Some(vec![]));
            let mut llm = case.llm;
            contenders.push(Contender {
                path: "llm-samplers".into(),
                lacks: "f32 sums; unstable order of equal logits; the generator's state is not saved",
                run: Box::new(move |row| {
                    let made = Logits::try_from_iter(black_box(&rows[row]).iter().copied());
                    let token = made.ok().and_then(|mut logits| llm.sample_token(&mut resources, &mut logits).ok());
                    token.flatten().unwrap_or(0)
                }),
            });
            // Greedy has one right answer wherever the best logit is alone: all must give it.
            if case.setting == "greedy" {
                for (at, row) in rows.iter().enumerate() {
                    let ids: Vec<u32> = contenders[1..].iter_mut().map(|contender| (contender.run)(at)).collect();
                    if ids.iter().any(|id| row[*id as usize] != row[ids[0] as usize]) {
                        return Err(format!("greedy on row {at} of {source}: {ids:?}").into());
                    }
                }
            }
            let medians = rounds(&mut contenders, rows);
            for (contender, (median, gone)) in contenders.iter().zip(&medians) {
                eprintln!("{:12} {vocabulary:>7} {:38} {median:>9.1} µs", case.setting, contender.path);
                results.push(json!({"where": "native", "setting": case.setting, "V": vocabulary, "rows": source,
                    "path": contender.path, "median_us": median, "wall_us": gone, "passes": median / medians[0].0, "lacks": contender.lacks}));
            }
        }
    }
    Ok(results)
}

/// 32 rows, the four settings in turn, on one thread and on two.
pub fn batches(all: &[Rows]) -> Outcome<Vec<Value>> {
    let settings: Vec<Settings> = cases()?.iter().map(|case| case.ours).cycle().take(32).collect();
    let u: Vec<f64> = (0..32).map(|row| uniform(1, row, 0)).collect();
    let pools = [1, 2].map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build());
    let mut results = Vec::new();
    for Rows { source, rows } in all {
        let vocabulary = rows[0].len();
        let logits: Vec<f32> = rows.iter().cycle().take(32).flatten().copied().collect();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..60 {
            for (pool, times) in pools.iter().zip(&mut times) {
                let pool = pool.as_ref().map_err(ToString::to_string)?;
                let mut time = 0.0;
                // Not the first, which wakes the threads: a server's steps keep them awake.
                for _ in 0..3 {
                    let begin = Instant::now();
                    black_box(pool.install(|| sample_batch(black_box(&logits), vocabulary, &settings, &u)))?;
                    time = begin.elapsed().as_secs_f64() * 1e6;
                }
                times.push(time);
            }
        }
        let medians = times.map(|mut times| median(&mut times));
        for (threads, median) in [1, 2].iter().zip(medians) {
            eprintln!("batch of 32, V {vocabulary}, {threads} threads: {median:.0} µs");
            results.push(json!({"where": "native", "setting": "batch of 32, mixed", "V": vocabulary, "rows": source,
                "path": format!("{threads} threads"), "median_us": median, "speed_up": medians[0] / median}));
        }
    }
    Ok(results)
}
