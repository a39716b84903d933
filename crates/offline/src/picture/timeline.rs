//! What a chart over time is made of: panels below each other on one time axis, each with series of its own.
//!
//! Values are step functions: a point holds from its time to the next point, as a count per bin does. Areas are stacked
//! in their order, so that "admitted" and "refused" together show what was offered.

/// A chart. [`Picture::svg`](super::Picture::svg) draws it.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// What it shows, in a line. Drawn above it, and told to readers that see no picture.
    pub title: String,
    /// The story in words, for readers that see no picture; not drawn.
    pub description: String,
    /// The axis that all panels share.
    pub time: TimeAxis,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// The time axis, in whatever unit its label says.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeAxis {
    /// Such as `seconds`.
    pub label: String,
    /// Its left end.
    pub from: f64,
    /// Its right end, up to which the last point of a series holds.
    pub until: f64,
    /// Labels and where they stand; round numbers if there are none.
    pub ticks: Vec<(f64, String)>,
}

/// One chart of several.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// What it is about, with the unit of its values, such as `requests per second`.
    pub heading: String,
    /// Top of the value axis; as high as the highest value if `None`. What is above is cut off.
    pub top: Option<f64>,
    /// Drawn in this order, areas before steps.
    pub series: Vec<Series>,
    /// Horizontal lines, such as a promise.
    pub lines: Vec<Line>,
}

/// A step function of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// Decides its colour.
    pub role: Role,
    /// How it is drawn.
    pub shape: Shape,
    /// (time, value) with times that never descend; 0 before the first. A negative value, or one that is no number,
    /// counts as 0.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// The value at a time.
    pub(super) fn at(&self, time: f64) -> f64 {
        let later = self.points.partition_point(|(start, _)| *start <= time);
        let value = later.checked_sub(1).and_then(|index| self.points.get(index)).map_or(0.0, |(_, value)| *value);
        if value.is_finite() { value.max(0.0) } else { 0.0 }
    }
}

/// What a series means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// What was asked for.
    Offered,
    /// What passed.
    Admitted,
    /// What did not.
    Refused,
    /// What passed of those who have nothing to do with the matter.
    Bystander,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Offered, Role::Admitted, Role::Refused, Role::Bystander];

    /// Its class in the drawing.
    pub(super) fn class(self) -> &'static str {
        match self {
            Role::Offered => "offered",
            Role::Admitted => "admitted",
            Role::Refused => "refused",
            Role::Bystander => "bystander",
        }
    }
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// As an area on top of the areas before it.
    Stacked,
    /// As a line.
    Step,
}

/// A horizontal line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// Its height.
    pub value: f64,
}
