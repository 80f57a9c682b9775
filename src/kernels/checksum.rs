//! CRC-32 (ISO-HDLC) of frames.
//!
//! Native builds use crc32fast, with the processor's carry-less multiplication. WebAssembly has none: there long frames are
//! first folded in vectors, and the tables for the rest are built on first use.

/// The CRC-32 of some bytes.
#[cfg(not(target_arch = "wasm32"))]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The CRC-32 of some bytes.
#[cfg(target_arch = "wasm32")]
pub fn crc32(bytes: &[u8]) -> u32 {
    folded(bytes)
}

/// The distances at which a byte is folded: x^4018 + x^2091 + x^1837 + 1 is a multiple of the CRC's polynomial, and so is its eighth
/// power, in which each exponent is a number of bytes. Of all multiples with four terms below x^5000 the one whose two highest
/// are furthest apart: what is `NEAR` bytes or less does not depend on itself.
#[cfg(any(target_arch = "wasm32", test))]
const FAR: usize = 4018;
#[cfg(any(target_arch = "wasm32", test))]
const MIDDLE: usize = FAR - 1837;
#[cfg(any(target_arch = "wasm32", test))]
const NEAR: usize = FAR - 2091;

/// Every byte but the last `FAR` is replaced by bytes further on that leave the same remainder, without a table: Russell,
/// "Chorba: A novel CRC32 implementation", 2024, arXiv:2412.16398.
#[cfg(any(target_arch = "wasm32", test))]
fn folded(bytes: &[u8]) -> u32 {
    /// Bytes at a step: whole vectors, at most `NEAR`.
    const STEP: usize = 1920;
    const ROOM: usize = 8 * STEP;
    let Some(length) = bytes.len().checked_sub(FAR) else {
        return !sliced(!0, bytes);
    };
    let (head, tail) = bytes.split_at(length);
    // The last bytes and space for the next ones. The register starts with ones, as if they preceded the data.
    let mut past = [0; FAR + ROOM];
    past[..4].fill(!0);
    for some in head.chunks(ROOM) {
        for (at, bytes) in some.chunks(STEP).enumerate() {
            let (before, new) = past[at * STEP..].split_at_mut(FAR);
            fold(before, bytes, new);
        }
        past.copy_within(some.len()..some.len() + FAR, 0);
    }
    past[FAR..2 * FAR].fill(0);
    let mut rest = [0; FAR];
    fold(&past[..2 * FAR], tail, &mut rest);
    !sliced(0, &rest)
}

/// Adds the folded earlier bytes to some bytes. `before` begins `FAR` bytes before the first.
#[cfg(any(target_arch = "wasm32", test))]
#[inline(never)]
fn fold(before: &[u8], bytes: &[u8], new: &mut [u8]) {
    let from = |distance: usize| &before[FAR - distance..][..bytes.len()];
    let (near, middle, far) = (from(NEAR), from(MIDDLE), from(FAR));
    let new = &mut new[..bytes.len()];
    for at in 0..bytes.len() {
        new[at] = bytes[at] ^ near[at] ^ middle[at] ^ far[at];
    }
}

/// The register after some bytes, eight per step, each with its own table: Kounavis & Berry, "A systematic
/// approach to building high performance software-based CRC generators", ISCC 2005.
#[cfg(any(target_arch = "wasm32", test))]
#[inline(never)]
fn sliced(crc: u32, bytes: &[u8]) -> u32 {
    thread_local! {
        static TABLES: [[u32; 256]; 8] = tables();
    }
    TABLES.with(|tables| {
        let mut crc = crc;
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            let mixed = u64::from_le_bytes(*eight) ^ u64::from(crc);
            crc = 0;
            for (table, byte) in tables.iter().rev().zip(mixed.to_le_bytes()) {
                crc ^= table[usize::from(byte)];
            }
        }
        for byte in rest {
            crc = (crc >> 8) ^ tables[0][usize::from(crc as u8 ^ byte)];
        }
        crc
    })
}

#[cfg(any(target_arch = "wasm32", test))]
fn tables() -> [[u32; 256]; 8] {
    /// The polynomial, bits reversed.
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut tables = [[0; 256]; 8];
    for (byte, entry) in (0u32..).zip(&mut tables[0]) {
        *entry = (0..8).fold(byte, |crc, _| (crc >> 1) ^ (POLYNOMIAL * (crc & 1)));
    }
    for slice in 1..8 {
        for byte in 0..256 {
            let before = tables[slice - 1][byte];
            tables[slice][byte] = (before >> 8) ^ tables[0][(before & 255) as usize];
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use quillmate_sampler::draw;

    /// The check value of CRC-32/ISO-HDLC in Cook's "Catalogue of parametrised CRC algorithms".
    #[test]
    fn the_published_check_value() {
        assert_eq!((crc32(b"123456789"), folded(b"123456789")), (0xcbf4_3926, 0xcbf4_3926));
    }

    #[test]
    fn both_forms_agree_at_every_length() {
        let bytes: Vec<u8> = (0..50_000).map(|at| draw(1, at, 0) as u8).collect();
        for length in (0..10_000).chain((10_000..bytes.len()).step_by(61)) {
            assert_eq!(folded(&bytes[..length]), crc32(&bytes[..length]), "{length} bytes");
        }
    }
}
