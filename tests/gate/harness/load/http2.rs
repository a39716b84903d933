//! The clients of a load that speak HTTP/2: several streams at once on each connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use h2::Reason;
use http::Request;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{HOST, PAUSE, Part};
use crate::harness::PATIENCE;
use crate::harness::talker::{Talker, read};

/// Streams at once.
const STREAMS: usize = 4;

/// Asks until it is told to stop.
pub fn ask(part: Part) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let part = Arc::new(part);
    let mut config = part.target.client.config.clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    runtime.block_on(async {
        while part.goes_on() {
            match timeout(PATIENCE, open(&part, &connector)).await {
                Ok(Ok(talker)) => {
                    part.connected();
                    converse(&part, talker).await;
                }
                Ok(Err(fault)) => part.refused(fault),
                Err(_) => part.refused("no connection in time"),
            }
        }
    });
}

async fn open(part: &Part, connector: &TlsConnector) -> io::Result<Talker> {
    let stream = TcpStream::connect(part.target.address(part.kind)).await?;
    stream.set_nodelay(true)?;
    let talker = if part.kind.is_secure() {
        let name = ServerName::try_from(HOST).expect("a name");
        let stream = connector.connect(name, stream).await?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        Talker::over(stream).await
    } else {
        Talker::over(stream).await
    };
    Ok(talker.map_err(io::Error::other)?.0)
}

/// Uses a connection for as long as it takes requests, or for a request on each stream.
async fn converse(part: &Arc<Part>, talker: Talker) {
    let (mut streams, asked) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
    for number in 0..STREAMS {
        let (part, mut talker, asked) = (Arc::clone(part), talker.clone(), Arc::clone(&asked));
        streams.spawn(async move {
            let mut turn = number;
            while ask_once(&part, &mut talker, Part::path(turn), &asked).await && part.kind.keeps() && part.goes_on() {
                turn += 1;
                sleep(PAUSE).await;
            }
        });
    }
    drop(talker);
    while let Some(ended) = streams.join_next().await {
        ended.expect("a stream does not panic");
    }
    if !asked.load(Ordering::Relaxed) {
        part.unasked();
    }
}

/// One request and its answer; whether the connection takes more.
async fn ask_once(part: &Part, talker: &mut Talker, path: &str, asked: &AtomicBool) -> bool {
    let scheme = if part.kind.is_secure() { "https" } else { "http" };
    let request = Request::get(format!("{scheme}://{HOST}{path}")).body(()).expect("a request");
    let answer = match timeout(PATIENCE, talker.send(request)).await {
        Ok(Ok(answer)) => answer,
        // it was told to go elsewhere, and nothing was sent
        Ok(Err(error)) if is_farewell(&error) => return false,
        Ok(Err(error)) => {
            part.failed(format!("{path}: the connection ended without a GOAWAY: {error}"));
            return false;
        }
        Err(_) => {
            part.failed(format!("{path}: not sent in time"));
            return false;
        }
    };
    asked.store(true, Ordering::Relaxed);
    let whole = async { read(answer.await?).await };
    match timeout(PATIENCE, whole).await {
        Ok(Ok(answer)) => {
            let generation = answer.fields.get("x-generation").and_then(|value| value.to_str().ok());
            part.answered(answer.status, generation);
            true
        }
        Ok(Err(error)) if is_farewell(&error) || error.reason() == Some(Reason::REFUSED_STREAM) => {
            part.elsewhere();
            false
        }
        Ok(Err(error)) => {
            part.failed(format!("{path}: {error:?}"));
            false
        }
        Err(_) => {
            part.failed(format!("{path}: no answer in time"));
            false
        }
    }
}

/// For a stream it means that it is above the last one: the library gives the others what becomes of the connection.
fn is_farewell(error: &h2::Error) -> bool {
    error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR)
}
