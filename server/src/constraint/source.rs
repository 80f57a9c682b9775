//! The source of a constraint, and how a request gives it.

use quillmate_sampler::json::{Field, FieldError, Fields, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::guidance;
use super::reader::Unusable;

/// What a text must fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Constraint")]
pub enum Source {
    /// A JSON value that fits a schema. Its properties come in the schema's order.
    JsonSchema(#[schemars(with = "Map<String, Value>")] Value),
    /// A text of a grammar in llguidance's variant of Lark.
    Lark(String),
    /// A text that matches a regular expression, from its beginning to its end.
    Regex(String),
}

/// Why a request's constraint cannot be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// A field is missing, unknown, or not what it must be.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// It is of several kinds.
    #[error("a constraint is of one kind, and this one has {0}")]
    Ambiguous(String),
    /// It asks for what cannot be written.
    #[error(transparent)]
    Unusable(#[from] Unusable),
}

impl Source {
    /// Takes the field `constraint` of a request, if it is there: an object with one of `json_schema`, `lark`, `regex`.
    pub fn take(body: &mut Fields) -> Result<Option<Self>, TakeError> {
        if !body.has("constraint") {
            return Ok(None);
        }
        let source = body.object("constraint").read(|it| {
            let kinds: Vec<&str> = ["json_schema", "lark", "regex"].into_iter().filter(|kind| it.has(kind)).collect();
            if kinds.len() > 1 {
                return Err(TakeError::Ambiguous(kinds.join(" and ")));
            }
            Ok(if it.has("lark") {
                Self::Lark(it.string("lark"))
            } else if it.has("regex") {
                Self::Regex(it.string("regex"))
            } else {
                let schema = it.object("json_schema");
                let mut schema = value(Field::Object(schema), "constraint.json_schema")?;
                guidance::complete(&mut schema).map_err(Unusable::Invalid)?;
                Self::JsonSchema(schema)
            })
        });
        source.map(Some)
    }
}

/// A schema as serde_json has it. A key given twice is refused at any depth.
fn value(field: Field, path: &str) -> Result<Value, FieldError> {
    Ok(match field {
        Field::Object(object) => {
            let mut fields = Map::new();
            for (key, field) in object.into_entries() {
                let path = format!("{path}.{key}");
                let value = value(field, &path)?;
                if fields.insert(key, value).is_some() {
                    return Err(FieldError::Repeated(path));
                }
            }
            Value::Object(fields)
        }
        Field::List(fields) => {
            let values = fields.into_iter().enumerate().map(|(at, field)| value(field, &format!("{path}[{at}]")));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        Field::Scalar(Scalar::Null) => Value::Null,
        Field::Scalar(Scalar::Flag(flag)) => flag.into(),
        Field::Scalar(Scalar::Integer(integer)) => integer.into(),
        // Integers below 0 have come as these; up to 2^53 nothing is lost.
        Field::Scalar(Scalar::Number(number))
            if number.trunc() == number && number.abs() <= 9_007_199_254_740_992.0 =>
        {
            (number as i64).into()
        }
        Field::Scalar(Scalar::Number(number)) => number.into(),
        Field::Scalar(Scalar::Text(text)) => text.into(),
    })
}

#[cfg(test)]
mod tests {
    use quillmate_sampler::json::Object;

    use super::*;

    fn read(text: &str) -> Result<Value, FieldError> {
        value(Field::Object(Object::parse(text)?), "s")
    }

    #[test]
    fn a_schema_is_read_to_the_letter() {
        let text = r#"{"z":{"enum":[-5,7,18446744073709551615,0.1,null,true,"a\u00e9\n",[{"b":1,"a":2}]]},"a":{"minimum":-0.5}}"#;
        assert_eq!(read(text).unwrap().to_string(), text.replace("\\u00e9", "é"));
    }

    #[test]
    fn a_key_given_twice_is_refused_wherever_it_stands() {
        for (text, path) in [
            (r#"{"a":1,"a":1}"#, "s.a"),
            (r#"{"b":{"a":1,"c":2,"a":3}}"#, "s.b.a"),
            (r#"{"b":[0,{"a":1,"a":1}]}"#, "s.b[1].a"),
        ] {
            assert_eq!(read(text), Err(FieldError::Repeated(path.into())));
        }
    }
}
