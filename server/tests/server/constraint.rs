//! Constraints: what is written fits, whenever and however it is written, and what cannot be followed is refused by name.

use std::path::Path;
use std::time::{Duration, Instant};

use quillmate_server::hex::hex;
use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::tempdir;

use crate::support::{Answer, Server, Written, model_file, request, sample};

/// How many runs a store holds.
fn stored(data: &Path) -> u32 {
    let store = Connection::open(data.join("runs.sqlite")).unwrap();
    store.query_row("SELECT COUNT(*) FROM runs", [], |row| row.get(0)).unwrap()
}

const PLACE: &str = "{\"name\": \"Mole\", \"kind\": \"tower\", \"height\": 12, \"seen\": [\"fog\"]}\n";

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 6},
            "kind": {"enum": ["tower", "buoy", "ship"]},
            "height": {"type": "integer", "minimum": 0, "maximum": 60},
            "seen": {"type": "array", "items": {"enum": ["fog", "gale", "calm"]}, "maxItems": 2}
        },
        "required": ["name", "kind", "height", "seen"],
        "additionalProperties": false
    })
}

fn place(seed: u64) -> Value {
    let mut asked = request(PLACE, seed, 100);
    asked["settings"] = json!({"temperature": 1.2, "top_k": 0, "top_p": 0.98});
    asked["constraint"] = json!({"json_schema": schema()});
    asked
}

/// A hundred seeds, eight at a time: every text is JSON and fits the schema, and no two seeds need agree.
fn a_hundred(model: &str) {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let data = tempdir().unwrap();
    let server = Server::start(data.path(), model, &[]);
    let mut texts = Vec::new();
    for seeds in (0..100).collect::<Vec<u64>>().chunks(8) {
        let ids: Vec<String> = seeds.iter().map(|&seed| server.begin(&place(seed))).collect();
        for id in ids {
            let end = server.follow(&id, 0).1;
            assert_eq!((&end["status"], &end["reason"]), (&json!("finished"), &json!("end_token")));
            let text = server.run(&id)["text"].as_str().unwrap().to_owned();
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(validator.is_valid(&value), "{text}");
            texts.push(text);
        }
    }
    assert_eq!(texts.len(), 100);
    texts.sort_unstable();
    texts.dedup();
    assert!(texts.len() > 50, "{} texts", texts.len());
}

#[test]
fn a_hundred_seeds_fit_the_schema() {
    a_hundred("tiny");
}

#[test]
fn a_hundred_seeds_of_a_real_model_fit_the_schema() {
    let Some(path) = model_file() else { return };
    a_hundred(path.to_str().unwrap());
}

/// A day as the regex below has it, by hand.
fn is_day(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| bytes[range].iter().all(u8::is_ascii_digit);
    bytes.len() == 10 && digits(0..4) && bytes[4] == b'-' && digits(5..7) && bytes[7] == b'-' && digits(8..10)
}

/// Whether a text is a whole sum, as the grammar below has it; `None` where it is not even the beginning of one. By
/// counting brackets and looking at neighbours: every sum and every bracket has one sign.
fn sum(text: &str) -> Option<bool> {
    let mut signs = vec![0];
    let mut operand = true;
    for character in text.chars() {
        operand = match (character, operand) {
            ('(', true) => {
                signs.push(0);
                true
            }
            (')', false) => (signs.len() > 1 && signs.pop() == Some(1)).then_some(false)?,
            ('1'..='9', true) => false,
            ('+' | '-', false) => {
                let here = signs.last_mut()?;
                *here += 1;
                (*here == 1).then_some(true)?
            }
            _ => return None,
        };
    }
    Some(signs == [1] && !operand)
}

const SUM: &str = "start: sum\nsum: term (\"+\" | \"-\") term\nterm: /[1-9]/ | \"(\" sum \")\"\n";

fn grammars(model: &str) {
    let data = tempdir().unwrap();
    let server = Server::start(data.path(), model, &[]);
    let mut whole = 0;
    for seed in 0..12 {
        let mut asked = request("Written on", seed, 24);
        asked["constraint"] = json!({"regex": "[0-9]{4}-[0-9]{2}-[0-9]{2}"});
        let text = server.write(&asked).text;
        assert!(is_day(&text), "{text:?}");
        let mut asked = request("Sums: 1+2, (3-4)+5, 6-7, ", seed, 40);
        asked["settings"] = json!({"temperature": 2.0, "top_k": 0, "top_p": 1.0});
        asked["constraint"] = json!({"lark": SUM});
        let id = server.begin(&asked);
        let text = server.written(&id).text;
        // One that was cut off by its length is the beginning of a sum.
        let ended = server.run(&id)["reason"] == "end_token";
        assert!(sum(&text).is_some_and(|all| all || !ended), "{text:?}");
        whole += u32::from(ended);
    }
    assert!(whole >= 6, "{whole} sums");
}

#[test]
fn texts_fit_a_regex_and_a_grammar() {
    for (text, expected) in [
        ("(1+2)-(3-(4+5))", Some(true)),
        ("(1+2)", Some(false)),
        ("(1+2", Some(false)),
        ("", Some(false)),
        ("1+2-3", None),
        ("(1)", None),
        ("1+2)", None),
        ("12", None),
    ] {
        assert_eq!(sum(text), expected, "{text}");
    }
    grammars("tiny");
}

#[test]
fn texts_of_a_real_model_fit_a_regex_and_a_grammar() {
    let Some(path) = model_file() else { return };
    grammars(path.to_str().unwrap());
}

/// Runs of every kind of constraint, one of which ends where nothing goes on.
fn asked_of_all_kinds() -> Vec<Value> {
    let mut asked = vec![place(1), place(2)];
    for constraint in [
        json!({"lark": SUM}),
        json!({"regex": "(the sea |the light )+"}),
        json!({"lark": "%llguidance {\"allow_invalid_utf8\": true}\nstart: /the the the the the\\xff/"}),
    ] {
        let mut one = request("the sea the light the sea the light the", 5, 40);
        one["constraint"] = constraint;
        asked.push(one);
    }
    asked[0]["settings"] = json!({"temperature": 0.0, "top_k": 0, "top_p": 1.0});
    asked
}

/// What a run came to: its end, tokens and frames.
type Ended = (Value, Vec<u32>, Vec<Vec<u8>>);

/// What all runs come to, and how many drafts were right.
fn with_drafts(model: &str, drafts: &str) -> (Vec<Ended>, u64) {
    let data = tempdir().unwrap();
    let server = Server::start(data.path(), model, &["--drafts", drafts]);
    let ids: Vec<String> = asked_of_all_kinds().iter().map(|asked| server.begin(asked)).collect();
    let ended = ids
        .iter()
        .map(|id| {
            let (frames, end) = server.follow(id, 0);
            (end, server.tokens(id), frames)
        })
        .collect();
    (ended, server.get("/api/health").1["work"]["accepted"].as_u64().unwrap())
}

fn the_same_with_drafts(model: &str) {
    let (plain, none) = with_drafts(model, "0");
    assert_eq!(none, 0);
    let ends: Vec<_> = plain.iter().map(|(end, ..)| end["reason"].as_str().unwrap()).collect();
    assert_eq!(ends.last(), Some(&"constraint_dead_end"), "{ends:?}");
    assert!(plain.last().unwrap().1.len() > 3, "some of it is written before that");
    for drafts in ["4", "16"] {
        let (drafted, accepted) = with_drafts(model, drafts);
        assert_eq!(drafted, plain, "{drafts} drafts");
        assert!(accepted > 0);
    }
}

#[test]
fn drafts_change_neither_texts_nor_frames_nor_where_a_dead_end_is_met() {
    the_same_with_drafts("tiny");
}

#[test]
fn drafts_change_nothing_of_a_real_model_s_texts() {
    let Some(path) = model_file() else { return };
    the_same_with_drafts(path.to_str().unwrap());
}

/// Killed again and again in the middle, it ends in the same text.
fn survives(model: &str) {
    let asked = place(7);
    let whole: Written = Server::start(tempdir().unwrap().path(), model, &["--drafts", "0"]).write(&asked);
    let data = tempdir().unwrap();
    let mut server = Server::start(data.path(), model, &["--step-delay-ms", "15"]);
    let id = server.begin(&asked);
    let kept = server.run(&id)["constraint"].clone();
    for seen in [1, 6, 11] {
        let mut watching = server.watch(&id, 0);
        let shown: Vec<_> = (0..seen).map(|_| watching.frame()).collect();
        assert_eq!(shown, whole.frames[..seen]);
        server.kill();
        server = Server::start(data.path(), model, &["--step-delay-ms", "15"]);
        assert!((seen..whole.tokens.len()).contains(&server.tokens(&id).len()), "a kill that came too late");
    }
    assert_eq!(server.written(&id), whole);
    assert_eq!(server.run(&id)["constraint"], kept);
    assert!(jsonschema::is_valid(&schema(), &serde_json::from_str(&whole.text).unwrap()));
    // Who replays it from its frames needs no constraint.
    let replayed = sample(&server.run(&id)["start"], &whole.frames);
    assert_eq!(replayed.tokens(), whole.tokens);
    let claim = json!({"tokens": replayed.tokens(), "state": replayed.state()});
    assert_eq!(server.post(&format!("/api/runs/{id}/verify"), &claim).1["verdict"], "match");
}

#[test]
fn a_run_survives_sigkill() {
    survives("tiny");
}

#[test]
fn a_run_of_a_real_model_survives_sigkill() {
    let Some(path) = model_file() else { return };
    survives(path.to_str().unwrap());
}

#[test]
fn a_constraint_is_kept_and_shown_with_its_run() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let id = server.begin(&place(3));
    let mut shown = server.run(&id)["constraint"].clone();
    let record = server.get(&format!("/api/runs/{id}/record")).1;
    let constraint = record["identity"]["constraint"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(constraint).unwrap(), shown);
    let digest = shown.as_object_mut().unwrap().shift_remove("sha256").unwrap();
    assert_eq!(digest, hex(&Sha256::digest(shown.to_string())));
    // To the letter: the order of the properties is part of it.
    let expected = json!({"engine": "llguidance-1.9.1", "json_schema": schema()});
    assert_eq!(shown.to_string(), expected.to_string());
    // Few tokens are allowed, so a frame is small even where no top-k is set.
    assert!(server.written(&id).frames[0].len() < 100);
    let plain = server.begin(&request("The sea", 1, 3));
    assert_eq!(server.run(&plain)["constraint"], json!(null));
}

#[test]
fn a_state_goes_on_under_a_constraint_only_from_where_that_allows_it() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let whole = server.begin(&place(9));
    let written = server.written(&whole);
    let mut start = server.run(&whole)["start"].clone();
    let half = written.tokens.len() / 2;
    start["tokens"] = json!(written.tokens[..half]);
    start["step"] = json!(half);
    let mut asked = json!({"start": start, "length": 100, "constraint": {"json_schema": schema()}});
    assert_eq!(server.write(&asked).tokens, written.tokens[half..]);
    asked["start"]["tokens"][2] = json!(1);
    let (status, refusal) = server.post("/api/runs", &asked);
    assert_eq!((status, &refusal["error"]["code"]), (400, &json!("constraint_violated")));
    assert_eq!((&refusal["error"]["index"], &refusal["error"]["value"]), (&json!(2), &json!(1.0)));
}

/// What is asked for, and the code it is refused with.
fn refused() -> Vec<(Value, u16, &'static str)> {
    let lark = |text: &str| json!({"lark": text});
    let regex = |text: &str| json!({"regex": text});
    let schema = |value: Value| json!({"json_schema": value});
    let deep = format!("start: {}\"a\"{}", "(".repeat(20_000), ")".repeat(20_000));
    let wide: Vec<Value> = (0..12)
        .map(|at| {
            let one =
                |of: usize| json!({"properties": {format!("p{at}_{of}"): {}}, "required": [format!("p{at}_{of}")]});
            json!({"anyOf": (0..8).map(one).collect::<Vec<_>>()})
        })
        .collect();
    let repeated: Value = json!("a".repeat(70_000));
    vec![
        (json!({}), 400, "field_missing"),
        (json!({"lark": "start: \"a\"", "regex": "a"}), 400, "constraint_ambiguous"),
        (json!({"json_schema": {}, "regex": "a"}), 400, "constraint_ambiguous"),
        (json!({"regex": "a", "flags": "i"}), 400, "field_unknown"),
        (json!({"lark": 5}), 400, "field_type"),
        (json!({"json_schema": "string"}), 400, "field_type"),
        (json!([]), 400, "field_type"),
        (json!({"regex": repeated}), 400, "constraint_too_long"),
        (regex("("), 400, "constraint_invalid"),
        (regex("(?=a)b"), 400, "constraint_invalid"),
        (lark(""), 400, "constraint_invalid"),
        (lark("start: nothing"), 400, "constraint_invalid"),
        (lark(&deep), 400, "constraint_invalid"),
        (lark("start: <|im_end|>"), 400, "constraint_invalid"),
        (lark("start: <[99999999]>"), 400, "constraint_invalid"),
        (schema(json!({"type": "sea"})), 400, "constraint_invalid"),
        (schema(json!({"$ref": "http://127.0.0.1:9/schema"})), 400, "constraint_invalid"),
        (schema(json!({"enum": []})), 400, "constraint_invalid"),
        (schema(json!({"not": {}})), 400, "constraint_invalid"),
        (schema(json!({"allOf": wide})), 400, "constraint_invalid"),
        (schema(json!({"$ref": "#"})), 400, "constraint_dead_end"),
        (schema(json!({"x-guidance": {"item_separator": ";"}})), 400, "constraint_invalid"),
        (schema(json!({"x-guidance": {"key_separator": "="}})), 400, "constraint_invalid"),
        (schema(json!({"x-guidance": {"whitespace_pattern": "x*"}})), 400, "constraint_invalid"),
        (schema(json!({"x-guidance": {"lenient": true}})), 400, "constraint_invalid"),
        (schema(json!({"x-guidance": {"tabs": 4}})), 400, "constraint_invalid"),
    ]
}

#[test]
fn what_cannot_be_followed_is_refused_by_name_before_anything_is_stored() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    for (constraint, status, code) in refused() {
        let mut asked = request("The sea", 1, 10);
        asked["constraint"] = constraint;
        let shown: String = asked["constraint"].to_string().chars().take(100).collect();
        let (found, refusal): Answer = server.post("/api/runs", &asked);
        assert_eq!((found, &refusal["error"]["code"]), (status, &json!(code)), "{shown}: {refusal}");
        let message = refusal["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty() && message.len() < 2000 && !message.contains("backtrace"), "{message}");
        assert!(!message.contains("panic"), "{shown}: {message}");
    }
    // A key given twice is refused inside a schema too.
    let mut asked = request("The sea", 1, 10).to_string();
    asked.truncate(asked.len() - 1);
    asked += r#","constraint":{"json_schema":{"type":"string","type":"number"}}}"#;
    let (status, refusal) = server.post_text("/api/runs", "application/json", &asked);
    assert_eq!((status, &refusal["error"]["code"]), (400, &json!("field_repeated")), "{refusal}");
    assert!(refusal["error"]["message"].as_str().unwrap().contains("constraint.json_schema.type"));
    assert_eq!(stored(data.path()), 0);
}

/// What `x-guidance` leaves out is as without it: no white space beyond what is asked for.
#[test]
fn a_part_of_x_guidance_leaves_white_space_bounded() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    for guidance in [json!({}), json!({"coerce_one_of": true}), json!({"item_separator": ","})] {
        let mut schema = schema();
        schema["x-guidance"] = guidance.clone();
        let comma = guidance["item_separator"].as_str().unwrap_or(", ");
        for seed in 0..4 {
            let mut asked = place(seed);
            asked["constraint"] = json!({"json_schema": schema});
            let text = server.write(&asked).text;
            let value: Value = serde_json::from_str(&text).unwrap();
            // Names may hold anything; the rest is as serde_json writes it, with the separators.
            let written = text.replace(&value["name"].to_string(), "N");
            assert!(written.starts_with("{\"name\": N") && written.contains(&format!("{comma}\"kind\": ")), "{text}");
            assert_eq!(
                written.matches(' ').count(),
                4 + if comma == ", " { 3 } else { 0 }
                    + usize::from(comma == ", " && value["seen"].as_array().unwrap().len() == 2),
                "{text}"
            );
        }
    }
}

#[test]
fn hostile_constraints_cost_little_and_others_go_on() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let chain = |rules: usize| {
        let rules: String = (0..rules).map(|at| format!("a{at}: a{}\n", at + 1)).collect();
        format!("start: a0\n{rules}")
    };
    let properties: serde_json::Map<_, _> =
        (0..1500).map(|at| (format!("p{at}"), json!({"type": "integer"}))).collect();
    let hostile = [
        json!({"lark": chain(4500) + "a4500: \"x\"\n"}),
        json!({"lark": "start: s\ns: s s | s s s | \"a\" | "}),
        json!({"regex": "((((a{1,1000}){1,1000}){1,1000}){1,1000})"}),
        json!({"regex": "(a|b)*a(a|b){20}"}),
        json!({"regex": "(\\p{L}|\\p{N}){1,500}"}),
        json!({"json_schema": {"type": "string", "minLength": 1_000_000_000}}),
        json!({"json_schema": {"type": "array", "items": {"type": "array", "minItems": 100_000}, "minItems": 1_000_000}}),
        json!({"json_schema": {"type": "object", "properties": properties}}),
    ];
    let bystander = server.begin(&request("The sea", 1, 60));
    for constraint in hostile {
        let mut asked = request("The sea", 1, 20);
        let shown: String = constraint.to_string().chars().take(60).collect();
        asked["constraint"] = constraint;
        let began = Instant::now();
        let (status, answer) = server.post("/api/runs", &asked);
        if status == 201 {
            let end = server.follow(answer["id"].as_str().unwrap(), 0).1;
            assert!(
                ["end_token", "length", "constraint_too_complex"].contains(&end["reason"].as_str().unwrap()),
                "{end}"
            );
        } else {
            let code = answer["error"]["code"].as_str().unwrap();
            assert!(["constraint_invalid", "constraint_too_complex"].contains(&code), "{shown}: {answer}");
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{shown}: {:?}", began.elapsed());
    }
    assert!(!server.written(&bystander).text.is_empty());
}

fn change(data: &Path, sql: &str) {
    Connection::open(data.join("runs.sqlite")).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn another_release_of_the_matcher_leaves_a_run_alone() {
    let whole = Server::tiny(tempdir().unwrap().path(), &[]).write(&place(4));
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--step-delay-ms", "15"]);
    let id = server.begin(&place(4));
    server.watch(&id, 0).frame();
    server.kill();
    // Another release would have stored its own digest.
    change(
        data.path(),
        "UPDATE runs SET constrained_by = replace(constrained_by, 'llguidance-1.9.1', 'llguidance-1.8.0'), \
         asked_sha256 = NULL",
    );
    let server = Server::tiny(data.path(), &[]);
    let end = server.follow(&id, 0).1;
    assert_eq!((&end["status"], &end["reason"]), (&json!("failed"), &json!("constraint_mismatch")));
    let again = server.post_text(&format!("/api/runs/{id}/resume"), "", "").0;
    assert_eq!(again, 200);
    assert_eq!(server.follow(&id, 0).1["reason"], "constraint_mismatch");
    drop(server);
    change(
        data.path(),
        "UPDATE runs SET constrained_by = replace(constrained_by, 'llguidance-1.8.0', 'llguidance-1.9.1')",
    );
    assert_eq!(Server::tiny(data.path(), &[]).written(&id), whole);
}

#[test]
fn a_run_that_a_server_without_constraints_gave_up_is_taken_up_again() {
    let whole = Server::tiny(tempdir().unwrap().path(), &[]).write(&place(4));
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--step-delay-ms", "15"]);
    let id = server.begin(&place(4));
    server.watch(&id, 0).frame();
    server.kill();
    change(data.path(), "UPDATE runs SET status = 'failed', reason = 'constraint_unavailable'");
    assert_eq!(Server::tiny(data.path(), &[]).written(&id), whole);
}

#[test]
fn another_constraint_in_its_place_is_noticed_before_a_token_is_written() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--step-delay-ms", "15"]);
    let mut asked = request("The sea", 2, 60);
    asked["constraint"] = json!({"regex": "[a-y ]+"});
    let id = server.begin(&asked);
    let mut watching = server.watch(&id, 0);
    (0..5).for_each(|_| drop(watching.frame()));
    server.kill();
    change(data.path(), "UPDATE runs SET constrained_by = replace(constrained_by, 'a-y', 'a-z')");
    let (frames, end) = Server::tiny(data.path(), &[]).follow(&id, 0);
    assert_eq!((&end["status"], &end["reason"]), (&json!("failed"), &json!("logits_differ")));
    assert!(frames.len() >= 5 && frames.len() < 60);
}
