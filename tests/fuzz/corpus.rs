//! The committed inputs and words of a target.

use std::fs;
use std::path::{Path, PathBuf};

/// Larger files only take time.
const MOST_BYTES: usize = 16 << 10;

/// What a target's inputs are made from.
pub struct Corpus {
    /// Files in the order of their names, so that a run is the same everywhere.
    pub inputs: Vec<(PathBuf, Vec<u8>)>,
    /// Words that mean something to the target.
    pub words: Vec<Vec<u8>>,
}

impl Corpus {
    /// `fuzz/corpus/NAME/`, `fuzz/dictionaries/NAME.dict`, and what other tests have already collected for `policy`.
    pub fn read(name: &str) -> Corpus {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut inputs = files(&root.join("fuzz/corpus").join(name), "");
        assert!(!inputs.is_empty(), "{name} has no corpus");
        if name == "policy" {
            inputs.extend(files(&root.join("conf"), "yaml"));
            inputs.extend(files(&root.join("tests/policy/faults"), "yaml"));
        }
        let dictionary = root.join("fuzz/dictionaries").join(format!("{name}.dict"));
        let words = fs::read_to_string(&dictionary).expect("a dictionary");
        let words: Vec<Vec<u8>> = words.lines().filter(|line| line.starts_with('"')).map(word).collect();
        assert!(!words.is_empty(), "{name} has no words");
        Corpus { inputs, words }
    }
}

fn files(directory: &Path, extension: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap_or_else(|fault| panic!("{}: {fault}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.is_file() && (extension.is_empty() || path.extension().is_some_and(|it| it == extension)));
    paths.sort();
    let inputs = paths.into_iter().map(|path| {
        let input = fs::read(&path).expect("a file of the corpus");
        (path, input)
    });
    inputs.filter(|(_, input)| input.len() <= MOST_BYTES).collect()
}

/// One line of libFuzzer's dictionaries: `"…"` with `\\`, `\"` and `\xAB`.
fn word(line: &str) -> Vec<u8> {
    let inside = line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let mut rest = inside.unwrap_or_else(|| panic!("no word of a dictionary: {line}")).as_bytes();
    let mut word = Vec::new();
    while let [first, behind @ ..] = rest {
        rest = match (first, behind) {
            (b'\\', [b'x', high, low, behind @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).expect("two digits");
                word.push(u8::from_str_radix(digits, 16).expect("two hexadecimal digits"));
                behind
            }
            (b'\\', [escaped, behind @ ..]) => {
                word.push(*escaped);
                behind
            }
            _ => {
                word.push(*first);
                behind
            }
        };
    }
    word
}

#[test]
fn words_are_read_as_libfuzzer_reads_them() {
    assert_eq!(word(r#""a\\b\"c\x0d\x0A""#), b"a\\b\"c\r\n");
}
