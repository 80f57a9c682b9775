//! Checks SQLite's write-ahead log before SQLite reads it.
//!
//! SQLite reads a log up to the first frame with a wrong checksum and drops the rest silently. After a power cut that is
//! right: what it drops was never reported as stored. After damage to the file it is not, so the server warns.
//! The format: <https://sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// The part of a log that SQLite will drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Frames of pages that SQLite will read.
    pub good: u64,
    /// Frames after them that it will drop, including the damaged one.
    pub lost: u64,
    /// How many of those ended a transaction, as far as they can be read.
    pub transactions: u64,
}

/// Looks for a frame that is damaged. Frames an earlier round of the log left behind the last good one are none.
pub fn damage(path: &Path) -> io::Result<Option<Damage>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    let mut log = BufReader::new(file);
    let mut header = [0; HEADER];
    if length <= HEADER as u64 {
        return Ok(None);
    }
    log.read_exact(&mut header)?;
    let words = |bytes: &[u8]| -> Vec<u32> {
        bytes.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]])).collect()
    };
    let head = words(&header);
    let page = match head[2] {
        1 => 65_536,
        size => size as usize,
    };
    let little = match head[0] {
        0x377f_0682 => true,
        0x377f_0683 => false,
        _ => return Ok(Some(unreadable(length))),
    };
    if !page.is_power_of_two() || !(512..=65_536).contains(&page) {
        return Ok(Some(unreadable(length)));
    }
    let mut sum = checksum((0, 0), &header[..24], little);
    if sum != (head[6], head[7]) {
        return Ok(Some(unreadable(length)));
    }
    let salts = (head[4], head[5]);
    let mut frame = vec![0; FRAME_HEADER + page];
    let (mut good, mut lost, mut transactions, mut at) = (0, 0, 0, 0);
    let mut whole = true;
    while read_whole(&mut log, &mut frame)? {
        at += 1;
        let it = words(&frame[..FRAME_HEADER]);
        let own = (it[2], it[3]) == salts;
        if whole {
            let next = checksum(checksum(sum, &frame[..8], little), &frame[FRAME_HEADER..], little);
            if own && it[0] != 0 && next == (it[4], it[5]) {
                sum = next;
                good = at;
                continue;
            }
            whole = false;
        }
        if own {
            // All up to this one were of this round, whatever their salts are now.
            lost = at - good;
            transactions += u64::from(it[1] != 0);
        }
    }
    Ok((lost > 0).then_some(Damage { good, lost, transactions }))
}

/// All of a log is lost whose header cannot be read.
fn unreadable(length: u64) -> Damage {
    // SQLite's page where nothing else was asked for.
    let frame = FRAME_HEADER as u64 + 4096;
    Damage { good: 0, lost: (length - HEADER as u64).div_ceil(frame), transactions: 0 }
}

/// SQLite's running checksum over 32-bit words.
fn checksum((mut s0, mut s1): (u32, u32), bytes: &[u8], little: bool) -> (u32, u32) {
    let word = |bytes: &[u8]| {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    };
    for pair in bytes.chunks_exact(8) {
        s0 = s0.wrapping_add(word(&pair[..4])).wrapping_add(s1);
        s1 = s1.wrapping_add(word(&pair[4..])).wrapping_add(s0);
    }
    (s0, s1)
}

/// Fills the buffer; false at the end of the file, be it in the middle of a frame.
fn read_whole(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use tempfile::tempdir;

    use super::*;

    /// A log with so many transactions after some that were checkpointed, as a process that was killed leaves it.
    fn log(transactions: u32, before: u32) -> Vec<u8> {
        let folder = tempdir().unwrap();
        let path = folder.path().join("a.sqlite");
        let one = Connection::open(&path).unwrap();
        one.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
        one.execute_batch("CREATE TABLE t (x)").unwrap();
        for at in 0..before {
            one.execute("INSERT INTO t VALUES (?1)", [at.to_string().repeat(3000)]).unwrap();
        }
        // Begins the log anew, and leaves its old frames where they are.
        one.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        for at in 0..transactions {
            one.execute("INSERT INTO t VALUES (?1)", [at]).unwrap();
        }
        std::fs::read(folder.path().join("a.sqlite-wal")).unwrap()
    }

    fn found(bytes: &[u8]) -> Option<Damage> {
        let folder = tempdir().unwrap();
        let path = folder.path().join("wal");
        std::fs::write(&path, bytes).unwrap();
        damage(&path).unwrap()
    }

    #[test]
    fn a_whole_log_is_whole_with_old_frames_behind_it_and_without() {
        assert_eq!(damage(Path::new("/nowhere/wal")).unwrap(), None);
        assert_eq!(found(b""), None);
        assert_eq!(found(&log(5, 0)), None);
        let behind = log(3, 40);
        assert!(behind.len() > HEADER + 40 * (FRAME_HEADER + 4096), "there are old frames behind");
        assert_eq!(found(&behind), None);
        // A frame that was cut off by a power cut was never stored.
        let whole = log(5, 0);
        assert_eq!(found(&whole[..whole.len() - 100]), None);
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        for (before, frame) in [(0, FRAME_HEADER + 4096), (40, FRAME_HEADER + 4096)] {
            let whole = log(5, before);
            let frames = 5;
            for at in 0..HEADER + frames * frame {
                // One bit of each byte near the borders, and of some bytes in the pages.
                let place = at.checked_sub(HEADER).map_or(0, |at| at % frame);
                if place > FRAME_HEADER + 2 && at % 97 != 0 {
                    continue;
                }
                // In the last frame's own salts it cannot be told from an old frame.
                if at >= HEADER + (frames - 1) * frame && (8..16).contains(&place) {
                    continue;
                }
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << (at % 8);
                let damage = found(&damaged).unwrap_or_else(|| panic!("byte {at} of a log after {before}"));
                assert!(damage.lost > 0);
            }
        }
        let frame = FRAME_HEADER + 4096;
        let mut damaged = log(5, 0);
        damaged[HEADER + 3 * frame + 30] ^= 4;
        let count = (damaged.len() - HEADER) / frame;
        let lost = count as u64 - 3;
        assert!(lost > 0);
        // Each frame is a transaction of its own.
        assert_eq!(found(&damaged), Some(Damage { good: 3, lost, transactions: lost }));
    }

    /// The same log as a big-endian machine writes it: its checksums go over big-endian words.
    fn big_endian(log: &[u8]) -> Vec<u8> {
        let mut log = log.to_vec();
        log[..4].copy_from_slice(&0x377f_0683_u32.to_be_bytes());
        let written = |bytes: &mut [u8], (s0, s1): (u32, u32)| {
            bytes[..4].copy_from_slice(&s0.to_be_bytes());
            bytes[4..].copy_from_slice(&s1.to_be_bytes());
        };
        let (header, frames) = log.split_at_mut(HEADER);
        let mut sum = checksum((0, 0), &header[..24], false);
        written(&mut header[24..], sum);
        for frame in frames.chunks_exact_mut(FRAME_HEADER + 4096) {
            sum = checksum(checksum(sum, &frame[..8], false), &frame[FRAME_HEADER..], false);
            written(&mut frame[16..24], sum);
        }
        log
    }

    #[test]
    fn a_log_of_a_big_endian_machine_is_read() {
        let mut log = big_endian(&log(5, 0));
        assert_eq!(found(&log), None);
        log[HEADER + 100] ^= 1;
        assert_eq!(found(&log).map(|damage| damage.good), Some(0));
    }

    #[test]
    fn a_log_whose_header_cannot_be_read_is_lost_whole() {
        let lost = |lost| Some(Damage { good: 0, lost, transactions: 0 });
        let mut bytes = vec![0; HEADER + 3 * (FRAME_HEADER + 4096)];
        assert_eq!(found(&bytes), lost(3));
        bytes.push(0);
        assert_eq!(found(&bytes), lost(4));
        // Sizes of pages that SQLite does not have, under a right checksum.
        for page in [256_u32, 1000, 1 << 17] {
            bytes[..4].copy_from_slice(&0x377f_0682_u32.to_be_bytes());
            bytes[8..12].copy_from_slice(&page.to_be_bytes());
            let (s0, s1) = checksum((0, 0), &bytes[..24], true);
            bytes[24..28].copy_from_slice(&s0.to_be_bytes());
            bytes[28..32].copy_from_slice(&s1.to_be_bytes());
            assert_eq!(found(&bytes), lost(4), "{page}");
        }
    }

    #[test]
    fn a_log_that_cannot_be_read_is_an_error_and_not_its_end() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::TimedOut.into())
            }
        }
        assert_eq!(read_whole(&mut Broken, &mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(!read_whole(&mut &[1][..], &mut [0; 2]).unwrap());
        assert!(read_whole(&mut &[1][..], &mut [0]).unwrap());
    }
}
