//! The origin behind every proxy: keep-alive HTTP/1.1, one answer for every request, nothing else.
//!
//! Not a server: it looks for the blank line that ends a head and answers as often as it found one. Requests have no body.
//! `/bytes/N` is answered with a body of N bytes, `/head` with the head of the request, everything else with 34 bytes.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The body of most answers.
pub const BODY: &[u8] = b"thirty-four bytes from the origin\n";

/// Answers until the process ends. The first line on standard output is the address it answers on.
pub fn serve() -> io::Result<()> {
    crate::parent::end_with_parent();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        println!("{}", listener.local_addr()?);
        io::stdout().flush()?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // a proxy that closes its connection ends the task and nothing else
            tokio::spawn(answer_all(stream));
        }
    })
}

/// The fields that nginx sends with a `return 200`, so that every proxy has as many to pass on.
fn answer(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Sat, 21 Nov 2026 09:00:00 GMT\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\nConnection: keep-alive\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

async fn answer_all(mut stream: TcpStream) -> io::Result<()> {
    let small = answer(BODY);
    let mut large: HashMap<usize, Vec<u8>> = HashMap::new();
    let mut buffer = [0; 4096];
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Ok(());
        }
        filled += read;
        while let Some(end) = end_of_head(&buffer[..filled]) {
            let path = buffer[..end].split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            let size = path.strip_prefix(b"/bytes/").and_then(|size| std::str::from_utf8(size).ok()?.parse().ok());
            match size {
                Some(size) => {
                    let answer = large.entry(size).or_insert_with(|| answer(&vec![b'.'; size]));
                    stream.write_all(answer).await?;
                }
                None if path == b"/head" => stream.write_all(&answer(&buffer[..end])).await?,
                None => stream.write_all(&small).await?,
            }
            buffer.copy_within(end..filled, 0);
            filled -= end;
        }
        if filled == buffer.len() {
            return Err(io::Error::other("a request head of more than 4 KiB"));
        }
    }
}

/// The position after the blank line that ends a head.
pub fn end_of_head(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4)
}
