//! The page that people get: small, without scripts or anything from elsewhere, in light and dark, and it says when to come back.

use super::refusal::Meaning;
use crate::engine::DecisionId;

const BEGIN: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n<title>";

const STYLE: &str = "</title>\n<style>\n\
    :root{color-scheme:light dark}\n\
    body{margin:0;min-height:100vh;display:grid;place-items:center;font:1.05rem/1.5 system-ui,sans-serif;\
    background:#fff;color:#1f2328}\n\
    main{max-width:34rem;padding:1.5rem}\n\
    h1{font-size:1.5rem;margin:0}\n\
    small{color:#59636e}\n\
    @media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}small{color:#9198a1}}\n\
    </style>\n<main>\n<h1>";

/// The page. Nothing in it needs escaping: phrases and sentences are those of the table, all else is numbers, and the id has
/// letters and digits only.
pub fn page(meaning: &Meaning, wait: Option<u64>, id: Option<DecisionId>) -> Vec<u8> {
    let (status, phrase, said) = (meaning.status.as_u16(), meaning.phrase(), meaning.detail);
    let wait = match wait {
        Some(seconds) => format!(" Please try again in {}.", span(seconds)),
        None if meaning.problem.is_of_a_limit() => " Waiting does not help.".to_owned(),
        None => String::new(),
    };
    let id = id.map(|id| format!(" · reference {id}")).unwrap_or_default();
    format!("{BEGIN}{status} {phrase}{STYLE}{phrase}</h1>\n<p>{said}{wait}</p>\n<p><small>{status}{id}</small></p>\n</main>\n</html>\n")
        .into_bytes()
}

/// A wait as people say it, never shorter than it is: `45 seconds`, `3 minutes`, `2 hours`.
fn span(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7_200 => (seconds.div_ceil(60), "minute"),
        7_200..172_800 => (seconds.div_ceil(3_600), "hour"),
        _ => (seconds.div_ceil(86_400), "day"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_in_the_unit_that_people_use_and_never_too_short() {
        for (seconds, words) in [
            (1, "1 second"),
            (90, "90 seconds"),
            (120, "2 minutes"),
            (121, "3 minutes"),
            (7_199, "120 minutes"),
            (7_201, "3 hours"),
            (172_800, "2 days"),
        ] {
            assert_eq!(span(seconds), words);
        }
    }
}
