//! A histogram of one measure's differences per prompt, with the mean and its interval above and a line at 0. The colours
//! are names: the page's style gives each of them one for light and one for dark.

use plotters::prelude::*;

use crate::error::EvaluateError;
use crate::summary::Compared;

/// Pixels; on a phone the picture is as wide as the page, so that text in it is as large as elsewhere.
const SIZE: (u32, u32) = (380, 220);
const BINS: f64 = 24.0;
const INK: RGBColor = RGBColor(0x11, 0x11, 0x11);
const FAINT: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
const BARS: RGBColor = RGBColor(0x33, 0x66, 0x99);
const MEAN: RGBColor = RGBColor(0xbb, 0x44, 0x11);

/// Draws a measure as SVG; `None` where no pair has it. `alternative` is what is read out instead of it.
///
/// # Errors
/// What the drawing library says.
pub fn histogram(of: &Compared, alternative: &str) -> Result<Option<String>, EvaluateError> {
    let Some(mean) = of.difference else {
        return Ok(None);
    };
    let mut svg = String::new();
    draw(of, mean, &mut svg).map_err(|error| EvaluateError::Plot(error.to_string()))?;
    let alternative = maud::html! { (alternative) }.into_string();
    Ok(Some(svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{alternative}\" "), 1)))
}

/// A tick's number, without the zeros nobody needs.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').replace('-', "−")
}

fn draw(of: &Compared, mean: f64, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    // From the lowest to the highest, 0 always among them.
    let (mut low, mut high) = (0.0, 0.0);
    let ends = of.interval.map(|interval| [interval.low, interval.high]);
    for value in of.prompts.iter().map(|prompt| prompt.difference).chain(ends.into_iter().flatten()) {
        low = if value < low { value } else { low };
        high = if value > high { value } else { high };
    }
    if low == high {
        (low, high) = (-1.0, 1.0);
    }
    // 0 is in the middle of a bar, so that prompts without a difference stand on neither side.
    let width = (high - low) / BINS;
    let mut bars: Vec<(i64, u32)> = Vec::new();
    for prompt in &of.prompts {
        let bin = (prompt.difference / width).round() as i64;
        match bars.iter_mut().find(|(at, _)| *at == bin) {
            Some((_, count)) => *count += 1,
            None => bars.push((bin, 1)),
        }
    }
    let most = f64::from(bars.iter().map(|&(_, count)| count).max().unwrap_or(1));
    let top = most * 1.3;

    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin_top(6)
        .margin_right(14)
        .x_label_area_size(50)
        .y_label_area_size(54)
        .build_cartesian_2d(low - 1.5 * width..high + 1.5 * width, 0.0..top)?;
    let text = |size: i32| ("sans-serif", size).into_font().color(&INK);
    let whole = |count: &f64| if count.fract() == 0.0 { count.to_string() } else { String::new() };
    // A tick at 0 comes as what is left of a subtraction.
    let tick = |value: &f64| if value.abs() < width * 1e-6 { "0".into() } else { number(*value) };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .x_labels(5)
        .y_labels(4)
        .x_label_formatter(&tick)
        .y_label_formatter(&whole)
        .x_desc(format!("B − A, {}", of.unit))
        .y_desc("prompts")
        .label_style(text(16))
        .axis_desc_style(text(17))
        .draw()?;
    chart.draw_series(bars.iter().map(|&(bin, count)| {
        let (middle, half) = (bin as f64 * width, width * 0.46);
        Rectangle::new([(middle - half, 0.0), (middle + half, f64::from(count))], BARS.filled())
    }))?;
    chart.draw_series(DashedLineSeries::new([(0.0, 0.0), (0.0, top)], 4, 4, INK.into()))?;
    let height = most * 1.16;
    if let Some(interval) = of.interval {
        let cap = most * 0.05;
        let lines = [
            vec![(interval.low, height), (interval.high, height)],
            vec![(interval.low, height - cap), (interval.low, height + cap)],
            vec![(interval.high, height - cap), (interval.high, height + cap)],
        ];
        chart.draw_series(lines.map(|line| PathElement::new(line, MEAN.stroke_width(2))))?;
    }
    chart.draw_series([Circle::new((mean, height), 4, MEAN.filled())])?;
    root.present()?;
    Ok(())
}
