//! `quillmate-mutants TREE LEFT-OUT <MUTANTS >REPORT`: puts every mutant of a list by `cargo mutants --list --json` into the
//! source files below TREE at once, each behind a switch, so that one build holds them all and a run of the tests chooses
//! one. What each kind becomes is said in [`weave`].
//!
//! LEFT-OUT names the mutants, by their number in the list, that do not compile this way. REPORT is JSON: the
//! numbers of those put in (`woven`), and of those that are no Rust (`invalid`).

mod weave;

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::io::{read_to_string, stdin};
use std::path::Path;

/// A mutant as `cargo mutants --list --json` prints it.
#[derive(Deserialize)]
struct Mutant {
    file: String,
    genre: String,
    replacement: String,
    span: Span,
}

#[derive(Deserialize)]
struct Span {
    start: Place,
}

/// From 1, the column in characters.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    line: usize,
    column: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tree, left_out] = arguments.as_slice() else {
        return Err("usage: quillmate-mutants TREE LEFT-OUT <MUTANTS >REPORT".into());
    };
    let left_out: BTreeSet<u32> = serde_json::from_str(&fs::read_to_string(left_out)?)?;
    let mutants: Vec<Mutant> = serde_json::from_str(&read_to_string(stdin())?)?;
    let mut files: BTreeMap<&str, Vec<(u32, &Mutant)>> = BTreeMap::new();
    for (id, mutant) in (0..).zip(&mutants) {
        if !left_out.contains(&id) {
            files.entry(&mutant.file).or_default().push((id, mutant));
        }
    }
    let (mut woven, mut invalid) = (Vec::new(), Vec::new());
    for (file, mutants) in files {
        let path = Path::new(tree).join(file);
        let (text, in_it, not_rust) = weave::weave(&fs::read_to_string(&path)?, &mutants)?;
        fs::write(path, text)?;
        woven.extend(in_it);
        invalid.extend(not_rust);
    }
    woven.sort_unstable();
    println!("{}", serde_json::json!({ "woven": woven, "invalid": invalid }));
    Ok(())
}
