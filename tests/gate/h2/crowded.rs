//! Many streams on one connection, and clients that take their answers bit by bit: all goes on, and each gets what is its own.

use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};

use super::gate_before;
use super::talker::{Talker, read, request, talk};
use crate::harness::{Gate, Origin, Reply};

#[test]
fn a_hundred_streams_at_once_each_get_their_own_answer() {
    let origin = Origin::that(Reply::Echo);
    let mut gate = gate_before(&origin, "");
    talk(async {
        let (talker, _) = Talker::open(gate.address("main")).await;
        let mut under_way = Vec::new();
        for number in 0..100_usize {
            let mut talker = talker.clone();
            under_way.push(tokio::spawn(async move {
                for round in 0..3 {
                    let body = format!("{number} {round} ").repeat(number * 97 + 1);
                    let path = format!("/{number}/{round}");
                    let answer = talker.ask(request("POST", &path, &[]), body.as_bytes()).await.unwrap();
                    assert_eq!(answer.status, 200);
                    assert!(answer.body == body.as_bytes(), "{path}");
                }
            }));
        }
        for stream in under_way {
            stream.await.unwrap();
        }
    });
    gate.comes_to_rest();
    assert_eq!(origin.count(), 300);
    gate.counts("tidegate_requests_total", &[("listener", "main"), ("code", "2xx")], 300.0);
}

/// A client with a window of so many bytes for each stream.
async fn with_window(gate: &Gate, window: u32) -> SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(gate.address("main")).await.unwrap();
    let (requests, connection) = Builder::new()
        .initial_window_size(window)
        .initial_connection_window_size(1 << 20)
        .handshake(stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    requests
}

#[test]
fn an_answer_goes_as_slowly_as_its_window_opens_and_comes_whole() {
    let body: Vec<u8> = (0..50_000_u32).map(|number| (number % 251) as u8).collect();
    let origin = Origin::that(Reply::Echo);
    let mut gate = gate_before(&origin, "");
    talk(async {
        for window in [1_000, 16_384, 40_000] {
            let requests = with_window(&gate, window).await;
            let mut requests = requests.ready().await.unwrap();
            let (answer, mut sending) = requests.send_request(request("POST", "/echo", &[]), false).unwrap();
            sending.send_data(Bytes::copy_from_slice(&body), true).unwrap();
            let mut coming = answer.await.unwrap().into_body();
            let mut came = Vec::new();
            while let Some(piece) = coming.data().await {
                let piece = piece.unwrap();
                assert!(piece.len() <= window as usize);
                came.extend_from_slice(&piece);
                if came.len() % 7 == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                coming.flow_control().release_capacity(piece.len()).unwrap();
            }
            assert!(came == body, "{window}");
        }
    });
    gate.comes_to_rest();
}

#[test]
fn a_stream_that_takes_nothing_keeps_no_other_from_going_on() {
    let origin = Origin::start(|arrival| if arrival.target == "/large" { Reply::Endless } else { Reply::Echo });
    let mut gate = gate_before(&origin, "    on_client_abort: release\n");
    talk(async {
        let mut requests = with_window(&gate, 65_535).await.ready().await.unwrap();
        let (stuck, mut giving_up) = requests.send_request(request("GET", "/large", &[]), true).unwrap();
        let stuck = stuck.await.unwrap();
        for _ in 0..5 {
            requests = requests.ready().await.unwrap();
            let (answer, mut sending) = requests.send_request(request("POST", "/echo", &[]), false).unwrap();
            sending.send_data(Bytes::from(vec![b'x'; 30_000]), true).unwrap();
            assert_eq!(read(answer.await.unwrap()).await.unwrap().body.len(), 30_000);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        giving_up.send_reset(h2::Reason::CANCEL);
        drop(stuck);
    });
    gate.comes_to_rest();
}
