//! Which mutant is on: `QUILLMATE_MUTANT` holds its number. Where `QUILLMATE_MUTANTS_REACHED` names a file instead, none is,
//! and the file takes down the number of each that is asked for.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

const UNKNOWN: u32 = u32::MAX;
const NONE: u32 = u32::MAX - 1;
const TAKEN_DOWN: u32 = u32::MAX - 2;
const MOST: usize = 1 << 14;

static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
static REACHED: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];

#[inline(always)]
pub fn on(id: u32) -> bool {
    match CHOSEN.load(Relaxed) {
        UNKNOWN | TAKEN_DOWN => look(id),
        chosen => chosen == id,
    }
}

#[cold]
fn look(id: u32) -> bool {
    if CHOSEN.load(Relaxed) == UNKNOWN {
        let chosen = match std::env::var("QUILLMATE_MUTANT") {
            Ok(number) => number.parse().expect("a mutant's number"),
            Err(_) if std::env::var_os("QUILLMATE_MUTANTS_REACHED").is_some() => TAKEN_DOWN,
            Err(_) => NONE,
        };
        CHOSEN.store(chosen, Relaxed);
        return on(id);
    }
    if !REACHED[id as usize].load(Relaxed) && !REACHED[id as usize].swap(true, Relaxed) {
        let file = std::env::var_os("QUILLMATE_MUTANTS_REACHED").expect("it was there before");
        let mut reached = OpenOptions::new().append(true).create(true).open(file).expect("the file of what is reached");
        reached.write_all(format!("{id}\n").as_bytes()).expect("the file of what is reached");
    }
    false
}
