//! Inputs made from other inputs, always the same ones: what libFuzzer does, without its eye for what was reached.

use super::corpus::Corpus;

/// Inputs grow no further: what is long is slow, and no bound under test is larger.
const MOST_BYTES: usize = 8 << 10;

/// Makes one input after the other.
pub struct Mutator<'a> {
    corpus: &'a Corpus,
    state: u64,
}

impl<'a> Mutator<'a> {
    /// The seed is the target's name, so that targets do not share their luck.
    pub fn new(name: &str, corpus: &'a Corpus) -> Mutator<'a> {
        let seed = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Mutator { corpus, state: seed }
    }

    /// A file of the corpus, changed one to eight times.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.file().to_vec();
        for _ in 0..=self.below(8) {
            self.change(&mut input);
        }
        input.truncate(MOST_BYTES);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let length = self.below(input.len() - at + 1).min(64);
        match self.below(12) {
            // a flipped bit, or a byte made another
            0 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (self.below(8) as u8)),
            1 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte = self.below(256) as u8),
            // a byte more, or a few less
            2 => input.insert(at, self.below(256) as u8),
            3 => drop(input.drain(at..at + length)),
            // a piece again, here or elsewhere
            4 => {
                let piece = input[at..at + length].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            5 => {
                let piece = input[at..at + length].repeat(1 + self.below(40));
                input.splice(at..at, piece);
            }
            // the beginning of this one and the end of another, or a piece of another inside this one
            6 => {
                let other = self.file();
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend(&other[from..]);
            }
            7 => {
                let other = self.file();
                let from = self.below(other.len() + 1);
                let to = from + self.below(other.len() - from + 1).min(64);
                input.splice(at..at + length, other[from..to].iter().copied());
            }
            // a line again, or one of another, in front of any line: most of what is read here is made of lines
            8 => {
                let line = line_around(input, at).to_vec();
                self.insert_line(input, &line);
            }
            9 => {
                let other = self.file();
                let at = self.below(other.len() + 1);
                self.insert_line(input, line_around(other, at));
            }
            // a word, in between or in place of as much
            10 => {
                let word = self.word();
                input.splice(at..at, word.iter().copied());
            }
            _ => {
                let word = self.word();
                let end = (at + word.len()).min(input.len());
                input.splice(at..end, word.iter().copied());
            }
        }
    }

    fn insert_line(&mut self, input: &mut Vec<u8>, line: &[u8]) {
        let place = self.below(input.len() + 1);
        let start = input[..place].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        input.splice(start..start, line.iter().copied());
    }

    fn file(&mut self) -> &'a [u8] {
        let nth = self.below(self.corpus.inputs.len());
        &self.corpus.inputs[nth].1
    }

    fn word(&mut self) -> &'a [u8] {
        let nth = self.below(self.corpus.words.len());
        &self.corpus.words[nth]
    }

    /// A number below `end`, which is not zero. SplitMix64 (Steele, Lea and Flood, 2014); the bias is of no concern here.
    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    }
}

/// The line that a place is in, with its end.
fn line_around(text: &[u8], at: usize) -> &[u8] {
    let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |length| at + length + 1);
    &text[start..end]
}
