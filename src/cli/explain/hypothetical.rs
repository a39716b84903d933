//! `--request`: explains a request that no client sent, by the offline gate.

use std::net::IpAddr;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};

use crate::answer::own::Own;
use crate::answer::{Told, refusal};
use crate::cli::exit;
use crate::cli::global::Global;
use crate::cli::output::say;
use crate::config::Config;
use crate::engine::{Arrival, DecisionId, Engine, Evaluation, Refusal, Verdict};
use crate::explain::{Answered, Book, Explanation};
use crate::request::{Peer, Request};
use crate::units::Timestamp;
use tidegate_http::authority::canonical_host;
use tidegate_http::path::EscapedSlash;
use tidegate_http::path::path_of;
use tidegate_offline::gate::{Course, HEAD_START, OfflineGate, PlaceAt, Step, Submission, What};

/// What is said of a request that nobody sent.
#[derive(Debug, Args)]
pub struct Hypothesis {
    /// With --request: the address that the connection comes from, or `unix`
    #[arg(long, value_name = "ADDRESS", requires = "request")]
    #[arg(conflicts_with_all = ["code", "decision", "client"])]
    from: Option<String>,
    /// With --request: a header field, such as 'x-forwarded-for: 203.0.113.7'; may be given again
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", requires = "request")]
    #[arg(conflicts_with_all = ["code", "decision", "client"])]
    headers: Vec<String>,
    /// With --request: the last of so many requests like it at one instant
    #[arg(long, value_name = "N", default_value_t = 1, requires = "request")]
    #[arg(conflicts_with_all = ["code", "decision", "client"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    times: u32,
}

/// The moment at which it comes: windows of up to a day have just begun, and no limit remembers anything.
const AT: Timestamp = Timestamp::from_nanos(HEAD_START.as_secs() * 1_000_000_000);

/// Decides and explains; what is against it has been said.
pub fn run(text: &str, arguments: &Hypothesis, global: &Global) -> Result<Explanation, ExitCode> {
    let loaded = global.load();
    if loaded.outcome.is_err() {
        global.tell(&loaded);
    }
    let Ok(config) = loaded.outcome else { return Err(ExitCode::from(exit::INVALID)) };
    let parts = Parts::parse(text, arguments, config.escaped_slash()).map_err(|why| {
        say(&format!("tidegate: {why}\n"));
        ExitCode::from(exit::USAGE)
    })?;
    explained(config, &parts, arguments.times).map_err(|why| {
        say(&format!("tidegate: {why}\n"));
        ExitCode::from(exit::INVALID)
    })
}

/// A request, taken apart.
struct Parts {
    peer: Peer,
    method: Method,
    host: String,
    path: String,
    query: Option<String>,
    headers: HeaderMap,
    sni: Option<String>,
}

impl Parts {
    fn parse(text: &str, arguments: &Hypothesis, escaped_slash: EscapedSlash) -> Result<Parts, String> {
        let (method, url) = text.trim().split_once(char::is_whitespace).unwrap_or(("GET", text.trim()));
        let method = Method::from_str(method).map_err(|_| format!("`{method}` is no method"))?;
        let url: Uri = url.trim().parse().map_err(|_| format!("`{}` is no URL", url.trim()))?;
        let peer = match arguments.from.as_deref() {
            None => return Err("say where the request comes from: --from 203.0.113.7".to_owned()),
            Some("unix") => Peer::Unix,
            Some(text) => Peer::Ip(text.parse::<IpAddr>().map_err(|_| format!("`{text}` is no IP address"))?),
        };
        let mut headers = HeaderMap::new();
        for line in &arguments.headers {
            let (name, value) = line.split_once(':').ok_or_else(|| format!("`{line}` has no colon"))?;
            let name = HeaderName::from_str(name.trim()).map_err(|_| format!("`{name}` is no header name"))?;
            let value = HeaderValue::from_str(value.trim()).map_err(|_| format!("`{name}` has no header value"))?;
            headers.append(name, value);
        }
        let authority = url.authority().map(ToString::to_string).unwrap_or_default();
        if let (false, Ok(value)) = (headers.contains_key(header::HOST), HeaderValue::from_str(&authority)) {
            headers.insert(header::HOST, value);
        }
        let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let host = canonical_host(named).into_owned();
        let raw = if url.path().is_empty() { "/" } else { url.path() };
        let path = path_of(raw.as_bytes(), escaped_slash)
            .map_err(|fault| format!("the gate answers 400 to the path `{raw}`: {fault}"))?;
        Ok(Parts {
            peer,
            method,
            path: path.into_owned(),
            query: url.query().map(str::to_owned),
            // as a client asks in its handshake: for a name, never for an address
            sni: (url.scheme_str() == Some("https"))
                .then(|| host.clone())
                .filter(|host| host.parse::<IpAddr>().is_err()),
            host,
            headers,
        })
    }

    fn request(&self) -> Request<'_> {
        Request {
            peer: self.peer,
            method: &self.method,
            host: &self.host,
            path: &self.path,
            query: self.query.as_deref(),
            headers: &self.headers,
            tls_sni: self.sni.as_deref(),
        }
    }
}

/// Sends so many requests at one instant, none of which ends, and explains the last.
fn explained(config: Config, parts: &Parts, times: u32) -> Result<Explanation, String> {
    let book = Book::of(&config);
    let gate = OfflineGate::new(config.policy, 0, Duration::from_secs(1));
    let mut gate = gate.map_err(|(limit, fault)| format!("the limit {limit}: {fault} cannot be built"))?;
    let request = parts.request();
    let (mut first_refused, mut explanation): (Option<(u32, String)>, Option<Explanation>) = (None, None);
    let mut report = |step: Step<'_, u32>| {
        let nth = *step.of;
        if matches!(step.what, What::Refused) && first_refused.as_ref().is_none_or(|(first, _)| nth < *first) {
            first_refused = Some((nth, refusers(step.evaluation, step.engine)));
        }
        if matches!(step.what, What::Refused | What::Admitted) && nth == times {
            explanation = Some(told(step.engine, step.evaluation, &request, &book));
        }
    };
    let course = Course::Known { takes: Duration::MAX, status: None, bytes: 0, place: PlaceAt::Counted };
    for nth in 1..=times {
        // without dice no wait is stretched
        let arrival = Arrival { id: DecisionId(0), at: AT, dice: 0 };
        gate.submit(Submission { request: &request, client: None, arrival, course, of: nth }, &mut report);
    }
    // all waits end; requests that are under way do not
    gate.advance(Timestamp::from_nanos(u64::MAX - 1), &mut report);
    let mut explanation = explanation.ok_or_else(|| "the request waits for ever".to_owned())?;
    if times > 1 {
        explanation.notes.push(match first_refused {
            Some((nth, by)) => format!("of {times} at one instant the first {} pass; {by}", nth - 1),
            None => format!("all {times} at one instant pass"),
        });
    }
    Ok(explanation)
}

/// Who refused, in a few words.
fn refusers(evaluation: &Evaluation, engine: &Engine) -> String {
    if evaluation.decision.verdict == Verdict::Refused(Refusal::OriginFull) {
        return "then the origin is full".to_owned();
    }
    let rules = &engine.policy().rules;
    let violated = evaluation.decision.violated().filter_map(|reading| rules.get(reading.rule));
    let names: Vec<String> = violated.map(|rule| format!("`{}`", rule.name)).collect();
    if names.is_empty() { "no limit refuses them".to_owned() } else { format!("then {} refuses", names.join(" and ")) }
}

fn told(engine: &Engine, evaluation: &Evaluation, request: &Request<'_>, book: &Book) -> Explanation {
    let policy = engine.policy();
    // beside an origin's answer that says nothing of limits itself
    let told = Told::of(&evaluation.decision, policy, (StatusCode::OK, &HeaderMap::new()), 0);
    let status = match evaluation.decision.verdict {
        Verdict::Refused(why) => {
            let own = Own::of(why, Some(&evaluation.decision), policy);
            Some(refusal::meaning(why, &own).status.as_u16())
        }
        Verdict::Admitted => None,
    };
    let answered = Answered { status, retry_after: told.retry_after, sent: told.lines };
    Explanation::of_request(engine, evaluation, request, answered, book)
}
