//! The fast path against the contract: kinds of rows, and the contract's answers to any number of draws from one row.
#![allow(dead_code, reason = "each of those who include it uses a part")]

use quillmate_sampler::core::fast::{Decided, Path, sample_by};
use quillmate_sampler::{Logit, Settings, distribution, draw, uniform};

/// The contract's running sums over one row: they do not depend on u, so a draw is a search.
pub struct Answers {
    ids: Vec<u32>,
    running: Vec<f64>,
    last: u32,
}

impl Answers {
    pub fn new<L: Logit>(row: &[L], settings: &Settings) -> Self {
        let kept = distribution(row, settings).expect("the row is good");
        let (mut sum, mut running, mut last) = (0.0, Vec::new(), 0);
        for (&id, &q) in kept.ids().iter().zip(kept.probabilities()) {
            sum += q;
            running.push(sum);
            last = if q > 0.0 { id } else { last };
        }
        Self { ids: kept.ids().to_vec(), running, last }
    }

    pub fn at(&self, u: f64) -> u32 {
        let passed = self.running.partition_point(|sum| *sum <= u);
        self.ids.get(passed).copied().unwrap_or(self.last)
    }

    /// The running sums: where one token ends and the next begins.
    pub fn boundaries(&self) -> &[f64] {
        &self.running
    }
}

/// How many draws were compared, and who decided them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub compared: u64,
    pub coarse: u64,
    pub fine: u64,
    pub contract: u64,
}

impl Counts {
    pub fn draws(&self) -> u64 {
        self.compared + self.coarse + self.fine + self.contract
    }

    pub fn add(&mut self, other: Self) {
        self.compared += other.compared;
        self.coarse += other.coarse;
        self.fine += other.fine;
        self.contract += other.contract;
    }

    /// One draw on one path, compared.
    pub fn compare<L: Logit>(&mut self, path: Path, row: &[L], settings: &Settings, u: f64, expected: u32) -> Decided {
        let (token, decided) = sample_by(path, row, settings, u).expect("the row is good");
        assert_eq!(token, expected, "{path:?} {decided:?} V {} {settings:?} u {u:e}", row.len());
        match decided {
            Decided::Compared => self.compared += 1,
            Decided::Coarse => self.coarse += 1,
            Decided::Fine => self.fine += 1,
            Decided::Contract => self.contract += 1,
        }
        decided
    }
}

/// `draws` random draws from a row on the fast path of this processor.
pub fn draws<L: Logit>(row: &[L], settings: &Settings, seed: u64, draws: u64) -> Counts {
    let answers = Answers::new(row, settings);
    let mut counts = Counts::default();
    for step in 0..draws {
        let u = uniform(seed, step, 0);
        counts.compare(Path::widest(), row, settings, u, answers.at(u));
    }
    counts
}

/// About normally distributed, mean 0, deviation 1.
fn bell(seed: u64, id: u64) -> f64 {
    let bits = [draw(seed, id, 20), draw(seed, id, 21), draw(seed, id, 22)];
    let sum: f64 = bits.iter().map(|bits| (bits >> 32) as f64 + (bits & 0xffff_ffff) as f64).sum();
    (sum / 4_294_967_296.0 - 3.0) * std::f64::consts::SQRT_2
}

fn bf16(logit: f32) -> f32 {
    f32::from_bits(logit.to_bits() & 0xffff_0000)
}

/// The kinds of rows made here, by name.
pub const KINDS: [&str; 12] = [
    "bell",
    "wide bell",
    "peaky",
    "flat",
    "equal",
    "bf16",
    "few values",
    "banned",
    "one token",
    "subnormal",
    "tiny steps",
    "zeros",
];

pub fn row(kind: &str, seed: u64, length: usize) -> Vec<f32> {
    let logit = |id: u64| -> f32 {
        let bell = bell(seed, id) as f32;
        let even = uniform(seed, id, 23) as f32;
        let rare = draw(seed, id, 24).is_multiple_of(97);
        match kind {
            "bell" => 2.0 * bell,
            "wide bell" => 6.0 * bell,
            "peaky" => 2.0 * bell + if rare { 9.0 + 6.0 * even } else { 0.0 },
            "flat" => 0.5 * even,
            "equal" => 1.25,
            "bf16" => bf16(3.0 * bell),
            "few values" => (bell * 2.0).round(),
            "banned" => {
                if rare {
                    2.0 * bell
                } else {
                    f32::NEG_INFINITY
                }
            }
            "one token" => {
                if id == seed % length as u64 {
                    40.0
                } else {
                    3.0 * bell
                }
            }
            "subnormal" => {
                if rare {
                    -even
                } else {
                    -560.0 - 50.0 * even
                }
            }
            "tiny steps" => 3.0 + (draw(seed, id, 25) % 9) as f32 * f32::EPSILON,
            "zeros" => {
                if draw(seed, id, 26).is_multiple_of(2) {
                    0.0
                } else {
                    -0.0
                }
            }
            _ => panic!("no such kind: {kind}"),
        }
    };
    let mut row: Vec<f32> = (0..length as u64).map(logit).collect();
    // At least one is allowed.
    row[length / 2] = if row[length / 2] == f32::NEG_INFINITY { 0.5 } else { row[length / 2] };
    row
}

/// The rows of real models: those of the project's own, and those beside the checkout where they are there.
pub fn real_rows() -> Vec<(&'static str, Vec<Vec<f32>>)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("../shared/logits");
    let files = [
        ("golden_run.f32", 512),
        ("stories260k_512.80rows.f32", 512),
        ("smollm2_49152.15rows.f32", 49_152),
        ("logits_128256.8rows.f32", 128_256),
        ("gemma3_262144.6rows.f32", 262_144),
    ];
    let read = |(name, vocabulary): (&'static str, usize)| {
        let own = root.join("tests/vectors").join(name);
        let bytes = std::fs::read(if own.exists() { own } else { folder.join(name) }).ok()?;
        let logits: Vec<f32> = bytes.as_chunks().0.iter().map(|logit| f32::from_le_bytes(*logit)).collect();
        Some((name, logits.chunks_exact(vocabulary).map(<[f32]>::to_vec).collect()))
    };
    files.into_iter().filter_map(read).collect()
}
