//! What a request needs to go on after a crash: the object shown in the README, and nothing beside it.

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{Server, request};

/// The JSON block of the README's section on resuming.
fn shown_in_the_readme() -> Value {
    let readme = include_str!("../../../README.md");
    let section = readme.split("## What a request needs to resume after a crash").nth(1).expect("the section");
    let block = section.split("```json").nth(1).and_then(|rest| rest.split("```").next()).expect("its JSON block");
    serde_json::from_str(block).expect("JSON")
}

/// Whole runs, one of which ends at an end token; `ask` may set a constraint.
fn goes_on_from_what_the_readme_shows(prompt: &str, length: u32, ask: impl Fn(&mut Value)) {
    let shown = shown_in_the_readme();
    let (first, second) = (tempdir().unwrap(), tempdir().unwrap());
    let server = Server::tiny(first.path(), &[]);
    let mut asked = request(prompt, 11, length);
    ask(&mut asked);
    let id = server.begin(&asked);
    let whole = server.written(&id);
    let run = server.run(&id);

    // Another server, which has seen nothing of the run.
    let other = Server::tiny(second.path(), &["--drafts", "0"]);
    for cut in [0, 1, whole.tokens.len() / 2, whole.tokens.len() - 1] {
        let mut rest = json!({"start": run["start"], "length": length as usize - cut});
        rest["start"]["tokens"] = json!(whole.tokens[..cut]);
        rest["start"]["step"] = json!(cut);
        if let Some(constraint) = asked.get("constraint") {
            rest["constraint"] = constraint.clone();
        }
        // The README's example has these fields and no others; a run without a constraint leaves that one out.
        for (name, value) in rest.as_object().unwrap() {
            assert!(shown.get(name).is_some(), "the README does not show {name}");
            assert_eq!(value.is_object(), shown[name].is_object(), "{name}");
        }
        let resumed = other.begin(&rest);
        let written = other.written(&resumed);
        assert_eq!(written.tokens, whole.tokens[cut..], "cut at {cut}");
        assert_eq!(written.frames, whole.frames[cut..], "cut at {cut}");
        assert_eq!(other.run(&resumed)["reason"], run["reason"], "cut at {cut}");
    }

    // Each part is needed. Without its constraint a run writes something else; with another length it ends elsewhere.
    let mut rest = json!({"start": run["start"], "length": length});
    if asked.get("constraint").is_some() {
        assert_ne!(other.write(&rest).tokens, whole.tokens);
    } else {
        rest["length"] = json!(length - 1);
        assert_eq!(other.write(&rest).tokens, whole.tokens[..whole.tokens.len() - 1]);
    }
}

#[test]
fn the_readme_shows_all_that_a_request_needs() {
    goes_on_from_what_the_readme_shows("The sea", 24, |_| ());
    let shown = shown_in_the_readme();
    let mut names: Vec<_> = shown.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["constraint", "length", "start"]);
    quillmate_sampler::GeneratorState::from_json(&shown["start"].to_string()).expect("a state");
}

#[test]
fn the_readme_shows_all_that_a_request_under_a_constraint_needs() {
    goes_on_from_what_the_readme_shows("On ", 40, |asked| {
        asked["constraint"] = json!({"regex": "[0-9]{4}-[0-9]{2}-[0-9]{2}"});
    });
}
