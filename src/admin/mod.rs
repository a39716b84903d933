//! The admin API: JSON over HTTP/1.1 for operators. Begin with the table in `endpoints`.
//!
//! * The admin socket is a UNIX socket in a private folder. The process's own user and root may do everything there; other users
//!   are refused.
//! * The web address, if the policy file names one, is for reading. Names of clients and the configuration need a token
//!   there, and so do the orders about clients; see [`web`].
//!
//! Each endpoint is an entry of that table with a [`Handler`], which sees the [`Context`] and what was [`Asked`]. Faults are
//! answered `{ "error": … }`. The command line asks through [`client`].

mod asked;
mod bans;
pub mod client;
mod context;
mod decisions;
mod endpoint;
pub mod events;
pub mod order;
mod orders;
pub mod page;
mod pardons;
mod parts;
mod status;
pub mod web;
mod whom;

use std::sync::Arc;

use http::{Method, StatusCode};

pub use self::asked::Asked;
pub use self::context::Context;
pub use self::endpoint::{Endpoint, Handler};
use self::web::Web;

use crate::small_server::hosts::REFUSAL;
use crate::small_server::{Answer, Answers, Hosts, Origin, Request};

/// Every endpoint there is.
fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::get("/", page::page).nameless(),
        Endpoint::get("/page.css", page::style).nameless(),
        Endpoint::get("/page.js", page::script).nameless(),
        Endpoint::get("/healthz", status::healthz).nameless(),
        Endpoint::get("/readyz", status::readyz).nameless(),
        Endpoint::get("/api/v1/status", status::status),
        Endpoint::get("/api/v1/limits", parts::get_limits).nameless(),
        Endpoint::get("/api/v1/origins", parts::get_origins),
        Endpoint::get("/api/v1/offenders", parts::get_offenders),
        Endpoint::get("/api/v1/history", page::history).nameless(),
        Endpoint::get("/api/v1/stream", page::stream).nameless(),
        Endpoint::get("/api/v1/decisions", decisions::latest),
        Endpoint::get("/api/v1/decisions/{id}", decisions::one),
        Endpoint::get("/api/v1/config", parts::get_config),
        Endpoint::get("/api/v1/bans", bans::list),
        Endpoint::post("/api/v1/ban", Handler::Later(bans::ban)).by_token(),
        Endpoint::post("/api/v1/unban", Handler::Later(bans::unban)).by_token(),
        Endpoint::post("/api/v1/bans/networks", Handler::Now(bans::networks)),
        Endpoint::get("/api/v1/pardons", pardons::list),
        Endpoint::post("/api/v1/pardon", Handler::Now(pardons::pardon)).by_token(),
        Endpoint::post("/api/v1/pardon/revoke", Handler::Now(pardons::revoke)).by_token(),
        Endpoint::post("/api/v1/upgrade", Handler::Later(orders::order)),
        Endpoint::post("/api/v1/reload", Handler::Later(orders::order)),
    ]
}

/// One way in.
pub struct Admin {
    context: Arc<Context>,
    endpoints: Vec<Endpoint>,
    /// The rules of the web address; `None`: this is the socket.
    web: Option<Web>,
}

impl Admin {
    /// The socket's way in.
    pub fn socket(context: Arc<Context>) -> Admin {
        Admin { context, endpoints: endpoints(), web: None }
    }

    /// The web address's.
    pub fn web(context: Arc<Context>, web: Web) -> Admin {
        Admin { context, endpoints: endpoints(), web: Some(web) }
    }

    /// Whether whoever asks may.
    fn allows(&self, request: &Request) -> Result<(), Answer> {
        web::is_no_strangers_order(request)?;
        if self.web.is_none() && request.fields.contains_key("origin") && !Hosts::new(&[]).allow(&request.fields) {
            // a tunnel ends at the socket, and a name of others leads there
            return Err(Answer::error(StatusCode::FORBIDDEN, REFUSAL));
        }
        match (&self.web, request.origin) {
            (Some(web), _) => web.allows(request),
            (None, Origin::Unix { user }) if user == 0 || user == rustix::process::geteuid().as_raw() => Ok(()),
            (None, Origin::Unix { user }) => {
                tracing::warn!(user, "the admin socket: another user asks for something");
                Err(Answer::error(StatusCode::FORBIDDEN, "only the process's own user and root are heard here"))
            }
            (None, Origin::Tcp) => Err(Answer::error(StatusCode::FORBIDDEN, "the admin socket is a UNIX socket")),
        }
    }

    async fn dispatch(&self, request: Request) -> Answer {
        let at_path = |endpoint: &&Endpoint| asked::parameters(endpoint.path, &request.path).is_some();
        let Some(endpoint) = self.endpoints.iter().filter(at_path).find(|endpoint| endpoint.takes(&request.method))
        else {
            let mut allowed: Vec<&str> = Vec::new();
            for endpoint in self.endpoints.iter().filter(at_path) {
                allowed.extend(if endpoint.method == Method::GET { &["GET", "HEAD"][..] } else { &["POST"] });
            }
            if allowed.is_empty() {
                return Answer::error(StatusCode::NOT_FOUND, format!("there is nothing at {}", request.path));
            }
            let why = format!("{} is not for {}", request.path, request.method);
            return Answer::error(StatusCode::METHOD_NOT_ALLOWED, why).with("Allow", allowed.join(", "));
        };
        let names = self.web.as_ref().is_none_or(Web::tells_all);
        if endpoint.names && !names {
            return Web::unnamed();
        }
        if endpoint.method == Method::POST && self.web.is_some() && !endpoint.by_token {
            return Web::socket_only();
        }
        let parameters = asked::parameters(endpoint.path, &request.path).unwrap_or_default();
        let orders = self.web.as_ref().is_none_or(Web::takes_orders);
        let asked = Asked::new(request, parameters).by_one_who_may(names, orders);
        match endpoint.handler {
            Handler::Now(handler) => handler(&self.context, &asked),
            Handler::Later(handler) => handler(Arc::clone(&self.context), asked).await,
        }
    }
}

impl Answers for Admin {
    async fn answer(&self, request: Request) -> Answer {
        let answer = match self.allows(&request) {
            Ok(()) => self.dispatch(request).await,
            Err(refusal) => refusal,
        };
        web::FIELDS.iter().fold(answer, |answer, (name, value)| answer.with(name, *value))
    }
}
