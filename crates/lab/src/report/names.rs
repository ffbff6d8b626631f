//! Names under a horizontal axis. Each stands in lines that are as narrow as its place; where a word is wider than that, all are
//! turned, and stand in as many lines as a place is wide.

use super::svg::{Area, Drawn, ink};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const TEXT_PX: u32 = 13;
/// Distance between lines.
const LINE_PX: u32 = 15;
/// Width of a letter: in the mean of a name a little over half of its size in sans-serif fonts.
const LETTER_PX: u32 = 7;
/// Space that is left free between two places.
const GAP_PX: u32 = 4;
/// Distance of the first line from the axis.
const AXIS_PX: i32 = 8;

/// Names in lines.
pub struct Names {
    lines: Vec<Vec<String>>,
    turned: bool,
}

impl Names {
    /// Names that stand in places of a width.
    pub fn fit(names: &[String], place_px: u32) -> Names {
        let letters = (place_px.saturating_sub(GAP_PX) / LETTER_PX) as usize;
        let words = names.iter().flat_map(|name| name.split(' '));
        let widest = words.map(letters_of).max().unwrap_or(0);
        if widest <= letters {
            return Names { lines: names.iter().map(|name| wrapped(name, letters)).collect(), turned: false };
        }
        let lines_max = (place_px / LINE_PX).max(1) as usize;
        let longest = names.iter().map(|name| letters_of(name)).max().unwrap_or(0);
        let fits = |letters: &usize| names.iter().all(|name| wrapped(name, *letters).len() <= lines_max);
        let letters = (widest..longest).find(fits).unwrap_or(longest);
        Names { lines: names.iter().map(|name| wrapped(name, letters)).collect(), turned: true }
    }

    /// Height of them beyond that of one line.
    pub fn extra_px(&self) -> u32 {
        let lines = || self.lines.iter().flatten().map(|line| letters_of(line));
        let height = if self.turned {
            LETTER_PX * narrow(lines().max())
        } else {
            LINE_PX * narrow(self.lines.iter().map(Vec::len).max())
        };
        height.saturating_sub(LINE_PX)
    }

    /// Draws them below the points of the axis.
    pub fn draw(&self, root: &Area, places: impl Iterator<Item = (i32, i32)>) -> Drawn {
        for (lines, (x, y)) in self.lines.iter().zip(places) {
            for (line, text) in (0_i32..).zip(lines) {
                let step = i32::try_from(LINE_PX)?;
                let (at, style) = if self.turned {
                    // Read from below, so that the first line is the one on the left.
                    let left = x - step * i32::try_from(lines.len())? / 2;
                    let style = ink(TEXT_PX).transform(FontTransform::Rotate270);
                    (
                        (left + step * line + step / 2, y + AXIS_PX),
                        style.pos(Pos::new(HPos::Right, VPos::Center)),
                    )
                } else {
                    let style = ink(TEXT_PX).pos(Pos::new(HPos::Center, VPos::Top));
                    ((x, y + AXIS_PX + step * line), style)
                };
                root.draw(&Text::new(text.as_str(), at, style))?;
            }
        }
        Ok(())
    }
}

/// Words in lines of so many letters at most, or of one word.
fn wrapped(name: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if letters_of(line) + 1 + letters_of(word) <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn letters_of(text: &str) -> usize {
    text.chars().count()
}

fn narrow(count: Option<usize>) -> u32 {
    u32::try_from(count.unwrap_or(0)).expect("names are short")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn short_names_stand_in_one_line() {
        let fitted = Names::fit(&names(&["4", "64", "192"]), 200);
        assert_eq!(fitted.lines, [["4"], ["64"], ["192"]]);
        assert!(!fitted.turned);
        assert_eq!(fitted.extra_px(), 0);
    }

    #[test]
    fn long_names_take_lines_as_wide_as_their_places() {
        let fitted = Names::fit(&names(&["uniform depth 32", "hot-4m lone"]), 76);
        assert_eq!(fitted.extra_px(), LINE_PX);
        assert_eq!(fitted.lines, [["uniform", "depth 32"], ["hot-4m", "lone"]], "ten letters");
        assert!(!fitted.turned);
    }

    #[test]
    fn names_with_words_wider_than_their_places_are_turned() {
        let all = names(&["zipf-0.99 depth 32, 100 % in reserve", "uniform flushed"]);
        let fitted = Names::fit(&all, 34);
        assert!(fitted.turned);
        let lines = vec![vec!["zipf-0.99 depth 32,", "100 % in reserve"], vec!["uniform flushed"]];
        assert_eq!(fitted.extra_px(), LETTER_PX * 19 - LINE_PX);
        assert_eq!(fitted.lines, lines, "two lines of a place");
        let narrow = Names::fit(&all, 20);
        assert_eq!(narrow.lines[0], [all[0].clone()], "one line");
    }
}
