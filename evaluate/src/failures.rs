//! Texts that are not what was asked for, by category, with counts for each side and for the pairs.

use serde::Serialize;

use crate::metrics::Schema;
use crate::results::TextLine;
use crate::summary::Pair;

/// A way for a text not to be what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Category {
    /// The sampler refused to go on, with this code.
    Refused(String),
    /// It ended by itself before `max_tokens`.
    LengthNotReached,
    /// It is not JSON, where a schema is given.
    NotJson,
    /// It is JSON that the schema does not allow.
    SchemaInvalid,
}

/// How many texts failed in one category. A text may be in several.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// A stable name: the code of a refusal, `length_not_reached`, `not_json`, `schema_invalid`.
    pub category: String,
    /// A name for people.
    pub title: String,
    /// Texts under A.
    pub a: usize,
    /// Texts under B.
    pub b: usize,
    /// Pairs in which both failed so.
    pub both: usize,
    /// Pairs in which only A did.
    pub only_a: usize,
    /// Pairs in which only B did.
    pub only_b: usize,
}

/// The categories a text is in.
fn categories(line: &TextLine, schema: Option<&Schema>) -> Vec<Category> {
    let mut found = Vec::new();
    if let Some(code) = &line.refused {
        // What was not written to its end is held against neither length nor schema.
        return vec![Category::Refused(code.clone())];
    }
    if line.ended {
        found.push(Category::LengthNotReached);
    }
    if let Some(schema) = schema
        && !schema.allows(&line.text)
    {
        found.push(if Schema::is_json(&line.text) { Category::SchemaInvalid } else { Category::NotJson });
    }
    found
}

impl Category {
    fn name(&self) -> String {
        match self {
            Self::Refused(code) => code.clone(),
            Self::LengthNotReached => "length_not_reached".into(),
            Self::NotJson => "not_json".into(),
            Self::SchemaInvalid => "schema_invalid".into(),
        }
    }

    fn title(&self) -> String {
        match self {
            Self::Refused(code) => format!("Refused: {code}"),
            Self::LengthNotReached => "Ended before the most tokens there may be".into(),
            Self::NotJson => "Not JSON".into(),
            Self::SchemaInvalid => "JSON the schema does not allow".into(),
        }
    }
}

/// The failures of all pairs. Categories that always apply are there with 0; refusals only where there was one.
pub fn failures(pairs: &[Pair], schema: Option<&Schema>) -> Vec<Failures> {
    let sides: Vec<[Vec<Category>; 2]> =
        pairs.iter().map(|pair| [categories(pair.a, schema), categories(pair.b, schema)]).collect();
    let mut all = vec![Category::LengthNotReached];
    if schema.is_some() {
        all.extend([Category::NotJson, Category::SchemaInvalid]);
    }
    all.extend(sides.iter().flatten().flatten().cloned());
    all.sort();
    all.dedup();
    all.into_iter()
        .map(|category| {
            let count = |wanted: fn(bool, bool) -> bool| {
                let failed = |[a, b]: &&[Vec<Category>; 2]| wanted(a.contains(&category), b.contains(&category));
                sides.iter().filter(failed).count()
            };
            Failures {
                category: category.name(),
                title: category.title(),
                a: count(|a, _| a),
                b: count(|_, b| b),
                both: count(|a, b| a && b),
                only_a: count(|a, b| a && !b),
                only_b: count(|a, b| !a && b),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arm;
    use crate::results::tests::line;

    #[test]
    fn failures_are_counted_by_category_side_and_pair() {
        let schema = Schema::read(r#"{"type": "object"}"#).unwrap();
        let text = |side, text: &str, ended: bool| TextLine { text: text.into(), ended, ..line(side, &[1, 2]) };
        let refused = |side| TextLine { refused: Some("processor_all_banned".into()), ..line(side, &[]) };
        let lines = [
            [text(Arm::A, "{}", true), text(Arm::B, "{}", true)],
            [text(Arm::A, "{", false), refused(Arm::B)],
            [text(Arm::A, "[]", false), text(Arm::B, "{}", true)],
            [refused(Arm::A), refused(Arm::B)],
        ];
        let pairs: Vec<Pair> = lines.iter().map(|[a, b]| Pair { a, b }).collect();
        let counts = |schema| {
            let of = |it: Failures| (it.category, [it.a, it.b, it.both, it.only_a, it.only_b]);
            failures(&pairs, schema).into_iter().map(of).collect::<Vec<_>>()
        };
        let expected = [
            ("processor_all_banned".to_owned(), [1, 2, 1, 0, 1]),
            ("length_not_reached".to_owned(), [1, 2, 1, 0, 1]),
            ("not_json".to_owned(), [1, 0, 0, 1, 0]),
            ("schema_invalid".to_owned(), [1, 0, 0, 1, 0]),
        ];
        assert_eq!(counts(Some(&schema)), expected);
        assert_eq!(counts(None), expected[..2]);
        // Nothing failed: what always applies is said all the same.
        assert_eq!(failures(&[], None).len(), 1);
    }
}
