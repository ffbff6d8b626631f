//! Plots as SVG, to stand inside a page: text and axes take the colour of the page's text, series
//! have colours that can be told apart on white and on black.

use super::names::Names;
use crate::characterise::plot::{GROUP_SHARE, Horizontal, Plot, Series, Shape};
use crate::characterise::readable;
use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 720;
const HEIGHT: u32 = 400;
const FONT: &str = "sans-serif";
const TEXT_SIZE: u32 = 14;
/// Width of the axes and the margins beside them.
const BESIDE_PX: u32 = 92;
/// Height below the horizontal axis, with one line of names.
const BELOW_PX: u32 = 48;
/// Stands for the colour of the page's text until [`adapt`] replaces it.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_TEXT: &str = "#010203";
const COLOURS: [RGBColor; 12] = [
    RGBColor(59, 130, 196),
    RGBColor(224, 123, 32),
    RGBColor(46, 158, 91),
    RGBColor(201, 70, 110),
    RGBColor(142, 107, 191),
    RGBColor(22, 150, 160),
    RGBColor(122, 128, 136),
    RGBColor(0x9a, 0x6b, 0x3a),
    RGBColor(0xb8, 0xa0, 0x1e),
    RGBColor(0x6f, 0xb1, 0xe8),
    RGBColor(0xe8, 0x8f, 0xb0),
    RGBColor(0x7b, 0xb8, 0x3c),
];

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
pub type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The plot as an `svg` element.
///
/// # Panics
/// Never: drawing into a string does not fail.
pub fn draw(plot: &Plot) -> String {
    let mut text = String::new();
    {
        let names = names(plot);
        let height = HEIGHT + names.as_ref().map_or(0, Names::extra_px);
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        paint(&root, plot, names.as_ref()).expect("drawing into a string does not fail");
        root.present().expect("drawing into a string does not fail");
    }
    adapt(&text)
}

/// Without what only a file needs, and in the colours of the page.
fn adapt(text: &str) -> String {
    let start = text.find("<svg").unwrap_or(0);
    text[start..]
        .replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")
        .replace(INK_TEXT, "currentColor")
        .replace("(us)", "(\u{b5}s)")
        .replacen("<svg ", "<svg role=\"img\" ", 1)
}

pub fn ink(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

/// Names under the axis, where there are any.
fn names(plot: &Plot) -> Option<Names> {
    match &plot.x {
        Horizontal::Names(names) => {
            let count = u32::try_from(names.len()).expect("few names").max(1);
            Some(Names::fit(names, (WIDTH - BESIDE_PX) / count))
        }
        Horizontal::Numbers => None,
    }
}

fn paint(root: &Area, plot: &Plot, names: Option<&Names>) -> Drawn {
    let rows = legend(root, plot)?;
    let top = 30 + rows * 20;
    let x = match &plot.x {
        Horizontal::Names(names) => -0.5..f64::from(u32::try_from(names.len())?) - 0.5,
        Horizontal::Numbers => 0.0..plot.x_max().max(1.0) * 1.03,
    };
    let y_max = nice_above(plot.y_max());
    let mut chart = ChartBuilder::on(root)
        .margin_top(top)
        .margin_right(16)
        .margin_bottom(6)
        .margin_left(6)
        .x_label_area_size(BELOW_PX + names.map_or(0, Names::extra_px))
        .y_label_area_size(70)
        .build_cartesian_2d(x, 0.0..y_max)?;
    axes(&mut chart, plot)?;
    if let Some(names) = names {
        let area = chart.plotting_area();
        names.draw(root, (0..).map(|place| area.map_coordinate(&(f64::from(place), 0.0))))?;
    }
    let ours: Vec<&Series> = plot.series.iter().filter(|series| !series.published).collect();
    for (place, series) in ours.iter().enumerate() {
        match plot.shape {
            Shape::Bars => bars(&mut chart, plot, series, (place, ours.len()))?,
            Shape::Lines | Shape::Curves => lines(&mut chart, plot.shape, series, place)?,
        }
    }
    for series in plot.series.iter().filter(|series| series.published) {
        for point in &series.points {
            diamond(&mut chart, *point)?;
        }
    }
    Ok(())
}

/// A round number that leaves some room above the largest value.
fn nice_above(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let target = value * 1.12;
    let power = 10_f64.powf(target.log10().floor());
    let steps = [1.0, 1.2, 1.4, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.iter().map(|step| step * power).find(|step| *step >= target).unwrap_or(10.0 * power)
}

fn axes(chart: &mut Chart, plot: &Plot) -> Drawn {
    // Names are drawn by themselves.
    let labels = if matches!(plot.x, Horizontal::Numbers) { 10 } else { 0 };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(labels)
        .x_label_formatter(&|x| readable_tick(*x))
        .y_label_formatter(&|y| readable_tick(*y))
        .x_desc(plot.x_title)
        .y_desc(plot.y_title)
        .label_style(ink(13))
        .axis_desc_style(ink(TEXT_SIZE))
        .axis_style(INK.mix(0.6))
        .bold_line_style(INK.mix(0.15))
        .light_line_style(INK.mix(0.0))
        .draw()?;
    Ok(())
}

fn readable_tick(value: f64) -> String {
    if value.abs() >= 1000.0 {
        return readable(value);
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}

fn bars(chart: &mut Chart, plot: &Plot, series: &Series, (place, of): (usize, usize)) -> Drawn {
    let of = f64::from(u32::try_from(of)?);
    let width = GROUP_SHARE / of;
    let offset = -GROUP_SHARE / 2.0 + width * f64::from(u32::try_from(place)?);
    let names = match &plot.x {
        Horizontal::Names(names) => f64::from(u32::try_from(names.len())?),
        Horizontal::Numbers => plot.x_max(),
    };
    // Values stand above bars that are wide enough for them.
    let bar_px = f64::from(WIDTH - BESIDE_PX) / names * width;
    let style = ink(11).pos(Pos::new(HPos::Center, VPos::Bottom));
    for (x, y) in &series.points {
        let left = x + offset + width * 0.04;
        let right = x + offset + width * 0.96;
        chart.draw_series([Rectangle::new([(left, 0.0), (right, *y)], colour(place).filled())])?;
        if bar_px >= 30.0 {
            // Above the diamond, where there is one.
            let marked = quoted_within(plot, left, right);
            let (top, lift_px) = marked.map_or((*y, 0), |quoted| (y.max(quoted), -8));
            let at = EmptyElement::at(((left + right) / 2.0, top));
            chart.draw_series([at + Text::new(short(*y), (0, lift_px), style.clone())])?;
        }
    }
    Ok(())
}

/// The quoted value that is drawn over this part of the horizontal axis.
fn quoted_within(plot: &Plot, left: f64, right: f64) -> Option<f64> {
    let quoted = plot.series.iter().filter(|series| series.published).flat_map(|series| &series.points);
    quoted.filter(|(x, _)| (left..right).contains(x)).map(|(_, y)| *y).reduce(f64::max)
}

/// Three digits.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn lines(chart: &mut Chart, shape: Shape, series: &Series, place: usize) -> Drawn {
    let colour = colour(place);
    chart.draw_series(LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)))?;
    if shape == Shape::Curves {
        return Ok(());
    }
    for point in &series.points {
        match place % 3 {
            0 => chart.draw_series([Circle::new(*point, 4, colour.filled())])?,
            1 => chart.draw_series([TriangleMarker::new(*point, 5, colour.filled())])?,
            _ => chart.draw_series([Cross::new(*point, 4, colour.stroke_width(2))])?,
        };
    }
    Ok(())
}

fn diamond(chart: &mut Chart, at: (f64, f64)) -> Drawn {
    let corners = vec![(0, -6), (6, 0), (0, 6), (-6, 0), (0, -6)];
    let outline = EmptyElement::at(at) + PathElement::new(corners, INK.stroke_width(2));
    chart.draw_series([outline])?;
    Ok(())
}

/// Title and names of the series above the plot; returns how many rows the names take.
fn legend(root: &Area, plot: &Plot) -> Result<i32, Box<dyn std::error::Error>> {
    root.draw(&Text::new(plot.title, (12, 8), (FONT, 16).into_font().style(FontStyle::Bold).color(&INK)))?;
    let right = i32::try_from(WIDTH)? - 12;
    let (mut x, mut y, mut ours) = (80, 34, 0);
    for series in plot.series.iter().filter(|series| !series.points.is_empty()) {
        // Sans-serif letters take a little over half of their size.
        let wide = 24 + i32::try_from(series.name.chars().count())? * 8;
        if x > 80 && x + wide > right {
            x = 80;
            y += 20;
        }
        sign(root, plot.shape, (x, y), (!series.published).then_some(ours))?;
        ours += usize::from(!series.published);
        root.draw(&Text::new(series.name.clone(), (x + 18, y - 1), ink(TEXT_SIZE)))?;
        x += wide + 14;
    }
    Ok((y - 34) / 20 + 1)
}

/// Draws the sign before a name: the marker of that series of ours, or the diamond.
fn sign(root: &Area, shape: Shape, (x, y): (i32, i32), ours: Option<usize>) -> Drawn {
    let middle = (x + 6, y + 6);
    let Some(place) = ours else {
        let corners = vec![(x + 6, y), (x + 12, y + 6), (x + 6, y + 12), (x, y + 6), (x + 6, y)];
        root.draw(&PathElement::new(corners, INK.stroke_width(2)))?;
        return Ok(());
    };
    let colour = colour(place);
    match (shape, place % 3) {
        (Shape::Bars, _) => root.draw(&Rectangle::new([(x, y), (x + 12, y + 12)], colour.filled()))?,
        (Shape::Curves, _) => {
            root.draw(&PathElement::new(vec![(x - 2, y + 6), (x + 14, y + 6)], colour.stroke_width(3)))?;
        }
        (Shape::Lines, 0) => root.draw(&Circle::new(middle, 5, colour.filled()))?,
        (Shape::Lines, 1) => root.draw(&TriangleMarker::new(middle, 6, colour.filled()))?,
        (Shape::Lines, _) => root.draw(&Cross::new(middle, 5, colour.stroke_width(2)))?,
    }
    Ok(())
}
