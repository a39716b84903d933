//! Who serves requests of HTTP/2 without the framework.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;

use http::request::Parts;

use super::stream_io::StreamIo;

/// Serves requests of HTTP/2 that need nothing of the framework.
pub trait DirectStreams: Send + Sync + 'static {
    /// Serves the request with this head, unless it is not for it.
    fn serve_stream<'a>(
        &'a self,
        head: &'a Parts,
        io: &'a mut StreamIo,
    ) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;
}

/// What came of a request.
pub enum Outcome {
    /// It was served.
    Served,
    /// It is for the framework: the decision about it, if it was judged.
    Left(Option<Box<dyn Any + Send + Sync>>),
}
