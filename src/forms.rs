//! The files that follow from the declarations of the forms: the JSON Schemas, the types of the forms in `api.d.ts`, and the
//! page's list of processors.
//!
//! `make forms` writes them. Without `QUILLMATE_WRITE_FORMS` the test here compares, and says what to do where they differ.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::compare::comparison::Comparison;
use crate::compare::records::first_divergence;
use crate::compare::traces::traces_of;
use crate::compare::verify::{self, Divergence, Draw};
use crate::core::decision::Decision;
use crate::core::processors::parameters::{List, Range, Visitor};
use crate::core::processors::{Processor, Processors};
use crate::core::refusal::Refusal as _;
use crate::core::settings::Settings;
use crate::legacy::sampler::{SamplingConfig, SelectionStrategy};
use crate::run::run::Run;
use crate::wire::frame::Frame;
use crate::wire::identity::Identity;
use crate::wire::json::Object;
use crate::wire::record::Stop;
use crate::wire::trace::Trace;
use crate::wire::version::{CONTRACT, LEGACY_CONTRACT, RECORD_FORMAT, STATE_FORMAT};
use crate::{legacy, wire};
use schema_text::{declaration, lay_out};

mod schema_text;

#[test]
fn files_are_as_the_forms_are_declared() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    // A file, and its text made from the one it has.
    type Made = (&'static str, fn(&str) -> String);
    let files: [Made; 6] = [
        ("src/wire/state.schema.json", state_schema),
        ("src/wire/record.schema.json", record_schema),
        ("src/wire/claim.schema.json", claim_schema),
        ("src/compare/verdict.schema.json", verdict_schema),
        ("src/wasm/api.d.ts", types),
        ("www/src/newest.ts", |_| newest()),
    ];
    for (path, made) in files {
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        let made = made(&text);
        if std::env::var_os("QUILLMATE_WRITE_FORMS").is_some() {
            std::fs::write(root.join(path), made).unwrap();
        } else {
            assert!(text == made, "{path} is not as the forms are declared; `make forms` mends it");
        }
    }
}

// The forms below have readers of their own, because they have versions, values that follow from others, and checks across
// fields. The tests at the end hold these declarations to what the readers take and the types write.

/// The whole state of a run as plain JSON: store it, send it, resume from it. Its next token depends on this and the logits
/// alone. A reader also checks that `step` is the number of tokens and that the seed is below 2^64.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct GeneratorState {
    /// Which arithmetic the run follows.
    #[schemars(schema_with = "contract")]
    contract: (),
    /// Version of this form.
    #[schemars(schema_with = "state_format")]
    format: (),
    /// Unsigned 64-bit integer in decimal. Text, because JavaScript numbers lose bits above 2^53.
    #[schemars(regex(pattern = "^(0|[1-9][0-9]{0,19})$"))]
    seed: String,
    /// Tokens emitted so far, always `tokens.length`; the next token uses `uniform(seed, step, 0)`.
    step: u64,
    /// Token ids the run started from.
    prompt: Vec<u32>,
    /// Token ids emitted so far, in order.
    tokens: Vec<u32>,
    /// What chooses each token.
    settings: StoredSettings,
}

/// The settings of a run as a state has them.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct StoredSettings {
    /// 0 is greedy.
    #[schemars(range(min = 0))]
    temperature: f64,
    /// 0 is off.
    top_k: u32,
    /// 1 is off; 0 keeps one token.
    #[schemars(range(min = 0, max = 1))]
    top_p: f64,
    /// What changes the logits before temperature, top-k and top-p, in this order; each name at most once. Absent where
    /// there are none.
    #[schemars(with = "Vec<AnyProcessor>", skip_serializing_if = "Option::is_none")]
    processors: Option<()>,
}

/// A stored run as one JSON file, form 3. `null` is what nobody recorded. A reader also checks that `start` is a state,
/// that frames and decisions have one entry for each token, that frame i is intact and for step `start.step + i`, and that
/// `draws_used` is the number of tokens, or 0 where temperature is 0. `firstDivergence` reads forms 1 and 2 as well; form 2
/// is this one without `environment`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct RecordFile {
    /// Version of this form.
    #[schemars(schema_with = "record_format")]
    record: (),
    /// What a replay depends on besides the start, and the circumstances.
    identity: Identity,
    /// The state before the first token: contract, seed, prompt ids, settings with their processors.
    start: GeneratorState,
    /// Emitted after the start.
    tokens: Vec<u32>,
    /// Uniform numbers that decided the tokens: one a token, 0 where temperature is 0.
    draws_used: Option<u64>,
    /// Base64, frame i for step `start.step + i`.
    frames: Option<Vec<Option<String>>>,
    /// What was decided at each step, where it was kept.
    decisions: Option<Vec<Decision>>,
    /// When the run was to stop, and why it did.
    stop: Stop,
}

/// The state of a run of the older contract. A greedy run has no draws, a sampled one has a draw for each token.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct MosaicState {
    /// Which arithmetic the run follows.
    #[schemars(schema_with = "legacy_contract")]
    contract: (),
    /// Version of this form.
    #[schemars(schema_with = "state_format")]
    format: (),
    /// Unsigned 64-bit integer in decimal.
    seed: String,
    /// Draws consumed so far.
    draws: u64,
    /// Token ids the run started from.
    prompt: Vec<u32>,
    /// Token ids emitted so far, in order.
    tokens: Vec<u32>,
    /// How each token is chosen.
    strategy: StoredStrategy,
}

/// How a run of the older contract chooses its tokens.
#[derive(JsonSchema)]
#[schemars(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[allow(dead_code)]
enum StoredStrategy {
    Greedy {},
    Sample { temperature: f64, top_k: u32, top_p: f64 },
}

/// What a client says it sampled.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct Claim {
    /// The tokens emitted after the record's start.
    tokens: Vec<u32>,
    /// The state after the last of them.
    state: GeneratorState,
    /// Checksum of the frame each token was sampled from, 8 hex digits; optional evidence.
    #[schemars(with = "Vec<String>", skip_serializing_if = "Option::is_none")]
    frame_checksums: Option<()>,
}

/// What a check of a claim found.
#[derive(JsonSchema)]
#[schemars(tag = "verdict", rename_all = "snake_case")]
#[allow(dead_code)]
enum Verdict {
    /// Every claimed token is the record's.
    Match {
        /// How many were recomputed; at least 1.
        steps: u64,
    },
    /// The claim differs from the record.
    Diverged {
        /// The first step that differs, counted from the start of the run.
        step: u64,
        /// What the record gives at that step; `null` when it has none.
        expected_token: Option<u32>,
        /// What the claim says; `null` when it has none.
        claimed_token: Option<u32>,
        /// For people.
        message: String,
        #[schemars(flatten)]
        why: Why,
    },
    /// The claim could not be judged.
    Refused {
        /// Stable, for programs.
        code: String,
        /// For people.
        message: String,
    },
}

/// What differs: the record's value and the claim's.
#[derive(JsonSchema)]
#[schemars(tag = "why", rename_all = "snake_case")]
#[allow(dead_code)]
enum Why {
    Prompt { index: u64, expected: Option<u32>, claimed: Option<u32> },
    Settings { expected: StoredSettings, claimed: StoredSettings },
    Draw { expected: ClaimedDraw, claimed: ClaimedDraw },
    Logits { expected: String, claimed: String },
    Token,
}

/// A seed and the uniform number it gives at the step in question.
#[derive(JsonSchema)]
#[allow(dead_code)]
struct ClaimedDraw {
    /// Decimal.
    seed: String,
    /// In [0, 1).
    uniform: f64,
}

/// One of the best tokens a stage of a trace left.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)]
pub(crate) enum TopCandidate {
    Logit { id: u32, logit: f64 },
    Probability { id: u32, probability: f64 },
}

/// The schema of a field that always holds the name of this contract.
pub(crate) fn contract(_: &mut SchemaGenerator) -> Schema {
    constant(CONTRACT.into())
}

fn legacy_contract(_: &mut SchemaGenerator) -> Schema {
    constant(LEGACY_CONTRACT.into())
}

fn state_format(_: &mut SchemaGenerator) -> Schema {
    constant(STATE_FORMAT.into())
}

fn record_format(_: &mut SchemaGenerator) -> Schema {
    constant(RECORD_FORMAT.into())
}

fn constant(value: Value) -> Schema {
    schemars::json_schema!({ "const": value })
}

/// One processor; the rule of each name is an equation in CONTRACT.md.
struct AnyProcessor;

impl JsonSchema for AnyProcessor {
    fn schema_name() -> Cow<'static, str> {
        "Processor".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = |Described { name, versions, parameters }: Described| {
            let given = parameters.0.iter().filter(|parameter| parameter.3).map(|parameter| parameter.0);
            let required: Vec<_> = ["name", "version"].into_iter().chain(given).collect();
            let mut properties = Map::new();
            properties.insert("name".into(), json!({ "const": name }));
            properties.insert("version".into(), json!({ "enum": versions }));
            properties.extend(parameters.0.iter().map(|(name, schema, ..)| ((*name).to_owned(), schema.clone())));
            json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
        };
        let all: Vec<Value> = described().into_iter().map(one).collect();
        schemars::json_schema!({
            "description": "One processor; the rule of each name is an equation in CONTRACT.md.",
            "oneOf": all,
        })
    }
}

/// The JSON Schema of a form, as values.
fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    schema
}

/// The usual order of a schema's keywords.
const KEYWORDS: [&str; 9] =
    ["$schema", "$id", "title", "$ref", "description", "type", "additionalProperties", "required", "properties"];

/// Rust's names of number types become bounds, links in descriptions become plain names, keywords get the usual order.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("format") == Some(&"uint32".into()) {
                fields.insert("maximum".into(), u32::MAX.into());
            }
            // (A property may be called format, too.)
            fields.retain(|name, value| name != "format" || !value.is_string());
            for (name, value) in fields.iter_mut() {
                match value {
                    Value::String(text) if name == "description" => *text = plain(text),
                    Value::Object(properties) if name == "properties" => properties.values_mut().for_each(tidy),
                    other => tidy(other),
                }
            }
            let rank = |name: &String| KEYWORDS.iter().position(|known| known == name).unwrap_or(KEYWORDS.len());
            let mut ordered: Vec<_> = std::mem::take(fields).into_iter().collect();
            ordered.sort_by_key(|(name, _)| rank(name));
            fields.extend(ordered);
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Documentation without line breaks and links: ``[`TOP`](path)`` becomes `` `TOP` ``.
fn plain(text: &str) -> String {
    let mut plain = text.split("\n\n").map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join(" ");
    while let Some(start) = plain.find("[`") {
        let end = start + plain[start..].find("`]").expect("a link ends");
        let after = &plain[end + 2..];
        let rest = if after.starts_with('(') { &after[after.find(')').expect("a link ends") + 1..] } else { after };
        plain = format!("{}`{}`{rest}", &plain[..start], &plain[start + 2..end]);
    }
    plain.replace("`None`", "`null`")
}

fn state_schema(_: &str) -> String {
    file(schema_of::<GeneratorState>(), "urn:quillmate:generator-state:1")
}

fn record_schema(_: &str) -> String {
    let mut schema = schema_of::<RecordFile>();
    // A record holds decisions of this contract only.
    schema["$defs"]["Decision"]["properties"]["algorithm_version"]["const"] = CONTRACT.into();
    file(schema, "urn:quillmate:record:3")
}

fn claim_schema(_: &str) -> String {
    file(schema_of::<Claim>(), "urn:quillmate:claim")
}

fn verdict_schema(_: &str) -> String {
    file(schema_of::<Verdict>(), "urn:quillmate:verdict")
}

/// A schema as the text of a file.
fn file(mut schema: Value, id: &str) -> String {
    schema["$id"] = id.into();
    tidy(&mut schema);
    let mut text = String::new();
    lay_out(&schema, 0, &mut text);
    text + "\n"
}

/// A processor in all its versions, which have the same parameters.
struct Described {
    name: &'static str,
    versions: Vec<u32>,
    parameters: Parameters,
}

fn described() -> Vec<Described> {
    let mut list: Vec<Described> = Vec::new();
    for mut processor in Processor::every() {
        let mut parameters = Parameters::default();
        processor.visit(&mut parameters);
        let (name, version) = (processor.name(), processor.version());
        match list.last_mut().filter(|last| last.name == name) {
            Some(last) => {
                assert_eq!(
                    last.parameters, parameters,
                    "{name}: versions of other parameters need schemas of their own"
                );
                last.versions.push(version);
            }
            None => list.push(Described { name, versions: vec![version], parameters }),
        }
    }
    list
}

/// Name, JSON Schema and TypeScript type of each parameter, and whether it must be given.
#[derive(Debug, Default, PartialEq)]
struct Parameters(Vec<(&'static str, Value, &'static str, bool)>);

impl Parameters {
    fn push(&mut self, name: &'static str, schema: Value, typescript: &'static str, required: bool) {
        self.0.push((name, schema, typescript, required));
    }

    /// A list of elements of this schema, of which there is at least one where the parameter must be given.
    fn push_list(&mut self, name: &'static str, items: Value, typescript: &'static str, required: bool) {
        let least = u8::from(required);
        let schema = if required {
            json!({ "type": "array", "minItems": least, "items": items })
        } else {
            json!({ "type": "array", "items": items })
        };
        self.push(name, schema, typescript, required);
    }
}

impl Visitor for Parameters {
    fn number(&mut self, name: &'static str, _: &mut f64, range: Range) {
        let mut schema = json!({ "type": "number" });
        let bounds: &[(&str, f64)] = match range {
            Range::Finite => &[],
            Range::Above(least) => &[("exclusiveMinimum", least)],
            Range::AtLeast(least) => &[("minimum", least)],
            Range::Within(least, most) => &[("minimum", least), ("maximum", most)],
            Range::Between(low, high) => &[("exclusiveMinimum", low), ("exclusiveMaximum", high)],
        };
        for (name, bound) in bounds {
            // All bounds are whole numbers, which JSON writes without a point.
            assert_eq!(bound.fract(), 0.0);
            schema[name] = (*bound as i64).into();
        }
        self.push(name, schema, "number", true);
    }

    fn count(&mut self, name: &'static str, _: &mut u32, least: u32, default: Option<u32>) {
        self.push(name, integer_from(least), "number", default.is_none());
    }

    fn limit(&mut self, name: &'static str, _: &mut Option<u32>) {
        self.push(name, integer_from(1), "number", false);
    }

    fn flag(&mut self, name: &'static str, _: &mut bool) {
        self.push(name, json!({ "type": "boolean" }), "boolean", false);
    }

    fn tokens(&mut self, name: &'static str, _: &mut Vec<u32>, list: List) {
        self.push_list(name, integer_from(0), "number[]", list != List::OptionalSet);
    }

    fn sequences(&mut self, name: &'static str, _: &mut Vec<Vec<u32>>, required: bool) {
        let items = json!({ "type": "array", "minItems": 1, "items": integer_from(0) });
        self.push_list(name, items, "number[][]", required);
    }

    fn biases(&mut self, name: &'static str, _: &mut Vec<(u32, f64)>) {
        let pair = json!([integer_from(0), { "type": "number" }]);
        let items = json!({ "type": "array", "prefixItems": pair, "minItems": 2, "maxItems": 2 });
        self.push_list(name, items, "[id: number, bias: number][]", true);
    }
}

fn integer_from(least: u32) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": u32::MAX })
}

/// The text with what stands between the two marks replaced.
fn replaced(text: &str, before: &str, after: &str, with: &str) -> String {
    let start = text.find(before).unwrap_or_else(|| panic!("there is no {before:?}")) + before.len();
    let end = start + text[start..].find(after).unwrap_or_else(|| panic!("there is no {after:?}"));
    format!("{}{with}{}", &text[..start], &text[end..])
}

/// The types of the forms as TypeScript declares them.
fn interfaces() -> String {
    let mut all = Map::new();
    // (A claim is declared by hand: its `tokens` may be of any type that holds ids.)
    for mut schema in [
        schema_of::<GeneratorState>(),
        schema_of::<RecordFile>(),
        schema_of::<Trace>(),
        schema_of::<MosaicState>(),
        schema_of::<Verdict>(),
        schema_of::<Why>(),
        schema_of::<Comparison>(),
    ] {
        let defs = schema["$defs"].take();
        all.insert(schema["title"].as_str().unwrap().to_owned(), schema);
        if let Value::Object(defs) = defs {
            all.extend(defs);
        }
    }
    // Declared by hand: a union for each version, which autocompletes better.
    all.shift_remove("Processor");
    let mut text = String::new();
    for (name, schema) in &all {
        text += &declaration(name, schema);
        text.push('\n');
    }
    text
}

const FORMS_BEGIN: &str = "// The forms. Made by `make forms`.";
const FORMS_END: &str = "// The end of the forms.";

fn types(text: &str) -> String {
    let of = |version: u32| {
        let one = |Described { name, parameters, .. }: &Described| {
            // What `Window` has.
            let (window, own): (Vec<_>, Vec<_>) =
                parameters.0.iter().partition(|parameter| ["window", "prompt"].contains(&parameter.0));
            let mut fields = vec![format!("name: {name:?}")];
            for (name, _, typescript, required) in own {
                fields.push(format!("{name}{}: {typescript}", if *required { "" } else { "?" }));
            }
            let object = format!("{{ {} }}", fields.join("; "));
            if window.is_empty() { format!("  | {object}\n") } else { format!("  | ({object} & Window)\n") }
        };
        described().iter().filter(|one| one.versions.contains(&version)).map(one).collect::<String>()
    };
    assert!(
        described().iter().all(|one| one.versions.iter().all(|version| *version <= 2)),
        "there is a type to be added"
    );
    let text = replaced(text, FORMS_BEGIN, FORMS_END, &format!("\n\n{}", interfaces()));
    let text = replaced(&text, "export type ProcessorV1 = { version: 1 } & (\n", ");", &of(1));
    replaced(&text, "export type ProcessorV2 = { version: 2 } & (\n", ");", &of(2))
}

fn newest() -> String {
    let mut text = "// Made by `make forms`.\n\n/** The newest version of every processor's rule, in the usual order (CONTRACT.md, “Processors”). */\n\
                    export const newest = {\n"
        .to_owned();
    for Described { name, versions, .. } in described() {
        text += &format!("  {name}: {},\n", versions[versions.len() - 1]);
    }
    text + "} as const;\n"
}

/// Every object of an example: its place in it, and its schema. Where there is a choice of schemas it is not looked into.
fn objects(schema: &Value, root: &Value, value: &Value, place: &str, found: &mut Vec<(String, Value)>) {
    let schema = match schema["$ref"].as_str() {
        Some(path) => root.pointer(path.trim_start_matches('#')).expect("a definition"),
        None => schema,
    };
    match value {
        Value::Object(fields) if schema["properties"].is_object() => {
            found.push((place.to_owned(), schema.clone()));
            for (name, value) in fields {
                objects(&schema["properties"][name], root, value, &format!("{place}/{name}"), found);
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                objects(&schema["items"], root, value, &format!("{place}/{at}"), found);
            }
        }
        _ => {}
    }
}

/// Holds a form to its declaration: `example` is as its type writes it, `read` gives the code of a refusal.
fn is_as_declared<T: JsonSchema>(example: &str, read: impl Fn(Value) -> Option<&'static str>) {
    let schema = schema_of::<T>();
    let example: Value = serde_json::from_str(example).unwrap();
    jsonschema::validate(&schema, &example).unwrap();
    assert_eq!(read(example.clone()), None);
    let mut found = Vec::new();
    objects(&schema, &schema, &example, "", &mut found);
    for (place, schema) in found {
        let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let written = fields(example.pointer(&place).unwrap());
        let optional = |name: &String| !schema["required"].as_array().unwrap().contains(&name.as_str().into());
        let declared = fields(&schema["properties"]).into_iter();
        let declared: Vec<_> = declared.filter(|name| written.contains(name) || !optional(name)).collect();
        assert_eq!(written, declared, "{place} is written otherwise");
        let changed = |change: &dyn Fn(&mut Map<String, Value>)| {
            let mut changed = example.clone();
            change(changed.pointer_mut(&place).unwrap().as_object_mut().unwrap());
            read(changed)
        };
        for name in written {
            let missing = changed(&|fields| drop(fields.shift_remove(&name)));
            let expected = (!optional(&name)).then_some("field_missing");
            assert_eq!(missing, expected, "{place} without {name}");
            let wrong = changed(&|fields| drop(fields.insert(name.clone(), true.into())));
            assert!(wrong.is_some(), "{place}: {name} may be true");
        }
        let unknown = changed(&|fields| drop(fields.insert("unheard_of".into(), 1.into())));
        assert_eq!(unknown, Some("field_unknown"), "{place}");
    }
}

fn object_of(value: &Value) -> Object {
    Object::parse(&value.to_string()).unwrap()
}

/// A run that has emitted a token, its frame, and what was decided.
fn example() -> (Run, Frame, Decision, Trace) {
    let processors = Processors::new(vec![Processor::every().find(|one| one.name() == "min_p").unwrap()]).unwrap();
    let start = wire::state::GeneratorState {
        seed: 42,
        prompt: vec![1, 2],
        tokens: vec![],
        settings: Settings::new(0.8, 2, 0.9).unwrap(),
        processors,
    };
    let mut run = Run::from_state(start);
    let logits = [0.5f32, 1.0, 1.5];
    let frame = Frame::dense(0, &logits).unwrap();
    let (decision, trace) = (run.decision(&logits).unwrap(), run.trace(&logits).unwrap());
    run.step_with(&logits).unwrap();
    (run, frame, decision, trace)
}

#[test]
fn a_state_is_as_declared() {
    let (run, ..) = example();
    is_as_declared::<GeneratorState>(&run.state().to_json(), |value| {
        wire::state::GeneratorState::from_object(object_of(&value)).err().map(|error| error.code())
    });
}

#[test]
fn a_record_is_as_declared() {
    let (run, frame, decision, _) = example();
    let record = wire::record::RecordFile {
        identity: Identity::of_this_release(),
        start: wire::state::GeneratorState { tokens: vec![], ..run.state().clone() },
        tokens: run.tokens().to_vec(),
        draws_used: Some(1),
        frames: Some(vec![Some(frame)]),
        decisions: Some(vec![decision]),
        stop: Stop { end_tokens: Some(vec![0]), ..Stop::default() },
    };
    is_as_declared::<RecordFile>(&record.to_json(), |value| {
        wire::record::RecordFile::from_object(object_of(&value)).err().map(|error| error.code())
    });
}

#[test]
fn a_state_of_the_older_contract_is_as_declared() {
    let strategy = SelectionStrategy::Sample(SamplingConfig::try_new(0.8, 2, 0.9).unwrap());
    let mut state = legacy::state::MosaicState::new(vec![1, 2], 42, strategy);
    state.step_with(&[0.5f32, 1.0, 1.5]).unwrap();
    let read =
        |value: Value| legacy::state::MosaicState::from_object(object_of(&value)).err().map(|error| error.code());
    is_as_declared::<MosaicState>(&state.to_json(), read);
}

#[test]
fn a_trace_is_as_declared() {
    let (.., trace) = example();
    is_as_declared::<Trace>(&serde_json::to_string(&trace).unwrap(), |value| {
        traces_of(vec![object_of(&value)]).err().map(|error| error.code())
    });
}

#[test]
fn a_verdict_is_as_declared() {
    let schema = schema_of::<Verdict>();
    let (settings, token) = (example().0.state().run_settings(), Some(7));
    let draw = || Draw { seed: "42".into(), uniform: 0.5 };
    let diverged =
        |why| verify::Verdict::Diverged(Divergence { step: 3, expected_token: token, claimed_token: None, why });
    let verdicts = [
        verify::Verdict::Match { steps: 1 },
        verify::Verdict::Refused { code: "claim_empty", message: "the claim has no tokens".into() },
        diverged(verify::Why::Prompt { index: 0, expected: token, claimed: None }),
        diverged(verify::Why::Settings { expected: settings.clone(), claimed: settings }),
        diverged(verify::Why::Draw { expected: draw(), claimed: draw() }),
        diverged(verify::Why::Logits { expected: "0123abcd".into(), claimed: "0123abce".into() }),
        diverged(verify::Why::Token),
    ];
    for verdict in verdicts {
        let mut verdict = serde_json::to_value(verdict).unwrap();
        jsonschema::validate(&schema, &verdict).unwrap();
        for field in verdict.as_object().unwrap().keys().cloned().collect::<Vec<_>>() {
            let value = verdict.as_object_mut().unwrap().shift_remove(&field).unwrap();
            assert!(!jsonschema::is_valid(&schema, &verdict), "{field} is not declared as required");
            verdict[field] = value;
        }
    }
}

#[test]
fn a_claim_is_as_declared() {
    let (run, ..) = example();
    let state: Value = serde_json::from_str(&run.state().to_json()).unwrap();
    let claim = json!({ "tokens": run.tokens(), "state": state, "frame_checksums": ["0123abcd"] });
    is_as_declared::<Claim>(&claim.to_string(), |value| {
        wire::claim::Claim::from_object(object_of(&value)).err().map(|error| error.code())
    });
}

#[test]
fn a_comparison_is_as_declared() {
    let (run, frame, ..) = example();
    let record = wire::record::RecordFile {
        identity: Identity::of_this_release(),
        start: wire::state::GeneratorState { tokens: vec![], ..run.state().clone() },
        tokens: run.tokens().to_vec(),
        draws_used: None,
        frames: Some(vec![Some(frame)]),
        decisions: None,
        stop: Stop::default(),
    };
    let mut other = record.clone();
    other.identity.target = None;
    other.frames = Some(vec![Some(Frame::dense(0, &[0.5f32, 1.0, 1.75]).unwrap())]);
    for values in [false, true] {
        let comparison = serde_json::to_value(first_divergence(&record, &other, values)).unwrap();
        assert!(!comparison["release"].as_array().unwrap().is_empty() && comparison["first"].is_object());
        let schema = schema_of::<Comparison>();
        jsonschema::validate(&schema, &comparison).unwrap();
        let mut found = Vec::new();
        objects(&schema, &schema, &comparison, "", &mut found);
        for (place, schema) in found {
            let fields = comparison.pointer(&place).unwrap().as_object().unwrap();
            let declared = schema["properties"].as_object().unwrap();
            assert!(fields.keys().all(|name| declared.contains_key(name)), "{place}");
        }
    }
}
