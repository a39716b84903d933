//! Faults on their way through the framework: they travel inside an `io::Error` at the root of its own.

use std::error::Error;
use std::io;

/// The fault at the root of a proxy error, if it is one of these.
pub fn cause_of<F: Error + Copy + 'static>(error: &pingora::Error) -> Option<F> {
    let cause = error.root_cause().downcast_ref::<io::Error>()?;
    cause.get_ref()?.downcast_ref::<F>().copied()
}

#[cfg(test)]
mod tests {
    use pingora::{Error, ErrorType};
    use tidegate_http::fault::{AnswerFault, BodyFault};

    use super::*;

    #[test]
    fn a_fault_is_found_again_inside_a_proxy_error() {
        let inner = Error::because(ErrorType::ReadError, "reading body", io::Error::from(BodyFault::ChunkSize));
        assert_eq!(cause_of(&inner), Some(BodyFault::ChunkSize));
        let outer = Error::because(ErrorType::InternalError, "around it", inner);
        assert_eq!(cause_of(&outer), Some(BodyFault::ChunkSize));
        assert_eq!(cause_of::<AnswerFault>(&outer), None);
        let other = Error::because(ErrorType::ReadError, "reading body", io::Error::other("reset"));
        assert_eq!(cause_of::<BodyFault>(&other), None);
    }
}
