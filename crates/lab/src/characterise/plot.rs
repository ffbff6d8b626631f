//! Plots as data; `report::svg` draws them.

/// Width of all bars of one name, of the distance between names.
pub const GROUP_SHARE: f64 = 0.76;

/// The middle of a bar: of the name at `name`, the bar at `place` of `of`.
#[must_use]
pub fn bar_middle(name: u32, place: u32, of: u32) -> f64 {
    f64::from(name) + GROUP_SHARE * ((f64::from(place) + 0.5) / f64::from(of) - 0.5)
}

/// A plot with one horizontal and one vertical axis.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Stable name, such as `4a`.
    pub id: &'static str,
    /// Above the plot.
    pub title: &'static str,
    /// Below it: what is shown, in a sentence or two.
    pub caption: &'static str,
    /// Title of the horizontal axis, with unit.
    pub x_title: &'static str,
    /// Title of the vertical axis, with unit.
    pub y_title: &'static str,
    /// Names or numbers along the horizontal axis.
    pub x: Horizontal,
    /// Shape in which values are drawn.
    pub shape: Shape,
    /// The values.
    pub series: Vec<Series>,
}

/// Names or numbers along a horizontal axis.
#[derive(Clone, Debug)]
pub enum Horizontal {
    /// Names; points have their places as x.
    Names(Vec<String>),
    /// Numbers, from 0.
    Numbers,
}

/// Shape in which values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Bars side by side, with their values.
    Bars,
    /// Lines with markers.
    Lines,
    /// Lines alone, for many points.
    Curves,
}

/// Values of one kind.
#[derive(Clone, Debug)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// Horizontal and vertical.
    pub points: Vec<(f64, f64)>,
    /// Quoted by a paper, not ours: drawn as open diamonds.
    pub published: bool,
}

impl Series {
    /// Ours, one value per name of the axis; values that do not exist leave a gap.
    #[must_use]
    pub fn by_name(name: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) -> Series {
        let places = (0..).map(f64::from);
        let points = places.zip(values).filter_map(|(place, value)| Some((place, value?))).collect();
        Series { name: name.into(), points, published: false }
    }

    /// Ours, at numbers.
    #[must_use]
    pub fn by_number(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, published: false }
    }

    /// Quoted, at places or numbers; those that are not for this drive are left out.
    #[must_use]
    pub fn quoted(points: impl IntoIterator<Item = (f64, Option<f64>)>) -> Series {
        let points = points.into_iter().filter_map(|(x, y)| Some((x, y?))).collect();
        Series { name: "quoted by the paper".to_owned(), points, published: true }
    }
}

impl Plot {
    /// The largest value.
    #[must_use]
    pub fn y_max(&self) -> f64 {
        self.points().map(|(_, y)| y).filter(|y| y.is_finite()).fold(0.0, f64::max)
    }

    /// The largest place or number on the horizontal axis.
    #[must_use]
    pub fn x_max(&self) -> f64 {
        self.points().map(|(x, _)| x).fold(0.0, f64::max)
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.series.iter().flat_map(|series| series.points.iter().copied())
    }
}
