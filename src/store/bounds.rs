//! Bounds what a server's answers may take in memory, before the `redis` crate reads them. Pure: bytes in, a verdict out.
//!
//! The crate keeps an answer in memory until it is whole, and makes room for as many elements as are announced. So this reads
//! along, byte by byte, and stops at the announcement: `$999999999` and `*1000000000` end the connection before anything is
//! kept. It takes RESP2 alone, which is what the gate speaks, and numbers in one spelling only, so that it and the crate
//! never disagree on where an answer ends.

use arrayvec::ArrayVec;

/// What one answer may take, in bytes: 47 limits of other gates' messages, or the slots of a cluster of 500 servers.
pub const MOST_ANSWER: usize = 8 * 1_024 * 1_024;

/// How long a line may be: an error's text, a number.
pub const MOST_LINE: usize = 16 * 1_024;

/// How deep arrays may lie in arrays. `CLUSTER SLOTS` has four levels.
pub const DEEPEST: usize = 8;

/// What an element takes in memory beside its own bytes.
const ELEMENT: usize = 64;

/// Why a connection was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// One answer, or what it announces, is more than [`MOST_ANSWER`].
    Long,
    /// A line is longer than [`MOST_LINE`].
    Line,
    /// Arrays lie deeper than [`DEEPEST`].
    Deep,
    /// It is not RESP2.
    Foreign,
    /// Answers to nothing.
    Unasked,
    /// All unfinished answers of the store together.
    Crowded,
}

impl Breach {
    /// In words, for the log and `status`.
    pub fn text(self) -> &'static str {
        match self {
            Breach::Long => "an answer of more than 8 MiB",
            Breach::Line => "a line of more than 16 KiB",
            Breach::Deep => "an answer nested more than 8 deep",
            Breach::Foreign => "bytes that are not RESP2",
            Breach::Unasked => "answers to no question",
            Breach::Crowded => "unfinished answers of more than 16 MiB in all",
        }
    }
}

/// Reads along with the answers of one connection.
#[derive(Debug, Default)]
pub struct Answers {
    step: Step,
    /// Of each array that is open, how many elements are to come.
    open: ArrayVec<u64, DEEPEST>,
    /// What the answer takes so far, with all that it announced.
    weight: usize,
    whole: u64,
}

#[derive(Debug, Default)]
enum Step {
    /// The next byte says what comes.
    #[default]
    Kind,
    /// Text to the end of the line.
    Text { length: usize, after_cr: bool },
    /// A length, or a number that is a value.
    Number { kind: u8, number: Number },
    /// So many bytes, and then the end of a line.
    Bytes { left: usize },
    /// The end of a line behind bytes.
    End { after_cr: bool },
}

/// A number as it is read: an optional minus and 1 to 19 digits.
#[derive(Debug, Default)]
struct Number {
    minus: bool,
    digits: u8,
    value: u64,
    after_cr: bool,
}

impl Answers {
    /// Takes what came over the connection.
    ///
    /// # Errors
    /// It is more than the gate keeps; the connection is of no more use.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), Breach> {
        while let Some((&first, rest)) = bytes.split_first() {
            if let Step::Bytes { left } = &mut self.step {
                let count = (*left).min(bytes.len());
                *left -= count;
                if *left == 0 {
                    self.step = Step::End { after_cr: false };
                }
                bytes = bytes.get(count..).unwrap_or_default();
                continue;
            }
            bytes = rest;
            self.byte(first)?;
        }
        Ok(())
    }

    /// What the unfinished answer takes.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// How many answers were whole.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    fn byte(&mut self, byte: u8) -> Result<(), Breach> {
        match &mut self.step {
            Step::Kind => {
                self.step = match byte {
                    b'+' | b'-' => Step::Text { length: 0, after_cr: false },
                    b':' | b'$' | b'*' => Step::Number { kind: byte, number: Number::default() },
                    _ => return Err(Breach::Foreign),
                };
                Ok(())
            }
            Step::Text { length, after_cr } => {
                if *after_cr && byte == b'\n' {
                    return self.value();
                }
                *after_cr = byte == b'\r';
                *length += 1;
                if *length > MOST_LINE {
                    return Err(Breach::Line);
                }
                self.weigh(1)
            }
            Step::Number { kind, number } => {
                let kind = *kind;
                match number.byte(byte)? {
                    None => Ok(()),
                    Some(number) => self.number(kind, number),
                }
            }
            Step::End { after_cr } => match (*after_cr, byte) {
                (false, b'\r') => {
                    *after_cr = true;
                    Ok(())
                }
                (true, b'\n') => self.value(),
                _ => Err(Breach::Foreign),
            },
            // taken by the run
            Step::Bytes { .. } => Ok(()),
        }
    }

    /// A number has come: it is a value, the length of bytes, or of an array. `None`: below zero.
    fn number(&mut self, kind: u8, number: Option<u64>) -> Result<(), Breach> {
        match (kind, number) {
            (b':', _) | (b'$' | b'*', None) | (b'*', Some(0)) => self.value(),
            (b'$', Some(length)) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                self.weigh(length)?;
                self.step = if length == 0 { Step::End { after_cr: false } } else { Step::Bytes { left: length } };
                Ok(())
            }
            (_, Some(length)) => {
                let room = usize::try_from(length).unwrap_or(usize::MAX).saturating_mul(ELEMENT);
                self.weigh(room)?;
                self.open.try_push(length).map_err(|_| Breach::Deep)?;
                self.step = Step::Kind;
                Ok(())
            }
            (_, None) => Err(Breach::Foreign),
        }
    }

    /// A value is whole, and with it each array whose last element it is.
    fn value(&mut self) -> Result<(), Breach> {
        self.step = Step::Kind;
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return Ok(());
            }
            self.open.pop();
        }
        self.weight = 0;
        self.whole += 1;
        Ok(())
    }

    fn weigh(&mut self, more: usize) -> Result<(), Breach> {
        self.weight = self.weight.saturating_add(more);
        if self.weight > MOST_ANSWER { Err(Breach::Long) } else { Ok(()) }
    }
}

impl Number {
    /// `Some` at its end: the number, or `None` where it is below zero.
    fn byte(&mut self, byte: u8) -> Result<Option<Option<u64>>, Breach> {
        match byte {
            b'\n' if self.after_cr => return Ok(Some(if self.minus { None } else { Some(self.value) })),
            _ if self.after_cr => return Err(Breach::Foreign),
            b'-' if self.digits == 0 && !self.minus => self.minus = true,
            b'0'..=b'9' if self.digits < 19 => {
                self.digits += 1;
                // nineteen digits are below 2^64
                self.value = self.value * 10 + u64::from(byte - b'0');
            }
            b'\r' if self.digits > 0 => self.after_cr = true,
            _ => return Err(Breach::Foreign),
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(bytes: &[u8]) -> Result<Answers, Breach> {
        let mut answers = Answers::default();
        answers.take(bytes).map(|()| answers)
    }

    #[test]
    fn an_announcement_that_is_too_large_is_refused_before_anything_comes() {
        for bytes in
            ["*1000000000\r\n", "$999999999\r\n", "*9999999999999999999\r\n", "*2\r\n*131071\r\n", "*131073\r\n"]
        {
            let refused = taken(bytes.as_bytes()).unwrap_err();
            assert!(matches!(refused, Breach::Long), "{bytes}: {refused:?}");
        }
        assert!(taken(b"*100000\r\n").is_ok() && taken(b"$8000000\r\n").is_ok());
    }

    #[test]
    fn what_is_nested_endless_or_foreign_is_refused() {
        assert_eq!(taken("*1\r\n".repeat(DEEPEST + 1).as_bytes()).unwrap_err(), Breach::Deep);
        assert_eq!(taken(&[b"-".as_slice(), &[b'x'; MOST_LINE + 1]].concat()).unwrap_err(), Breach::Line);
        for bytes in [
            "HTTP/1.1 400",
            ">1\r\n",
            "%1\r\n",
            "_\r\n",
            "$?\r\n",
            "*+1\r\n",
            "$ 1\r\n",
            ":\r\n",
            "$1\r\nab\r\n",
            "$1\n",
            ":1\rx",
            "*--1\r\n",
        ] {
            assert_eq!(taken(bytes.as_bytes()).unwrap_err(), Breach::Foreign, "{bytes:?}");
        }
    }

    #[test]
    fn what_many_small_elements_take_is_counted_with_them() {
        let mut answers = taken(b"*70000\r\n").unwrap();
        let end = (0..70_000).find_map(|_| answers.take(b"*1\r\n:1\r\n").err());
        assert_eq!(end, Some(Breach::Long), "twice 64 bytes each");
    }

    fn value() -> impl Strategy<Value = Vec<u8>> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            "[ -~\\r]{0,20}".prop_map(|text| format!("+{text}\r\n").into_bytes()),
            "[A-Z]{1,8} [ -~]{0,20}".prop_map(|text| format!("-{text}\r\n").into_bytes()),
            Just(b"$-1\r\n".to_vec()),
            Just(b"*-1\r\n".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..30)
                .prop_map(|bytes| { [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat() }),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            proptest::collection::vec(inner, 0..5)
                .prop_map(|items| [format!("*{}\r\n", items.len()).into_bytes(), items.concat()].concat())
        })
    }

    proptest! {
        /// Whatever it is cut into, it ends where the crate says that it ends.
        #[test]
        fn answers_end_where_the_crate_ends_them(all in proptest::collection::vec(value(), 1..6), cut in 1..9_usize) {
            let (mut answers, mut parser) = (Answers::default(), redis::Parser::new());
            for (count, bytes) in all.iter().enumerate() {
                for part in bytes.chunks(cut) {
                    prop_assert_eq!(answers.whole(), count as u64);
                    prop_assert_eq!(answers.take(part), Ok(()));
                }
                prop_assert_eq!(answers.whole(), count as u64 + 1);
                prop_assert_eq!(answers.weight(), 0);
                prop_assert!(parser.parse_value(bytes.as_slice()).is_ok());
            }
        }

        /// What it takes for a whole answer the crate takes for one as well, or for none at all.
        #[test]
        fn the_crate_never_waits_for_more_than_was_counted(bytes in "[-+:$*0-9a\\r\\n]{0,40}") {
            let mut answers = Answers::default();
            let whole = bytes.bytes().position(|byte| answers.take(&[byte]).is_err() || answers.whole() == 1);
            if let (Some(end), 1) = (whole, answers.whole()) {
                let said = redis::parse_redis_value(&bytes.as_bytes()[..=end]);
                let waits = said.is_err_and(|error| error.is_io_error());
                prop_assert!(!waits, "{:?}", &bytes[..=end]);
            }
        }
    }
}
