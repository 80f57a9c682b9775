//! The command line tool, on files.

use std::path::Path;
use std::process::Command;

use quillmate_sampler::{Environment, Frame, Identity, ModelIdentity, RecordFile, Run, Settings, Stop};
use serde_json::Value;

fn record(seed: u64) -> RecordFile {
    let mut run = Run::new(vec![1, 2], seed, Settings::new(0.9, 4, 1.0).unwrap());
    let start = run.state().clone();
    let mut frames = Vec::new();
    for step in 0..6 {
        let logits: Vec<f32> = (0..16).map(|id| ((id * 7 + step * 5) % 11) as f32 / 3.0).collect();
        let frame = run.frame(step, &logits).unwrap();
        run.step_with_frame(&frame).unwrap();
        frames.push(Some(frame));
    }
    let model = ModelIdentity {
        name: None,
        sha256: Some("aa".into()),
        arithmetic: Some("x-1".into()),
        tokenizer_sha256: Some("bb".into()),
        vocab: Some(16),
    };
    let stop = Stop { max_tokens: Some(6), end_tokens: Some(vec![]), reason: Some("length".into()) };
    let environment = Environment {
        build_features: Some("+sse2".into()),
        server: Some("0.1.0 grammar".into()),
        cpu_features: Some("avx2".into()),
        kernels: Some("avx2".into()),
        threads: Some("2".into()),
        drafts: Some("4".into()),
    };
    RecordFile {
        identity: Identity { model, environment, ..Identity::of_this_release() },
        start,
        tokens: run.tokens().to_vec(),
        draws_used: Some(6),
        frames: Some(frames),
        decisions: None,
        stop,
    }
}

struct Said {
    code: Option<i32>,
    out: String,
    error: String,
}

fn tool(folder: &Path, arguments: &[&str]) -> Said {
    let output =
        Command::new(env!("CARGO_BIN_EXE_first-divergence")).args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), error: text(output.stderr) }
}

#[test]
fn two_files_one_paragraph_and_an_exit_code() {
    let folder = std::env::temp_dir().join(format!("first-divergence-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, record: &RecordFile| std::fs::write(folder.join(name), record.to_json()).unwrap();
    let one = record(42);
    write("one.json", &one);
    write("seed.json", &record(43));
    let mut logits = one.clone();
    let frames = logits.frames.as_mut().unwrap();
    frames[3] = Some(Frame::sparse(3, &[0.5; 16], 4).unwrap());
    logits.identity.target = Some("elsewhere".into());
    logits.identity.environment.threads = Some("4, then 2".into());
    write("logits.json", &logits);
    write("bare.json", &RecordFile { frames: None, ..one.clone() });
    std::fs::write(folder.join("broken.json"), &one.to_json()[..200]).unwrap();

    let same = tool(&folder, &["one.json", "one.json"]);
    assert_eq!((same.code, same.error.as_str()), (Some(0), ""));
    assert!(same.out.starts_with("The runs are the same: 6 steps"), "{}", same.out);
    assert_eq!(same.out.lines().count(), 1);

    // One paragraph, the release first; and no raw value in it.
    let parted = tool(&folder, &["one.json", "logits.json"]);
    assert_eq!(parted.code, Some(1));
    let release = format!(
        "The records were not made by the same release: target {} and elsewhere. They were made in other circumstances, on \
             which no replay depends: threads 2 and 4, then 2. ",
        quillmate_sampler::TARGET
    );
    assert!(parted.out.starts_with(&release), "{}", parted.out);
    assert!(parted.out.contains("The runs part at step 3, in the logits: from the token at rank 1"), "{}", parted.out);
    assert_eq!(parted.out.lines().count(), 1);

    let json = tool(&folder, &["--json", "one.json", "logits.json"]);
    assert_eq!(json.code, Some(1));
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (&json["outcome"], &json["first"]["what"], &json["first"]["step"]),
        (&"diverged".into(), &"logits".into(), &3.into())
    );
    assert_eq!(json["paragraph"], parted.out.trim_end());
    assert_eq!(json["first"].get("values"), None);
    let values = tool(&folder, &["one.json", "logits.json", "--values", "--json"]);
    let values: Value = serde_json::from_str(&values.out).unwrap();
    assert_eq!(values["first"]["values"][1][0][1], 0.5);

    let seed = tool(&folder, &["one.json", "seed.json"]);
    assert_eq!(seed.code, Some(1));
    assert!(seed.out.contains("in the draw: another seed") && !seed.out.contains("42"), "{}", seed.out);
    assert!(tool(&folder, &["--values", "one.json", "seed.json"]).out.contains("first [\"42\","));

    let missing = tool(&folder, &["one.json", "bare.json"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.out.contains("Missing: logits in the second record from step 0"), "{}", missing.out);

    for arguments in
        [&["one.json", "broken.json"][..], &["nowhere.json", "one.json"], &["one.json"], &["--quick", "a", "b"]]
    {
        let refused = tool(&folder, arguments);
        assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(!refused.error.is_empty());
    }
    assert!(tool(&folder, &["one.json", "broken.json"]).error.contains("broken.json is no record"));
    assert!(tool(&folder, &["--help"]).out.contains("exit code"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn two_files_of_traces() {
    let folder = std::env::temp_dir().join(format!("first-divergence-traces-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, seed: u64| {
        let mut run = Run::new(vec![1, 2], seed, Settings::new(0.9, 4, 1.0).unwrap());
        let mut traces = Vec::new();
        for step in 0..6 {
            let logits: Vec<f32> = (0..16).map(|id| ((id * 7 + step * 5) % 11) as f32 / 3.0).collect();
            traces.push(run.trace(&logits).unwrap());
            run.step_with(&logits).unwrap();
        }
        std::fs::write(folder.join(name), serde_json::json!({ "traces": traces }).to_string()).unwrap();
    };
    write("one.json", 42);
    write("again.json", 42);
    write("other.json", 43);
    std::fs::write(folder.join("record.json"), record(42).to_json()).unwrap();
    // Nothing differs, and what traces do not hold is missing.
    let again = tool(&folder, &["one.json", "again.json"]);
    assert_eq!((again.code, again.error.as_str()), (Some(2), ""));
    assert!(again.out.starts_with("No difference was found in 6 steps, but there is not enough"), "{}", again.out);
    for lacks in ["input ids in both lists of traces", "settings and processors in both", "stop in both"] {
        assert!(again.out.contains(lacks), "{}", again.out);
    }
    assert!(!again.out.contains("same stop") && !again.out.contains("equal"), "{}", again.out);
    // What the best five do not show: the logits further down, by their digest, and without it as missing.
    let change = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut file: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("one.json")).unwrap()).unwrap();
        file["traces"].as_array_mut().unwrap().iter_mut().for_each(change);
        std::fs::write(folder.join(name), file.to_string()).unwrap();
    };
    change("other_row.json", &|trace| trace["logits_sha256"] = "0".repeat(64).into());
    change("old.json", &|trace| drop(trace.as_object_mut().unwrap().remove("logits_sha256")));
    let row = tool(&folder, &["one.json", "other_row.json"]);
    assert_eq!(row.code, Some(1));
    assert!(row.out.contains("in the logits: below the 5 likeliest tokens, by the digests of the rows"), "{}", row.out);
    let old = tool(&folder, &["old.json", "old.json"]);
    assert_eq!(old.code, Some(2));
    assert!(old.out.contains("logits in both lists of traces from step 0"), "{}", old.out);
    let parted = tool(&folder, &["one.json", "other.json"]);
    assert_eq!(parted.code, Some(1));
    assert!(
        parted.out.starts_with("The runs part at step 0, in the draw: another number was drawn."),
        "{}",
        parted.out
    );
    let mixed = tool(&folder, &["one.json", "record.json"]);
    assert_eq!(mixed.code, Some(2));
    assert!(mixed.error.contains("one file holds a record, the other traces"), "{}", mixed.error);
    std::fs::remove_dir_all(folder).unwrap();
}
