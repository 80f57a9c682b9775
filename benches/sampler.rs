//! `cargo bench --bench sampler`: what a call of exp costs, and a token at real vocabularies, on the contract's steps and
//! on the fast path. With the feature `parallel`, a batch of 32 rows on one thread and on two.
//!
//! Rows are those of models in ../shared/logits where they are there, and made ones of the same lengths elsewhere.

#[path = "../tests/shared/differential.rs"]
mod differential;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use differential::{real_rows, row};
use quillmate_sampler::core::fast::{Path, sample_by};
use quillmate_sampler::{Frame, Settings, exp, sample_batch, uniform};

fn arguments() -> Vec<f64> {
    (0..4096).map(|step| -40.0 * uniform(1, step, 0)).collect()
}

fn exponentials(c: &mut Criterion) {
    let arguments = arguments();
    let mut group = c.benchmark_group("exp");
    group.throughput(Throughput::Elements(arguments.len() as u64));
    group.bench_function("ours", |b| b.iter(|| arguments.iter().map(|x| exp(black_box(*x))).fold(0.0, |a, b| a + b)));
    #[expect(clippy::disallowed_methods, reason = "the one to compare with")]
    group.bench_function("std", |b| b.iter(|| arguments.iter().map(|x| black_box(*x).exp()).fold(0.0, |a, b| a + b)));
    group.finish();
}

/// Rows by name: of models, and flat ones, where the nucleus is most of the vocabulary.
fn rows() -> Vec<(String, Vec<Vec<f32>>)> {
    let lengths = [49_152, 128_256, 262_144];
    let real = real_rows();
    let of_length = |length: usize| match real.iter().find(|(_, rows)| rows[0].len() == length) {
        Some((_, rows)) => rows.clone(),
        None => (0..8).map(|seed| row("peaky", seed, length)).collect(),
    };
    let models = lengths.map(|length| (length.to_string(), of_length(length)));
    let flat = lengths.map(|length| (format!("{length}, flat"), vec![row("flat", 1, length)]));
    models.into_iter().chain(flat).collect()
}

fn cases() -> [(&'static str, Settings); 4] {
    let new = |temperature, top_k, top_p| Settings::new(temperature, top_k, top_p).expect("valid");
    [
        ("greedy", new(0.0, 0, 1.0)),
        ("k 50, p .95", new(0.8, 50, 0.95)),
        ("p .9", new(0.8, 0, 0.9)),
        ("T alone", new(0.8, 0, 1.0)),
    ]
}

fn tokens(c: &mut Criterion) {
    let mut group = c.benchmark_group("token");
    for (name, rows) in rows() {
        group.throughput(Throughput::Elements(rows[0].len() as u64));
        for (case, settings) in cases() {
            for path in Path::all() {
                let mut step = 0;
                group.bench_function(BenchmarkId::new(format!("{case}, {path:?}"), &name), |b| {
                    b.iter(|| {
                        step += 1;
                        sample_by(path, black_box(&rows[step % rows.len()]), &settings, uniform(1, step as u64, 0))
                    })
                });
            }
        }
        group.bench_function(BenchmarkId::new("frame, k 50: encode and decode", &name), |b| {
            let settings = Settings::new(0.8, 50, 0.95).expect("valid");
            b.iter(|| Frame::decode(&Frame::for_settings(0, black_box(&rows[0]), &settings).expect("valid").encode()))
        });
    }
    group.finish();
}

/// 32 rows of 128,256, all four settings among them.
fn batches(c: &mut Criterion) {
    let (_, rows) = rows().into_iter().find(|(name, _)| name == "128256").expect("made above");
    let vocabulary = rows[0].len();
    let logits: Vec<f32> = rows.iter().cycle().take(32).flatten().copied().collect();
    let settings: Vec<Settings> = cases().iter().cycle().take(32).map(|(_, settings)| *settings).collect();
    let u: Vec<f64> = (0..32).map(|row| uniform(1, row, 0)).collect();
    let mut group = c.benchmark_group("batch of 32");
    let all = || sample_batch(black_box(&logits), vocabulary, &settings, &u).expect("they fit");
    #[cfg(not(feature = "parallel"))]
    group.bench_function("without threads", |b| b.iter(all));
    #[cfg(feature = "parallel")]
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        group.bench_function(BenchmarkId::new("threads", threads), |b| b.iter(|| pool.install(all)));
    }
    group.finish();
}

criterion_group!(benches, exponentials, tokens, batches);
criterion_main!(benches);
