//! Open-loop clients over TLS: each arrival is a connection of its own, with a full handshake and one request, at a time that was
//! planned before. What the proxy does never changes when the next one comes.

use std::cell::RefCell;
use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// An answer that comes later after the planned time is of no use to its client.
pub const DEADLINE: Duration = Duration::from_secs(1);

/// How long a client waits before it gives up.
const PATIENCE: Duration = Duration::from_secs(3);

/// Not counted, at the beginning of a level.
pub const SETTLING: Duration = Duration::from_secs(2);

/// Light clients, each with an address in a network of its own.
const LIGHT: u32 = 100;

/// Waits for each order `MILLISECONDS LIGHT_PER_SECOND HEAVY_PER_SECOND` on standard input and answers with what its clients saw.
/// With `0 CONNECTIONS 0` it measures the capacity: so many connections, each asking again at once, for three seconds.
pub fn drive(proxy: SocketAddr) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tls = connector().map_err(io::Error::other)?;
    say("ready")?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace().map(|word| word.parse::<f64>().map_err(io::Error::other));
        let mut next = || words.next().unwrap_or_else(|| Err(io::Error::other("three numbers")));
        let (millis, light, heavy) = (next()?, next()?, next()?);
        let local = LocalSet::new();
        if millis == 0.0 {
            let done = local.block_on(&runtime, closed_loop(proxy, &tls, light as usize));
            say(&format!("{done}"))?;
        } else {
            let span = Duration::from_secs_f64(millis / 1000.0);
            let seen = local.block_on(&runtime, open_loop(proxy, &tls, span, [light, heavy]));
            say(&seen.line())?;
        }
    }
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    println!("{line}");
    io::stdout().flush()
}

/// What clients saw, light ones and the heavy one.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Arrivals that count, by who they were.
    pub planned: [u64; 2],
    /// Of them, answered 200 within [`DEADLINE`] of the planned time.
    pub good: [u64; 2],
    /// Answered 200 later than that.
    pub late: u64,
    /// Answered otherwise.
    pub refused: u64,
    /// Closed, reset or refused without an answer.
    pub closed: u64,
    /// Given up.
    pub given_up: u64,
    /// How late the load itself began an arrival, 99th percentile, in microseconds.
    pub lag: u64,
    /// Time from the planned moment to the end of a good answer, median and 99th percentile, in microseconds.
    pub median: u64,
    /// See above.
    pub p99: u64,
}

impl Seen {
    fn line(&self) -> String {
        let Seen { planned, good, late, refused, closed, given_up, lag, median, p99 } = self;
        format!(
            "{} {} {} {} {late} {refused} {closed} {given_up} {lag} {median} {p99}",
            planned[0], planned[1], good[0], good[1]
        )
    }

    /// Reads what [`drive`] wrote.
    pub fn parse(line: &str) -> Option<Seen> {
        let words: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
        let [light, heavy, good, heavy_good, late, refused, closed, given_up, lag, median, p99] = words?[..] else {
            return None;
        };
        let (planned, good) = ([light, heavy], [good, heavy_good]);
        Some(Seen { planned, good, late, refused, closed, given_up, lag, median, p99 })
    }
}

/// What one arrival came to.
enum End {
    Good,
    Refused,
    Closed,
}

#[derive(Default)]
struct Notes {
    seen: Seen,
    lags: Vec<u64>,
    took: Vec<u64>,
}

async fn open_loop(proxy: SocketAddr, tls: &TlsConnector, span: Duration, rates: [f64; 2]) -> Seen {
    let notes = Rc::new(RefCell::new(Notes::default()));
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let total = rates[0] + rates[1];
    let begun = Instant::now();
    let mut at = 0.0;
    let mut tasks = Vec::new();
    loop {
        // Poisson arrivals, the same in each run
        at += -(1.0 - dice.unit()).ln() / total;
        if at >= span.as_secs_f64() {
            break;
        }
        let planned = begun + Duration::from_secs_f64(at);
        let heavy = dice.unit() * total >= rates[0];
        let source = source(heavy, &mut dice);
        sleep_until(planned).await;
        let counts = at >= SETTLING.as_secs_f64();
        let (tls, notes) = (tls.clone(), Rc::clone(&notes));
        tasks.push(tokio::task::spawn_local(async move {
            let lag = planned.elapsed();
            let end = timeout_at(planned + PATIENCE, ask(proxy, source, tls)).await;
            let took = planned.elapsed();
            if !counts {
                return;
            }
            let notes = &mut *notes.borrow_mut();
            let seen = &mut notes.seen;
            notes.lags.push(lag.as_micros() as u64);
            seen.planned[usize::from(heavy)] += 1;
            match end {
                Ok(End::Good) if took <= DEADLINE => {
                    seen.good[usize::from(heavy)] += 1;
                    notes.took.push(took.as_micros() as u64);
                }
                Ok(End::Good) => seen.late += 1,
                Ok(End::Refused) => seen.refused += 1,
                Ok(End::Closed) => seen.closed += 1,
                Err(_) => seen.given_up += 1,
            }
        }));
    }
    for task in tasks {
        // one that panicked has counted nothing
        let _ = task.await;
    }
    let mut notes = notes.take();
    let at = |numbers: &mut Vec<u64>, part: usize| {
        numbers.sort_unstable();
        numbers.get(numbers.len().saturating_sub(1) * part / 100).copied().unwrap_or(0)
    };
    notes.seen.lag = at(&mut notes.lags, 99);
    notes.seen.median = at(&mut notes.took, 50);
    notes.seen.p99 = at(&mut notes.took, 99);
    notes.seen
}

/// Requests that were answered 200 in a second, with so many connections that each ask again as soon as they are answered.
async fn closed_loop(proxy: SocketAddr, tls: &TlsConnector, connections: usize) -> f64 {
    let span = Duration::from_secs(3);
    let end = Instant::now() + span;
    let tasks: Vec<_> = (0..connections)
        .map(|number| {
            let tls = tls.clone();
            tokio::task::spawn_local(async move {
                let mut dice = Dice(number as u64 + 1);
                let mut good = 0;
                while Instant::now() < end {
                    good += u64::from(matches!(ask(proxy, source(false, &mut dice), tls.clone()).await, End::Good));
                }
                good
            })
        })
        .collect();
    let mut good = 0;
    for task in tasks {
        good += task.await.unwrap_or(0);
    }
    good as f64 / span.as_secs_f64()
}

/// The heavy client has one address; each light one has a network of its own.
fn source(heavy: bool, dice: &mut Dice) -> Ipv4Addr {
    if heavy {
        return Ipv4Addr::new(127, 200, 0, 1);
    }
    let client = (dice.unit() * f64::from(LIGHT)) as u32 % LIGHT;
    Ipv4Addr::new(127, 1 + client as u8, 0, 1)
}

async fn ask(proxy: SocketAddr, source: Ipv4Addr, tls: TlsConnector) -> End {
    match try_to_ask(proxy, source, tls).await {
        Ok(true) => End::Good,
        Ok(false) => End::Refused,
        Err(_) => End::Closed,
    }
}

/// Whether the answer was 200.
async fn try_to_ask(proxy: SocketAddr, source: Ipv4Addr, tls: TlsConnector) -> io::Result<bool> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((source, 0)))?;
    let stream = socket.connect(proxy).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("tidegate.test").map_err(io::Error::other)?;
    let mut stream = tls.connect(name, stream).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: tidegate.test\r\nConnection: close\r\n\r\n").await?;
    let mut answer = Vec::with_capacity(1024);
    match stream.read_to_end(&mut answer).await {
        // an end without goodbye, as nginx and HAProxy make it, comes behind the whole answer
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}

/// Numbers that look random and are the same in each run (xorshift64*, Vigna 2016).
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Clients that believe every certificate: checking it would cost them what the proxy is to be measured by.
fn connector() -> Result<TlsConnector, Error> {
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.dangerous().with_custom_certificate_verifier(Arc::new(Believes)).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug)]
struct Believes;

impl ServerCertVerifier for Believes {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::RSA_PSS_SHA256, SignatureScheme::RSA_PKCS1_SHA256, SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
