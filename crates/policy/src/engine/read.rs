//! The request whose limits are read.

use crate::client::Client;
use crate::policy::Route;
use crate::request::Request;
use crate::units::Timestamp;

/// The request that is read, on its route.
#[derive(Debug, Clone, Copy)]
pub struct Read<'a> {
    pub request: &'a Request<'a>,
    pub client: &'a Client,
    pub route: &'a Route,
    pub index: usize,
    pub at: Timestamp,
}
