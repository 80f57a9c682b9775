//! The loops over a whole row, written once in plain Rust over blocks of 64 that the compiler vectorizes, and compiled
//! once for what every processor of the target has (SSE2, NEON, simd128, or no vectors at all) and once for AVX2.
//! Additions happen in an order the source fixes and nothing is fused, so every path gives the same bits.
//!
//! Errors are relative, ε = 2^-53 or 2^-24 the unit roundoff of the type in question.

/// Logits of either type.
#[derive(Clone, Copy, Debug)]
pub enum Numbers<'a> {
    /// f32.
    F32(&'a [f32]),
    /// f64.
    F64(&'a [f64]),
}

impl Numbers<'_> {
    /// How many there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(logits) => logits.len(),
            Self::F64(logits) => logits.len(),
        }
    }
}

/// Logits that are summed and skipped together.
pub const BLOCK: usize = 64;

/// Smaller exponents are clamped to these, where a weight is negligible: the error is then below 2^-99.
const FLOOR: f64 = -1000.0;
const COARSE_FLOOR: f32 = -100.0;

/// A block whose highest weight is below 2 to this power counts as 0.
const NEGLIGIBLE: f64 = -90.0;

/// The instruction set of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// The baseline of the target.
    Baseline,
    /// AVX2, which exists only if the processor has it.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

/// Evidence that this processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

impl Vectors {
    /// The widest this processor has.
    #[must_use]
    pub fn widest() -> Self {
        Self::avx2().unwrap_or(Self::Baseline)
    }

    /// AVX2, if this processor has it.
    #[must_use]
    pub fn avx2() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            return Some(Self::Avx2(Avx2(())));
        }
        None
    }
}

/// How exactly weights are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// In f32.
    Coarse,
    /// In f64.
    Fine,
}

/// What turns a logit l into the weight 2^((l − highest)·scale), up to an error.
#[derive(Clone, Copy, Debug)]
pub struct Weighing {
    /// The highest logit of the row.
    pub highest: f64,
    /// log2(e) / temperature, from 2^-60 to 2^60.
    pub scale: f64,
}

macro_rules! kernels {
    ($($(#[$about:meta])* fn $name:ident / $avx2:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        impl Vectors {
            $($(#[$about])* pub fn $name(self, $($argument: $type),*) $(-> $result)? {
                match self {
                    Self::Baseline => body::$name($($argument),*),
                    #[cfg(target_arch = "x86_64")]
                    #[expect(unsafe_code, reason = "an `Avx2` is only made where the processor has it")]
                    Self::Avx2(_) => unsafe { $avx2($($argument),*) },
                }
            })*
        }
        $(#[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        fn $avx2($($argument: $type),*) $(-> $result)? {
            body::$name($($argument),*)
        })*
    };
}

kernels! {
    /// The highest logit of each block and of all. `None` if the contract must decide: if a logit is NaN or +∞, if all are −∞, or
    /// if the sum of eight exceeds the type's range. The maxima are then unspecified.
    ///
    /// A maximum drops NaN, but a sum keeps it: a sum that starts at −∞ stays −∞, and becomes NaN if NaN or +∞ is added.
    fn scan / scan_avx2(row: Numbers, maxima: &mut Vec<f64>) -> Option<f64>;
    /// For each block the sum of the weights of logits above `above`, a number of the row's type.
    fn sum / sum_avx2(precision: Precision, row: Numbers, maxima: &[f64], weighing: Weighing, above: f64, sums: &mut Vec<f64>);
    /// Appends the ids of `lowest` ≤ logit ≤ `highest`, ascending, and the logits, 0 for −0. `lowest` is a finite number of the
    /// row's type, `highest` one or +∞.
    fn collect / collect_avx2(row: Numbers, maxima: &[f64], lowest: f64, highest: f64, ids: &mut Vec<u32>, logits: &mut Vec<f64>);
    /// The fine weights of some logits.
    fn weigh / weigh_avx2(logits: &[f64], weighing: Weighing, weights: &mut Vec<f64>);
}

/// The logits in these bytes, four for each, little-endian.
#[must_use]
pub fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|logit| f32::from_le_bytes(*logit)).collect()
}

/// A block of the row as f64, filled up with banned tokens.
#[must_use]
pub fn widened(row: Numbers, at: usize) -> [f64; BLOCK] {
    body::widened(row, at)
}

mod body {
    use std::ops::{Add, RangeInclusive};

    use super::{BLOCK, COARSE_FLOOR, FLOOR, NEGLIGIBLE, Numbers, Precision, Weighing};

    /// The lanes of this many blocks are combined at a time. Inside the loop over a block this would prevent vectorization.
    const LATER: usize = 16;
    const LANES: usize = 8;
    const HALF: usize = LANES / 2;

    /// A block of the row; the last one is filled up, in `filled`.
    #[inline(always)]
    pub fn block<'a, T: Copy>(row: &'a [T], at: usize, filled: &'a mut [T; BLOCK]) -> &'a [T; BLOCK] {
        let rest = &row[at * BLOCK..];
        match rest.first_chunk() {
            Some(block) => block,
            None => {
                filled[..rest.len()].copy_from_slice(rest);
                filled
            }
        }
    }

    #[cfg_attr(target_arch = "wasm32", inline(never))]
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    pub fn widened(row: Numbers, at: usize) -> [f64; BLOCK] {
        let mut wide = [f64::NEG_INFINITY; BLOCK];
        match row {
            Numbers::F32(row) => {
                let mut filled = [f32::NEG_INFINITY; BLOCK];
                for (wide, logit) in wide.iter_mut().zip(block(row, at, &mut filled)) {
                    *wide = f64::from(*logit);
                }
            }
            Numbers::F64(row) => wide = *block(row, at, &mut wide.clone()),
        }
        wide
    }

    #[inline(always)]
    pub fn scan(row: Numbers, maxima: &mut Vec<f64>) -> Option<f64> {
        match row {
            Numbers::F32(row) => scan_of(row, f32::NEG_INFINITY, maxima),
            Numbers::F64(row) => scan_of(row, f64::NEG_INFINITY, maxima),
        }
    }

    #[inline(always)]
    fn scan_of<T: Copy + PartialOrd + Add<Output = T> + Into<f64>>(
        row: &[T],
        banned: T,
        maxima: &mut Vec<f64>,
    ) -> Option<f64> {
        let (whole, rest) = row.as_chunks::<BLOCK>();
        let mut filled = [[banned; BLOCK]];
        filled[0][..rest.len()].copy_from_slice(rest);
        let last = &filled[..usize::from(!rest.is_empty())];
        // Earlier contents are overwritten.
        maxima.resize(whole.len() + LATER, 0.0);
        let mut lanes = [[banned; HALF]; LATER];
        let (mut highest, mut sums) = ([banned; HALF], [banned; LANES]);
        let mut done = 0;
        for blocks in whole.chunks(LATER).chain(last.chunks(LATER)) {
            for (block, lanes) in blocks.iter().zip(&mut lanes) {
                let block = block.as_chunks::<LANES>().0;
                let (mut high, mut sum) = (block[0], block[0]);
                for logits in &block[1..] {
                    for lane in 0..LANES {
                        high[lane] = higher(logits[lane], high[lane]);
                        sum[lane] = sum[lane] + logits[lane];
                    }
                }
                for lane in 0..LANES {
                    sums[lane] = sums[lane] + sum[lane];
                }
                for lane in 0..HALF {
                    lanes[lane] = higher(high[lane], high[lane + HALF]);
                }
            }
            across(&lanes, maxima[done..].first_chunk_mut()?, &mut highest);
            done += blocks.len();
        }
        maxima.truncate(done);
        let highest = highest.into_iter().fold(banned, higher);
        (sums == [banned; LANES] && highest > banned).then(|| highest.into())
    }

    /// The highest of the lanes of each block, and of all in `highest`. A separate loop, because it would prevent the
    /// vectorization of another.
    #[inline(never)]
    fn across<T: Copy + PartialOrd + Into<f64>>(
        lanes: &[[T; HALF]; LATER],
        maxima: &mut [f64; LATER],
        highest: &mut [T; HALF],
    ) {
        for (lanes, maxima) in lanes.as_chunks::<HALF>().0.iter().zip(maxima.as_chunks_mut::<HALF>().0) {
            for at in 0..HALF {
                let [a, b, c, d] = lanes[at];
                let maximum = higher(higher(a, b), higher(c, d));
                highest[at] = higher(maximum, highest[at]);
                maxima[at] = maximum.into();
            }
        }
    }

    #[inline(always)]
    fn higher<T: PartialOrd>(a: T, b: T) -> T {
        if a > b { a } else { b }
    }

    #[inline(always)]
    pub fn sum(
        precision: Precision,
        row: Numbers,
        maxima: &[f64],
        weighing: Weighing,
        above: f64,
        sums: &mut Vec<f64>,
    ) {
        sums.clear();
        sums.resize(maxima.len(), 0.0);
        let highest = weighing.highest;
        // This rounding is exact for an f32 row, because the highest logit is one of its numbers.
        let (narrow_highest, narrow_above) = (highest as f32, above as f32);
        match (precision, row) {
            (Precision::Fine, _) => fine(row, maxima, weighing, above, sums),
            (Precision::Coarse, Numbers::F32(row)) => {
                let power = |logit: f32| (logit - narrow_highest, logit > narrow_above);
                coarse(row, f32::NEG_INFINITY, maxima, weighing, above, power, sums);
            }
            (Precision::Coarse, Numbers::F64(row)) => {
                let power = |logit: f64| ((logit - highest) as f32, logit > above);
                coarse(row, f64::NEG_INFINITY, maxima, weighing, above, power, sums);
            }
        }
    }

    /// Whether a block adds to a sum.
    #[inline(always)]
    fn counts(maximum: f64, weighing: Weighing, above: f64) -> bool {
        maximum > above && (maximum - weighing.highest) * weighing.scale > NEGLIGIBLE
    }

    #[inline(always)]
    fn fine(row: Numbers, maxima: &[f64], weighing: Weighing, above: f64, sums: &mut [f64]) {
        let Weighing { highest, scale } = weighing;
        for (at, (sum, maximum)) in sums.iter_mut().zip(maxima).enumerate() {
            if counts(*maximum, weighing, above) {
                let mut weights = widened(row, at);
                for weight in &mut weights {
                    let power = power_of_2((*weight - highest) * scale);
                    *weight = if *weight > above { power } else { 0.0 };
                }
                let mut length = BLOCK;
                while length > 1 {
                    length /= 2;
                    for at in 0..length {
                        weights[at] += weights[at + length];
                    }
                }
                *sum = weights[0];
            }
        }
    }

    #[inline(always)]
    fn coarse<T: Copy>(
        row: &[T],
        banned: T,
        maxima: &[f64],
        weighing: Weighing,
        above: f64,
        seen: impl Fn(T) -> (f32, bool),
        sums: &mut [f64],
    ) {
        let scale = weighing.scale as f32;
        let mut filled = [banned; BLOCK];
        for (group, (sums, maxima)) in sums.chunks_mut(LATER).zip(maxima.chunks(LATER)).enumerate() {
            let mut lanes = [[0.0; LANES]; LATER];
            for (at, (lanes, maximum)) in lanes.iter_mut().zip(maxima).enumerate() {
                if counts(*maximum, weighing, above) {
                    let mut sum = [0.0; LANES];
                    for logits in block(row, group * LATER + at, &mut filled).as_chunks::<LANES>().0 {
                        for lane in 0..LANES {
                            let (below_highest, kept) = seen(logits[lane]);
                            let power = coarse_power_of_2(below_highest * scale);
                            sum[lane] += if kept { power } else { 0.0 };
                        }
                    }
                    *lanes = sum;
                }
            }
            together(&lanes, sums);
        }
    }

    /// The sum of the lanes of each block; separate for the same reason as [`across`].
    #[inline(never)]
    fn together(lanes: &[[f32; LANES]; LATER], sums: &mut [f64]) {
        for (sum, [a, b, c, d, e, f, g, h]) in sums.iter_mut().zip(lanes) {
            *sum = f64::from(((a + b) + (c + d)) + ((e + f) + (g + h)));
        }
    }

    #[inline(always)]
    pub fn collect(row: Numbers, maxima: &[f64], lowest: f64, highest: f64, ids: &mut Vec<u32>, logits: &mut Vec<f64>) {
        let mut count = ids.len();
        for (at, maximum) in maxima.iter().enumerate() {
            if *maximum < lowest {
                continue;
            }
            if ids.len() < count + BLOCK {
                ids.resize(2 * count + BLOCK, 0);
                logits.resize(2 * count + BLOCK, 0.0);
            }
            let (ids, logits) = (&mut ids[count..], &mut logits[count..]);
            // In the wasm one loop for both types, for its size.
            count += match row {
                _ if cfg!(target_arch = "wasm32") => pick(&widened(row, at), at, lowest..=highest, ids, logits),
                Numbers::F32(row) => {
                    let mut filled = [f32::NEG_INFINITY; BLOCK];
                    pick(block(row, at, &mut filled), at, (lowest as f32)..=(highest as f32), ids, logits)
                }
                Numbers::F64(row) => {
                    let mut filled = [f64::NEG_INFINITY; BLOCK];
                    pick(block(row, at, &mut filled), at, lowest..=highest, ids, logits)
                }
            };
        }
        ids.truncate(count);
        logits.truncate(count);
    }

    /// Writes the logits of a block that are within the range and returns how many.
    #[inline(always)]
    fn pick<T: Copy + PartialOrd + Into<f64>>(
        block: &[T; BLOCK],
        at: usize,
        range: RangeInclusive<T>,
        ids: &mut [u32],
        logits: &mut [f64],
    ) -> usize {
        let mut count = 0;
        for (group, some) in block.as_chunks::<LANES>().0.iter().enumerate() {
            let mut any = false;
            for logit in some {
                any |= range.contains(logit);
            }
            if any {
                // Always written, but only counted if in range, to avoid a branch.
                for (lane, logit) in some.iter().enumerate() {
                    ids[count] = (at * BLOCK + group * LANES + lane) as u32;
                    logits[count] = (*logit).into() + 0.0;
                    count += usize::from(range.contains(logit));
                }
            }
        }
        count
    }

    #[inline(always)]
    pub fn weigh(logits: &[f64], weighing: Weighing, weights: &mut Vec<f64>) {
        let Weighing { highest, scale } = weighing;
        weights.clear();
        weights.resize(logits.len(), 0.0);
        for (weight, logit) in weights.iter_mut().zip(logits) {
            *weight = power_of_2((logit - highest) * scale);
        }
    }

    /// 2^y for y ≤ 0, relative error below 2^-39.5 where y > −1000.
    ///
    /// y = n + f with |f| ≤ 1/2, exactly. The polynomial is the best of degree 8 for the relative error, 2^-40.23 with its
    /// rounded coefficients; its evaluation errs by less than 2^-51.
    #[inline(always)]
    fn power_of_2(y: f64) -> f64 {
        // 1.5·2^52: adding it leaves n in the low bits.
        const ROUND: f64 = 6_755_399_441_055_744.0;
        let y = if y > FLOOR { y } else { FLOOR };
        let shifted = y + ROUND;
        let f = y - (shifted - ROUND);
        let mut p = f64::from_bits(0x3eb6_1afc_ed54_1895);
        for coefficient in [
            0x3ef0_0dad_250b_eded,
            0x3f24_30ac_ca32_fd76,
            0x3f55_d874_8385_5455,
            0x3f83_b2ab_5c52_9311,
            0x3fac_6b08_dd46_d38f,
            0x3fce_bfbd_ff93_19e1,
            0x3fe6_2e42_fef8_615e,
            0x3fef_ffff_ffff_f7a3,
        ] {
            p = p * f + f64::from_bits(coefficient);
        }
        f64::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 52))
    }

    /// 2^y for y ≤ 0, relative error below 2^-21.5 where y > −100: the best polynomial of degree 5, 2^-23.66, its
    /// coefficients rounded and evaluated in f32.
    #[inline(always)]
    fn coarse_power_of_2(y: f32) -> f32 {
        // 1.5·2^23.
        const ROUND: f32 = 12_582_912.0;
        let y = if y > COARSE_FLOOR { y } else { COARSE_FLOOR };
        let shifted = y + ROUND;
        let f = y - (shifted - ROUND);
        let mut p = 0.001_327_647_2_f32;
        for coefficient in [0.009_675_541_f32, 0.055_507_133, 0.240_221_2, 0.693_146_97, 1.000_000_1] {
            p = p * f + coefficient;
        }
        f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
    }
}

#[cfg(test)]
mod tests {
    use quillmate_sampler::{exp, uniform};

    use super::{Numbers, Precision, Vectors, Weighing};

    /// The largest relative error over arguments of the weights that count, as a power of 2.
    fn largest_error(lowest: f64, count: u32, weight: impl Fn(f32, f32) -> f64) -> f64 {
        let mut largest = 0.0;
        for at in 0..count {
            let highest = 0.001 * (at % 40_000) as f32;
            let logit = highest + (lowest * f64::from(at) / f64::from(count)) as f32;
            let exact = exp((f64::from(logit) - f64::from(highest)) / 0.8);
            let error = (weight(logit, highest) / exact - 1.0).abs();
            largest = if error > largest { error } else { largest };
        }
        largest
    }

    fn weighing(highest: f32) -> Weighing {
        Weighing { highest: f64::from(highest), scale: std::f64::consts::LOG2_E / 0.8 }
    }

    #[test]
    fn weights_are_within_the_bound_and_near_it() {
        let fine = largest_error(-49.0, 1_000_000, |logit, highest| {
            let mut weights = Vec::new();
            Vectors::widest().weigh(&[f64::from(logit)], weighing(highest), &mut weights);
            weights[0]
        });
        // 2^-40, and within a factor of 2 of it.
        assert!((4.5e-13..9.1e-13).contains(&fine), "{fine:e}");
        let sum = |precision| {
            move |logit: f32, highest: f32| {
                let mut sums = Vec::new();
                let (row, maxima, banned) = ([logit], [f64::from(logit)], f64::NEG_INFINITY);
                Vectors::widest().sum(precision, Numbers::F32(&row), &maxima, weighing(highest), banned, &mut sums);
                sums[0]
            }
        };
        let fine = largest_error(-49.0, 200_000, sum(Precision::Fine));
        assert!((4.5e-13..9.1e-13).contains(&fine), "{fine:e}");
        // 2^-17, and within a factor of 8 of it; to 2^-40.
        let coarse = largest_error(-22.0, 200_000, sum(Precision::Coarse));
        assert!((9.5e-7..7.6e-6).contains(&coarse), "{coarse:e}");
    }

    /// FNV-1a over all that the loops give for a row.
    fn digest(vectors: Vectors, row: Numbers, digest: &mut u64) {
        let mut add = |bits: u64| *digest = (*digest ^ bits).wrapping_mul(0x0000_0100_0000_01b3);
        let (mut maxima, mut sums, mut ids, mut logits, mut weights) = (vec![], vec![], vec![], vec![], vec![]);
        add(vectors.scan(row, &mut maxima).map_or(1, f64::to_bits));
        let mut highest = f64::NEG_INFINITY;
        for &maximum in &maxima {
            add(maximum.to_bits());
            highest = if maximum > highest { maximum } else { highest };
        }
        let weighing = Weighing { highest, scale: std::f64::consts::LOG2_E / 0.8 };
        for precision in [Precision::Coarse, Precision::Fine] {
            for above in [f64::NEG_INFINITY, -2.5] {
                vectors.sum(precision, row, &maxima, weighing, above, &mut sums);
                sums.iter().for_each(|sum| add(sum.to_bits()));
            }
        }
        vectors.collect(row, &maxima, -9.0, 3.5, &mut ids, &mut logits);
        vectors.weigh(&logits, weighing, &mut weights);
        for ((id, logit), weight) in ids.iter().zip(&logits).zip(&weights) {
            add(u64::from(*id));
            add(logit.to_bits());
            add(weight.to_bits());
        }
    }

    /// Approximations, but the same ones wherever this runs: SSE2, AVX2, NEON.
    #[test]
    fn every_processor_computes_these_bits() {
        for vectors in [Some(Vectors::Baseline), Vectors::avx2()].into_iter().flatten() {
            let mut found = 0xcbf2_9ce4_8422_2325;
            for length in [1, 5, 63, 64, 65, 1000, 1025, 20_000] {
                let logit = |id: u64| match uniform(length, id, 0) {
                    banned if banned < 0.1 => f64::NEG_INFINITY,
                    even => 60.0 * even - 50.0,
                };
                let wide: Vec<f64> = (0..length).map(logit).collect();
                let narrow: Vec<f32> = wide.iter().map(|logit| *logit as f32).collect();
                digest(vectors, Numbers::F64(&wide), &mut found);
                digest(vectors, Numbers::F32(&narrow), &mut found);
            }
            assert_eq!(found, 0x57da_3d75_5f21_7467, "{vectors:?}");
        }
    }
}
