//! `cargo bench`: what a call of exp costs, and a token at real vocabularies.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quillmate_sampler::{Frame, Settings, draw, exp, sample};

fn arguments() -> Vec<f64> {
    (0..4096).map(|step| -40.0 * quillmate_sampler::uniform(1, step, 0)).collect()
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

/// Logits spread as a model's are, roughly: a bell (the sum of four draws) with many ties.
fn row(vocabulary: u32) -> Vec<f32> {
    let number = |bits: u64| (0..4).map(|at| (bits >> (16 * at) & 0xffff) as f32 / 65536.0).sum::<f32>();
    (0..vocabulary).map(|id| (number(draw(7, u64::from(id), 9)) * 64.0).trunc() / 4.0 - 8.0).collect()
}

fn tokens(c: &mut Criterion) {
    let mut group = c.benchmark_group("token");
    for vocabulary in [49_152, 128_256, 262_144] {
        let row = row(vocabulary);
        group.throughput(Throughput::Elements(u64::from(vocabulary)));
        for (name, settings) in [
            ("greedy", Settings::new(0.0, 0, 1.0)),
            ("k 50, p .95", Settings::new(0.8, 50, 0.95)),
            ("p .9", Settings::new(0.8, 0, 0.9)),
            ("T alone", Settings::new(0.8, 0, 1.0)),
        ] {
            let settings = settings.expect("valid");
            group.bench_function(BenchmarkId::new(name, vocabulary), |b| {
                b.iter(|| sample(black_box(&row), &settings, 0.42))
            });
        }
        group.bench_function(BenchmarkId::new("frame, k 50: encode and decode", vocabulary), |b| {
            let settings = Settings::new(0.8, 50, 0.95).expect("valid");
            b.iter(|| Frame::decode(&Frame::for_settings(0, black_box(&row), &settings).expect("valid").encode()))
        });
    }
    group.finish();
}

criterion_group!(benches, exponentials, tokens);
criterion_main!(benches);
