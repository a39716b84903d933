//! `tidegate explain`: why a request was, or would be, limited.

mod hypothetical;

use std::net::IpAddr;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::global::Global;
use super::output::{print, say};
use super::{exit, running};
use crate::admin::client;
use crate::config::codes::Code;
use crate::config::nearest::nearest;
use crate::engine::DecisionId;
use crate::explain::Explanation;
use crate::human::wrapped;

/// Explain why a request was limited
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    tidegate explain --decision 7Q3M-9F2K-1VXTC        # the x-tidegate-decision of an answer\n  \
    tidegate explain --client 203.0.113.7 --since 10m\n  \
    tidegate explain -c tidegate.yaml --request 'POST https://shop.example.com/login' --from 203.0.113.7 --times 6\n  \
    tidegate explain E0301                             # what a diagnostic means\n\n\
    The first two ask the running process, which remembers what it refused lately: numbers and pseudonyms, no addresses.\n\
    The third needs no process: it decides about a request that nobody sent, as the first of its client.\n\n\
    Exit codes: 0 explained, 1 not remembered, 69 no server answers, 78 the policy file is invalid.")]
pub struct Arguments {
    #[command(flatten)]
    what: What,
    /// With --client: only decisions of the last so much time, such as 10m
    #[arg(long, value_name = "TIME", requires = "client", conflicts_with_all = ["code", "decision", "request"])]
    since: Option<String>,
    /// With --client: at most so many decisions
    #[arg(long, value_name = "N", default_value_t = 10, requires = "client")]
    #[arg(conflicts_with_all = ["code", "decision", "request"])]
    limit: usize,
    #[command(flatten)]
    hypothetical: hypothetical::Hypothesis,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What is to be explained; one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct What {
    /// A code of a diagnostic, such as E0301
    code: Option<String>,
    /// The decision of this id, from an answer's `x-tidegate-decision` or the access log
    #[arg(long, value_name = "ID")]
    decision: Option<String>,
    /// The last decisions about this client: an address, or a pseudonym from the access log or its first 8 characters
    #[arg(long, value_name = "WHO", allow_hyphen_values = true)]
    client: Option<String>,
    /// Ask about a request that was not sent: 'POST https://shop.example.com/login'
    #[arg(long, value_name = "METHOD URL")]
    request: Option<String>,
}

/// How to write an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs and tickets
    Json,
}

/// Explains.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let What { code, decision, client, request } = &arguments.what;
    match (code, decision, client, request) {
        (Some(code), ..) => explain_code(code, arguments.format),
        (_, Some(id), ..) => one(id, arguments.format, global),
        (_, _, Some(client), _) => of_client(client, arguments, global),
        (_, _, _, Some(request)) => match hypothetical::run(request, &arguments.hypothetical, global) {
            Ok(explanation) => {
                show(&explanation, arguments.format);
                ExitCode::SUCCESS
            }
            Err(code) => code,
        },
        // clap asks for one of them
        (None, None, None, None) => ExitCode::from(exit::NO),
    }
}

/// What a diagnostic's code means.
fn explain_code(text: &str, format: Format) -> ExitCode {
    let Some(code) = Code::parse(text) else {
        let known = Code::ALL.iter().map(|(code, _)| code.text());
        let near = nearest(&text.to_ascii_uppercase(), known).map(|near| format!("; did you mean {near}?"));
        let decision = DecisionId::parse_lenient(text)
            .map(|id| format!("; for the decision of this id write: tidegate explain --decision {id}"));
        let other = || "; codes are printed in brackets by `tidegate check`, such as E0301".to_owned();
        say(&format!("tidegate: no error code `{text}`{}\n", decision.or(near).unwrap_or_else(other)));
        return ExitCode::from(exit::NO);
    };
    print(&match format {
        Format::Text => format!("{}: {}\n\n{}\n", code.text(), code.meaning(), wrapped(code.paragraph(), 100)),
        Format::Json => {
            let document = serde_json::json!({
                "schema": "tidegate.explain.code/1",
                "code": code.text(),
                "severity": code.severity().word(),
                "meaning": code.meaning(),
                "paragraph": code.paragraph(),
            });
            format!("{document:#}\n")
        }
    });
    ExitCode::SUCCESS
}

/// A decision of the running process.
fn one(id: &str, format: Format, global: &Global) -> ExitCode {
    match asked(&format!("/api/v1/decisions/{}", encoded(id)), global) {
        Err(code) => code,
        Ok(document) => match serde_json::from_value::<Explanation>(document) {
            Ok(explanation) => {
                show(&explanation, format);
                ExitCode::SUCCESS
            }
            Err(error) => not_understood(&error),
        },
    }
}

/// The last decisions about a client.
fn of_client(client: &str, arguments: &Arguments, global: &Global) -> ExitCode {
    let mut target = format!("/api/v1/decisions?client={}&latest={}", encoded(client), arguments.limit);
    if let Some(since) = &arguments.since {
        target.push_str(&format!("&since={}", encoded(since)));
    }
    let document = match asked(&target, global) {
        Err(code) => return code,
        Ok(document) => document,
    };
    let list = document.get("decisions").cloned().unwrap_or_default();
    let decisions = match serde_json::from_value::<Vec<Explanation>>(list) {
        Ok(decisions) => decisions,
        Err(error) => return not_understood(&error),
    };
    match arguments.format {
        Format::Json => print(&format!("{document:#}\n")),
        Format::Text => print(&pages(&decisions)),
    }
    if decisions.is_empty() {
        let since = arguments.since.as_ref().map_or_else(String::new, |since| format!(" in the last {since}"));
        say(&match client.parse::<IpAddr>() {
            Ok(_) => format!(
                "tidegate: no refusal of {client} in memory{since}: {FORGOTTEN}\n  what its next request would get: tidegate explain \
                 --request 'GET /' --from {client}\n"
            ),
            Err(_) => format!("tidegate: no refusal of `{client}` in memory{since}: {FORGOTTEN}\n"),
        });
        return ExitCode::from(exit::NO);
    }
    ExitCode::SUCCESS
}

/// Why nothing may be remembered of a client.
pub const FORGOTTEN: &str = "no limit refused it, or too much came after";

/// Decisions below each other.
pub fn pages(decisions: &[Explanation]) -> String {
    decisions.iter().map(Explanation::to_text).collect::<Vec<_>>().join("\n")
}

/// Asks the running process; what it refuses has been said.
fn asked(target: &str, global: &Global) -> Result<Value, ExitCode> {
    let reply = running::ask(global, |socket| client::get(socket, target))?;
    if !reply.is_good() {
        say(&format!("tidegate: {}\n", reply.error()));
        return Err(ExitCode::from(exit::NO));
    }
    reply.json().map_err(|error| {
        say(&format!("tidegate: the answer is not understood: {error}\n"));
        ExitCode::from(exit::UNAVAILABLE)
    })
}

fn not_understood(error: &serde_json::Error) -> ExitCode {
    say(&format!("tidegate: the running process speaks another version of this: {error}\n"));
    ExitCode::from(exit::UNAVAILABLE)
}

fn show(explanation: &Explanation, format: Format) {
    print(&match format {
        Format::Text => explanation.to_text(),
        Format::Json => explanation.to_json(),
    });
}

/// A text as it may stand in a target.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_wrapped_between_words() {
        for (code, _) in Code::ALL {
            assert!(wrapped(code.paragraph(), 100).lines().all(|line| line.chars().count() <= 100), "{}", code.text());
        }
    }

    /// One in 64 does, and was taken for an option.
    #[test]
    fn a_pseudonym_may_begin_with_a_hyphen() {
        let command = Arguments::augment_args(clap::Command::new("explain"));
        let parsed = command.try_get_matches_from(["explain", "--client", "-Kp2r1gMRdut6YoSZJyUhq"]).unwrap();
        assert_eq!(parsed.get_one::<String>("client").map(String::as_str), Some("-Kp2r1gMRdut6YoSZJyUhq"));
    }

    #[test]
    fn what_stands_in_a_target_breaks_out_of_none() {
        assert_eq!(encoded("2001:db8::1"), "2001%3Adb8%3A%3A1");
        assert_eq!(encoded("a b&c=d?é/\r\n"), "a%20b%26c%3Dd%3F%C3%A9%2F%0D%0A");
    }
}
