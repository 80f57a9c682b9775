//! The exponential, correctly rounded: the only `exp` in this crate.
//!
//! [`exp`] returns the double nearest to e^x (ties cannot occur for x ≠ 0: e^x is then transcendental, by
//! Lindemann's theorem). A correctly rounded function has one answer, so its bits are the same on every machine; the
//! platform's `exp` is not one (glibc and the libm behind wasm differ on one argument in ten).
//!
//! **Fast phase** (double precision, no FMA). Write x = j·(ln 2/4096) + d with j an integer, |d| ≤ 2^-13.5, so that
//! e^x = 2^k · 2^(i/4096) · e^d with j = 4096·k + i.
//!
//! * ln 2/4096 = L1 + L2 with L1 of 30 bits. |j| < 2^23, so j·L1 is exact, and so is x − j·L1 (both are multiples of
//!   2^-66 at the least, and the difference is below 2^-13). Error of d: rounding of j·L2 (2^-74), of the last
//!   subtraction (2^-67), the representation of L2 (j·2^-96).
//! * e^d − 1 = p by a Taylor polynomial of degree 4: truncation 2^-74, rounding of the last addition 2^-67.
//! * 2^(i/4096) = hi + t, from two tables whose heads have 26 and 27 bits: their product hi is exact; |t| < 2^-24,
//!   error 2^-77.
//! * The result is hi + tail, tail = hi·p + (t + t·p). The cross term t·p is near 2^-38: dropping it would show as an
//!   error of 2^-39 and hardly at all in the failure rate of the rounding test.
//!   Roundings of hi·p and of the sum: 2^-66 each; the error of d and p times hi < 2: 2^-65.
//!
//! Together below 2^-64 + 2^-72; the test allows 2^-63 around hi + tail, which also covers the rounding of tail ± 2^-63.
//! If both ends round to the same double, so does e^x (Ziv's test, ACM TOMS 17(3), 1991). It fails about once in 900.
//!
//! **Accurate phase** (integers only). x = k·ln 2 + r in fixed point with 126 fraction bits, k·ln 2 from 190 bits of
//! ln 2; e^r by a Horner scheme with floor(2^126/n!), n ≤ 33. Each step errs by at most 2 units of 2^-126 and passes
//! on less than 0.7 of what came before, r errs by 2 units: below 12 units together, 2^-122. The hardest arguments of
//! exp in double precision come as near as 2^-113 to a midpoint (Lefèvre & Muller, "Worst cases for correct rounding
//! of the elementary functions in double precision", ARITH-15, 2001). Results that may be subnormal are always made here.

/// 1.5·2^52: adding and subtracting it rounds a double below 2^51 to the nearest integer.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// 4096 / ln 2.
const INV_STEP: f64 = f64::from_bits(0x40b7_1547_652b_82fe);
/// ln 2 / 4096, its first 30 bits.
const STEP_HEAD: f64 = f64::from_bits(0x3f26_2e42_ff00_0000);
/// ln 2 / 4096 − `STEP_HEAD`.
const STEP_TAIL: f64 = f64::from_bits(0xbd07_1843_2a1b_0e26);
/// Error bound of the fast phase, relative to 2^k.
const FAST_ERROR: f64 = f64::from_bits(0x3c00_0000_0000_0000);

/// e^x, rounded to the nearest double (to even on a tie), for every double.
///
/// `exp(-inf)` is 0, `exp(+inf)` is +inf and `exp(NaN)` is NaN. Results below the normal range are subnormal or 0.
///
/// ```
/// assert_eq!(quillmate_sampler::exp(0.0), 1.0);
/// assert_eq!(quillmate_sampler::exp(-1.0).to_bits(), 0x3fd7_8b56_362c_ef38);
/// ```
#[must_use]
#[inline]
pub fn exp(x: f64) -> f64 {
    // The fast phase applies: the result is normal, and 2^k times a number below 2 does not overflow.
    if !(x > -707.0 && x < 708.0) {
        return exp_at_the_ends(x);
    }
    let shifted = x * INV_STEP + ROUND;
    let j = shifted - ROUND;
    let d = (x - j * STEP_HEAD) - j * STEP_TAIL;
    let p = d + d * d * (0.5 + d * (1.0 / 6.0 + d * (1.0 / 24.0)));
    // The low bits of `shifted` are j in two's complement.
    let j = shifted.to_bits() as u32;
    let (coarse, fine) = (COARSE[(j >> 6 & 63) as usize], FINE[(j & 63) as usize]);
    let (h1, t1) = (f64::from_bits(coarse.0), f64::from_bits(coarse.1));
    let (h2, t2) = (f64::from_bits(fine.0), f64::from_bits(fine.1));
    let hi = h1 * h2;
    let t = h1 * t2 + h2 * t1 + t1 * t2;
    let tail = hi * p + (t + t * p);
    let result = hi + (tail - FAST_ERROR);
    if result == hi + (tail + FAST_ERROR) {
        let k = (j as i32 >> 12) as u64;
        f64::from_bits(result.to_bits().wrapping_add(k << 52))
    } else {
        exp_accurate(x)
    }
}

#[cold]
fn exp_at_the_ends(x: f64) -> f64 {
    if x < -746.0 {
        0.0
    } else if x > 710.0 {
        f64::INFINITY
    } else if x.is_nan() {
        f64::NAN
    } else {
        exp_accurate(x)
    }
}

/// ln 2 · 2^126, rounded down.
pub(super) const LN2: u128 = 0x2c5c_85fd_f473_de6a_f278_ece6_00fc_bdab;
/// The next 64 bits of ln 2.
pub(super) const LN2_NEXT: u64 = 0xd03c_d0c9_9ca6_2d8b;
/// 1 / ln 2.
const INV_LN2: f64 = f64::from_bits(0x3ff7_1547_652b_82fe);
/// 1 in fixed point.
const ONE: u128 = 1 << 126;

/// floor(2^126 / n!).
const INVERSE_FACTORIALS: [u128; 34] = {
    let mut table = [ONE; 34];
    let mut n = 1;
    while n < 34 {
        table[n] = table[n - 1] / n as u128;
        n += 1;
    }
    table
};

/// The accurate phase, for −746 ≤ x ≤ 710.
#[cold]
fn exp_accurate(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1075;
    // |x| ≤ 2^-54: e^x lies between 1 and the midpoints of its neighbours.
    if exponent < -106 || x == 0.0 {
        return 1.0;
    }
    let significand = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    // Modulo 2^128, that is modulo 4 in fixed point: what is lost at the top cancels in the subtraction below.
    let magnitude = significand << (126 + exponent);
    let fixed = if x < 0.0 { magnitude.wrapping_neg() } else { magnitude } as i128;
    let mut k = (x * INV_LN2) as i32;
    let multiple = (k as i128).wrapping_mul(LN2 as i128).wrapping_add((i128::from(k) * i128::from(LN2_NEXT)) >> 64);
    let mut r = fixed.wrapping_sub(multiple);
    // The quotient was cut towards zero from a rounded product, which is not below an integer that x / ln 2 reaches: `INV_LN2`
    // is low by less than 2^-55 of itself. So k is never too low, and too high by one at most: for a negative x, or where the
    // product was rounded up to an integer.
    if r < 0 {
        r += LN2 as i128;
        k -= 1;
    }
    let r = r as u128;
    let mut value = INVERSE_FACTORIALS[33];
    let mut n = 33;
    while n > 0 {
        n -= 1;
        value = INVERSE_FACTORIALS[n] + multiply(value, r);
    }
    // value in [1, 2), 126 fraction bits; 52 stay, fewer below the normal range.
    let lost = if k >= -1022 { 74 } else { 74 + (-1022 - k) };
    if lost > 127 {
        return 0.0;
    }
    let rounded = ((value + (1 << (lost - 1))) >> lost) as u64;
    // The leading bit of a normal significand adds one to the exponent field; a carry to 2^53 adds another.
    let field = if k >= -1022 { (k + 1022) as u64 } else { 0 };
    if field >= 0x7fe {
        return f64::INFINITY;
    }
    f64::from_bits((field << 52) + rounded)
}

/// a·b in fixed point with 126 fraction bits, rounded down; a < 2, b < 1.
pub(super) fn multiply(a: u128, b: u128) -> u128 {
    const LOW: u128 = (1 << 64) - 1;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a0 * b0;
    let middle = a1 * b0 + a0 * b1 + (low >> 64);
    let high = a1 * b1 + (middle >> 64);
    (high << 2) | ((middle & LOW) >> 62)
}

/// 2^(i/64) as a 26-bit head and a rounded tail, as bits.
#[rustfmt::skip]
const COARSE: [(u64, u64); 64] = [
    (0x3ff0_0000_0000_0000, 0x0000_0000_0000_0000),
    (0x3ff0_2c9a_4000_0000, 0xbe38_87f9_f119_0835),
    (0x3ff0_59b0_d000_0000, 0x3e48_ac2b_a1d7_3e2a),
    (0x3ff0_8745_1800_0000, 0x3e1d_66f2_0230_d7c9),
    (0x3ff0_b558_7000_0000, 0xbe48_33b7_84eb_3a37),
    (0x3ff0_e3ec_3000_0000, 0x3e46_9e8d_1010_3a17),
    (0x3ff1_1301_d000_0000, 0x3df2_5b50_a4eb_bf1b),
    (0x3ff1_429a_b000_0000, 0xbe35_6d22_04cb_efe7),
    (0x3ff1_72b8_4000_0000, 0xbe4c_1574_2919_041c),
    (0x3ff1_a35b_e800_0000, 0x3e4b_7e5b_a9e5_b4c8),
    (0x3ff1_d487_3000_0000, 0x3e36_8b9a_a780_5b80),
    (0x3ff2_063b_8800_0000, 0x3e18_a335_8ee3_bac1),
    (0x3ff2_387a_7000_0000, 0xbe38_a9dc_7993_e052),
    (0x3ff2_6b45_6800_0000, 0xbe40_ec19_16d4_2cc6),
    (0x3ff2_9e9d_f800_0000, 0xbe47_0108_f69e_d175),
    (0x3ff2_d285_a800_0000, 0xbe31_bfcf_4bff_6e2b),
    (0x3ff3_06fe_0800_0000, 0x3e41_8db8_a96f_46ad),
    (0x3ff3_3c08_b000_0000, 0x3e43_20b7_fa64_e431),
    (0x3ff3_71a7_3800_0000, 0xbe28_aac6_ab1d_7560),
    (0x3ff3_a7db_3800_0000, 0xbe48_d300_48af_21b7),
    (0x3ff3_dea6_5000_0000, 0xbe4f_6e5e_ee52_5f6f),
    (0x3ff4_160a_2000_0000, 0x3e3f_72e2_9f84_325c),
    (0x3ff4_4e08_6000_0000, 0x3e18_624b_40c4_dbd0),
    (0x3ff4_86a2_b800_0000, 0xbe41_f619_7f61_f2e2),
    (0x3ff4_bfda_d800_0000, 0xbe46_4eae_c715_e343),
    (0x3ff4_f9b2_7800_0000, 0xbe36_2d35_952c_c275),
    (0x3ff5_342b_5800_0000, 0xbe36_2b07_e20f_57c4),
    (0x3ff5_6f47_3800_0000, 0xbe34_ad82_5991_3500),
    (0x3ff5_ab07_e000_0000, 0xbe45_bd5e_b539_b67f),
    (0x3ff5_e76f_1800_0000, 0xbe42_96f5_bc8b_20da),
    (0x3ff6_247e_b000_0000, 0x3e0d_2ac2_58f8_7d03),
    (0x3ff6_6238_8000_0000, 0x3e42_a911_2489_3ecf),
    (0x3ff6_a09e_6800_0000, 0xbe38_0c43_36f7_4d05),
    (0x3ff6_dfb2_4000_0000, 0xbe4c_d72e_886e_f8ea),
    (0x3ff7_1f75_e800_0000, 0x3e2d_8bee_7ba4_6e1e),
    (0x3ff7_5feb_5800_0000, 0xbe3b_d983_7409_1656),
    (0x3ff7_a114_7000_0000, 0x3e4f_580c_36be_a881),
    (0x3ff7_e2f3_3800_0000, 0xbe33_0b19_defa_2fd4),
    (0x3ff8_2589_9800_0000, 0x3e34_cce1_28ac_f88b),
    (0x3ff8_68d9_9800_0000, 0x3e4a_2497_6407_20ed),
    (0x3ff8_ace5_4000_0000, 0x3e41_5506_dadd_3e2b),
    (0x3ff8_f1ae_9800_0000, 0x3e31_5773_62b9_8274),
    (0x3ff9_3737_b000_0000, 0x3e29_b8bc_9e8a_0388),
    (0x3ff9_7d82_a000_0000, 0xbe00_d8d8_3a30_b6f8),
    (0x3ff9_c491_8000_0000, 0x3e45_1f84_80e3_e236),
    (0x3ffa_0c66_7800_0000, 0x3e4a_ef2b_2594_d6d4),
    (0x3ffa_5503_b000_0000, 0x3e41_f12a_e45a_1225),
    (0x3ffa_9e6b_5800_0000, 0xbe44_3012_05e0_a6de),
    (0x3ffa_e89f_9800_0000, 0x3e35_ad3a_d5e8_734d),
    (0x3ffb_33a2_b800_0000, 0x3e13_c57e_bdaf_f43a),
    (0x3ffb_7f76_f000_0000, 0x3e47_daf2_3755_3d84),
    (0x3ffb_cc1e_9000_0000, 0x3e12_f074_891e_e83d),
    (0x3ffc_199b_e000_0000, 0xbe43_d56b_1eee_f9a7),
    (0x3ffc_67f1_3000_0000, 0xbe3a_82eb_4b5d_ec80),
    (0x3ffc_b720_e000_0000, 0xbe48_837c_b757_e1a1),
    (0x3ffd_072d_4800_0000, 0x3e40_3c4b_dc68_7918),
    (0x3ffd_5818_e000_0000, 0xbe48_22db_c6d1_2fd3),
    (0x3ffd_a9e6_0000_0000, 0x3e4e_d994_2b84_600d),
    (0x3ffd_fc97_3000_0000, 0x3e4b_dcda_f5cb_4656),
    (0x3ffe_502e_e800_0000, 0xbe1d_3002_7630_bb40),
    (0x3ffe_a4af_a000_0000, 0x3e45_2486_cc2c_7b9d),
    (0x3ffe_fa1b_f000_0000, 0xbe39_ea5d_888e_02de),
    (0x3fff_5076_5800_0000, 0x3e4b_722a_033a_7c26),
    (0x3fff_a7c1_8000_0000, 0x3e39_e90d_82e9_0a7e),
];

/// 2^(i/4096) as a 27-bit head and a rounded tail, as bits.
#[rustfmt::skip]
const FINE: [(u64, u64); 64] = [
    (0x3ff0_0000_0000_0000, 0x0000_0000_0000_0000),
    (0x3ff0_00b1_7400_0000, 0x3e3e_ffdc_76ba_38e3),
    (0x3ff0_0162_f400_0000, 0xbe1b_efeb_817b_5d0d),
    (0x3ff0_0214_7800_0000, 0x3e2c_239c_ca08_ae5b),
    (0x3ff0_02c6_0400_0000, 0x3e3e_2e8c_ec50_6d22),
    (0x3ff0_0377_9c00_0000, 0xbe36_a06a_69ee_3b8b),
    (0x3ff0_0429_3800_0000, 0xbe30_55c2_8209_0849),
    (0x3ff0_04da_dc00_0000, 0xbe2d_d84c_0a59_1bed),
    (0x3ff0_058c_8800_0000, 0xbe32_5e3f_615e_00e6),
    (0x3ff0_063e_3c00_0000, 0xbe3a_a6b8_c978_a4c5),
    (0x3ff0_06ef_f400_0000, 0x3e38_3fc3_cad4_c39a),
    (0x3ff0_07a1_b800_0000, 0x3e19_6a32_7c2a_1a2b),
    (0x3ff0_0853_8400_0000, 0xbe30_5107_ce25_6c07),
    (0x3ff0_0905_5400_0000, 0x3e34_425d_3d2b_0def),
    (0x3ff0_09b7_3000_0000, 0xbe27_cbda_93ce_4d84),
    (0x3ff0_0a69_1000_0000, 0x3e2e_76df_99f4_5c7b),
    (0x3ff0_0b1a_fc00_0000, 0xbe3a_5434_129e_d655),
    (0x3ff0_0bcc_ec00_0000, 0xbe21_1f02_83c3_44b2),
    (0x3ff0_0c7e_e400_0000, 0x3e12_3b80_850d_8b29),
    (0x3ff0_0d30_e400_0000, 0x3e2a_1890_684a_d2b6),
    (0x3ff0_0de2_ec00_0000, 0x3e30_ee0f_4f5f_ca9e),
    (0x3ff0_0e94_fc00_0000, 0x3e30_398e_06d6_9a41),
    (0x3ff0_0f47_1400_0000, 0x3e25_e83a_5372_6fd0),
    (0x3ff0_0ff9_3400_0000, 0x3df2_315c_284e_0d15),
    (0x3ff0_10ab_5c00_0000, 0xbe2a_685d_d1f1_7cd0),
    (0x3ff0_115d_8800_0000, 0x3e3f_f3a8_a861_0813),
    (0x3ff0_120f_c000_0000, 0x3e21_3fec_6610_eaa3),
    (0x3ff0_12c2_0000_0000, 0xbe33_29ec_5134_104f),
    (0x3ff0_1374_4400_0000, 0x3e29_36b6_9da9_2a29),
    (0x3ff0_1426_9400_0000, 0xbe38_0ad8_7e57_32cc),
    (0x3ff0_14d8_e800_0000, 0xbdf1_72d0_ed12_3f72),
    (0x3ff0_158b_4400_0000, 0x3e31_7bb8_82af_745c),
    (0x3ff0_163d_a800_0000, 0x3e3f_b333_56d8_4a67),
    (0x3ff0_16f0_1800_0000, 0xbe36_6b61_3641_5964),
    (0x3ff0_17a2_8c00_0000, 0xbe30_daa9_8d1e_077c),
    (0x3ff0_1855_0800_0000, 0xbe2f_2a93_b5a3_2c8f),
    (0x3ff0_1907_8c00_0000, 0xbe32_95e6_1100_8eff),
    (0x3ff0_19ba_1800_0000, 0xbe39_d721_e5dd_9a7c),
    (0x3ff0_1a6c_a800_0000, 0x3e3a_ac5f_2bd9_121c),
    (0x3ff0_1b1f_4400_0000, 0x3e25_f3f3_c9b8_918a),
    (0x3ff0_1bd1_e800_0000, 0xbe21_d1e9_7d43_13b3),
    (0x3ff0_1c84_9000_0000, 0x3e3f_08f0_790e_353c),
    (0x3ff0_1d37_4400_0000, 0x3e06_a837_f8c7_18d1),
    (0x3ff0_1dea_0000_0000, 0xbe3d_7f53_7dd2_cd32),
    (0x3ff0_1e9c_c000_0000, 0xbdfe_ec11_3823_ea47),
    (0x3ff0_1f4f_8800_0000, 0x3e35_8c1c_63c3_a9d7),
    (0x3ff0_2002_5c00_0000, 0xbe37_095c_b6be_e665),
    (0x3ff0_20b5_3400_0000, 0xbe1e_a737_18f0_6d8a),
    (0x3ff0_2168_1400_0000, 0x3e0d_8140_6d40_cef0),
    (0x3ff0_221a_fc00_0000, 0x3e26_13c7_b1b5_2fe5),
    (0x3ff0_22cd_ec00_0000, 0x3e2c_d189_d5b7_4361),
    (0x3ff0_2380_e400_0000, 0x3e2b_a455_9d82_e5e5),
    (0x3ff0_2433_e400_0000, 0x3e22_96ea_9675_aaf5),
    (0x3ff0_24e6_ec00_0000, 0x3deb_408c_5236_be22),
    (0x3ff0_2599_fc00_0000, 0xbe26_f98f_5aa4_8dff),
    (0x3ff0_264d_1400_0000, 0xbe3b_b38e_6ae9_2f73),
    (0x3ff0_2700_3000_0000, 0x3e30_3b10_def7_d10b),
    (0x3ff0_27b3_5800_0000, 0xbe1e_ae23_7b7b_e44c),
    (0x3ff0_2866_8400_0000, 0x3e3c_9e05_880a_cc36),
    (0x3ff0_2919_bc00_0000, 0xbe07_1714_213f_0eec),
    (0x3ff0_29cc_f800_0000, 0x3e39_d720_a059_32ef),
    (0x3ff0_2a80_4000_0000, 0xbe2a_5d1e_55e3_e087),
    (0x3ff0_2b33_8c00_0000, 0x3e20_22e0_6a52_3d28),
    (0x3ff0_2be6_e000_0000, 0x3e39_9c81_1791_c481),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::splitmix::draw;

    /// The fast phase answers almost always, so the accurate phase is tested separately: where only it answers, and near
    /// multiples of ln 2, where its quotient is off by one.
    #[test]
    fn both_phases_agree() {
        let beside = (-1060..=1024).flat_map(|k| {
            let middle = (f64::from(k) * std::f64::consts::LN_2).to_bits();
            (0..7).map(move |at| f64::from_bits((middle + at).saturating_sub(3)))
        });
        let tiny = (1..970u64).flat_map(|field| [1.0, -1.0].map(|sign| sign * f64::from_bits(field << 52)));
        let random = (0..200_000).map(|at| -746.0 + 1456.0 * (draw(1, at, 0) >> 11) as f64 / (1u64 << 53) as f64);
        let ends = [0.0, -0.0, -746.0, -745.2, -745.1, -708.4, -708.3, -707.0, 708.0, 709.78, 709.79, 710.0];
        for x in beside.chain(tiny).chain(random).chain(ends) {
            if (-746.0..=710.0).contains(&x) {
                assert_eq!(exp_accurate(x).to_bits(), exp(x).to_bits(), "{x:e}");
            }
        }
    }

    /// `multiply` loses nothing but what lies below the last bit.
    #[test]
    fn products_are_rounded_down() {
        for at in 0..10_000 {
            let random = |stream| u128::from(draw(2, at, stream)) << 64 | u128::from(draw(2, at, stream + 1));
            let (a, b) = (random(0) >> 1, random(2) >> 2);
            // In limbs of 32 bits, with all their carries.
            let limbs = |n: u128| [0, 32, 64, 96].map(|shift| (n >> shift) as u64 & 0xffff_ffff);
            let (a_limbs, b_limbs) = (limbs(a), limbs(b));
            let mut product = [0u64; 8];
            for (i, a) in a_limbs.into_iter().enumerate() {
                let mut carry = 0;
                for (j, b) in b_limbs.into_iter().enumerate() {
                    let sum = product[i + j] + a * b + carry;
                    (product[i + j], carry) = (sum & 0xffff_ffff, sum >> 32);
                }
                product[i + 4] = carry;
            }
            let half = |limbs: &[u64]| limbs.iter().rev().fold(0, |n, limb| n << 32 | u128::from(*limb));
            let (low, high) = (half(&product[..4]), half(&product[4..]));
            assert_eq!(multiply(a, b), high << 2 | low >> 126, "{a:x} times {b:x}");
        }
    }

    /// Of every magnitude, on which the shifts of the accurate phase depend.
    #[test]
    fn large_arguments_overflow_and_small_ones_vanish() {
        for exponent in 10..1024 {
            for significand in [0, 1, 1 << 51, (1 << 52) - 1, draw(7, exponent, 0) >> 12] {
                let x = f64::from_bits((exponent + 1023) << 52 | significand);
                assert_eq!((exp(x), exp(-x)), (f64::INFINITY, 0.0), "{x:e}");
            }
        }
    }
}
