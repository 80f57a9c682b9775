//! CRC-32 (ISO-HDLC) of frames.
//!
//! Natively crc32fast, which uses the processor's carry-less multiplication. Its portable form brings 16 KiB of tables,
//! a tenth of the npm package, so in WebAssembly the same tables are made when they are first needed.

/// The CRC-32 of some bytes.
#[cfg(not(target_arch = "wasm32"))]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The CRC-32 of some bytes.
#[cfg(target_arch = "wasm32")]
pub fn crc32(bytes: &[u8]) -> u32 {
    sliced(bytes)
}

/// Sixteen bytes at a step, each through a table of its own: Kounavis & Berry, "A systematic approach to building high
/// performance software-based CRC generators", ISCC 2005.
#[cfg(any(target_arch = "wasm32", test))]
fn sliced(bytes: &[u8]) -> u32 {
    use std::sync::LazyLock;

    /// The polynomial, bits reversed.
    const POLYNOMIAL: u32 = 0xedb8_8320;
    static TABLES: LazyLock<[[u32; 256]; 16]> = LazyLock::new(|| {
        let mut tables = [[0; 256]; 16];
        for (byte, entry) in (0u32..).zip(&mut tables[0]) {
            *entry = (0..8).fold(byte, |crc, _| (crc >> 1) ^ (POLYNOMIAL * (crc & 1)));
        }
        for slice in 1..16 {
            for byte in 0..256 {
                let before = tables[slice - 1][byte];
                tables[slice][byte] = (before >> 8) ^ tables[0][(before & 255) as usize];
            }
        }
        tables
    });
    let tables = &*TABLES;
    let (sixteens, rest) = bytes.as_chunks::<16>();
    let mut crc = !0u32;
    for sixteen in sixteens {
        let mixed = u128::from_le_bytes(*sixteen) ^ u128::from(crc);
        crc = 0;
        for (table, byte) in tables.iter().rev().zip(mixed.to_le_bytes()) {
            crc ^= table[usize::from(byte)];
        }
    }
    for byte in rest {
        crc = (crc >> 8) ^ tables[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use quillmate_sampler::draw;

    /// The check value of CRC-32/ISO-HDLC in Cook's "Catalogue of parametrised CRC algorithms".
    #[test]
    fn the_published_check_value() {
        assert_eq!((crc32(b"123456789"), sliced(b"123456789")), (0xcbf4_3926, 0xcbf4_3926));
    }

    #[test]
    fn both_forms_agree_at_every_length() {
        let bytes: Vec<u8> = (0..300).map(|at| draw(1, at, 0) as u8).collect();
        for length in 0..bytes.len() {
            assert_eq!(sliced(&bytes[..length]), crc32(&bytes[..length]), "{length} bytes");
        }
    }
}
