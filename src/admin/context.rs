//! What endpoints see of the process.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::mpsc;

use super::events::Streams;
use super::order::Order;
use super::pardoned::Pardons;
use crate::client::Client;
use crate::config::settings::ClientInLog;
use crate::running::process::Process;

/// What endpoints see of the process.
pub struct Context {
    /// What requests share.
    pub process: Arc<Process>,
    /// Whether requests are welcome.
    pub ready: Arc<AtomicBool>,
    /// The listeners' names, and where they listen.
    pub listeners: Vec<(String, String)>,
    /// Who is pardoned.
    pub(super) pardons: Pardons,
    /// Orders go to the process's life, which carries them out.
    pub(super) orders: mpsc::Sender<Order>,
    /// Places for streams of events.
    pub streams: Streams,
}

impl Context {
    /// Of this process.
    pub fn new(
        process: Arc<Process>,
        ready: Arc<AtomicBool>,
        listeners: Vec<(String, String)>,
        orders: mpsc::Sender<Order>,
    ) -> Context {
        Context { process, ready, listeners, pardons: Pardons::default(), orders, streams: Streams::default() }
    }

    /// The client as the access log has it; a pseudonym if there is none.
    pub fn name_of(&self, client: &Client) -> String {
        match self.process.clients_in_log() {
            ClientInLog::Pseudonym => self.process.pseudonyms.of(client).to_string(),
            ClientInLog::Address => client.network.to_string(),
        }
    }
}
