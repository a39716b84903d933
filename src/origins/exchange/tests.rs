use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use super::*;
use crate::origins::way::Way;
use crate::origins::wire::Wire;
use crate::policy::Origin;
use crate::system::socket::Socket;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// An exchange whose request was sent, and the origin at its other end. `asks`: as on a connection that was used before.
async fn asked<'a>(
    method: &Method,
    (buffers, alarm): &'a mut (Buffers, Alarm),
    asks: bool,
) -> (Exchange<'a>, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    let way = Way::open(&Arc::new(Origin::of("app".into(), Vec::new()))).unwrap();
    let stream = Box::new(OriginStream::new(Wire::Plain(Socket::Unix(near)), way, 0));
    let mut exchange = Exchange::new(stream, (Instant::now(), Duration::from_secs(5)), (buffers, alarm));
    let head = [method.as_str().as_bytes(), GET.get(3..).unwrap()].concat();
    if asks {
        exchange.asks(method, &head, RequestBody::None);
    }
    exchange.begin(method, &head, Duration::from_secs(5)).await.unwrap();
    (exchange, far)
}

async fn head(exchange: &mut Exchange<'_>) -> pingora::Result<AnswerLines> {
    let mut head = AnswerLines::default();
    poll_fn(|cx| exchange.poll_head(cx, &mut head)).await.map(|()| head)
}

/// The body, or the error that cut it.
async fn body_of(exchange: &mut Exchange<'_>) -> (Vec<u8>, Option<Box<Error>>) {
    let mut body = Vec::new();
    loop {
        match poll_fn(|cx| exchange.poll_piece(cx)).await {
            Ok(piece) => {
                body.extend_from_slice(exchange.data(&piece));
                exchange.taken();
                if piece.ends {
                    return (body, None);
                }
            }
            Err(error) => return (body, Some(error)),
        }
    }
}

/// What comes of an answer in pieces of this size: its body, and whether the connection can be kept.
async fn through(answer: &[u8], size: usize, closes: bool) -> (Vec<u8>, bool, bool) {
    let mut buffers = Default::default();
    let (mut exchange, mut far) = asked(&Method::GET, &mut buffers, size.is_multiple_of(2)).await;
    let sent = answer.to_vec();
    let origin = tokio::spawn(async move {
        // a close with unread bytes would be a reset
        let _ = far.read(&mut [0; 1024]).await.unwrap();
        for piece in sent.chunks(size) {
            far.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        (!closes).then_some(far)
    });
    head(&mut exchange).await.unwrap();
    let (body, error) = body_of(&mut exchange).await;
    let far = origin.await.unwrap();
    let kept = exchange.kept().is_some();
    drop(far);
    (body, error.is_none(), kept)
}

#[tokio::test]
async fn a_body_comes_out_whole_however_it_is_framed_and_cut() {
    let coded = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n!\r\n0\r\nT: x\r\n\r\n";
    let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!";
    let endless = b"HTTP/1.1 200 OK\r\n\r\nhello!";
    for size in [1, 2, 7, 1000] {
        assert_eq!(through(coded, size, false).await, (b"hello!".to_vec(), true, true), "chunks by {size}");
        assert_eq!(through(sized, size, false).await, (b"hello!".to_vec(), true, true), "a length by {size}");
        assert_eq!(through(endless, size, true).await, (b"hello!".to_vec(), true, false), "an end by {size}");
        let cut = sized.get(..sized.len() - 1).unwrap();
        assert_eq!(through(cut, size, true).await, (b"hello".to_vec(), false, false), "a cut by {size}");
    }
}

#[tokio::test]
async fn connections_are_kept_as_their_answers_say() {
    let answers: [(&[u8], bool); 5] = [
        (b"HTTP/1.1 204 None\r\n\r\n", true),
        (b"HTTP/1.1 204 None\r\nConnection: x, close\r\n\r\n", false),
        (b"HTTP/1.0 204 None\r\n\r\n", false),
        (b"HTTP/1.0 204 None\r\nConnection: keep-alive\r\n\r\n", true),
        // bytes that nobody asked for
        (b"HTTP/1.1 204 None\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", false),
    ];
    for (answer, kept) in answers {
        let got = through(answer, 1000, false).await.2;
        assert_eq!(got, kept, "{}", String::from_utf8_lossy(answer));
    }
}

#[tokio::test]
async fn heads_keep_their_spelling_and_interim_ones_come_first() {
    let mut buffers = Default::default();
    let (mut exchange, mut far) = asked(&Method::HEAD, &mut buffers, false).await;
    let answer = b"HTTP/1.1 103 Early\r\nLINK: </a>\r\n\r\nHTTP/1.1 200 Fine\r\nX-a: 1\r\nx-A:  2\t\r\nContent-Length: 9\r\n\r\n";
    far.write_all(answer).await.unwrap();
    assert_eq!(head(&mut exchange).await.unwrap().status(), 103);
    let last = head(&mut exchange).await.unwrap();
    let mut wire = Vec::new();
    last.write(&mut wire);
    assert_eq!(String::from_utf8_lossy(&wire), "HTTP/1.1 200 Fine\r\nX-a: 1\r\nx-A: 2\r\nContent-Length: 9\r\n\r\n");
    assert_eq!((exchange.body(), exchange.kept().is_some()), (Body::None, true), "HEAD has no body");
}

#[tokio::test]
async fn only_a_connection_that_closed_without_a_word_is_a_reason_to_ask_again() {
    let mut buffers = Default::default();
    let (mut exchange, far) = asked(&Method::GET, &mut buffers, true).await;
    drop(far);
    let closed = head(&mut exchange).await.unwrap_err();
    assert_eq!(closed.retry, RetryType::ReusedOnly);
    let (mut exchange, mut far) = asked(&Method::GET, &mut buffers, true).await;
    far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n").await.unwrap();
    let garbled = head(&mut exchange).await.unwrap_err();
    assert_ne!(garbled.retry, RetryType::ReusedOnly);
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_says_nothing_is_given_up() {
    let mut buffers = Default::default();
    let (mut exchange, _far) = asked(&Method::GET, &mut buffers, true).await;
    let began = Instant::now();
    let silent = head(&mut exchange).await.unwrap_err();
    assert_eq!((silent.etype(), began.elapsed().as_secs()), (&ErrorType::ReadTimedout, 5));
}
