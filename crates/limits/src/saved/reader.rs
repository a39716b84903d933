//! Reads a stream.

use std::io::Read;

use super::{CHUNK, Fault, Frame, Key, LONGEST_NAME, MAGIC, VERSION};

/// Reads a stream of sections, each frame of which is checked before a byte of it is returned.
pub struct Reader<'r> {
    from: &'r mut dyn Read,
    key: Key,
    /// Of the frame before.
    check: [u8; 16],
    /// Of the frame that is being read.
    data: Vec<u8>,
    at: usize,
    /// Whether the section that was read has been found to end.
    ended: bool,
}

impl<'r> Reader<'r> {
    /// Begins to read a stream with the state of limits.
    ///
    /// # Errors
    /// No stream, one of another version or another secret, and what `from` refuses.
    pub fn new(from: &'r mut dyn Read, key: &Key) -> Result<Reader<'r>, Fault> {
        Reader::of_version(from, key, VERSION)
    }

    /// Begins to read a stream whose content has a version of its own.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn of_version(from: &'r mut dyn Read, key: &Key, known: u32) -> Result<Reader<'r>, Fault> {
        let mut head = [0; MAGIC.len() + 4 + 16];
        from.read_exact(&mut head)?;
        let (magic, rest) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Fault::Alien);
        }
        let (version, fingerprint) = rest.split_at(4);
        let found = <[u8; 4]>::try_from(version).map_or(0, u32::from_le_bytes);
        if found != known {
            return Err(Fault::Version { found, known });
        }
        if fingerprint != key.fingerprint() {
            return Err(Fault::Foreign);
        }
        let mut check = [0; 16];
        from.read_exact(&mut check)?;
        if check != key.check([0; 16], 0, &head) {
            return Err(Fault::Corrupt);
        }
        Ok(Reader { from, key: key.clone(), check, data: Vec::new(), at: 0, ended: true })
    }

    /// The name of the next section; `None` at the end of the stream. The section before must have [ended](Reader::end).
    ///
    /// # Errors
    /// A damaged stream.
    pub fn begin(&mut self) -> Result<Option<String>, Fault> {
        match self.frame()? {
            Frame::Begin if self.data.len() <= LONGEST_NAME => {
                self.ended = false;
                String::from_utf8(std::mem::take(&mut self.data)).map(Some).map_err(|_| Fault::Corrupt)
            }
            Frame::Last => Ok(None),
            _ => Err(Fault::Unfit("a section did not begin where one should")),
        }
    }

    /// Ends a section of which everything was read.
    ///
    /// # Errors
    /// A damaged stream, or one with more in the section.
    pub fn end(&mut self) -> Result<(), Fault> {
        if self.at < self.data.len() || self.frame()? != Frame::End {
            return Err(Fault::Unfit("a section has more than was expected"));
        }
        self.ended = true;
        Ok(())
    }

    /// Leaves out what is left of the section, and ends it.
    ///
    /// # Errors
    /// A damaged stream.
    pub fn skip(&mut self) -> Result<(), Fault> {
        while !self.ended {
            match self.frame()? {
                Frame::Data => {}
                Frame::End => self.ended = true,
                Frame::Begin | Frame::Last => return Err(Fault::Unfit("a section has no end")),
            }
        }
        self.data.clear();
        Ok(())
    }

    /// Fills `bytes` with the next ones of the section.
    ///
    /// # Errors
    /// A damaged stream, or a section that has fewer.
    pub fn bytes(&mut self, bytes: &mut [u8]) -> Result<(), Fault> {
        let mut wanted = bytes;
        while !wanted.is_empty() {
            let rest = self.data.get(self.at..).unwrap_or_default();
            if rest.is_empty() {
                match self.frame()? {
                    Frame::Data => continue,
                    frame => {
                        self.ended = frame == Frame::End;
                        return Err(Fault::Unfit("a section has less than was expected"));
                    }
                }
            }
            let length = rest.len().min(wanted.len());
            let (now, later) = wanted.split_at_mut(length);
            now.copy_from_slice(rest.get(..length).unwrap_or_default());
            self.at += length;
            wanted = later;
        }
        Ok(())
    }

    /// The next number of the section.
    ///
    /// # Errors
    /// As [`Reader::bytes`].
    pub fn number(&mut self) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        self.bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The next number of the section, which is at most `most`.
    ///
    /// # Errors
    /// As [`Reader::bytes`], and a greater number.
    pub fn number_up_to(&mut self, most: u64) -> Result<u64, Fault> {
        let number = self.number()?;
        if number <= most { Ok(number) } else { Err(Fault::Unfit("a number is greater than it can be")) }
    }

    /// The next text of the section, of at most `most` bytes.
    ///
    /// # Errors
    /// As [`Reader::bytes`], a longer text, and one that is not UTF-8.
    pub fn text(&mut self, most: usize) -> Result<String, Fault> {
        let length = self.number_up_to(most as u64)?;
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| Fault::Corrupt)?];
        self.bytes(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| Fault::Unfit("a text is not UTF-8"))
    }

    /// Reads the next frame, and checks it.
    fn frame(&mut self) -> Result<Frame, Fault> {
        self.at = 0;
        self.data.clear();
        let (mut kind, mut length, mut check) = ([0; 1], [0; 4], [0; 16]);
        self.from.read_exact(&mut kind)?;
        self.from.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_le_bytes(length)).ok().filter(|length| *length <= CHUNK);
        let length = length.ok_or(Fault::Corrupt)?;
        self.data.resize(length, 0);
        let [kind] = kind;
        let checked = match self.from.read_exact(&mut self.data) {
            Ok(()) => self.from.read_exact(&mut check),
            fault => fault,
        };
        let expected = self.key.check(self.check, kind, &self.data);
        if let Err(error) = checked {
            self.data.clear();
            return Err(error.into());
        }
        if check != expected {
            self.data.clear();
            return Err(Fault::Corrupt);
        }
        self.check = check;
        Frame::of(kind).ok_or(Fault::Corrupt)
    }
}
