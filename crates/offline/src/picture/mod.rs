//! Pictures as text: what happened over time, drawn as SVG.
//!
//! Pure: numbers go in, text comes out, the same text on every machine. No scripts, no fonts or files from elsewhere; a
//! page may show it as an image, and a report may hold it inline. It knows nothing of limits: whoever draws says what
//! is what by a [`Role`], which decides the colour.
//!
//! * `svg`: elements, attributes, escaping, numbers.
//! * `timeline`: what a chart over time is made of. `layout`: where it goes.
//! * `curve`: a trade-off.
//! * `page`: pictures, tables and words together.
//! * `frame`, `scale`: what they have in common. `style`: their colours, in light and in dark.
//!
//! Every picture is a document of its own (`svg`), or a part of a page (`inline`).
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
