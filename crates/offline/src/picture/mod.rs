//! Charts as SVG: numbers in, text out, the same text on every machine. Begin with [`Timeline`] and [`Curve`].
//!
//! No scripts, no fonts, no files from elsewhere, no knowledge of limits: the caller gives each series a [`Role`], which decides
//! its colour. A picture is a document of its own (`svg`) or a part of a page (`inline`).
//!
//! * `timeline`: the data of a chart over time. `layout`: places it on the paper. `curve`: a trade-off.
//! * `page`: pictures, tables and words together.
//! * `svg`: elements, attributes, escaping. `frame`, `scale`: shared by all charts. `style`: colours, light and dark.
//!
//! Source: SVG 1.1 second edition (paths §8, patterns §13.3, `title` and `desc` §5.4), Media Queries 5 §11.5
//! (`prefers-color-scheme`).

mod curve;
mod frame;
mod layout;
mod page;
mod scale;
mod style;
pub mod svg;
mod timeline;

pub use curve::{Curve, Curves, Point};
pub use frame::{Figure, Picture, Setting};
pub use page::{Block, Page, Table};
pub use timeline::{Line, Panel, Role, Series, Shape, TimeAxis, Timeline};
