//! Compares two settings of the sampler on frozen prompts, pair by pair: the same prompts, seeds and model for both.

mod cost;
mod error;
mod failures;
mod metrics;
mod plan;
mod plot;
mod report;
mod results;
mod statistics;
mod summary;
mod write;

use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use quillmate_server::model::smollm2::{self, Progress};
use quillmate_server::model::{self, LanguageModel};

use error::EvaluateError;
use metrics::Schema;
use plan::{Arm, PROMPTS, Plan, Prompts};
use results::Results;
use summary::Summary;

/// Compares two settings of the sampler on frozen prompts, pair by pair.
///
/// Every prompt is continued with every seed, once with the settings A and once with B. Reported are the paired differences
/// B − A in length, repetition, self-perplexity, validity where a schema is given, time to the first token and for each
/// further one, speed and cost, each with a 95 % interval; and how many texts failed, by category.
///
/// It may be stopped at any time, by Ctrl-C or worse: the same command goes on where it was, and comes to the same texts.
///
/// Settings are JSON, in a file or on the command line:
/// {"temperature": 0.8, "top_k": 50, "top_p": 0.95, "max_tokens": 48}; all of a state's settings may be there.
#[derive(Debug, Parser)]
#[command(name = "quillmate-evaluate", version)]
struct Flags {
    /// The settings A.
    #[arg(long, value_name = "FILE|JSON")]
    a: String,
    /// The settings B.
    #[arg(long, value_name = "FILE|JSON")]
    b: String,
    /// The model: a GGUF file, or `tiny` for a small deterministic one that needs no file.
    #[arg(long, value_name = "PATH|tiny")]
    model: PathBuf,
    /// SHA-256 the model file must have.
    #[arg(long, value_name = "HEX", default_value = smollm2::SHA256)]
    model_sha256: String,
    /// Folder for results.jsonl, summary.json and report.html; made if it is not there. One that holds another evaluation
    /// is refused.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Prompts, as {"prompts": [{"id", "book", "text"}, …]}. [default: sixty openings from Jane Austen's six novels]
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// The seeds of every prompt.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,3,4,5")]
    seeds: Vec<String>,
    /// A JSON Schema: also report how many texts are JSON that it allows. It may change from one report to the next.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Threads that compute, which changes how long it takes and not a bit of it. [default: as many as cores, at most 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
    /// Pause after every text, to watch or to test.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pause_ms: u64,
}

fn main() -> ExitCode {
    match evaluate(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quillmate-evaluate: {error}");
            // As a shell says it of a process that Ctrl-C has ended.
            if let EvaluateError::Stopped { .. } = error { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

fn evaluate(flags: &Flags) -> Result<(), EvaluateError> {
    let a = plan::setting_of(&flags.a, Arm::A)?;
    let b = plan::setting_of(&flags.b, Arm::B)?;
    let prompts = match &flags.prompts {
        Some(path) => Prompts::read(&plan::read(path)?)?,
        None => Prompts::read(PROMPTS)?,
    };
    let seeds = plan::read_seeds(&flags.seeds)?;
    let schema = flags.schema.as_deref().map(|path| Schema::read(&plan::read(path)?)).transpose()?;
    model::use_threads(flags.threads).map_err(|error| EvaluateError::Threads(error.to_string()))?;
    let model = model::load(&flags.model, &flags.model_sha256, &Progress::default())?;
    let plan = Plan::new(&*model, prompts, &seeds, a, b)?;
    let mut results = Results::open(&flags.out, &plan)?;

    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        // Asked twice, it does not wait for the text it is at.
        if asked.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })?;
    generate(&*model, &plan, &mut results, Duration::from_millis(flags.pause_ms), &stop)?;

    let summary = Summary::new(&plan, results.lines(), schema.as_ref());
    let page = report::page(&summary, &plan, &summary::pairs(results.lines()))?;
    let json = serde_json::to_string_pretty(&summary)
        .map_err(|error| EvaluateError::File("summary.json".into(), error.into()))?;
    replace(&flags.out.join("summary.json"), &(json + "\n"))?;
    replace(&flags.out.join("report.html"), &page)?;
    print(&summary, &flags.out);
    Ok(())
}

/// Makes the texts that are not there yet.
fn generate(
    model: &dyn LanguageModel,
    plan: &Plan,
    results: &mut Results,
    pause: Duration,
    stop: &AtomicBool,
) -> Result<(), EvaluateError> {
    let (all, before) = (plan.tasks.len(), results.lines().len());
    let mut shown = Shown::new(before, all);
    let mut prefill = None;
    for &task in &plan.tasks[before..] {
        if stop.load(Ordering::Relaxed) {
            shown.end();
            return Err(EvaluateError::Stopped { done: results.lines().len(), all });
        }
        let read = match prefill.take() {
            Some((prompt, context)) if prompt == task.prompt => (prompt, context),
            _ => (task.prompt, write::Prefill::new(model, &plan.tokens[task.prompt])?),
        };
        let (_, context) = prefill.insert(read);
        results.add(write::write(model, plan, task, context)?)?;
        shown.done(results.lines().len());
        std::thread::sleep(pause);
    }
    shown.end();
    Ok(())
}

/// Progress on standard error: a line that changes on a terminal, a line now and then elsewhere.
struct Shown {
    before: usize,
    all: usize,
    began: Instant,
    last: Option<Instant>,
    terminal: bool,
}

impl Shown {
    fn new(before: usize, all: usize) -> Self {
        if before > 0 {
            eprintln!("{before} of {all} texts are there already");
        }
        Self { before, all, began: Instant::now(), last: None, terminal: std::io::stderr().is_terminal() }
    }

    fn done(&mut self, done: usize) {
        let pause = Duration::from_millis(if self.terminal { 200 } else { 5000 });
        if self.last.is_some_and(|last| last.elapsed() < pause) && done < self.all {
            return;
        }
        self.last = Some(Instant::now());
        let each = self.began.elapsed().as_secs_f64() / (done - self.before) as f64;
        let left = (each * (self.all - done) as f64).ceil() as u64;
        let line = format!("{done} of {} texts, {}:{:02} left", self.all, left / 60, left % 60);
        if self.terminal {
            eprint!("\r{line:<50}");
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    fn end(&self) {
        if self.terminal && self.last.is_some() {
            eprintln!();
        }
    }
}

/// Writes a file in one step: a reader sees the old one or the new one.
fn replace(path: &Path, text: &str) -> Result<(), EvaluateError> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|error| EvaluateError::File(path.to_owned(), error))
}

/// The table, for the terminal.
fn print(summary: &Summary, out: &Path) {
    let mut text = String::from("| measure | A | B | B − A | 95 % interval |\n|---|---|---|---|---|\n");
    for of in &summary.metrics {
        let cells = [
            format!("{}, {}{}", of.title, of.unit, if of.machine_dependent { " (this machine)" } else { "" }),
            report::number(of.a),
            report::number(of.b),
            report::signed(of.difference),
            report::interval(of),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text += "\n| failures | A | B | both | only A | only B |\n|---|---|---|---|---|---|\n";
    for of in &summary.failures {
        text += &format!("| {} | {} | {} | {} | {} | {} |\n", of.title, of.a, of.b, of.both, of.only_a, of.only_b);
    }
    text += &format!("\n{}\n{}\n", summary.cautions[0], out.join("report.html").display());
    // Whoever reads no further has not asked for an error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
