//! A comparison in a paragraph.

use std::fmt::{self, Write as _};

use super::comparison::{
    Comparison, Difference, Evidence, Findings, Lacking, Missing, Outcome, ReleaseField, RunPart, WithoutEffect,
};

/// How a paragraph speaks of what was compared.
pub(super) struct Words {
    /// What one of the two is: `record`.
    pub one: &'static str,
    /// What two of them are: `records`.
    pub both: &'static str,
    /// What was found equal, where nothing differs and nothing is missing.
    pub same: String,
    /// What was looked at, where nothing differs and something is missing; may be empty.
    pub looked_at: &'static str,
}

pub(super) fn index_detail(values: &[Evidence; 2]) -> String {
    format!("number {} of the stream in the first record, number {} in the second", values[0], values[1])
}

impl Findings {
    /// The comparison, with its outcome and its paragraph.
    pub fn into_comparison(self, words: &Words) -> Comparison {
        let Self { release, beside, first, first_token, missing, steps } = self;
        let outcome = match (&first, missing.is_empty()) {
            (Some(_), _) => Outcome::Diverged,
            (None, true) => Outcome::Same,
            (None, false) => Outcome::Insufficient,
        };
        let mut comparison =
            Comparison { outcome, paragraph: String::new(), release, beside, first, first_token, missing, steps };
        comparison.paragraph = paragraph(&comparison, words);
        comparison
    }
}

fn paragraph(comparison: &Comparison, words: &Words) -> String {
    let Comparison { outcome, release, beside, first, first_token, missing, steps, .. } = comparison;
    let mut text = String::new();
    releases(&mut text, release, words);
    let plural = if *steps == 1 { "step" } else { "steps" };
    match (outcome, first) {
        (Outcome::Diverged, Some(found)) => differs(&mut text, found, *first_token),
        (Outcome::Insufficient, _) => append(
            &mut text,
            format_args!(
                "No difference was found in {steps} {plural}, but there is not enough to call the runs the same.{}",
                words.looked_at
            ),
        ),
        _ => append(&mut text, format_args!("The runs are the same: {steps} {plural} with {}.", words.same)),
    }
    for WithoutEffect { detail, values, .. } in beside {
        append(&mut text, format_args!(" Beside that, {detail}"));
        if let Some([first, second]) = values {
            append(&mut text, format_args!("; first {first}, second {second}"));
        }
        text.push('.');
    }
    if !missing.is_empty() {
        lacking(&mut text, missing, first.is_some(), words);
    }
    text
}

fn append(text: &mut String, words: fmt::Arguments) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(words);
}

fn releases(text: &mut String, release: &[ReleaseField], words: &Words) {
    let same = format!("The {} were not made by the same release: ", words.both);
    let circumstances = "They were made in other circumstances, on which no replay depends: ";
    for (opening, circumstance) in [(same.as_str(), false), (circumstances, true)] {
        let mut opening = opening;
        for one in release.iter().filter(|one| one.circumstance == circumstance) {
            if let (Some(first), Some(second)) = (&one.first, &one.second) {
                append(text, format_args!("{opening}{} {first} and {second}", one.field));
                opening = ", ";
            }
        }
        if opening == ", " {
            text.push_str(". ");
        }
    }
    let mut opening = "Not recorded, and so not compared: ";
    for ReleaseField { field, first, second, .. } in release {
        let who = match (first, second) {
            (Some(_), Some(_)) => continue,
            (None, None) => "both",
            (None, _) => "the first",
            _ => "the second",
        };
        append(text, format_args!("{opening}{field} ({who})"));
        opening = ", ";
    }
    if opening == ", " {
        text.push_str(". ");
    }
}

fn differs(text: &mut String, found: &Difference, first_token: Option<u64>) {
    match found.step {
        Some(step) => append(text, format_args!("The runs part at step {step}")),
        None => text.push_str("The runs part before their first step"),
    }
    append(text, format_args!(", in the {}: {}", found.what.name(), found.detail));
    if let Some([first, second]) = &found.digests {
        append(text, format_args!(" (frame {first} and frame {second})"));
    }
    if let Some([first, second]) = &found.values {
        append(text, format_args!("; first {first}, second {second}"));
    }
    text.push('.');
    match first_token {
        _ if matches!(found.what, RunPart::Token | RunPart::InputIds | RunPart::Stop) => {}
        Some(token) => append(text, format_args!(" The first token that differs is that of step {token}.")),
        None => text.push_str(" Their tokens are the same all the same, as far as both have them."),
    }
}

fn lacking(text: &mut String, missing: &[Missing], found: bool, words: &Words) {
    let mut opening = if found { " Missing up to there: " } else { " Missing: " };
    for Missing { what, record, step } in missing {
        let (which, of) = match record {
            Lacking::First => ("the first", words.one),
            Lacking::Second => ("the second", words.one),
            Lacking::Both => ("both", words.both),
        };
        append(text, format_args!("{opening}{} in {which} {of}", what.name()));
        if let Some(step) = step {
            append(text, format_args!(" from step {step}"));
        }
        opening = "; ";
    }
    text.push('.');
}
