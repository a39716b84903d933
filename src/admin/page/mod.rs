//! The page for people: what one process does now and did in the last ten minutes, at `/` of the admin addresses.
//!
//! Three files go into the program as they are written, HTML, CSS and script, and nothing else is loaded. The server draws
//! everything: the page is whole at its first paint, and without a script too; with one, changed sections come as server-sent
//! events and take the place of the old ones. It is for reading only.
//!
//! * `view`: what is shown. `gather`: where it comes from. `render`: what it looks like.
//! * `live`: the stream of events, and the same numbers as JSON.

mod gather;
mod live;
mod render;
mod view;

use std::sync::Arc;

use http::StatusCode;

use super::{Asked, Context};
use crate::small_server::Answer;

pub use live::{history, stream};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// `GET /`: the page as of now.
pub fn page(context: &Arc<Context>, asked: &Asked) -> Answer {
    let page = render::page(&gather::view(&context.process, asked.may_read_names()));
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
