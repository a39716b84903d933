//! What only the clock decides, and how a connection ends: over pipes in paused time, with the library's own client at the
//! other end where it behaves.

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use h2::client::{self, SendRequest};
use pingora::apps::ReusedHttpStream;
use pingora::http::ResponseHeader;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::answer::Fault;
use crate::edge::common::EdgeEvents;
use crate::request::Peer;
use crate::system::cause::cause_of;
use tidegate_http::fault::BodyFault;

/// Answers by path.
#[derive(Default)]
struct App {
    aborted: AtomicUsize,
    go_on: Notify,
}

impl App {
    async fn respond(session: &mut ServerSession, status: u16, body: Bytes) -> pingora::Result<()> {
        session.write_response_header(Box::new(ResponseHeader::build(status, None).unwrap())).await?;
        session.write_response_body(body, true).await
    }

    async fn serve(&self, session: &mut ServerSession) -> pingora::Result<()> {
        match session.req_header().uri.path() {
            "/wait" => tokio::select! {
                gone = session.read_body_or_idle(true) => gone.map(drop),
                () = self.go_on.notified() => App::respond(session, 200, Bytes::from_static(b"waited")).await,
            },
            "/trailers" => {
                session.write_response_header(Box::new(ResponseHeader::build(200, None).unwrap())).await?;
                session.write_response_body(Bytes::from_static(b"message"), false).await?;
                let trailers = [("grpc-status", "0"), ("connection", "close")];
                let trailers = trailers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
                session.write_response_trailers(trailers.into_iter().collect()).await
            }
            "/flow" => App::respond(session, 200, Bytes::from(vec![b'x'; 1 << 20])).await,
            _ => {
                let mut length = 0;
                loop {
                    match session.read_request_body().await {
                        Ok(Some(bytes)) => length += bytes.len(),
                        Ok(None) => break,
                        Err(error) => {
                            let Some(fault) = cause_of::<BodyFault>(&error) else { return Err(error) };
                            let status = Fault::from(fault).meaning().status.as_u16();
                            return App::respond(session, status, Bytes::new()).await;
                        }
                    }
                }
                App::respond(session, 200, Bytes::from(length.to_string())).await
            }
        }
    }
}

#[async_trait]
impl HttpServerApp for App {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        _: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        match self.serve(&mut session).await {
            Ok(()) => drop(session.finish().await),
            Err(_) => drop(self.aborted.fetch_add(1, Ordering::SeqCst)),
        }
        None
    }
}

#[derive(Default)]
struct Counts {
    heads: Mutex<Vec<HeadFault>>,
    bodies: Mutex<Vec<BodyFault>>,
    abuses: Mutex<Vec<Violation>>,
}

impl EdgeEvents for Arc<Counts> {
    fn refused(&self, fault: HeadFault, _bytes: &[u8]) -> Bytes {
        self.heads.lock().unwrap().push(fault);
        Bytes::new()
    }

    fn body_refused(&self, fault: BodyFault) {
        self.bodies.lock().unwrap().push(fault);
    }

    fn abused(&self, abuse: Violation, _: Peer) {
        self.abuses.lock().unwrap().push(abuse);
    }
}

struct Gate {
    app: Arc<App>,
    counts: Arc<Counts>,
    edge: Arc<Edge>,
    stop: watch::Sender<bool>,
}

type Requests = SendRequest<Bytes>;

impl Gate {
    fn new() -> Gate {
        Gate::with(ConnectionLimits::default())
    }

    fn with(limits: ConnectionLimits) -> Gate {
        let counts = Arc::new(Counts::default());
        let edge =
            Arc::new(Edge { listener: 0, tls: None, limits, filter: None, events: Box::new(Arc::clone(&counts)) });
        Gate { app: Arc::default(), counts, edge, stop: watch::channel(false).0 }
    }

    fn pipe(&self) -> (DuplexStream, JoinHandle<()>) {
        let (client, server) = tokio::io::duplex(1 << 14);
        let (app, edge, shutdown) = (self.app.clone(), self.edge.clone(), self.stop.subscribe());
        let serving = async move {
            let info = Arc::new(ConnectionInfo::new(0, None));
            serve((&app, None), server, BytesMut::new(), Instant::now(), info, &edge, &shutdown).await;
        };
        (client, tokio::spawn(serving))
    }

    /// A client that keeps to the protocol.
    async fn client(&self) -> (Requests, JoinHandle<Result<(), h2::Error>>, JoinHandle<()>) {
        let (pipe, serving) = self.pipe();
        let (requests, connection) = client::handshake(pipe).await.unwrap();
        (requests, tokio::spawn(connection), serving)
    }

    fn abuses(&self) -> Vec<Violation> {
        self.counts.abuses.lock().unwrap().clone()
    }
}

fn paused(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test);
}

fn request(path: &str) -> Request<()> {
    Request::builder().uri(format!("http://a{path}")).body(()).unwrap()
}

/// Asks and reads the answer: its status and how much of a body it had.
async fn ask(requests: &mut Requests, path: &str) -> Result<(u16, usize), h2::Error> {
    poll_fn(|cx| requests.poll_ready(cx)).await?;
    let (answer, _) = requests.send_request(request(path), true)?;
    let answer = answer.await?;
    let status = answer.status().as_u16();
    let (mut body, mut length) = (answer.into_body(), 0);
    while let Some(piece) = body.data().await {
        let piece = piece?;
        length += piece.len();
        body.flow_control().release_capacity(piece.len())?;
    }
    Ok((status, length))
}

/// A frame with a payload of less than 256 bytes.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// What a raw client begins with.
fn hello() -> Vec<u8> {
    [&PREFACE[..], &frame(4, 0, 0, &[])].concat()
}

/// A GET of `/`, by the static table of HPACK and a literal host.
fn get(stream: u8) -> Vec<u8> {
    frame(1, 5, stream, &[0x82, 0x86, 0x84, 0x01, 1, b'a'])
}

/// Reads to the end, and says with which code the last GOAWAY came.
async fn farewell(client: &mut DuplexStream) -> Option<u8> {
    let mut all = Vec::new();
    let _ = client.read_to_end(&mut all).await;
    let (mut rest, mut code) = (all.as_slice(), None);
    while let Some(header) = rest.get(..9) {
        let length = 9 + usize::from(header[1]) * 256 + usize::from(header[2]);
        if header[3] == 7 {
            code = rest.get(16).copied();
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    code
}

#[test]
fn a_client_that_never_says_what_it_wants_is_closed_at_the_deadline_of_a_head() {
    paused(async {
        for said in [vec![], PREFACE[..20].to_vec(), hello()] {
            let gate = Gate::new();
            let begun = Instant::now();
            let (mut client, serving) = gate.pipe();
            client.write_all(&said).await.unwrap();
            let code = farewell(&mut client).await;
            // the pipe may end two seconds later, as it has no two sides to end
            assert!((10..=12).contains(&begun.elapsed().as_secs()), "{} bytes: {:?}", said.len(), begun.elapsed());
            drop(client);
            serving.await.unwrap();
            if said.len() > PREFACE.len() {
                assert_eq!((code, gate.abuses()), (Some(0), vec![]), "it has done nothing wrong");
            } else {
                assert_eq!(gate.abuses(), [Violation::Late]);
            }
        }
    });
}

#[test]
fn a_head_that_drips_is_cut_off_at_its_deadline_however_old_the_connection_is() {
    paused(async {
        let gate = Gate::new();
        let (mut client, serving) = gate.pipe();
        client.write_all(&[hello(), get(1)].concat()).await.unwrap();
        sleep(Duration::from_secs(40)).await;
        let begun = Instant::now();
        for byte in frame(1, 5, 3, &[0; 100]) {
            if client.write_all(&[byte]).await.is_err() || serving.is_finished() {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
        let code = farewell(&mut client).await;
        // ten for the header of the frame, which is no head yet, ten for the head, two for the pipe
        assert!((18..=24).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        assert_eq!((code, gate.abuses()), (Some(11), vec![Violation::Late]));
    });
}

#[test]
fn a_connection_without_requests_is_closed_after_its_idle_time() {
    paused(async {
        let gate = Gate::new();
        let (mut requests, ended, _) = gate.client().await;
        for _ in 0..3 {
            assert_eq!(ask(&mut requests, "/").await.unwrap(), (200, 1));
            sleep(Duration::from_secs(50)).await;
        }
        let begun = Instant::now();
        ended.await.unwrap().expect("no blame");
        assert_eq!(begun.elapsed().as_secs(), 10, "60 s after the last answer");
        assert_eq!(gate.abuses(), []);
    });
}

#[test]
fn pings_do_not_keep_an_idle_connection() {
    paused(async {
        let gate = Gate::new();
        let (mut client, serving) = gate.pipe();
        client.write_all(&[hello(), get(1)].concat()).await.unwrap();
        let begun = Instant::now();
        while !serving.is_finished() && begun.elapsed() < Duration::from_secs(600) {
            let _ = client.write_all(&frame(6, 0, 0, &[0; 8])).await;
            let _ = timeout(Duration::from_secs(5), client.read(&mut [0; 4096])).await;
        }
        // an answer to a PING is written too, so it counts from the last one; but never for ever
        assert!(begun.elapsed() < Duration::from_secs(600), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_request_under_way_keeps_its_connection() {
    paused(async {
        let gate = Gate::new();
        let (mut requests, _ended, _) = gate.client().await;
        let mut others = requests.clone();
        let waiting = tokio::spawn(async move { ask(&mut requests, "/wait").await });
        sleep(Duration::from_secs(300)).await;
        assert_eq!(ask(&mut others, "/").await.unwrap(), (200, 1));
        gate.app.go_on.notify_one();
        assert_eq!(waiting.await.unwrap().unwrap(), (200, 6));
    });
}

#[test]
fn a_body_that_stalls_is_answered_408_and_one_that_keeps_the_pace_is_served() {
    paused(async {
        let gate = Gate::new();
        let (mut requests, ended, _) = gate.client().await;
        let head = || Request::post("http://a/up").body(()).unwrap();
        let (answer, mut sending) = requests.send_request(head(), false).unwrap();
        for _ in 0..100 {
            sending.send_data(Bytes::from_static(&[b'x'; 600]), false).unwrap();
            sleep(Duration::from_secs(1)).await;
        }
        sending.send_data(Bytes::new(), true).unwrap();
        assert_eq!(answer.await.unwrap().status(), 200);
        let begun = Instant::now();
        poll_fn(|cx| requests.poll_ready(cx)).await.unwrap();
        let (answer, mut sending) = requests.send_request(head(), false).unwrap();
        sending.send_data(Bytes::from_static(b"half"), false).unwrap();
        assert_eq!(answer.await.unwrap().status(), 408);
        assert!((20..=21).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        assert_eq!(*gate.counts.bodies.lock().unwrap(), [BodyFault::SlowUpload]);
        ended.await.unwrap().expect("the connection takes no more, without blame");
    });
}

#[test]
fn an_answer_that_is_not_taken_is_given_up() {
    paused(async {
        let gate = Gate::new();
        let (mut requests, _ended, _) = gate.client().await;
        let begun = Instant::now();
        let (answer, _) = requests.send_request(request("/flow"), true).unwrap();
        // the window is never opened again
        let mut body = answer.await.unwrap().into_body();
        while let Some(Ok(_)) = body.data().await {}
        assert!((20..=21).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        assert_eq!(*gate.counts.bodies.lock().unwrap(), [BodyFault::SlowDownload]);
        assert_eq!(gate.app.aborted.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_client_that_reads_nothing_at_all_is_cut_off_with_all_it_asked_for() {
    paused(async {
        let gate = Gate::new();
        let (mut client, serving) = gate.pipe();
        // windows as large as can be, and a socket that is never read
        let window = frame(8, 0, 0, &[0x7f, 0, 0, 0]);
        let settings = frame(4, 0, 0, &[0, 4, 0x7f, 0, 0, 0]);
        let flow = |stream| {
            let path = b"/flow";
            let fields = [&[0x82, 0x86, 0x04, 5], &path[..], &[0x01, 1, b'a']].concat();
            frame(1, 5, stream, &fields)
        };
        let all = [PREFACE.to_vec(), settings, window, flow(1), flow(3), flow(5)].concat();
        let begun = Instant::now();
        client.write_all(&all).await.unwrap();
        serving.await.unwrap();
        assert!((20..=30).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        sleep(Duration::from_secs(1)).await;
        assert_eq!(gate.app.aborted.load(Ordering::SeqCst), 3);
        assert_eq!(gate.abuses(), [Violation::Stalled]);
    });
}

#[test]
fn a_connection_has_a_number_of_requests_and_a_lifetime() {
    paused(async {
        let gate = Gate::with(ConnectionLimits { requests: 3, ..ConnectionLimits::default() });
        let (mut requests, ended, _) = gate.client().await;
        for _ in 0..3 {
            assert_eq!(ask(&mut requests, "/").await.unwrap(), (200, 1));
        }
        ended.await.unwrap().expect("no blame");
        let lifetime = Some(Duration::from_secs(100));
        let gate = Gate::with(ConnectionLimits { lifetime, ..ConnectionLimits::default() });
        let begun = Instant::now();
        let (mut requests, ended, _) = gate.client().await;
        while ask(&mut requests, "/").await.is_ok() {
            sleep(Duration::from_secs(7)).await;
        }
        ended.await.unwrap().expect("no blame");
        assert!((100..=112).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        assert_eq!(gate.abuses(), []);
    });
}

#[test]
fn a_client_that_was_told_to_leave_and_stays_is_served_no_more() {
    paused(async {
        let gate = Gate::new();
        let (mut client, serving) = gate.pipe();
        client.write_all(&[hello(), get(1)].concat()).await.unwrap();
        sleep(Duration::from_millis(100)).await;
        gate.stop.send(true).unwrap();
        let begun = Instant::now();
        // it never answers the PING that goes with GOAWAY, and goes on asking
        for stream in (3..=255).step_by(2) {
            if serving.is_finished() || client.write_all(&get(stream)).await.is_err() {
                break;
            }
            let _ = timeout(Duration::from_millis(500), client.read(&mut [0; 4096])).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_stop_closes_idle_connections_soon_and_lets_requests_finish() {
    paused(async {
        let gate = Gate::new();
        let (mut idle, idle_ended, _) = gate.client().await;
        assert_eq!(ask(&mut idle, "/").await.unwrap(), (200, 1));
        let (_unused, unused_ended, _) = gate.client().await;
        let (mut busy, busy_ended, _) = gate.client().await;
        let waiting = tokio::spawn(async move { ask(&mut busy, "/wait").await });
        sleep(Duration::from_secs(1)).await;
        let begun = Instant::now();
        gate.stop.send(true).unwrap();
        idle_ended.await.unwrap().expect("no blame");
        // one that has not asked yet would hold the process up as long
        unused_ended.await.unwrap().expect("no blame");
        assert!(begun.elapsed() <= Duration::from_secs(2), "{:?}", begun.elapsed());
        sleep(Duration::from_secs(20)).await;
        gate.app.go_on.notify_one();
        assert_eq!(waiting.await.unwrap().unwrap(), (200, 6));
        busy_ended.await.unwrap().expect("no blame");
    });
}

#[test]
fn trailers_of_answers_pass_without_what_concerns_a_connection() {
    paused(async {
        let gate = Gate::new();
        let (mut requests, _ended, _) = gate.client().await;
        let (answer, _) = requests.send_request(request("/trailers"), true).unwrap();
        let mut body = answer.await.unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "message");
        assert!(body.data().await.is_none());
        let trailers = body.trailers().await.unwrap().unwrap();
        assert_eq!((trailers.len(), &trailers["grpc-status"]), (1, &http::HeaderValue::from_static("0")));
    });
}

#[test]
fn a_cancelled_request_is_noticed_while_it_waits() {
    paused(async {
        let gate = Gate::new();
        let (mut requests, _ended, _) = gate.client().await;
        let (_answer, mut sending) = requests.send_request(request("/wait"), true).unwrap();
        sleep(Duration::from_secs(1)).await;
        sending.send_reset(Reason::CANCEL);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(gate.app.aborted.load(Ordering::SeqCst), 1);
        assert_eq!(ask(&mut requests, "/").await.unwrap(), (200, 1), "others go on");
    });
}
