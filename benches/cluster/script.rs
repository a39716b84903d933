//! The baseline: a pingora server that answers by itself, and asks Redis about each request if it is told to.
//!
//! The script is what is found in articles: GCRA in ten lines of Lua, called by its hash, one round trip for each request. It
//! has no deadline, no breaker and no idea what to do without the store.

use std::net::IpAddr;

use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use pingora::http::ResponseHeader;
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, Result};
use redis::aio::MultiplexedConnection;
use tokio::sync::OnceCell;

/// ARGV: seconds per request, seconds of burst. The value is when the client would have used up what it has by now.
const GCRA: &str = "
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local each, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local spent = tonumber(redis.call('GET', KEYS[1]) or 0)
if spent < now then spent = now end
if spent + each - now > burst then return 0 end
redis.call('SET', KEYS[1], string.format('%.6f', spent + each), 'PX', math.ceil((spent + each - now) * 1000))
return 1
";

/// Serves until the process ends, if `arguments` say `answer LISTEN`, or `ask LISTEN STORE EACH BURST`.
pub fn serve(arguments: &[String]) -> Option<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (listen, asks) = match words[..] {
        ["answer", listen] => (listen, None),
        ["ask", listen, store, each, burst] => {
            let client = redis::Client::open(store).ok()?;
            let (script, connection) = (redis::Script::new(GCRA), OnceCell::new());
            (listen, Some(Asks { client, connection, script, each: each.to_owned(), burst: burst.to_owned() }))
        }
        _ => return None,
    };
    crate::parent::end_with_parent();
    let mut server = Server::new_with_opt_and_conf(None, ServerConf { threads: 1, ..ServerConf::default() });
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Answers { asks });
    service.add_tcp(listen);
    server.add_service(service);
    server.run_forever();
}

struct Answers {
    asks: Option<Asks>,
}

struct Asks {
    client: redis::Client,
    connection: OnceCell<MultiplexedConnection>,
    script: redis::Script,
    each: String,
    burst: String,
}

impl Asks {
    async fn admits(&self, client: IpAddr) -> redis::RedisResult<bool> {
        let connect = || self.client.get_multiplexed_async_connection();
        let mut connection = self.connection.get_or_try_init(connect).await?.clone();
        let mut call = self.script.key(format!("limit:{client}"));
        call.arg(&self.each).arg(&self.burst).invoke_async(&mut connection).await
    }
}

#[async_trait]
impl ProxyHttp for Answers {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn request_filter(&self, session: &mut Session, _ctx: &mut ()) -> Result<bool> {
        let status = match &self.asks {
            None => StatusCode::OK,
            Some(asks) => {
                let told = session.req_header().headers.get("x-forwarded-for");
                let told = told.and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
                let client = told.ok_or_else(|| Error::new_str("nobody asks"))?;
                match asks.admits(client).await {
                    Ok(true) => StatusCode::OK,
                    Ok(false) => StatusCode::TOO_MANY_REQUESTS,
                    Err(_) => StatusCode::SERVICE_UNAVAILABLE,
                }
            }
        };
        let mut head = ResponseHeader::build(status, Some(2))?;
        head.insert_header("Content-Length", "2")?;
        head.insert_header("Content-Type", "text/plain")?;
        session.write_response_header(Box::new(head), false).await?;
        session.write_response_body(Some(Bytes::from_static(b"ok")), true).await?;
        Ok(true)
    }

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        Err(Error::new_str("every request has been answered"))
    }
}
