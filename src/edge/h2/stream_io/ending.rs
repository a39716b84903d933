//! How a stream ends whose answer is complete.

use std::future::poll_fn;

use pingora::Result;

use super::StreamIo;

impl StreamIo {
    /// Ends the answer, and the stream with it.
    ///
    /// # Errors
    /// The client has gone.
    pub async fn finish(&mut self) -> Result<()> {
        self.put_end()?;
        if self.ended && !self.is_body_complete() {
            // in a box, as nearly no request comes to it
            Box::pin(self.linger()).await;
        }
        Ok(())
    }

    /// The answer is complete and the request is not: takes in a little of what is on its way before the stream is reset (RFC
    /// 9113 section 8.1). Clients in the field that find the reset beside the answer take it for the whole of it (curl 7.88).
    /// Whatever the request held has been given back by then.
    async fn linger(&mut self) {
        let (most, time) = (self.edge.limits.linger_bytes, self.edge.limits.linger);
        let farewell = async {
            let mut drained = 0;
            while drained <= most {
                let Some(Ok(data)) = poll_fn(|cx| self.body.poll_data(cx)).await else { return };
                drained += data.len();
                if self.body.flow_control().release_capacity(data.len()).is_err() {
                    return;
                }
            }
            // more would not be read: the client has time to find its answer until it gives up, or we do
            let Some(send) = &mut self.send else { return };
            let _ = poll_fn(|cx| send.poll_reset(cx)).await;
        };
        let _ = tokio::time::timeout(time, farewell).await;
    }
}
