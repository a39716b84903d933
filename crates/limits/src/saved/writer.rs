//! Writes a stream.

use std::io::{self, Write};

use super::{CHUNK, Frame, Key, LONGEST_NAME, MAGIC, VERSION};

/// Writes a stream of sections. Buffers [`CHUNK`] bytes.
pub struct Writer<'w> {
    to: &'w mut dyn Write,
    key: Key,
    /// Of the frame before.
    check: [u8; 16],
    data: Vec<u8>,
    written: u64,
    /// Bytes that were read or written since the last rest.
    worked: usize,
    rest: Option<&'w mut dyn FnMut()>,
}

impl<'w> Writer<'w> {
    /// Begins a stream with the state of limits.
    ///
    /// # Errors
    /// What `to` refuses.
    pub fn new(to: &'w mut dyn Write, key: &Key) -> io::Result<Writer<'w>> {
        Writer::of_version(to, key, VERSION)
    }

    /// Begins a stream whose content has a version of its own.
    ///
    /// # Errors
    /// What `to` refuses.
    pub fn of_version(to: &'w mut dyn Write, key: &Key, version: u32) -> io::Result<Writer<'w>> {
        let mut head = MAGIC.to_vec();
        head.extend(version.to_le_bytes());
        head.extend(key.fingerprint());
        let check = key.check([0; 16], 0, &head);
        to.write_all(&head)?;
        to.write_all(&check)?;
        let written = (head.len() + check.len()) as u64;
        Ok(Writer { to, key: key.clone(), check, data: Vec::with_capacity(CHUNK), written, worked: 0, rest: None })
    }

    /// Calls `rest` again and again while it writes, so that a caller can let others have the processor: after [`CHUNK`] bytes of state that
    /// were read and as many that were written, at the latest.
    #[must_use]
    pub fn with_rests(self, rest: &'w mut dyn FnMut()) -> Writer<'w> {
        Writer { rest: Some(rest), ..self }
    }

    /// Takes note that so many bytes of state were read.
    pub fn looked_at(&mut self, bytes: usize) {
        self.worked += bytes;
        if self.worked >= CHUNK {
            self.worked = 0;
            if let Some(rest) = &mut self.rest {
                rest();
            }
        }
    }

    /// Begins a section. The one before must have [ended](Writer::end).
    ///
    /// # Errors
    /// A name of more than 1,024 bytes, and what the target refuses.
    pub fn begin(&mut self, name: &str) -> io::Result<()> {
        if name.len() > LONGEST_NAME {
            return Err(io::Error::other("the name of a section is longer than 1024 bytes"));
        }
        self.frame(Frame::Begin, name.as_bytes())
    }

    /// Ends a section.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn end(&mut self) -> io::Result<()> {
        self.send()?;
        self.frame(Frame::End, &[])
    }

    /// Ends the stream. Without it the stream is read as cut off.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn finish(mut self) -> io::Result<u64> {
        self.frame(Frame::Last, &[])?;
        self.to.flush()?;
        Ok(self.written)
    }

    /// Writes these bytes into the section. Their number is not written.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn bytes(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.data.len() == CHUNK {
                self.send()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.data.len()));
            self.data.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Writes a number in eight bytes.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn number(&mut self, number: u64) -> io::Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    /// Writes a text behind its length.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        self.number(text.len() as u64)?;
        self.bytes(text.as_bytes())
    }

    fn send(&mut self) -> io::Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let mut data = std::mem::take(&mut self.data);
        let sent = self.frame(Frame::Data, &data);
        data.clear();
        self.data = data;
        self.looked_at(CHUNK);
        sent
    }

    fn frame(&mut self, frame: Frame, bytes: &[u8]) -> io::Result<()> {
        self.check = self.key.check(self.check, frame as u8, bytes);
        // no frame is longer than a chunk
        let length = (bytes.len() as u32).to_le_bytes();
        self.to.write_all(&[frame as u8])?;
        self.to.write_all(&length)?;
        self.to.write_all(bytes)?;
        self.to.write_all(&self.check)?;
        self.written += (1 + length.len() + bytes.len() + self.check.len()) as u64;
        Ok(())
    }
}
