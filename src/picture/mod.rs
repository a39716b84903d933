//! Pictures as text: what happened over time, drawn as SVG.
//!
//! Pure: numbers go in, text comes out, the same text on every machine. No scripts, no fonts or files from elsewhere; a
//! page may show it as an image, and a report may hold it inline. It knows nothing of limits: whoever draws says what
//! is what by a [`Role`], which decides the colour.
//!
//! * `svg`: elements, attributes, escaping, numbers.
//! * `timeline`: what a chart is made of. `layout`: where it goes. `style`: its colours, in light and in dark.
//!
//! Source: SVG 1.1 second edition (paths §8, patterns §13.3, `title` and `desc` §5.4), Media Queries 5 §11.5
//! (`prefers-color-scheme`).

mod layout;
mod style;
pub mod svg;
mod timeline;

pub use timeline::{Line, Panel, Role, Series, Shape, TimeAxis, Timeline};
