//! `x-guidance`, the part of a schema that says how its JSON is to be written.
//!
//! What a request leaves out stands for what is written without it ([`complete`]), and not for llguidance's own defaults,
//! by which white space has no bound. What would let a text out that is no JSON, or does not fit its schema, is refused.
//! Both happen before a constraint is kept, so a kept one says all of it, and one kept by an earlier release stays what it
//! was.

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value, json};

const FIELD: &str = "x-guidance";
/// JSON's white space.
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
/// What may follow a backslash in JSON.
const ESCAPES: &str = "nrbtf\"u\\/";

/// How JSON is written where nothing is said: compact, with a space after commas and colons, as most of what models have
/// read. White space without bounds would let a text grow without end.
pub fn defaults() -> Map<String, Value> {
    let mut defaults = Map::new();
    defaults.insert("whitespace_flexible".into(), false.into());
    defaults.insert("item_separator".into(), ", ".into());
    defaults.insert("key_separator".into(), ": ".into());
    defaults
}

/// Puts in what a schema's `x-guidance` leaves out, or says what is wrong with it. A schema without one stays as it is.
pub fn complete(schema: &mut Value) -> Result<(), String> {
    let Some(given) = schema.get_mut(FIELD) else {
        return Ok(());
    };
    let Value::Object(given) = given else {
        return Err(format!("{FIELD} must be an object"));
    };
    let wrong = |name: &str, why: &str| Err(format!("{FIELD}.{name} {why}"));
    for (name, value) in given.iter() {
        match (&**name, value) {
            ("item_separator", Value::String(text)) if is_separator(text, ",") => {}
            ("item_separator", _) => return wrong(name, "must be a comma, with white space around it or none"),
            ("key_separator", Value::String(text)) if is_separator(text, ":") => {}
            ("key_separator", _) => return wrong(name, "must be a colon, with white space around it or none"),
            ("whitespace_pattern", Value::Null) => {}
            ("whitespace_pattern", Value::String(pattern)) if is_space(pattern) => {}
            ("whitespace_pattern", _) => {
                return wrong(name, "must be a regular expression of nothing but JSON's white space");
            }
            ("json_allowed_escapes", Value::Null) => {}
            ("json_allowed_escapes", Value::String(escapes)) if escapes.chars().all(|it| ESCAPES.contains(it)) => {}
            ("json_allowed_escapes", _) => return wrong(name, "must be letters that may follow a backslash in JSON"),
            ("lenient", Value::Bool(false)) => {}
            ("lenient", _) => return wrong(name, "must be false: the text would not have to fit the schema"),
            // llguidance refuses other types and names.
            _ => {}
        }
    }
    for (name, value) in defaults() {
        given.entry(name).or_insert(value);
    }
    Ok(())
}

/// Whether a separator is the given sign with white space around it. llguidance reads it as a regular expression; none of
/// these signs means anything else there.
fn is_separator(text: &str, sign: &str) -> bool {
    text.trim_matches(SPACE) == sign
}

/// Whether a regular expression matches nothing but JSON's white space.
fn is_space(pattern: &str) -> bool {
    fn only_space(hir: &Hir) -> bool {
        match hir.kind() {
            HirKind::Empty => true,
            HirKind::Literal(literal) => {
                std::str::from_utf8(&literal.0).is_ok_and(|text| text.chars().all(|it| SPACE.contains(&it)))
            }
            HirKind::Class(Class::Unicode(class)) => class
                .ranges()
                .iter()
                .all(|range| range.end() < '\u{80}' && (range.start()..=range.end()).all(|it| SPACE.contains(&it))),
            HirKind::Class(Class::Bytes(class)) => class
                .ranges()
                .iter()
                .all(|range| (range.start()..=range.end()).all(|byte| SPACE.contains(&char::from(byte)))),
            HirKind::Look(_) => false,
            HirKind::Repetition(repetition) => only_space(&repetition.sub),
            HirKind::Capture(capture) => only_space(&capture.sub),
            HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().all(only_space),
        }
    }
    regex_syntax::parse(pattern).is_ok_and(|hir| only_space(&hir))
}

/// The defaults for a schema without `x-guidance`, as llguidance wants them.
pub fn with_defaults(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(fields) = &mut schema {
        fields.entry(FIELD).or_insert_with(|| json!(defaults()));
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_what_is_written_without_it() {
        for given in [json!({}), json!({"coerce_one_of": true}), json!({"item_separator": ","})] {
            let mut schema = json!({"type": "object", "x-guidance": given});
            complete(&mut schema).unwrap();
            let all = schema["x-guidance"].as_object().unwrap();
            assert_eq!(all["whitespace_flexible"], false);
            assert_eq!(all["key_separator"], ": ");
            for (name, value) in given.as_object().unwrap() {
                assert_eq!(all[name], *value);
            }
        }
        let mut plain = json!({"type": "object"});
        complete(&mut plain).unwrap();
        assert_eq!(plain, json!({"type": "object"}));
    }

    #[test]
    fn what_would_let_out_something_else_than_fitting_json_is_refused() {
        for wrong in [
            json!({"item_separator": ";"}),
            json!({"item_separator": ",,"}),
            json!({"item_separator": ",?"}),
            json!({"item_separator": "\u{a0},"}),
            json!({"item_separator": 1}),
            json!({"key_separator": "="}),
            json!({"key_separator": ":|="}),
            json!({"whitespace_pattern": "x*"}),
            json!({"whitespace_pattern": "[ x]*"}),
            json!({"whitespace_pattern": "\\s*"}),
            json!({"whitespace_pattern": " |,"}),
            json!({"whitespace_pattern": "^ "}),
            json!({"whitespace_pattern": "("}),
            json!({"json_allowed_escapes": "nx"}),
            json!({"lenient": true}),
            json!([]),
            json!("a"),
        ] {
            let mut schema = json!({"x-guidance": wrong});
            let said = complete(&mut schema).unwrap_err();
            assert!(said.starts_with("x-guidance"), "{said}");
        }
        for right in [
            json!({"item_separator": ",\n ", "key_separator": " :\t"}),
            json!({"whitespace_pattern": "[\\x20\\x0A\\x0D\\x09]+"}),
            json!({"whitespace_pattern": "( |\\n){0,3}"}),
            json!({"whitespace_pattern": null, "lenient": false, "json_allowed_escapes": "nrbtf\"\\"}),
            json!({"whitespace_flexible": true}),
        ] {
            complete(&mut json!({"x-guidance": right})).unwrap();
        }
    }
}
