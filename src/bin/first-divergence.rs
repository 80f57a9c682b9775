//! `first-divergence FIRST SECOND`: reads two files, of records or of traces, and says where the runs first differ.

use std::io::Write as _;
use std::process::ExitCode;

use quillmate_sampler::comparison::Outcome;
use quillmate_sampler::json::Object;
use quillmate_sampler::{RecordFile, Refusal as _, Trace, first_divergence, first_divergence_of_traces, read_traces};

const USAGE: &str = "\
Shows where two runs first differ, and in what.

usage: first-divergence [--json] [--values] FIRST SECOND

FIRST and SECOND are record files, as the server's /api/runs/{id}/record gives them and the page's \"Save record\" saves them,
or both are files of traces, {\"traces\": […]}, one per step. Traces hold no input ids, no settings and no stop: two files of them
can show that two runs differ, but not that they are the same.

  --json    JSON instead of a paragraph
  --values  with raw values: token ids, logits, probabilities, seeds, draws

exit code: 0 the runs are the same; 1 they differ; 2 a file cannot be read, or something is missing and no difference was found
";

enum Read {
    Record(Box<RecordFile>),
    Traces(Vec<Trace>),
}

fn main() -> ExitCode {
    let (mut json, mut values, mut files) = (false, false, Vec::new());
    let mut flags = true;
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("--json") if flags => json = true,
            Some("--values") if flags => values = true,
            Some("--help" | "-h") if flags => return said(USAGE, ExitCode::SUCCESS),
            Some("--") if flags => flags = false,
            Some(other) if flags && other.starts_with('-') => {
                return refuse(&format!("unknown flag {other}\n\n{USAGE}"));
            }
            _ => files.push(argument),
        }
    }
    let [first, second] = files.as_slice() else { return refuse(USAGE) };
    let read = |path: &std::ffi::OsString| {
        let shown = path.to_string_lossy();
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let object =
            Object::parse(&text).map_err(|error| format!("{shown} is no record: {error} ({})", error.code()))?;
        if object.has("traces") {
            let traces = read_traces(object).map_err(|error| format!("{shown}: {error} ({})", error.code()))?;
            return Ok(Read::Traces(traces));
        }
        let record = RecordFile::from_object(object);
        record
            .map(|record| Read::Record(Box::new(record)))
            .map_err(|error| format!("{shown} is no record: {error} ({})", error.code()))
    };
    let (first, second) = match (read(first), read(second)) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(why), _) | (_, Err(why)) => return refuse(&why),
    };
    let comparison = match (&first, &second) {
        (Read::Record(first), Read::Record(second)) => first_divergence(first, second, values),
        (Read::Traces(first), Read::Traces(second)) => first_divergence_of_traces(first, second, values),
        _ => return refuse("one file holds a record, the other traces; they cannot be held against each other"),
    };
    let text = if json {
        serde_json::to_string_pretty(&comparison).expect("a comparison has string keys and finite numbers only")
    } else {
        comparison.paragraph
    };
    said(
        &text,
        match comparison.outcome {
            Outcome::Same => ExitCode::SUCCESS,
            Outcome::Diverged => ExitCode::from(1),
            Outcome::Insufficient => ExitCode::from(2),
        },
    )
}

fn said(text: &str, code: ExitCode) -> ExitCode {
    // The reader may have closed the pipe; the exit code is then the answer.
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
    code
}

fn refuse(why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{}", why.trim_end());
    ExitCode::from(2)
}
