//! The command as it is run: a child process, stopped, killed and started again, with the model that needs no file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

const A: &str = r#"{"temperature": 0.8, "top_k": 50, "top_p": 0.95, "max_tokens": 12}"#;
const B: &str = r#"{"temperature": 1.3, "top_k": 0, "top_p": 0.9, "max_tokens": 16}"#;
const PROMPTS: &str = r#"{"prompts": [
    {"id": "one", "book": "X", "text": "The sea was"},
    {"id": "two", "book": "X", "text": "A lamp"},
    {"id": "three", "book": "Y", "text": "She"}]}"#;

struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempdir().unwrap());
        fs::write(desk.path("prompts.json"), PROMPTS).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The evaluation all tests make, into a folder.
    fn command(&self, out: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quillmate-evaluate"));
        command.args(["--a", A, "--b", B, "--model", "tiny", "--seeds", "1,2"]);
        command.arg("--prompts").arg(self.path("prompts.json")).arg("--out").arg(self.path(out));
        command
    }

    fn run(&self, out: &str, flags: &[&str]) -> Output {
        self.command(out).args(flags).output().unwrap()
    }

    fn succeed(&self, out: &str, flags: &[&str]) {
        let output = self.run(out, flags);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn results(&self, out: &str) -> Vec<u8> {
        fs::read(self.path(out).join("results.jsonl")).unwrap()
    }

    fn summary(&self, out: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(out).join("summary.json")).unwrap()).unwrap()
    }
}

/// The lines of a results file without what no two runs have in common.
fn timeless(results: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(results).unwrap();
    let line = |line: &str| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        for time in ["seconds", "first_token_seconds", "cpu_seconds"] {
            if value.get(time).is_some() {
                value[time] = Value::Null;
            }
        }
        value
    };
    text.lines().map(line).collect()
}

fn said(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn metric<'a>(summary: &'a Value, name: &str) -> &'a Value {
    summary["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name).unwrap()
}

#[test]
fn the_same_evaluation_gives_the_same_texts_and_numbers() {
    let desk = Desk::new();
    desk.succeed("one", &[]);
    desk.succeed("two", &["--threads", "2"]);
    let lines = timeless(&desk.results("one"));
    assert_eq!(lines, timeless(&desk.results("two")));
    // A header, and 3 prompts by 2 seeds by 2 settings.
    assert_eq!(lines.len(), 1 + 12);
    let (one, two) = (desk.summary("one"), desk.summary("two"));
    for name in ["length", "distinct_1", "distinct_2", "distinct_3", "self_perplexity", "log_perplexity", "passes"] {
        assert_eq!(metric(&one, name), metric(&two, name));
        assert_eq!(metric(&one, name)["prompts"].as_array().unwrap().len(), 3, "{name}");
    }
    for name in ["milliseconds_to_first_token", "milliseconds_per_token", "tokens_per_second", "cpu_seconds"] {
        let found = metric(&one, name);
        assert_eq!((&found["machine_dependent"], &found["pairs"]), (&true.into(), &6.into()), "{name}");
        assert!(found["a"].as_f64().unwrap() > 0.0, "{name}");
        let interval = &found["interval"];
        assert!(interval["low"].as_f64().unwrap() <= interval["high"].as_f64().unwrap(), "{name}");
    }
    // One pass for the prompt, and one for each token but the last.
    for line in &lines[1..] {
        assert_eq!(line["passes"], line["tokens"].as_array().unwrap().len());
    }
    assert_eq!(one["failures"], two["failures"]);
    let ended = |side: &str| lines[1..].iter().filter(|line| line["side"] == side && line["ended"] == true).count();
    let short = &one["failures"][0];
    assert_eq!(short["category"], "length_not_reached");
    assert_eq!((&short["a"], &short["b"]), (&ended("A").into(), &ended("B").into()));
    assert!(one["cautions"][0].as_str().unwrap().contains("not proof of quality"));
    // What the summary says of the length is what the texts have.
    let length = |side: &str| {
        let of_side = lines[1..].iter().filter(|line| line["side"] == side);
        let lengths: Vec<f64> = of_side
            .map(|line| line["tokens"].as_array().unwrap().len() as f64 - f64::from(u8::from(line["ended"] == true)))
            .collect();
        lengths.iter().fold(0.0, |sum, length| sum + length) / lengths.len() as f64
    };
    let found = metric(&one, "length");
    for (side, name) in [("A", "a"), ("B", "b")] {
        assert!((found[name].as_f64().unwrap() - length(side)).abs() < 1e-12);
    }
}

#[test]
fn a_results_file_cut_anywhere_in_its_last_line_goes_on_to_the_same_texts() {
    let desk = Desk::new();
    desk.succeed("whole", &[]);
    let whole = desk.results("whole");
    let wanted = timeless(&whole);
    let last = whole[..whole.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    // Every byte of the last line; and, some lines before it and in the header, a few.
    let header = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let cuts = (last..whole.len()).chain([0, 1, header - 1, header, header + 1, last / 2]);
    fs::create_dir(desk.path("cut")).unwrap();
    for cut in cuts {
        fs::write(desk.path("cut").join("results.jsonl"), &whole[..cut]).unwrap();
        desk.succeed("cut", &[]);
        assert_eq!(timeless(&desk.results("cut")), wanted, "cut at {cut} of {}", whole.len());
        // What was whole has been kept, not made again.
        let kept = whole[..cut].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        assert_eq!(desk.results("cut")[..kept], whole[..kept]);
    }
}

#[test]
fn an_evaluation_survives_sigkill_and_says_so_after_ctrl_c() {
    let desk = Desk::new();
    desk.succeed("whole", &[]);
    let wanted = timeless(&desk.results("whole"));
    let lines = |out: &Path| fs::read(out).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count());
    for signal in ["-KILL", "-INT", "-TERM"] {
        let out = desk.path(signal).join("results.jsonl");
        let child = desk.command(signal).arg("--pause-ms").arg("30").stderr(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        while lines(&out) < 4 {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing is written");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let there = lines(&out);
        assert!((4..13).contains(&there), "{there}");
        if signal != "-KILL" {
            assert_eq!(output.status.code(), Some(130));
            assert!(said(&output).contains(&format!("stopped after {} of 12 texts", there - 1)));
        }
        assert!(!desk.path(signal).join("report.html").exists());
        desk.succeed(signal, &[]);
        assert_eq!(timeless(&desk.results(signal)), wanted);
        assert!(desk.path(signal).join("report.html").exists());
    }
}

#[test]
fn processors_are_settings_like_the_others() {
    let desk = Desk::new();
    let run = |b: &str, out: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quillmate-evaluate"));
        command.args(["--a", A, "--b", b, "--model", "tiny", "--prompts"]).arg(desk.path("prompts.json"));
        command.arg("--out").arg(desk.path(out)).output().unwrap()
    };
    let with = |processor: &str| A.replacen('{', &format!(r#"{{"processors": [{processor}], "#), 1);
    let once = with(r#"{"name": "no_repeat_ngram", "version": 1, "size": 1}"#);
    assert!(run(&once, "once").status.success());
    let summary = desk.summary("once");
    let distinct = metric(&summary, "distinct_1");
    assert_eq!(distinct["b"], 1.0);
    assert!(distinct["a"].as_f64().unwrap() < 1.0);
    assert_eq!(summary["evaluation"]["b"]["processors"][0]["name"], "no_repeat_ngram");
    // Where a processor leaves nothing, the text is a failure of its category, and the others are made.
    let nothing = with(
        r#"{"name": "forced_prefix", "version": 1, "tokens": [5]}, {"name": "deny", "version": 1, "tokens": [5]}"#,
    );
    let output = run(&nothing, "nothing");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("| Refused: processor_all_banned | 0 | 15 | 0 | 0 | 15 |"), "{table}");
    let summary = desk.summary("nothing");
    let refused = summary["failures"].as_array().unwrap().iter().find(|it| it["category"] == "processor_all_banned");
    assert_eq!((&refused.unwrap()["a"], &refused.unwrap()["b"]), (&0.into(), &15.into()));
    // A text that was not written is not measured.
    assert_eq!((&metric(&summary, "length")["pairs"], &metric(&summary, "length")["a"]), (&0.into(), &Value::Null));
    let lines = timeless(&desk.results("nothing"));
    assert_eq!(lines.len(), 1 + 30);
    assert!(lines[1..].iter().all(|line| (line["side"] == "B") == (line["refused"] == "processor_all_banned")));
    let page = fs::read_to_string(desk.path("nothing").join("report.html")).unwrap();
    assert!(page.contains("Refused: processor_all_banned") && page.contains("No pair of texts has this measure."));
}

/// Times are kept with their texts: a resumed evaluation has those of before, and one that an earlier release began goes on,
/// its texts without what was not measured then.
#[test]
fn times_are_kept_and_older_results_are_gone_on_with() {
    let desk = Desk::new();
    desk.succeed("out", &[]);
    let whole = String::from_utf8(desk.results("out")).unwrap();
    let kept: Vec<&str> = whole.lines().take(6).collect();
    fs::write(desk.path("out").join("results.jsonl"), kept.join("\n") + "\n").unwrap();
    desk.succeed("out", &[]);
    let resumed = String::from_utf8(desk.results("out")).unwrap();
    assert_eq!(resumed.lines().take(6).collect::<Vec<_>>(), kept);
    assert_eq!(metric(&desk.summary("out"), "cpu_seconds")["pairs"], 6);

    // The same as form 1 had it: four texts, then this release.
    let mut old = Vec::new();
    for line in whole.lines().take(5) {
        let mut line: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        for new in ["first_token_seconds", "passes", "cpu_seconds"] {
            line.remove(new);
        }
        if line.contains_key("format") {
            line.insert("format".into(), 1.into());
        }
        old.push(Value::from(line).to_string());
    }
    fs::write(desk.path("out").join("results.jsonl"), old.join("\n") + "\n").unwrap();
    desk.succeed("out", &[]);
    let resumed = String::from_utf8(desk.results("out")).unwrap();
    assert_eq!(resumed.lines().take(5).collect::<Vec<_>>(), old);
    assert_eq!(timeless(resumed.as_bytes())[5..], timeless(whole.as_bytes())[5..]);
    let summary = desk.summary("out");
    for (name, pairs) in [("length", 6), ("milliseconds_per_token", 6), ("passes", 4), ("cpu_seconds", 4)] {
        assert_eq!(metric(&summary, name)["pairs"], pairs, "{name}");
    }
    // A form of the future is another evaluation's.
    fs::write(desk.path("out").join("results.jsonl"), old[0].replace(r#""format":1"#, r#""format":3"#) + "\n").unwrap();
    assert!(said(&desk.run("out", &[])).contains("format is 2 here and 3 there"));
}

#[test]
fn another_evaluation_is_refused_by_name_and_nothing_is_touched() {
    let desk = Desk::new();
    desk.succeed("out", &[]);
    let before = desk.results("out");
    let other_prompts = desk.path("other.json");
    fs::write(&other_prompts, PROMPTS.replace("She", "He")).unwrap();
    let other_prompts = other_prompts.to_str().unwrap();
    // The last of a flag given twice would be refused by clap; so the whole command is written out.
    let run = |a: &str, b: &str, prompts: &str, seeds: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quillmate-evaluate"));
        command.args(["--a", a, "--b", b, "--model", "tiny", "--seeds", seeds, "--prompts", prompts, "--out"]);
        said(&command.arg(desk.path("out")).output().unwrap())
    };
    let prompts = desk.path("prompts.json");
    let prompts = prompts.to_str().unwrap();
    for (output, named) in [
        (run(B, B, prompts, "1,2"), vec!["a is {"]),
        (run(A, &B.replace("16", "17"), prompts, "1,2"), vec!["b is {", "17", "16"]),
        (run(A, B, other_prompts, "1,2"), vec!["prompts_sha256 is "]),
        (run(A, B, prompts, "1,2,3"), vec!["seeds is [\"1\",\"2\",\"3\"] here and [\"1\",\"2\"] there"]),
        (run(B, A, prompts, "2"), vec!["a is {", "b is {", "seeds is "]),
    ] {
        assert!(output.contains("holds another evaluation"), "{output}");
        for name in named {
            assert!(output.contains(name), "{name} is not in {output}");
        }
    }
    // Another model, as far as the file can tell.
    let changed = String::from_utf8(before.clone()).unwrap().replacen("tiny-2", "tiny-1", 1);
    fs::write(desk.path("out").join("results.jsonl"), &changed).unwrap();
    assert!(said(&desk.run("out", &[])).contains("model is {"));
    assert_eq!(desk.results("out"), changed.as_bytes());
}

#[test]
fn a_damaged_file_is_refused_with_its_line() {
    let desk = Desk::new();
    desk.succeed("out", &[]);
    let whole = String::from_utf8(desk.results("out")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let swapped = [&lines[..3], &[lines[4], lines[3]], &lines[5..]].concat().join("\n") + "\n";
    let garbled = whole.replacen("\"ended\"", "\"endet\"", 2);
    let twice = whole.clone() + lines[1] + "\n";
    for (text, line) in [(swapped, "line 4"), (garbled, "line 2"), (twice, "line 14"), ("{}\n".to_owned(), "line 1")] {
        fs::write(desk.path("out").join("results.jsonl"), &text).unwrap();
        let output = said(&desk.run("out", &[]));
        assert!(output.contains(line), "{line} is not in {output}");
        assert_eq!(desk.results("out"), text.as_bytes());
    }
}

#[test]
fn two_at_once_do_not_write_into_one_folder() {
    let desk = Desk::new();
    let mut first =
        desk.command("out").args(["--pause-ms", "50"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while !desk.path("out").join("results.jsonl").exists() || desk.results("out").is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is written");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(said(&desk.run("out", &[])).contains("another evaluation is writing there"));
    assert!(first.wait().unwrap().success());
    assert_eq!(timeless(&desk.results("out")).len(), 13);
}

#[test]
fn validity_is_reported_where_it_is_asked_for() {
    let desk = Desk::new();
    let schema = desk.path("schema.json");
    fs::write(&schema, r#"{"type": "object"}"#).unwrap();
    desk.succeed("out", &["--schema", schema.to_str().unwrap()]);
    let summary = desk.summary("out");
    let valid = metric(&summary, "schema_valid");
    assert_eq!((&valid["a"], &valid["b"], &valid["pairs"]), (&0.0.into(), &0.0.into(), &6.into()));
    // The texts are there: another report of them needs no text made again, and may do without.
    let before = desk.results("out");
    desk.succeed("out", &[]);
    assert_eq!(desk.results("out"), before);
    assert!(desk.summary("out")["metrics"].as_array().unwrap().iter().all(|metric| metric["name"] != "schema_valid"));
}

#[test]
fn the_page_stands_by_itself_and_shows_every_measure() {
    let desk = Desk::new();
    fs::write(desk.path("prompts.json"), PROMPTS.replace("The sea was", "<b>The sea</b> & more")).unwrap();
    desk.succeed("out", &[]);
    let page = fs::read_to_string(desk.path("out").join("report.html")).unwrap();
    assert_eq!(page.matches("<svg role=\"img\" aria-label=\"Histogram of ").count(), 11);
    for name in [
        "Length",
        "Distinct-1",
        "Distinct-2",
        "Distinct-3",
        "Self-perplexity",
        "Time to first token",
        "Time per token",
        "Speed",
        "Cost: passes",
        "Cost: processor time",
    ] {
        assert!(page.contains(&format!("<h3>{name}</h3>")), "{name}");
        assert!(page.contains(&format!("<th scope=\"row\">{name}<small>")), "{name}");
    }
    assert!(page.contains("<h2>Failures</h2>"));
    assert!(page.contains("&lt;b&gt;The sea&lt;/b&gt; &amp; more") && !page.contains("<b>"));
    for outside in ["<script", "<link", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("not proof of quality") && page.contains("only 3 prompts"));
}

#[test]
fn what_is_wrong_is_said_before_anything_is_written() {
    let desk = Desk::new();
    let run = |a: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quillmate-evaluate"));
        command.args(["--a", a, "--b", B, "--model", "tiny", "--out"]).arg(desk.path("out")).args(more);
        said(&command.output().unwrap())
    };
    let missing = desk.path("nothing.json");
    let missing = missing.to_str().unwrap();
    for (output, named) in [
        (run(&A.replace("0.95", "1.95"), &[]), "1.95"),
        (run(&A.replace("top_p", "topP"), &[]), "settings.top_p is missing"),
        (run(&A.replace("12", "4096"), &[]), "of a context of 4096"),
        (run(&A.replace("12", "4097"), &[]), "settings.max_tokens"),
        (run(missing, &[]), "nothing.json"),
        (run(A, &["--seeds", "1,1"]), "seed 1 is given twice"),
        (run(A, &["--seeds", "x"]), "\"x\""),
        (run(A, &["--prompts", missing]), "nothing.json"),
        (run(A, &["--schema", missing]), "nothing.json"),
    ] {
        assert!(output.contains(named), "{named} is not in {output}");
    }
    assert!(!desk.path("out").exists());
}
