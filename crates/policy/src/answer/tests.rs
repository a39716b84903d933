//! Claims about whole answers.

use std::time::Duration;

use http::{HeaderName, Method};
use proptest::prelude::*;
use serde_json::{Value, json};
use sfv::{Parser, SerializeValue};

use super::sample::{SECOND, decision, lines, policy, rate};
use super::sample_kinds::{fair_share, inflight, inflight_per_key, recent_average};
use super::*;
use crate::engine::{Outcome, Verdict};
use crate::policy::body::{Bodies, BodyMedia, BodyText};
use crate::policy::{BodyFormat, FieldStyle, OwnAnswer, Responses};

/// A gate with one violated limit, one admitting one and a full cap.
struct Gate {
    policy: Policy,
    decision: Decision,
    fields: RouteFields,
}

impl Gate {
    fn new(responses: Responses) -> Gate {
        let policy = policy(vec![rate("login", 5, 60_000, 5), rate("calm", 5, 60_000, 5), inflight("all")], responses);
        let readings = [
            (Outcome::Refused, 0, Some(11 * SECOND + 1)),
            (Outcome::Admitted, 3, Some(SECOND)),
            (Outcome::Refused, 0, None),
        ];
        let decision = decision(&policy, Verdict::Refused(Refusal::Limit), &readings);
        let fields = RouteFields::new(&policy, policy.routes.route(0).unwrap());
        Gate { policy, decision, fields }
    }

    fn context(&self, form: Form) -> Context<'_> {
        let Gate { policy, decision, fields } = self;
        Context { policy, decision: Some(decision), fields: Some(fields), form, origin: None, wall_unix_nanos: 0 }
    }

    fn refuse(&self, refusal: Refusal) -> Answer {
        refuse(refusal, &self.context(Form::UNKNOWN))
    }

    fn fault(&self, at: Fault) -> Answer {
        fault(at, &self.context(Form::UNKNOWN))
    }
}

fn form(method: Method, fields: &[(&'static str, &'static str)]) -> Form {
    let fields = fields.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    Form::of(&method, &fields.collect())
}

fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.to_str().unwrap())
}

fn problem(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

fn named() -> Responses {
    Responses { proxy_name: Some("edge-7".into()), ..Responses::default() }
}

#[test]
fn a_client_over_its_limit_learns_why_and_for_how_long() {
    let answer = Gate::new(named()).refuse(Refusal::Limit);
    assert_eq!(answer.status, 429);
    assert_eq!(
        lines(&answer.headers),
        [
            "content-type: application/problem+json",
            &format!("content-length: {}", answer.body.len()),
            "cache-control: no-store",
            "vary: Accept",
            "retry-after: 12",
            "proxy-status: \"edge-7\";error=http_request_error;status-code=429",
            "x-tidegate-decision: 000000000001A",
            "ratelimit-policy: \"login\";q=5;w=60, \"calm\";q=5;w=60",
            "ratelimit: \"login\";r=0;t=12",
        ]
    );
    assert_eq!(
        problem(&answer),
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Request cannot be satisfied as assigned quota has been exceeded",
            "status": 429,
            "detail": "Too many requests. Try again in 12 seconds.",
            "instance": "000000000001A",
            "violated-policies": ["login"],
        })
    );
}

#[test]
fn every_refusal_has_its_row_in_the_table() {
    let quota = "https://iana.org/assignments/http-problem-types#quota-exceeded";
    let capacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    let abnormal = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected";
    let table = [
        (Refusal::Limit, 429, quota, "http_request_error;status-code=429", Some("12"), 8),
        (Refusal::Penalty, 429, abnormal, "http_request_error;status-code=429", Some("12"), 8),
        (Refusal::Concurrency, 429, quota, "http_request_error;status-code=429", Some("12"), 8),
        (Refusal::Inflight, 503, capacity, "proxy_internal_response", Some("1"), 14),
        (Refusal::FairShare, 503, capacity, "proxy_internal_response", Some("1"), 14),
        (Refusal::KeyMissing, 400, "about:blank", "http_request_error;status-code=400", None, 3),
        (Refusal::AmbiguousValue, 400, "about:blank", "http_request_error;status-code=400", None, 3),
        (Refusal::RepeatedField, 400, "about:blank", "http_request_error;status-code=400", None, 3),
        (Refusal::NominatedField, 400, "about:blank", "http_request_error;status-code=400", None, 3),
        (Refusal::OriginFull, 503, capacity, "connection_limit_reached", Some("1"), 14),
        (Refusal::StoreSilent, 503, "about:blank", "proxy_internal_error", Some("1"), 14),
        (Refusal::Overload, 503, capacity, "proxy_internal_response", Some("1"), 14),
        (Refusal::NoRoute, 404, "about:blank", "http_request_error;status-code=404", None, 12),
        (Refusal::ClientUnresolved, 400, "about:blank", "http_request_error;status-code=400", None, 3),
        (Refusal::ValueTooLong, 400, "about:blank", "http_request_error;status-code=400", None, 3),
        (Refusal::Banned, 403, "about:blank", "http_request_error;status-code=403", None, 7),
        (Refusal::Denied, 403, "about:blank", "http_request_error;status-code=403", None, 7),
    ];
    assert_eq!(table.map(|(refusal, ..)| refusal), Refusal::ALL);
    let gate = Gate::new(named());
    for (refusal, status, problem_type, error, wait, grpc) in table {
        let answer = gate.refuse(refusal);
        assert_eq!(answer.status, status, "{refusal:?}");
        assert_eq!(problem(&answer)["type"], problem_type, "{refusal:?}");
        assert_eq!(problem(&answer)["status"], status, "{refusal:?}");
        assert_eq!(field(&answer, "proxy-status"), Some(format!("\"edge-7\";error={error}").as_str()));
        assert_eq!(field(&answer, "retry-after"), wait, "{refusal:?}");
        assert_eq!(field(&answer, "cache-control"), Some("no-store"));
        assert_eq!(refusal::meaning(refusal, &own::Own::default()).grpc, Some(grpc), "{refusal:?}");
        assert_eq!(field(&answer, "ratelimit").is_some(), status == 429, "{refusal:?}");
        assert_eq!(problem(&answer).get("violated-policies").is_some(), status == 429, "{refusal:?}");
        if problem_type == "about:blank" {
            assert_eq!(problem(&answer)["title"], answer.status.canonical_reason().unwrap());
        }
    }
}

#[test]
fn each_refusal_says_what_to_do_about_it() {
    let say = |rules, refusal, reading| {
        let policy = policy(rules, Responses::default());
        let decision = decision(&policy, Verdict::Refused(refusal), &[reading]);
        let fields = RouteFields::new(&policy, policy.routes.route(0).unwrap());
        let context = Context {
            policy: &policy,
            decision: Some(&decision),
            fields: Some(&fields),
            form: Form::UNKNOWN,
            origin: None,
            wall_unix_nanos: 0,
        };
        let answer = refuse(refusal, &context);
        let detail = problem(&answer)["detail"].as_str().unwrap().to_owned();
        let limits = field(&answer, "ratelimit").unwrap_or_default().to_owned();
        (detail, problem(&answer)["title"].as_str().unwrap().to_owned(), limits)
    };
    let minute = Some(60 * SECOND);
    let (detail, title, limits) = say(
        vec![recent_average("a", 1, 1_000, Duration::from_secs(10))],
        Refusal::Penalty,
        (Outcome::Refused, 0, minute),
    );
    assert_eq!(detail, "Too many requests, and those that are refused count too. Try again in 60 seconds.");
    assert_eq!(title, "Request not satisfied due to detection of abnormal request pattern");
    assert_eq!(limits, "\"a\";r=0;t=60");
    let (detail, title, limits) =
        say(vec![inflight_per_key("a", 8)], Refusal::Concurrency, (Outcome::Refused, 0, None));
    assert_eq!(detail, "Too many requests at once. Try again in 1 second.");
    assert_eq!(title, "Request cannot be satisfied as assigned quota has been exceeded");
    assert_eq!(limits, "\"a\";r=0");
    let (detail, title, limits) = say(vec![fair_share("a")], Refusal::FairShare, (Outcome::Refused, 0, None));
    assert_eq!(detail, "The service is busy. Try again in 1 second.");
    assert_eq!(title, "Request cannot be satisfied due to temporary server capacity constraints");
    assert_eq!(limits, "");
}

#[test]
fn every_fault_has_its_row_in_the_table() {
    let table = [
        (Fault::BadRequest, 400, "http_request_error;status-code=400"),
        (Fault::MethodNotAllowed, 405, "http_request_error;status-code=405"),
        (Fault::ClientTimeout, 408, "http_request_error;status-code=408"),
        (Fault::BodyTooLarge, 413, "http_request_error;status-code=413"),
        (Fault::TargetTooLong, 414, "http_request_error;status-code=414"),
        (Fault::ExpectationFailed, 417, "http_request_error;status-code=417"),
        (Fault::HeadTooLarge, 431, "http_request_error;status-code=431"),
        (Fault::VersionUnsupported, 505, "http_request_error;status-code=505"),
        (Fault::ClientGone, 499, "connection_terminated"),
        (Fault::Internal, 500, "proxy_internal_error"),
        (Fault::OriginRefused, 502, "connection_refused"),
        (Fault::OriginUnreachable, 502, "destination_ip_unroutable"),
        (Fault::OriginTls, 502, "tls_protocol_error"),
        (Fault::OriginClosed, 502, "connection_terminated"),
        (Fault::OriginGarbled, 502, "http_protocol_error"),
        (Fault::NoOriginAddress, 503, "destination_unavailable"),
        (Fault::OriginConnectTimeout, 504, "connection_timeout"),
        (Fault::OriginTimeout, 504, "http_response_timeout"),
        (Fault::BuffersFull, 503, "proxy_internal_response"),
    ];
    assert_eq!(table.map(|(fault, ..)| fault), Fault::ALL);
    let gate = Gate::new(named());
    let mut words = std::collections::BTreeSet::new();
    for (at, status, error) in table {
        let answer = gate.fault(at);
        assert_eq!(answer.status, status, "{at:?}");
        assert_eq!(problem(&answer)["type"], "about:blank", "{at:?}");
        assert_eq!(problem(&answer)["title"], at.meaning().phrase(), "{at:?}");
        assert_eq!(field(&answer, "proxy-status"), Some(format!("\"edge-7\";error={error}").as_str()));
        assert_eq!(field(&answer, "retry-after"), (status == 503).then_some("1"), "{at:?}");
        assert_eq!(field(&answer, "allow").is_some(), status == 405, "{at:?}");
        assert!(words.insert(at.word()), "{at:?}");
    }
}

#[test]
fn the_operator_chooses_two_statuses() {
    let status = |code| StatusCode::from_u16(code).unwrap();
    let own = |code| OwnAnswer { status: Some(status(code)), ..OwnAnswer::default() };
    let gate = Gate::new(Responses { limited: own(420), overloaded: own(529), ..named() });
    let limited = gate.refuse(Refusal::Limit);
    assert_eq!((limited.status.as_u16(), &problem(&limited)["status"]), (420, &json!(420)));
    assert!(field(&limited, "proxy-status").unwrap().ends_with("status-code=420"));
    for refusal in [Refusal::Penalty, Refusal::Concurrency] {
        assert_eq!(gate.refuse(refusal).status, 420, "{refusal:?}");
    }
    assert_eq!(gate.refuse(Refusal::Inflight).status, 529);
    assert_eq!(gate.refuse(Refusal::FairShare).status, 529);
    assert_eq!(gate.refuse(Refusal::OriginFull).status, 529);
}

#[test]
fn a_wait_is_told_whatever_fields_are_chosen() {
    for fields in [FieldStyle::Off, FieldStyle::Triple, FieldStyle::Legacy] {
        let answer = Gate::new(Responses { fields, ..Responses::default() }).refuse(Refusal::Limit);
        assert_eq!(field(&answer, "retry-after"), Some("12"), "{fields:?}");
    }
}

#[test]
fn a_wait_that_would_not_help_is_not_told() {
    let mut gate = Gate::new(Responses::default());
    gate.decision.readings[0].retry_nanos = None;
    let answer = gate.refuse(Refusal::Limit);
    assert_eq!(field(&answer, "retry-after"), None);
    assert_eq!(problem(&answer)["detail"], "Too many requests. Waiting does not help.");
}

#[test]
fn nothing_names_the_product_or_the_decision_unless_the_operator_says_so() {
    let gate = Gate::new(Responses { decision_id: false, ..Responses::default() });
    let answer = gate.refuse(Refusal::Limit);
    assert_eq!(field(&answer, "proxy-status"), None);
    assert_eq!(field(&answer, "x-tidegate-decision"), None);
    assert!(!String::from_utf8_lossy(&answer.body).contains("tidegate"));
    // a name that no field can hold is not sent
    let gate = Gate::new(Responses { proxy_name: Some("é".into()), ..Responses::default() });
    assert_eq!(field(&gate.refuse(Refusal::Limit), "proxy-status"), None);
}

#[test]
fn head_gets_the_fields_of_get_and_no_body() {
    let gate = Gate::new(Responses::default());
    let get = refuse(Refusal::Limit, &gate.context(form(Method::GET, &[])));
    let head = refuse(Refusal::Limit, &gate.context(form(Method::HEAD, &[])));
    assert_eq!(lines(&get.headers), lines(&head.headers));
    assert!(head.body.is_empty() && !get.body.is_empty());
}

#[test]
fn people_get_a_page() {
    let gate = Gate::new(Responses::default());
    let answer = refuse(Refusal::Limit, &gate.context(form(Method::GET, &[("accept", "text/html")])));
    assert_eq!(field(&answer, "content-type"), Some("text/html; charset=utf-8"));
    let page = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(
        page.contains("<h1>Too Many Requests</h1>\n<p>Too many requests. Please try again in 12 seconds.</p>"),
        "{page}"
    );
    assert!(page.contains("<title>429 Too Many Requests</title>") && page.contains("000000000001A"), "{page}");
    assert_eq!(field(&answer, "vary"), Some("Accept"));
    // nothing is fetched, nothing runs, and it reads in the dark
    assert!(!["script", "src", "href", "url(", "@import"].iter().any(|word| page.contains(word)), "{page}");
    assert!(page.contains("color-scheme:light dark") && page.len() < 1_024, "{}", page.len());
}

#[test]
fn the_operators_format_is_for_limited_clients() {
    let gate = Gate::new(Responses {
        limited: OwnAnswer { format: Some(BodyFormat::Html), ..OwnAnswer::default() },
        ..Responses::default()
    });
    for refusal in [Refusal::Limit, Refusal::Penalty, Refusal::Concurrency] {
        assert_eq!(field(&gate.refuse(refusal), "content-type"), Some("text/html; charset=utf-8"), "{refusal:?}");
    }
    assert_eq!(field(&gate.refuse(Refusal::FairShare), "content-type"), Some("application/problem+json"));
    assert_eq!(field(&gate.refuse(Refusal::NoRoute), "content-type"), Some("application/problem+json"));
}

#[test]
fn grpc_clients_are_told_in_their_own_way() {
    let gate = Gate::new(Responses::default());
    let grpc = gate.context(form(Method::POST, &[("content-type", "application/grpc+proto")]));
    let answer = refuse(Refusal::Limit, &grpc);
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
    assert_eq!(field(&answer, "content-type"), Some("application/grpc"));
    assert_eq!(field(&answer, "grpc-status"), Some("8"));
    assert_eq!(field(&answer, "grpc-message"), Some("Too many requests. Try again in 12 seconds."));
    assert_eq!(field(&answer, "retry-after"), Some("12"));
    assert_eq!(field(&answer, "cache-control"), Some("no-store"));
    let full = refuse(Refusal::OriginFull, &grpc);
    assert_eq!((field(&full, "grpc-status"), field(&full, "retry-after")), (Some("14"), Some("1")));
    // what is no HTTP is no gRPC either
    let broken = fault(Fault::BadRequest, &grpc);
    assert_eq!((broken.status.as_u16(), field(&broken, "grpc-status")), (400, None));
    assert_eq!(field(&broken, "content-type"), Some("application/problem+json"));
}

#[test]
fn an_admitted_request_that_the_origin_fails_still_tells_its_budget() {
    let mut gate = Gate::new(Responses::default());
    gate.decision.verdict = Verdict::Admitted;
    let answer = gate.fault(Fault::OriginTimeout);
    assert_eq!(field(&answer, "ratelimit"), Some("\"calm\";r=3;t=1"));
}

#[test]
fn a_request_without_a_decision_gets_an_answer_too() {
    let gate = Gate::new(named());
    let bare = Context { decision: None, fields: None, ..gate.context(Form::UNKNOWN) };
    for at in Fault::ALL {
        let answer = fault(*at, &bare);
        assert!(problem(&answer).get("instance").is_none());
        assert_eq!(field(&answer, "x-tidegate-decision"), None);
    }
    assert_eq!(refuse(Refusal::ClientUnresolved, &bare).status, 400);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_name_that_a_field_can_hold_is_read_back(name in any::<String>(), plain in "[ -~]{1,80}") {
        for name in [name, plain] {
            let value = proxy_status(&name, &Fault::OriginTimeout.meaning());
            let fits = name.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
            prop_assert_eq!(value.is_some(), fits);
            if let Some(value) = value {
                let list = Parser::parse_list(value.as_bytes()).unwrap();
                prop_assert_eq!(list.serialize_value().unwrap(), value.to_str().unwrap());
                let sfv::ListEntry::Item(item) = &list[0] else { panic!("no item") };
                prop_assert_eq!(item.bare_item.as_str(), Some(name.as_str()));
                prop_assert_eq!(item.params["error"].as_token(), Some("http_response_timeout"));
            }
        }
    }
}

fn bodies(list: &[(BodyMedia, &str)]) -> Option<Bodies> {
    Some(Bodies::new(list.iter().map(|(media, text)| (*media, BodyText::parse(*media, text).unwrap())).collect()))
}

fn accepting(accept: &'static str) -> Form {
    form(Method::GET, &[("accept", accept)])
}

#[test]
fn a_limit_goes_before_its_route_and_a_route_before_the_policy() {
    let own = |body: &str, code| OwnAnswer {
        status: StatusCode::from_u16(code).ok(),
        bodies: bodies(&[(BodyMedia::Json, body)]),
        headers: Some(vec![(HeaderName::from_static("x-own"), HeaderValue::from_str(&code.to_string()).unwrap())]),
        ..OwnAnswer::default()
    };
    let mut gate = Gate::new(Responses { limited: own(r#"{"of":"all"}"#, 420), ..Responses::default() });
    let told = |gate: &Gate| {
        let answer = refuse(Refusal::Limit, &gate.context(accepting("application/json")));
        let of = problem(&answer)["of"].as_str().unwrap().to_owned();
        (of, answer.status.as_u16(), field(&answer, "x-own").unwrap().to_owned())
    };
    assert_eq!(told(&gate), ("all".into(), 420, "420".into()));
    let mut route = gate.policy.routes.route(0).unwrap().clone();
    route.limited = own(r#"{"of":"{route}"}"#, 421);
    gate.policy.routes = crate::policy::RouteTable::new(vec![route]);
    assert_eq!(told(&gate), ("shop".into(), 421, "421".into()));
    let login = std::sync::Arc::make_mut(&mut gate.policy.rules[0]);
    login.response = OwnAnswer { status: None, ..own(r#"{"of":"{limit}"}"#, 422) };
    assert_eq!(told(&gate), ("login".into(), 421, "422".into()), "a word that is missing is that of above");
    // another reason has another answer
    assert_eq!(refuse(Refusal::OriginFull, &gate.context(Form::UNKNOWN)).status, 503);
    assert_eq!(refuse(Refusal::NoRoute, &gate.context(Form::UNKNOWN)).status, 404);
}

#[test]
fn own_bodies_are_chosen_by_accept_and_the_gates_own_stand_beside_them() {
    let all = bodies(&[(BodyMedia::Json, r#"{"wait":{retry_after}}"#), (BodyMedia::Text, "wait {retry_after}\n")]);
    let gate =
        Gate::new(Responses { limited: OwnAnswer { bodies: all, ..OwnAnswer::default() }, ..Responses::default() });
    for (accept, kind, body) in [
        ("*/*", "application/json", Some("{\"wait\":12}")),
        ("application/json", "application/json", Some("{\"wait\":12}")),
        ("application/problem+json", "application/problem+json", None),
        ("application/json;q=0.1, application/problem+json", "application/problem+json", None),
        ("text/plain", "text/plain; charset=utf-8", Some("wait 12\n")),
        ("text/html", "text/html; charset=utf-8", None),
        ("text/*", "text/html; charset=utf-8", None),
        ("image/png", "text/html; charset=utf-8", None),
    ] {
        let answer = refuse(Refusal::Limit, &gate.context(accepting(accept)));
        assert_eq!(field(&answer, "content-type"), Some(kind), "{accept}");
        assert_eq!(field(&answer, "vary"), Some("Accept"), "{accept}");
        assert_eq!(field(&answer, "content-length"), Some(answer.body.len().to_string().as_str()), "{accept}");
        if let Some(body) = body {
            assert_eq!(answer.body, body, "{accept}");
        }
    }
    // nothing is chosen where the operator's word decides
    let forced = OwnAnswer { format: Some(BodyFormat::Json), ..gate.policy.responses.limited.clone() };
    let gate = Gate::new(Responses { limited: forced, ..Responses::default() });
    let answer = refuse(Refusal::Limit, &gate.context(accepting("text/html")));
    assert_eq!((field(&answer, "content-type"), field(&answer, "vary")), (Some("application/json"), None));
}
