//! What endpoints see of the process.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::StatusCode;
use tokio::sync::mpsc;

use super::asked::Asked;
use super::events::Streams;
use super::order::Order;
use crate::client::Client;
use crate::config::settings::ClientInLog;
use crate::running::process::Process;
use crate::small_server::{Answer, Origin};

/// What endpoints see of the process.
pub struct Context {
    /// What requests share.
    pub process: Arc<Process>,
    /// Whether requests are welcome.
    pub ready: Arc<AtomicBool>,
    /// The listeners' names, and where they listen.
    pub listeners: Vec<(String, String)>,
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
        Context { process, ready, listeners, orders, streams: Streams::default() }
    }

    /// The client as the access log has it; a pseudonym if there is none.
    pub fn name_of(&self, client: &Client) -> String {
        self.name_as(client, self.process.clients_in_log())
    }

    /// The form of clients in an answer: as the access log has them, or as `?clients=address` or `pseudonym` asks. Addresses are for the
    /// socket, whose users may read all of the process's memory.
    ///
    /// # Errors
    /// Another form, or addresses elsewhere; the answer says so.
    pub(super) fn form_of_clients(&self, asked: &Asked) -> Result<ClientInLog, Answer> {
        match (asked.query("clients").as_deref(), asked.request().origin) {
            (None, _) => Ok(self.process.clients_in_log()),
            (Some("pseudonym"), _) => Ok(ClientInLog::Pseudonym),
            (Some("address"), Origin::Unix { .. }) => Ok(ClientInLog::Address),
            (Some("address"), Origin::Tcp) => {
                Err(Answer::error(StatusCode::FORBIDDEN, "addresses of clients are told on the admin socket only"))
            }
            (Some(_), _) => Err(Answer::error(StatusCode::BAD_REQUEST, "`clients` is `address` or `pseudonym`")),
        }
    }

    /// The client in this form.
    pub(super) fn name_as(&self, client: &Client, form: ClientInLog) -> String {
        match form {
            ClientInLog::Pseudonym => self.process.pseudonyms.of(client).to_string(),
            ClientInLog::Address => client.network.to_string(),
        }
    }
}
