//! The page that shows a summary: one file, without script, to be read on a phone or at night too.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use crate::error::EvaluateError;
use crate::plan::{Arm, Plan};
use crate::plot::histogram;
use crate::summary::{Compared, Pair, Summary};

/// A number for people: three digits that count, or thereabouts.
pub fn number(value: Option<f64>) -> String {
    let Some(value) = value else {
        return "–".into();
    };
    let digits = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 0.1 => 3,
        size if size >= 0.01 => 4,
        size if size > 0.0 => 5,
        _ => 0,
    };
    format!("{value:.digits$}").replace('-', "−")
}

/// A difference for people, with its sign.
pub fn signed(value: Option<f64>) -> String {
    let sign = if value.is_some_and(|value| value > 0.0) { "+" } else { "" };
    format!("{sign}{}", number(value))
}

/// The interval of a measure for people.
pub fn interval(of: &Compared) -> String {
    match of.interval {
        Some(interval) => format!("{} to {}", signed(Some(interval.low)), signed(Some(interval.high))),
        None => "–".into(),
    }
}

/// The settings of a side in a line.
fn settings(side: &Value) -> String {
    const FIRST: [&str; 3] = ["temperature", "top_k", "top_p"];
    let entry = |(name, value): (&str, &Value)| format!("{name}\u{a0}{value}");
    let others = side.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value));
    let others = others.filter(|(name, _)| !FIRST.contains(name));
    FIRST.map(|name| (name, &side[name])).into_iter().chain(others).map(entry).collect::<Vec<_>>().join(" · ")
}

fn table(summary: &Summary) -> Markup {
    html! {
        table {
            caption {
                "Means over prompts, each prompt's seeds averaged first; the mean difference and its 95 % interval. "
                "Bold where the interval excludes 0."
            }
            thead {
                tr {
                    th scope="col" { "Measure" }
                    @for name in ["A", "B", "B − A", "95 % interval", "Pairs"] {
                        th scope="col" { (name) }
                    }
                }
            }
            tbody {
                @for of in &summary.metrics {
                    tr {
                        th scope="row" {
                            (of.title)
                            small { (of.unit) @if of.machine_dependent { "; depends on the machine" } }
                        }
                        td data-name="A" { (number(of.a)) }
                        td data-name="B" { (number(of.b)) }
                        td data-name="B − A" class=[of.excludes_zero.then_some("outside")] { (signed(of.difference)) }
                        td data-name="95 % interval" class=[of.excludes_zero.then_some("outside")] { (interval(of)) }
                        td data-name="Pairs" { (of.pairs) }
                    }
                }
            }
        }
    }
}

fn failures(summary: &Summary) -> Markup {
    html! {
        table {
            caption {
                "Texts by what they are not, of " (summary.pairs) " on each side. A text may be in several rows; one that was "
                "refused is in its own alone."
            }
            thead {
                tr {
                    th scope="col" { "Category" }
                    @for name in ["A", "B", "Both", "Only A", "Only B"] {
                        th scope="col" { (name) }
                    }
                }
            }
            tbody {
                @for of in &summary.failures {
                    tr {
                        th scope="row" { (of.title) }
                        @for (name, count) in
                            [("A", of.a), ("B", of.b), ("Both", of.both), ("Only A", of.only_a), ("Only B", of.only_b)]
                        {
                            td data-name=(name) { (count) }
                        }
                    }
                }
            }
        }
    }
}

/// What a picture shows, for those who do not see it.
fn alternative(of: &Compared) -> String {
    let side = |sign: fn(f64) -> bool| of.prompts.iter().filter(|prompt| sign(prompt.difference)).count();
    format!(
        "Histogram of {} over {} prompts, B − A in {}: above 0 for {}, below for {}, equal for {}. Mean {}, 95 % interval {}.",
        of.title,
        of.prompts.len(),
        of.unit,
        side(|difference| difference > 0.0),
        side(|difference| difference < 0.0),
        side(|difference| difference == 0.0),
        signed(of.difference),
        interval(of),
    )
}

fn text(name: &str, setting: Arm, pair: &Pair) -> Markup {
    let line = if setting == Arm::A { pair.a } else { pair.b };
    html! {
        p { strong { (name) } }
        blockquote { span.quiet { "…" } (line.text)
            @if line.ended { span.quiet { " (the end)" } }
            @if let Some(code) = &line.refused { span.quiet { " (refused: " (code) ")" } }
        }
    }
}

/// The page.
///
/// # Errors
/// What the drawing library says.
pub fn page(summary: &Summary, plan: &Plan, pairs: &[Pair]) -> Result<String, EvaluateError> {
    let header = &summary.evaluation;
    let mut plots = Vec::new();
    for of in &summary.metrics {
        plots.push(histogram(of, &alternative(of))?.unwrap_or_default());
    }
    // The first prompt of each book, with the first seed.
    let seeds = header.seeds.len();
    let first = |at: usize| at == 0 || plan.prompts[at].book != plan.prompts[at - 1].book;
    let samples: Vec<_> =
        plan.prompts.iter().zip(pairs.iter().step_by(seeds)).enumerate().filter(|&(at, _)| first(at)).collect();
    let model = |name: &str| header.model[name].as_str().unwrap_or_default();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Two settings compared · Quillmate" }
                style { (PreEscaped(include_str!("report.css"))) }
            }
            body {
                main {
                    h1 { "Two settings compared" }
                    dl {
                        dt { "A" } dd { (settings(&header.a)) }
                        dt { "B" } dd { (settings(&header.b)) }
                        dt { "Texts" }
                        dd {
                            (header.prompts) " prompts × " (seeds) " seeds (" (header.seeds.join(", ")) "), each with A and with B; "
                            (summary.same_pairs) " of the " (summary.pairs) " pairs are the same text"
                        }
                        dt { "Model" } dd { (model("name")) ", computed by " (model("arithmetic")) ", sampled by " (header.contract) }
                    }
                    p.caution { (summary.cautions[0]) }
                    h2 { "The numbers" }
                    (table(summary))
                    h2 { "Failures" }
                    (failures(summary))
                    h2 { "Prompt by prompt" }
                    p {
                        "How many prompts have which difference, their seeds averaged. Dashed: no difference. Above the bars the "
                        "mean and its 95 % interval."
                    }
                    div.plots {
                        @for (of, svg) in summary.metrics.iter().zip(&plots) {
                            figure {
                                h3 { (of.title) }
                                @if svg.is_empty() { p.quiet { "No pair of texts has this measure." } }
                                (PreEscaped(svg))
                                figcaption { (of.meaning) }
                            }
                        }
                    }
                    h2 { "Some of the texts" }
                    p { "The first prompt of each book with the first seed. All texts are in " code { "results.jsonl" } "." }
                    @for (_, (prompt, pair)) in &samples {
                        details {
                            summary { (prompt.book) " " small { (prompt.id) } }
                            blockquote.quiet { (prompt.text) }
                            (text("A", Arm::A, pair))
                            (text("B", Arm::B, pair))
                        }
                    }
                    h2 { "How to read this" }
                    ul { @for caution in &summary.cautions { li { (caution) } } }
                    p {
                        "The interval: " (summary.method.interval) "; " (summary.method.resamples)
                        " resamples, their draws from SplitMix64 with seed " (summary.method.seed)
                        ", so that the same texts give the same interval."
                    }
                    p { small { "Model file sha256 " code { (model("sha256")) } ". Prompts sha256 " code { (header.prompts_sha256) } "." } }
                }
            }
        }
    };
    Ok(page.into_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(number(Some(1234.56)), "1235");
        assert_eq!(number(Some(-12.341)), "−12.34");
        assert_eq!(number(Some(0.012_51)), "0.0125");
        assert_eq!(number(Some(-0.000_331)), "−0.00033");
        assert_eq!(number(None), "–");
        assert_eq!(signed(Some(0.5)), "+0.500");
        assert_eq!(signed(Some(0.0)), "0");
        assert_eq!(signed(Some(-0.5)), "−0.500");
    }
}
