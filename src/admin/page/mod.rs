//! The page for people at `/` of the admin addresses: the present and the last ten minutes of one process. Where its reader may give orders
//! about clients, buttons give them.
//!
//! The program contains the HTML, CSS and script; the browser loads nothing else. The server draws every section, so the page
//! works without the script. With it, changed sections come as server-sent events and replace the old ones.
//!
//! * `view`: the data. `gather`: collects it. `render`: writes it as HTML.
//! * `live`: the stream of events, and the numbers as JSON.

mod gather;
mod live;
mod render;
mod view;

use std::sync::{Arc, LazyLock};

use http::StatusCode;

use super::{Asked, Context};
use crate::small_server::Answer;

pub use live::{history, stream};

const STYLE: &str = include_str!("page.css");

/// Sent without comments and indents, which are a quarter of it.
static SCRIPT: LazyLock<String> = LazyLock::new(|| {
    let lines = include_str!("page.js").lines().map(str::trim_start);
    lines.filter(|line| !line.starts_with("//")).collect::<Vec<_>>().join("\n")
});

/// `GET /`: the page as of now.
pub fn page(context: &Arc<Context>, asked: &Asked) -> Answer {
    let page = render::page(&gather::view(&context.process, &context.listeners, view::Reader::of(asked)));
    Answer::new(StatusCode::OK, "text/html; charset=utf-8", page.into_bytes())
}

/// `GET /page.css`.
pub fn style(_: &Arc<Context>, _: &Asked) -> Answer {
    Answer::new(StatusCode::OK, "text/css; charset=utf-8", STYLE.as_bytes())
}

/// `GET /page.js`.
pub fn script(_: &Arc<Context>, _: &Asked) -> Answer {
    Answer::new(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT.as_bytes())
}
