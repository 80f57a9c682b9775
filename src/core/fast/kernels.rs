//! The loops over a whole row, written once in plain Rust over blocks of 64 that the compiler vectorizes, and compiled
//! once for what every processor of the target has (SSE2, NEON, simd128, or no vectors at all) and once for AVX2.
//! Additions happen in an order the source fixes and nothing is fused, so every path gives the same bits.
//!
//! Errors are relative, ε = 2^-53 or 2^-24 the unit roundoff of the type in question.

use super::super::logits::Logit;

/// Logits that are summed and skipped together.
pub const BLOCK: usize = 64;

/// Exponents below are raised to these, where a weight counts for nothing: ours is then wrong by less than 2^-99.
const FLOOR: f64 = -1000.0;
const COARSE_FLOOR: f32 = -100.0;

/// A block whose highest weight is below 2^this counts as 0.
const NEGLIGIBLE: f64 = -90.0;

/// Which code runs the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// Compiled for any processor of the target.
    Baseline,
    /// Compiled for AVX2; only made where the processor has it.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

/// Evidence that this processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

impl Vectors {
    /// The widest this processor has.
    pub fn best() -> Self {
        Self::avx2().unwrap_or(Self::Baseline)
    }

    /// AVX2, if this processor has it.
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
pub struct Weighing<L> {
    /// The highest logit of the row.
    pub highest: L,
    /// log2(e) / temperature, from 2^-60 to 2^60.
    pub scale: f64,
}

macro_rules! kernels {
    ($($(#[$about:meta])* fn $name:ident / $avx2:ident <$l:ident>($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        impl Vectors {
            $($(#[$about])* pub fn $name<$l: Logit>(self, $($argument: $type),*) $(-> $result)? {
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
        fn $avx2<$l: Logit>($($argument: $type),*) $(-> $result)? {
            body::$name($($argument),*)
        })*
    };
}

kernels! {
    /// The highest logit of each block. False if a logit is NaN or +∞; then the maxima mean nothing.
    fn scan / scan_avx2<L>(row: &[L], maxima: &mut Vec<f64>) -> bool;
    /// For each block the sum of the weights of logits above `above`.
    fn sum / sum_avx2<L>(precision: Precision, row: &[L], maxima: &[f64], weighing: Weighing<L>, above: L, sums: &mut Vec<f64>);
    /// Appends the ids of `lowest` ≤ logit ≤ `highest`, ascending, and the logits, 0 for −0.
    fn collect / collect_avx2<L>(row: &[L], maxima: &[f64], lowest: L, highest: L, ids: &mut Vec<u32>, logits: &mut Vec<f64>);
    /// The fine weights of some logits.
    fn weigh / weigh_avx2<L>(logits: &[L], weighing: Weighing<L>, weights: &mut Vec<f64>);
}

mod body {
    use super::{BLOCK, COARSE_FLOOR, FLOOR, Logit, NEGLIGIBLE, Precision, Weighing};

    /// Lanes of a block are combined for so many blocks at a time: mixed into the loop over a block, that spoils its vectors.
    const LATER: usize = 16;
    const LANES: usize = 8;

    /// A block of the row; the last one is filled up with banned tokens, in `filled`.
    #[inline(always)]
    fn block<'a, L: Logit>(row: &'a [L], at: usize, filled: &'a mut [L; BLOCK]) -> &'a [L; BLOCK] {
        let rest = &row[at * BLOCK..];
        match rest.first_chunk() {
            Some(block) => block,
            None => {
                *filled = [L::BANNED; BLOCK];
                filled[..rest.len()].copy_from_slice(rest);
                filled
            }
        }
    }

    #[inline(always)]
    pub fn scan<L: Logit>(row: &[L], maxima: &mut Vec<f64>) -> bool {
        maxima.clear();
        maxima.resize(row.len().div_ceil(BLOCK), f64::NEG_INFINITY);
        let mut filled = [L::BANNED; BLOCK];
        let mut good = [!0u32; LANES];
        for (group, maxima) in maxima.chunks_mut(LATER).enumerate() {
            let mut lanes = [[L::BANNED; LANES]; LATER];
            for (at, lanes) in lanes[..maxima.len()].iter_mut().enumerate() {
                let block = block(row, group * LATER + at, &mut filled).as_chunks::<LANES>().0;
                let mut highest = block[0];
                for logits in block {
                    for lane in 0..LANES {
                        highest[lane] = higher(logits[lane], highest[lane]);
                        good[lane] &= if logits[lane] < L::INFINITE { !0 } else { 0 };
                    }
                }
                *lanes = highest;
            }
            for (maximum, [a, b, c, d, e, f, g, h]) in maxima.iter_mut().zip(lanes) {
                let [ab, cd, ef, gh] = [higher(a, b), higher(c, d), higher(e, f), higher(g, h)];
                *maximum = higher(higher(ab, cd), higher(ef, gh)).widen();
            }
        }
        good == [!0; LANES]
    }

    #[inline(always)]
    fn higher<L: Logit>(a: L, b: L) -> L {
        if a > b { a } else { b }
    }

    #[inline(always)]
    pub fn sum<L: Logit>(
        precision: Precision,
        row: &[L],
        maxima: &[f64],
        weighing: Weighing<L>,
        above: L,
        sums: &mut Vec<f64>,
    ) {
        let Weighing { highest, scale } = weighing;
        let (wide, narrow) = (highest.widen(), scale as f32);
        let counts = |maximum: f64| maximum > above.widen() && (maximum - wide) * scale > NEGLIGIBLE;
        let mut filled = [L::BANNED; BLOCK];
        sums.clear();
        sums.resize(maxima.len(), 0.0);
        match precision {
            Precision::Fine => {
                for (at, (sum, maximum)) in sums.iter_mut().zip(maxima).enumerate() {
                    if counts(*maximum) {
                        let mut weights = [0.0; BLOCK];
                        for (weight, &logit) in weights.iter_mut().zip(block(row, at, &mut filled)) {
                            let power = power_of_2((logit.widen() - wide) * scale);
                            *weight = if logit > above { power } else { 0.0 };
                        }
                        *sum = halve(&mut weights);
                    }
                }
            }
            Precision::Coarse => {
                for (group, (sums, maxima)) in sums.chunks_mut(LATER).zip(maxima.chunks(LATER)).enumerate() {
                    let mut lanes = [[0.0; LANES]; LATER];
                    for (at, (lanes, maximum)) in lanes.iter_mut().zip(maxima).enumerate() {
                        if counts(*maximum) {
                            let mut sum = [0.0; LANES];
                            for logits in block(row, group * LATER + at, &mut filled).as_chunks::<LANES>().0 {
                                for lane in 0..LANES {
                                    let power = coarse_power_of_2(logits[lane].less(highest) * narrow);
                                    sum[lane] += if logits[lane] > above { power } else { 0.0 };
                                }
                            }
                            *lanes = sum;
                        }
                    }
                    for (sum, [a, b, c, d, e, f, g, h]) in sums.iter_mut().zip(lanes) {
                        *sum = f64::from(((a + b) + (c + d)) + ((e + f) + (g + h)));
                    }
                }
            }
        }
    }

    /// The sum of 64, halves upon halves.
    #[inline(always)]
    fn halve(numbers: &mut [f64; BLOCK]) -> f64 {
        let mut length = BLOCK;
        while length > 1 {
            length /= 2;
            for at in 0..length {
                numbers[at] += numbers[at + length];
            }
        }
        numbers[0]
    }

    #[inline(always)]
    pub fn collect<L: Logit>(
        row: &[L],
        maxima: &[f64],
        lowest: L,
        highest: L,
        ids: &mut Vec<u32>,
        logits: &mut Vec<f64>,
    ) {
        const GROUP: usize = 8;
        for ((at, block), maximum) in row.chunks(BLOCK).enumerate().zip(maxima) {
            if *maximum < lowest.widen() {
                continue;
            }
            for (group, some) in block.chunks(GROUP).enumerate() {
                let mut any = false;
                for logit in some {
                    any |= *logit >= lowest && *logit <= highest;
                }
                if any {
                    for (lane, &logit) in some.iter().enumerate() {
                        if logit >= lowest && logit <= highest {
                            ids.push((at * BLOCK + group * GROUP + lane) as u32);
                            logits.push(logit.widen() + 0.0);
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    pub fn weigh<L: Logit>(logits: &[L], weighing: Weighing<L>, weights: &mut Vec<f64>) {
        let highest = weighing.highest.widen();
        weights.clear();
        weights.extend(logits.iter().map(|logit| power_of_2((logit.widen() - highest) * weighing.scale)));
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
    use super::super::super::exp::exp;
    use super::{Precision, Vectors, Weighing};

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

    fn weighing(highest: f32) -> Weighing<f32> {
        Weighing { highest, scale: std::f64::consts::LOG2_E / 0.8 }
    }

    #[test]
    fn weights_are_within_the_bound_and_near_it() {
        let fine = largest_error(-49.0, 1_000_000, |logit, highest| {
            let mut weights = Vec::new();
            Vectors::best().weigh(&[logit], weighing(highest), &mut weights);
            weights[0]
        });
        // 2^-40, and within a factor of 2 of it.
        assert!((4.5e-13..9.1e-13).contains(&fine), "{fine:e}");
        let sum = |precision| {
            move |logit: f32, highest: f32| {
                let mut sums = Vec::new();
                let banned = f32::NEG_INFINITY;
                Vectors::best().sum(precision, &[logit], &[f64::from(logit)], weighing(highest), banned, &mut sums);
                sums[0]
            }
        };
        let fine = largest_error(-49.0, 200_000, sum(Precision::Fine));
        assert!((4.5e-13..9.1e-13).contains(&fine), "{fine:e}");
        // 2^-17, and within a factor of 8 of it; to 2^-40.
        let coarse = largest_error(-22.0, 200_000, sum(Precision::Coarse));
        assert!((9.5e-7..7.6e-6).contains(&coarse), "{coarse:e}");
    }
}
