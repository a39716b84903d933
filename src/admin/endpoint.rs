//! One thing that can be asked for: how, where, and what answers.

use std::pin::Pin;
use std::sync::Arc;

use http::Method;

use super::asked::Asked;
use super::context::Context;
use crate::small_server::Answer;

/// An answer that takes its time.
pub type Later = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What an endpoint does.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Answers from what is there.
    Now(fn(&Arc<Context>, &Asked) -> Answer),
    /// Answers when something has been done.
    Later(fn(Arc<Context>, Asked) -> Later),
}

/// Something that can be asked for.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) method: Method,
    /// From `/`; a segment in braces takes any one segment.
    pub(super) path: &'static str,
    pub(super) handler: Handler,
    /// Whether its answer names clients or configuration. What is not said to be otherwise does.
    pub(super) names: bool,
    /// Whether it acts on the web address too, for those who have its token.
    pub(super) by_token: bool,
}

impl Endpoint {
    /// For reading: answers `GET` and `HEAD`, on the web address too.
    pub(super) const fn get(path: &'static str, handler: fn(&Arc<Context>, &Asked) -> Answer) -> Endpoint {
        Endpoint { method: Method::GET, path, handler: Handler::Now(handler), names: true, by_token: false }
    }

    /// Marks an endpoint that needs no token: it shows only what metrics show, or leaves names out by [`Asked::may_read_names`].
    pub(super) fn nameless(self) -> Endpoint {
        Endpoint { names: false, ..self }
    }

    /// For acting: answers `POST`, on the socket only.
    pub(super) const fn post(path: &'static str, handler: Handler) -> Endpoint {
        Endpoint { method: Method::POST, path, handler, names: true, by_token: false }
    }

    /// Marks an order that the page gives too, by whoever has the web address's token.
    pub(super) fn by_token(self) -> Endpoint {
        Endpoint { by_token: true, ..self }
    }

    /// Whether this method, which may be `HEAD`, is the endpoint's.
    pub(super) fn takes(&self, method: &Method) -> bool {
        *method == self.method || (*method == Method::HEAD && self.method == Method::GET)
    }
}
