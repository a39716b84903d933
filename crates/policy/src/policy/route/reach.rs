//! Can any request's path meet a regular expression?
//!
//! Requests are matched by their canonical path, and an expression has to meet the whole of it. So `login` never matches:
//! every path begins with a slash. Nor does one that needs a blank, a `?`, two slashes in a row or a small letter in an escape.
//! That is decided on the automaton of the expression, by a walk over all that canonical paths can hold.

use std::collections::HashSet;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::{Anchored, Input};

/// What the walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// This path meets the expression: one of the shortest.
    Path(String),
    /// No path does.
    Never,
    /// The walk was given up: the expression has too many states.
    Unknown,
}

/// Expressions with more transitions than this are not judged: a few milliseconds.
const STEPS: usize = 150_000;

/// Looks for a canonical path that an expression meets. The expression must be anchored at both ends, as
/// [`whole`](super::whole) makes it.
pub fn reach(anchored: &str) -> Reach {
    walk(anchored).unwrap_or(Reach::Unknown)
}

/// One step of the walk.
struct Step {
    place: Place,
    state: LazyStateID,
    /// The step before, and what was read since; none at the start.
    before: Option<(usize, Token)>,
}

fn walk(anchored: &str) -> Option<Reach> {
    // paths are ASCII: a state that only other bytes lead to is never entered
    let config = DFA::config()
        .unicode_word_boundary(true)
        .skip_cache_capacity_check(true)
        .cache_capacity(4 << 20)
        .minimum_cache_clear_count(Some(0));
    let dfa = DFA::builder().configure(config).build(anchored).ok()?;
    let mut cache = dfa.create_cache();
    let start = dfa.start_state_forward(&mut cache, &Input::new("").anchored(Anchored::Yes)).ok()?;
    let tokens = tokens();
    let mut seen = HashSet::from([(Place::Start, start)]);
    let mut steps = vec![Step { place: Place::Start, state: start, before: None }];
    let mut taken = 0;
    let mut at = 0;
    while let Some(&Step { place, state, .. }) = steps.get(at) {
        for token in &tokens {
            let Some(place) = place.after(*token) else { continue };
            taken += 1;
            if taken > STEPS {
                return None;
            }
            let state = after(&dfa, &mut cache, state, *token)?;
            if state.is_dead() || !seen.insert((place, state)) {
                continue;
            }
            steps.push(Step { place, state, before: Some((at, *token)) });
            if place.may_end() && dfa.next_eoi_state(&mut cache, state).ok()?.is_match() {
                return Some(Reach::Path(path_to(&steps, steps.len() - 1)));
            }
        }
        at += 1;
    }
    Some(Reach::Never)
}

/// The state behind a token; `None` where the automaton gives up.
fn after(dfa: &DFA, cache: &mut Cache, from: LazyStateID, token: Token) -> Option<LazyStateID> {
    let mut state = from;
    for byte in token.text().bytes() {
        state = dfa.next_state(cache, state, byte).ok()?;
    }
    (!state.is_quit()).then_some(state)
}

fn path_to(steps: &[Step], last: usize) -> String {
    let mut tokens = Vec::new();
    let mut at = last;
    while let Some((before, token)) = steps.get(at).and_then(|step| step.before) {
        tokens.push(token.text());
        at = before;
    }
    tokens.into_iter().rev().collect()
}

/// A byte of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Plain(u8),
    /// As an escape.
    Escape(u8),
}

impl Token {
    fn text(self) -> String {
        match self {
            Token::Plain(byte) => char::from(byte).to_string(),
            Token::Escape(byte) => format!("%{byte:02X}"),
        }
    }
}

/// All that a canonical path is made of: what may stand plain, and escapes of all else but controls.
fn tokens() -> Vec<Token> {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    // letters first, so that a path that is found is one that people would write
    let plain = (0..=u8::MAX).rev().filter(|byte| unreserved(*byte) || b"/!$&'()*+,;=:@".contains(byte));
    let escapes = (0x20..=u8::MAX).filter(|byte| *byte != 0x7f && !unreserved(*byte));
    plain.map(Token::Plain).chain(escapes.map(Token::Escape)).collect()
}

/// Where in a path: what may follow depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Start,
    /// Right behind a slash.
    Slash,
    /// Right behind an escaped slash or backslash, which some readers take for one.
    Escaped,
    /// Behind one dot, which is all of the segment so far.
    Dot,
    /// Behind two.
    Dots,
    /// Behind blanks, which are all of the segment so far: readers that trim names see none.
    Blanks,
    /// Behind one dot or two, and blanks.
    DotsAndBlanks,
    Inside,
}

impl Place {
    /// The place behind a token; `None` where no canonical path has it.
    fn after(self, token: Token) -> Option<Place> {
        let dots = matches!(self, Place::Dot | Place::Dots | Place::DotsAndBlanks);
        match token {
            Token::Plain(b'/') if self == Place::Start => Some(Place::Slash),
            _ if self == Place::Start => None,
            Token::Plain(b'/') => (self != Place::Slash && !dots).then_some(Place::Slash),
            Token::Escape(b'/' | b'\\') => (!dots).then_some(Place::Escaped),
            Token::Plain(b';') | Token::Escape(b';') => (!dots).then_some(Place::Inside),
            Token::Escape(b' ') => Some(match self {
                Place::Slash | Place::Escaped | Place::Blanks => Place::Blanks,
                Place::Dot | Place::Dots | Place::DotsAndBlanks => Place::DotsAndBlanks,
                _ => Place::Inside,
            }),
            Token::Plain(b'.') => Some(match self {
                Place::Slash | Place::Escaped | Place::Blanks => Place::Dot,
                Place::Dot => Place::Dots,
                _ => Place::Inside,
            }),
            _ => Some(Place::Inside),
        }
    }

    fn may_end(self) -> bool {
        !matches!(self, Place::Start | Place::Dot | Place::Dots | Place::DotsAndBlanks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::route::whole;

    fn found(pattern: &str) -> Reach {
        reach(whole(pattern).unwrap().as_str())
    }

    #[test]
    fn what_no_path_meets_is_found() {
        for pattern in [
            "login",
            "^login$",
            "login|signin",
            "",
            "(?i)login",
            "/a b",
            "/login\\?next=.*",
            "/a//b",
            ".*//.*",
            "/a%2fb",
            "/a%41",
            "/a/\\.\\./b",
            "/.*/\\./x",
            "/a$b",
            "/a^b",
            "/é",
            "/a\\\\b",
            "/a%2F\\.\\.",
            "/%20\\.",
            "/a/\\.\\.%20%20",
            "/%20\\.\\.%20/.*",
            "/[\\x00-\\x1f]",
            "[^/].*",
            "/\\bé",
        ] {
            assert_eq!(found(pattern), Reach::Never, "{pattern}");
        }
    }

    #[test]
    fn what_a_path_meets_is_shown_by_one() {
        for pattern in [
            "/login",
            ".*login.*",
            "^/login$",
            "login|/signin",
            "/items/[0-9]+",
            "(?i)/(static|assets)/.*|.*\\.(css|js)",
            "/a%2Fb",
            "/caf%C3%A9",
            "/\\w+\\b.*",
            "/\\.\\.\\.",
            "/\\.well-known/.*",
            "/.*;.*",
            "/",
            ".*",
            "/a%2F/b",
            "/%20",
            "/%20\\.%20\\.",
            "/%20/\\.%20a",
        ] {
            let Reach::Path(path) = found(pattern) else { panic!("{pattern}: {:?}", found(pattern)) };
            assert!(whole(pattern).unwrap().is_match(&path), "{pattern}: {path}");
        }
    }

    #[test]
    fn a_walk_that_takes_too_long_claims_nothing() {
        assert_eq!(found("/(a|b)*a(a|b){14}\\?"), Reach::Unknown);
    }
}
