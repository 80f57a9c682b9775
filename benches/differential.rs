//! `cargo bench --bench differential [MILLIONS]`: the fast path against the contract on ten million random draws or more, with
//! counts of who decided. The rate of fallbacks is that of the draws the contract's steps had to answer.

#[path = "../tests/shared/differential.rs"]
mod differential;

use differential::{Counts, KINDS, draws, real_rows, row};
use quillmate_sampler::{Settings, SettingsError};

/// Draws from each row are shared out among these.
fn settings() -> Result<[Settings; 7], SettingsError> {
    Ok([
        Settings::new(0.0, 0, 1.0)?,
        Settings::new(0.8, 50, 0.95)?,
        Settings::new(0.8, 50, 1.0)?,
        Settings::new(0.8, 0, 0.9)?,
        Settings::new(1.0, 0, 0.95)?,
        Settings::new(0.8, 0, 1.0)?,
        Settings::new(1.2, 0, 1.0)?,
    ])
}

fn print(name: &str, counts: Counts) {
    let rate = counts.contract as f64 / counts.draws() as f64;
    let Counts { compared, coarse, fine, contract } = counts;
    let draws = counts.draws();
    println!("{name:34} {draws:>9} {compared:>9} {coarse:>9} {fine:>9} {contract:>9}  {rate:.1e}");
}

fn main() -> Result<(), SettingsError> {
    let millions = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(10.0);
    println!("{:34} {:>9} {:>9} {:>9} {:>9} {:>9}  rate", "rows", "draws", "compared", "coarse", "fine", "fallback");
    let settings = settings()?;
    let mut all = Counts::default();
    let mut several = |name: &str, rows: &[Vec<f32>], total: f64| {
        let each = (total / (rows.len() * settings.len()) as f64) as u64 + 1;
        let mut counts = Counts::default();
        for (seed, row) in (0u64..).zip(rows) {
            for settings in &settings {
                counts.add(draws(row, settings, seed, each));
            }
        }
        all.add(counts);
        print(name, counts);
    };
    // Most draws from short rows: they are cheap, and no less sharp.
    for (name, rows) in real_rows() {
        several(name, &rows, millions * if rows[0].len() < 1000 { 3e5 } else { 6e4 });
    }
    for (length, share) in [(1000, 4.5e5), (10_000, 6e4), (128_256, 1e4)] {
        for kind in KINDS {
            let rows: Vec<_> = (0..4).map(|seed| row(kind, seed, length)).collect();
            several(&format!("{kind}, V {length}"), &rows, millions * share / KINDS.len() as f64);
        }
    }
    print("all", all);
    Ok(())
}
