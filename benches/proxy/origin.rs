//! The origin behind every proxy: keep-alive HTTP/1.1, one answer for every request, nothing else.
//!
//! Not a server: it looks for the blank line that ends a head and answers as often as it found one. Requests have no body.

use std::io::{self, Write};
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The fields that nginx sends with a `return 200`, so that every proxy has as many to pass on; 34 bytes of body.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Sat, 21 Nov 2026 09:00:00 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 34\r\nConnection: keep-alive\r\n\r\n\
    thirty-four bytes from the origin\n";

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

async fn answer_all(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Ok(());
        }
        filled += read;
        while let Some(end) = end_of_head(&buffer[..filled]) {
            stream.write_all(ANSWER).await?;
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
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}
