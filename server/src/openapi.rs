//! The description of the API in OpenAPI 3.1, made from the list of calls and the declarations of the messages.

use std::collections::BTreeMap;

use axum::http::{Method, StatusCode};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::error::{Code, ErrorAnswer, FIELD_TYPE};
use crate::messages::End;
use crate::stream::MEDIA_TYPE;

/// The schema of a message; a declared one becomes a component of the description.
type Described = fn(&mut SchemaGenerator) -> Schema;

/// One call: what it takes, and all it can answer with.
pub struct Call {
    /// Its method.
    pub method: Method,
    /// Its path; what is in braces is a parameter.
    pub path: &'static str,
    name: &'static str,
    does: &'static str,
    query: Option<Described>,
    body: Option<Described>,
    answers: Vec<Answer>,
    refusals: Vec<Code>,
    of_the_sampler: Vec<&'static str>,
}

/// One answer that is no refusal.
struct Answer {
    status: StatusCode,
    says: &'static str,
    content: Option<(&'static str, Described)>,
}

/// What any call can be refused with.
const ANY: [Code; 6] = [
    Code::TokenMissing,
    Code::TokenWrong,
    Code::HostRefused,
    Code::OriginRefused,
    Code::Internal,
    Code::TooManyConnections,
];

/// What any call with a body can be refused with.
const ANY_BODY: [Code; 9] = [
    Code::JsonSyntax,
    Code::JsonTooDeep,
    Code::FieldMissing,
    Code::FieldUnknown,
    Code::FieldRepeated,
    Code::BodyIncomplete,
    Code::BodyTimeout,
    Code::BodyTooLarge,
    Code::BodyNotJson,
];

/// What any call with a query can be refused with.
const ANY_QUERY: [Code; 3] = [Code::FieldMissing, Code::FieldUnknown, Code::FieldRepeated];

impl Call {
    /// A call by its name, and what it does.
    #[must_use]
    pub fn new(method: Method, path: &'static str, name: &'static str, does: &'static str) -> Self {
        let (answers, of_the_sampler) = (Vec::new(), Vec::new());
        Self { method, path, name, does, query: None, body: None, answers, refusals: ANY.into(), of_the_sampler }
    }

    /// It takes the fields of this form in its query.
    #[must_use]
    pub fn query<Q: JsonSchema>(mut self) -> Self {
        self.query = Some(Q::json_schema);
        self.refuses(&ANY_QUERY)
    }

    /// It takes a body of this form.
    #[must_use]
    pub fn body<B: JsonSchema>(mut self) -> Self {
        self.body = Some(SchemaGenerator::subschema_for::<B>);
        self.refuses(&ANY_BODY).refuses_as_the_sampler(&[FIELD_TYPE])
    }

    /// It answers with JSON of this form.
    #[must_use]
    pub fn answers<A: JsonSchema>(self, status: StatusCode, says: &'static str) -> Self {
        self.answer(status, says, Some(("application/json", SchemaGenerator::subschema_for::<A>)))
    }

    /// It answers with bytes.
    #[must_use]
    pub fn answers_bytes(self, media_type: &'static str, says: &'static str) -> Self {
        // A schema says nothing of bytes.
        self.answer(StatusCode::OK, says, Some((media_type, |_| Schema::default())))
    }

    /// It answers with nothing but a status.
    #[must_use]
    pub fn answers_nothing(self, status: StatusCode, says: &'static str) -> Self {
        self.answer(status, says, None)
    }

    fn answer(mut self, status: StatusCode, says: &'static str, content: Option<(&'static str, Described)>) -> Self {
        self.answers.push(Answer { status, says, content });
        self
    }

    /// It can be refused with these codes of the server.
    #[must_use]
    pub fn refuses(mut self, codes: &[Code]) -> Self {
        self.refusals.extend_from_slice(codes);
        self
    }

    /// It can be refused with these codes of the sampler, all bad requests.
    #[must_use]
    pub fn refuses_as_the_sampler(mut self, codes: &[&'static str]) -> Self {
        self.of_the_sampler.extend_from_slice(codes);
        self
    }

    fn described(&self, schemas: &mut SchemaGenerator) -> Value {
        let mut it = json!({ "operationId": self.name, "summary": self.does });
        let parameters = self.parameters(schemas);
        if !parameters.is_empty() {
            it["parameters"] = parameters.into();
        }
        if let Some(body) = self.body {
            it["requestBody"] =
                json!({ "required": true, "content": { "application/json": { "schema": body(schemas) } } });
        }
        let mut responses = Map::new();
        for Answer { status, says, content } in &self.answers {
            let mut response = json!({ "description": says });
            if let Some((media_type, schema)) = content {
                response["content"][*media_type] = json!({ "schema": schema(schemas) });
            }
            responses.insert(status.as_str().to_owned(), response);
        }
        responses.extend(self.refusals(schemas));
        it["responses"] = responses.into();
        it
    }

    fn parameters(&self, schemas: &mut SchemaGenerator) -> Vec<Value> {
        let names = self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let mut all: Vec<_> = names
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
            .collect();
        let query = self.query.map(|query| query(schemas).to_value()).unwrap_or_default();
        for (name, schema) in query["properties"].as_object().into_iter().flatten() {
            let mut schema = schema.clone();
            let description = schema.as_object_mut().and_then(|fields| fields.shift_remove("description"));
            let required = query["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
            all.push(json!({
                "name": name, "in": "query", "required": required, "description": description, "schema": schema,
            }));
        }
        all
    }

    /// The refusals by status, each with its codes.
    fn refusals(&self, schemas: &mut SchemaGenerator) -> Map<String, Value> {
        let mut codes: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
        let own = Code::ALL.iter().filter(|code| self.refusals.contains(code));
        for code in own {
            codes.entry(code.status().as_u16()).or_default().push(code.name());
        }
        for code in &self.of_the_sampler {
            codes.entry(StatusCode::BAD_REQUEST.as_u16()).or_default().push(code);
        }
        let form = schemas.subschema_for::<ErrorAnswer>();
        let mut responses = Map::new();
        for (status, codes) in codes {
            let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
            let mut schema = form.clone().to_value();
            schema["properties"] = json!({ "error": { "properties": { "code": { "enum": codes } } } });
            let response = json!({
                "description": reason.unwrap_or_default(),
                "content": { "application/json": { "schema": schema } },
            });
            responses.insert(status.to_string(), response);
        }
        responses
    }
}

/// The description of these calls.
#[must_use]
pub fn document<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|it| {
        it.definitions_path = "/components/schemas".into();
        it.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let mut paths = Map::new();
    for call in calls {
        let path = paths.entry(call.path).or_insert_with(|| json!({}));
        path[call.method.as_str().to_lowercase()] = call.described(&mut schemas);
    }
    // The messages of a stream that are JSON. No response refers to them.
    let (end, error) = (schemas.subschema_for::<End<'_>>(), schemas.subschema_for::<ErrorAnswer>());
    let mut components = Value::Object(schemas.take_definitions(true));
    tidy(&mut components);
    paths.values_mut().for_each(tidy);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Quillmate server",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs a language model, samples with quillmate-sampler, and keeps every step. API.md says more.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "Asked for by a server that has a token." },
            },
        },
        "x-stream-messages": { "mediaType": MEDIA_TYPE, "2": end, "3": error },
    })
}

/// Rust's names of number types become bounds, line breaks of the source leave descriptions.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("format") == Some(&"uint32".into()) {
                fields.entry("maximum").or_insert(u32::MAX.into());
            }
            // A property may be called format, too.
            fields.retain(|name, value| name != "format" || !value.is_string());
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace("\n\n", " ").replace('\n', " ");
            }
            fields.values_mut().for_each(tidy);
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    }
}
