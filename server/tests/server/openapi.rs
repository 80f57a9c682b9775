//! The description of the API: the files that follow from it, and whether the server does what it says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use quillmate_sampler::compare::verify::VERDICT_SCHEMA;
use quillmate_sampler::wire::claim::CLAIM_SCHEMA;
use quillmate_sampler::{RECORD_SCHEMA, STATE_SCHEMA};
use quillmate_server::error::Code;
use quillmate_server::routes::description;
use serde_json::{Map, Value, json};
use tempfile::tempdir;

use crate::schema_text::{declaration, lay_out, typescript};
use crate::support::{Server, described, request, sample};

#[test]
fn files_are_as_the_messages_are_declared() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    // A file, and its text made from the one it has.
    type Made = (&'static str, fn(&str) -> String);
    let files: [Made; 3] =
        [("server/openapi.json", |_| laid_out()), ("server/API.md", tables), ("www/src/api.types.ts", |_| types())];
    for (path, made) in files {
        let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let made = made(&text);
        if std::env::var_os("QUILLMATE_WRITE_FORMS").is_some() {
            std::fs::write(root.join(path), made).unwrap();
        } else {
            assert!(text == made, "{path} is not as the messages are declared; `make forms` mends it");
        }
    }
}

fn laid_out() -> String {
    let mut text = String::new();
    lay_out(description(), 0, &mut text);
    text + "\n"
}

/// The schemas of the server's own messages; all others are of the sampler.
fn own_schemas() -> Vec<(&'static String, &'static Value)> {
    let mut others = Vec::new();
    for schema in [STATE_SCHEMA, RECORD_SCHEMA, CLAIM_SCHEMA, VERDICT_SCHEMA] {
        let schema: Value = serde_json::from_str(schema).unwrap();
        others.push(schema["title"].as_str().unwrap().to_owned());
        others.extend(schema["$defs"].as_object().unwrap().keys().cloned());
    }
    let all = description()["components"]["schemas"].as_object().unwrap();
    all.iter().filter(|(name, _)| !others.contains(name)).collect()
}

fn types() -> String {
    let mut text = "// Made by `make forms` from the server's messages (server/src/messages.rs).\n".to_owned();
    text += "import type { GeneratorState, StoredSettings } from \"@quillmate/sampler\";\n";
    for (name, schema) in own_schemas() {
        text += "\n";
        text += &declaration(name, schema);
    }
    text
}

/// API.md with its tables made anew.
fn tables(text: &str) -> String {
    let text = replaced(text, "calls", &calls());
    let text = replaced(&text, "messages", &messages());
    replaced(&text, "codes", &codes())
}

/// The text with what stands between the marks of this name replaced.
fn replaced(text: &str, name: &str, with: &str) -> String {
    let (before, after) = (format!("<!-- {name}, made by `make forms` -->\n"), format!("<!-- end of {name} -->\n"));
    let start = text.find(&before).unwrap_or_else(|| panic!("there is no {before:?}")) + before.len();
    let end = start + text[start..].find(&after).unwrap_or_else(|| panic!("there is no {after:?}"));
    format!("{}\n{with}\n{}", &text[..start], &text[end..])
}

/// Every call: its method and path, and its description.
fn operations() -> Vec<(String, &'static str, &'static Value)> {
    let paths = description()["paths"].as_object().unwrap();
    let of = |(path, item): (&'static String, &'static Value)| {
        let item = item.as_object().unwrap();
        item.iter().map(move |(method, call)| (method.to_uppercase(), path.as_str(), call))
    };
    paths.iter().flat_map(of).collect()
}

fn calls() -> String {
    let mut text = "| call | takes | answers | what it does |\n|---|---|---|---|\n".to_owned();
    for (method, path, call) in operations() {
        let body = &call["requestBody"]["content"]["application/json"]["schema"];
        let query = call["parameters"].as_array().into_iter().flatten().filter(|one| one["in"] == "query");
        let query =
            query.map(|one| format!("`?{}=`: {}", one["name"].as_str().unwrap(), one["description"].as_str().unwrap()));
        let takes: Vec<_> =
            body.get("$ref").map(|_| format!("*{}*", typescript(body, ""))).into_iter().chain(query).collect();
        let mut answers = Vec::new();
        for (status, answer) in call["responses"].as_object().unwrap() {
            let content = answer["content"].as_object().and_then(|content| content.iter().next());
            let what = match content {
                Some((_, content)) if content["schema"]["properties"]["error"].is_object() => continue,
                Some((media_type, content)) if content["schema"].get("$ref").is_some() => {
                    assert_eq!(media_type, "application/json");
                    format!(" *{}*", typescript(&content["schema"], ""))
                }
                Some((media_type, _)) => format!(" `{media_type}`"),
                None => String::new(),
            };
            answers.push(format!("`{status}`{what}: {}", answer["description"].as_str().unwrap()));
        }
        let does = call["summary"].as_str().unwrap();
        let _ = writeln!(text, "| `{method} {path}` | {} | {} | {does} |", takes.join(" "), answers.join(" "));
    }
    text
}

fn messages() -> String {
    let mut text = String::new();
    for (name, schema) in own_schemas() {
        // It has a table of its own.
        if name == "ErrorCode" {
            continue;
        }
        if !text.is_empty() {
            text += "\n";
        }
        let of = |schema: &'static Value| schema["description"].as_str().unwrap_or_default();
        let _ = writeln!(text, "*{name}*: {}\n", of(schema));
        let kinds: Vec<&Value> =
            ["oneOf", "anyOf"].iter().filter_map(|kind| schema[kind].as_array()).flatten().collect();
        text += if kinds.is_empty() { "| field | type | what it says |\n" } else { "| | type | what it says |\n" };
        text += "|---|---|---|\n";
        for (field, schema_of_field) in schema["properties"].as_object().into_iter().flatten() {
            let left_out = !schema["required"].as_array().unwrap().contains(&json!(field));
            let note = if left_out { " May be left out." } else { "" };
            let _ = writeln!(text, "| `{field}` | {} | {}{note} |", type_of(schema_of_field), of(schema_of_field));
        }
        for kind in kinds {
            let _ = writeln!(text, "| one of | {} | {} |", type_of(kind), of(kind));
        }
    }
    text
}

/// A type for a table; a bar would end the cell.
fn type_of(schema: &Value) -> String {
    format!("`{}`", typescript(schema, "").replace('|', "\\|"))
}

fn codes() -> String {
    let all = operations();
    let mut by_code: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (method, path, call) in &all {
        for answer in call["responses"].as_object().unwrap().values() {
            let codes =
                &answer["content"]["application/json"]["schema"]["properties"]["error"]["properties"]["code"]["enum"];
            for code in codes.as_array().into_iter().flatten() {
                by_code.entry(code.as_str().unwrap()).or_default().push(format!("`{method} {path}`"));
            }
        }
    }
    let with_body = all.iter().filter(|(_, _, call)| call.get("requestBody").is_some()).count();
    let calls = |code: &str| match by_code.get(code) {
        None => "–".to_owned(),
        Some(calls) if calls.len() == all.len() => "any".to_owned(),
        Some(calls) if code.starts_with("body_") || code.starts_with("json_") => {
            assert_eq!(calls.len(), with_body);
            "any with a body".to_owned()
        }
        Some(calls) => calls.join(", "),
    };
    let mut text = "| status | code | what it says | calls |\n|---|---|---|---|\n".to_owned();
    for code in Code::ALL {
        let name = code.name();
        let _ = writeln!(text, "| {} | `{name}` | {} | {} |", code.status().as_u16(), code.means(), calls(name));
    }
    let own: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
    for (code, calls) in by_code.iter().filter(|(code, _)| !own.contains(code)) {
        let _ = writeln!(text, "| 400 | `{code}` | of the sampler, see CONTRACT.md | {} |", calls.join(", "));
    }
    text
}

#[test]
fn codes_of_the_sampler_are_those_of_its_contract() {
    let contract = include_str!("../../../CONTRACT.md");
    let own: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
    let all = typescript(&description()["components"]["schemas"]["ErrorCode"], "");
    let all: Vec<_> = all.split(" | ").map(|code| code.trim_matches('"')).collect();
    assert!(all.contains(&"step_mismatch"));
    for code in all.into_iter().filter(|code| !own.contains(code)) {
        assert!(contract.contains(&format!("\n| `{code}` |")), "{code}");
    }
}

#[test]
fn every_call_is_described_and_no_other() {
    // The router is made from the list that is described: beside it, there is only what answers for paths that are no call.
    assert_eq!(include_str!("../../src/routes.rs").matches(".route(").count(), 2);

    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    for (path, item) in description()["paths"].as_object().unwrap() {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let (status, answer) = server.ask(method, &path.replace("{id}", "nobody"));
            let there = status != 405 && answer["error"]["code"] != "not_found";
            assert_eq!(there, item.get(method.to_lowercase()).is_some(), "{method} {path}: {status} {answer}");
        }
    }
    let (status, answer) = server.get("/api/openapi");
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("not_found")));
}

#[test]
fn every_call_answers_as_described() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--step-delay-ms", "20"]);
    let (status, run) = server.post("/api/runs", &request("a lamp", 3, 40));
    assert_eq!(status, 201);
    let at = |rest: &str| format!("/api/runs/{}{rest}", run["id"].as_str().unwrap());
    let claim = json!({"tokens": [1], "state": run["start"]});
    let mut asked = vec!["createRun"];
    // `Server` holds every answer to its description.
    let mut ask = |name, path: &str, body: Option<&Value>, expected: u16| {
        asked.push(name);
        let (method, ..) = operations().into_iter().find(|(.., call)| call["operationId"] == name).expect("a call");
        let (status, answer) = body.map_or_else(|| server.ask(&method, path), |body| server.post(path, body));
        assert_eq!(status, expected, "{name}: {answer}");
    };
    ask("health", "/api/health", None, 200);
    ask("ready", "/api/ready", None, 200);
    ask("openapi", "/api/openapi.json", None, 200);
    ask("model", "/api/model", None, 200);
    ask("tokenTable", "/api/model/tokens", None, 200);
    ask("tokenize", "/api/tokenize", Some(&json!({"text": "a lamp"})), 200);
    ask("run", &at(""), None, 200);
    ask("stopRun", &at("/stop"), None, 200);
    ask("resumeRun", &at("/resume"), None, 200);
    ask("streamRun", &at("/stream?from=0"), None, 200);
    ask("verifyRun", &at("/verify"), Some(&claim), 200);
    ask("runRecord", &at("/record"), None, 200);
    ask("deleteRun", &at(""), None, 204);
    let mut all: Vec<_> = operations().iter().map(|(.., call)| call["operationId"].as_str().unwrap()).collect();
    all.sort_unstable();
    asked.sort_unstable();
    assert_eq!(asked, all);
}

#[test]
fn the_description_is_served() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let (status, served) = server.get("/api/openapi.json");
    assert_eq!(status, 200);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    assert_eq!(served, serde_json::from_str::<Value>(&std::fs::read_to_string(file).unwrap()).unwrap());
}

/// Every object in a value: its place in it.
fn objects(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(place.to_owned());
            for (name, value) in fields {
                objects(value, &format!("{place}/{name}"), found);
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                objects(value, &format!("{place}/{at}"), found);
            }
        }
        _ => {}
    }
}

/// Sends a request with each field of each object in it missing, unknown and of another type. The server refuses what the
/// description refuses, and nothing else for its form.
fn reads_as_described(server: &Server, path: &str, form: &str, example: &Value) {
    let schema = described(&format!("/components/schemas/{form}"));
    let ask = |body: &Value, what: &str| {
        let (status, answer) = server.post(path, body);
        let valid = schema.is_valid(body);
        let code = answer["error"]["code"].as_str().unwrap_or_default().to_owned();
        if valid {
            assert!(!code.starts_with("field_"), "{what} fits {form}: {status} {answer}");
        } else {
            assert_eq!(status, 400, "{what} does not fit {form}: {answer}");
        }
        (valid, code)
    };
    assert_eq!(ask(example, "the example"), (true, String::new()));
    let mut found = Vec::new();
    objects(example, "", &mut found);
    for place in found {
        let changed = |change: &dyn Fn(&mut Map<String, Value>)| {
            let mut changed = example.clone();
            change(changed.pointer_mut(&place).unwrap().as_object_mut().unwrap());
            changed
        };
        for name in example.pointer(&place).unwrap().as_object().unwrap().keys() {
            let what = format!("{place}/{name}");
            let missing = changed(&|fields| drop(fields.shift_remove(name)));
            let (valid, code) = ask(&missing, &format!("without {what}"));
            assert!(valid || code == "field_missing", "without {what}: {code}");
            for other in [json!(true), json!(null), json!({}), json!(-1), json!("?")] {
                let wrong = changed(&|fields| drop(fields.insert(name.clone(), other.clone())));
                ask(&wrong, &format!("{what} as {other}"));
            }
        }
        let unknown = changed(&|fields| drop(fields.insert("unheard_of".into(), json!(1))));
        assert_eq!(ask(&unknown, &format!("{place}/unheard_of")), (false, "field_unknown".to_owned()));
    }
}

#[test]
fn requests_are_read_as_they_are_described() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--max-runs", "1000"]);
    reads_as_described(&server, "/api/tokenize", "Tokenize", &json!({"text": "a lamp"}));

    let mut from_text = request("a lamp", 3, 4);
    from_text["settings"]["processors"] = json!([
        {"name": "repetition_penalty", "version": 1, "penalty": 1.1, "window": 64},
        {"name": "min_p", "version": 1, "p": 0.05},
    ]);
    from_text["constraint"] = json!({"regex": "[a-z ]+"});
    reads_as_described(&server, "/api/runs", "NewRun", &from_text);

    let id = server.begin(&request("a lamp", 3, 4));
    let written = server.written(&id);
    let start = server.run(&id)["start"].clone();
    let from_state = json!({"start": start, "length": 4, "constraint": {"lark": "start: /[a-z ]+/"}});
    reads_as_described(&server, "/api/runs", "NewRun", &from_state);

    let here = sample(&start, &written.frames);
    let sums: Vec<_> = written.frames.iter().map(|_| "0123abcd").collect();
    let claim = json!({"tokens": here.tokens(), "state": here.state(), "frame_checksums": sums});
    reads_as_described(&server, &format!("/api/runs/{id}/verify"), "Claim", &claim);
}
