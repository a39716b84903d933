//! Fields that take one of a few words, and the two that take a word or a number.

use std::path::PathBuf;

use schemars::{Schema, json_schema};

use super::fault::Code;
use super::nearest::nearest;
use super::read::{Scalar, Wrong};
use super::scalar::{Count, digits};
use super::setting::Setting;
use super::tree::Tree;
use tidegate_http::head::UnderscoreTwins;
use tidegate_http::path::EscapedSlash;

use super::settings::{
    ClientCertificateMode, ClientInLog, Direct, LineFormat, LogFormat, LogLevel, LogTarget, ProxyProtocol,
};
use crate::client::key::Missing;
use crate::client::trust::{OnDegraded, OnShort};
use crate::limiter::adaptive::Algorithm;
use crate::limiter::sharing::{OnStoreError, Sharing};
use crate::limiter::{FORMS, Form, kinds};
use crate::policy::{BodyFormat, FieldStyle, Mode, OnClientAbort, Preflights, Protocol, RepeatedFields, Report};
use crate::units::{Bytes, Criticality, Weekday};

/// The words of one field: reader, schema, and the way back.
macro_rules! words {
    ($($type:ty = $noun:literal { $first:literal => $first_value:expr, $($word:literal => $value:expr,)* } later: [$($later:literal),*])*) => {
        $(
            impl Scalar for $type {
                const NAME: &'static str = $noun;
                const EXAMPLE: &'static str = concat!("`", $first, "`");
                const CODE: Code = Code::BAD_WORD;

                fn parse(text: &str) -> Result<$type, Wrong> {
                    const WORDS: &[&str] = &[$first, $($word),*];
                    const LATER: &[&str] = &[$($later),*];
                    match text {
                        $first => Ok($first_value),
                        $($word => Ok($value),)*
                        _ => {
                            Err(if LATER.contains(&text) {
                                Wrong::new(format!("must be {}", one_of(WORDS))).help("not available in this version")
                            } else {
                                no_word(text, WORDS, synonym(text))
                            })
                        }
                    }
                }

                fn schema() -> Schema {
                    json_schema!({ "enum": [$first, $($word),*] })
                }
            }

            impl Setting for $type {
                type Value = $type;

                fn used(&self) -> $type {
                    *self
                }

                fn tree(value: &$type) -> Tree {
                    Tree::text(value.word())
                }
            }

            impl Word for $type {
                fn word(&self) -> &'static str {
                    [($first_value, $first), $(($value, $word)),*].iter().find(|(value, _)| value == self).map_or("", |(_, word)| word)
                }
            }
        )*
    };
}

/// What other programs and papers call a thing that has another word here.
fn synonym(word: &str) -> Option<&'static str> {
    Some(match word {
        "refuse" | "deny" | "block" => "reject",
        "drop" => "close",
        "throttle" | "queue" | "nodelay" => "delay",
        "mark" => "tag",
        "fail_open" => "open",
        "fail_closed" => "closed",
        "standalone" => "single",
        "http1" | "http1.1" | "h1" => "http/1.1",
        "http2" | "http/2" | "grpc" => "h2",
        _ => return None,
    })
}

/// A value that is written as one fixed word.
pub trait Word {
    /// The word.
    fn word(&self) -> &'static str;
}

words! {
    Mode = "mode" { "enforce" => Mode::Enforce, "shadow" => Mode::Shadow, } later: []
    Off = "switch" { "off" => Off, } later: []
    Direct = "switch" { "on" => Direct::On, "off" => Direct::Off, } later: []
    Missing = "answer to a missing key" { "allow" => Missing::Allow, "deny" => Missing::Deny, } later: []
    OnShort = "answer to a short chain" { "peer" => OnShort::Peer, "reject" => OnShort::Reject, } later: []
    OnDegraded = "answer to an unreadable element" {
        "hop" => OnDegraded::Hop, "reject" => OnDegraded::Reject,
    } later: []
    CalendarWord = "part of the calendar" {
        "month" => CalendarWord::Month, "week" => CalendarWord::Week, "day" => CalendarWord::Day,
    } later: []
    Weekday = "day of the week" {
        "monday" => Weekday::Monday, "tuesday" => Weekday::Tuesday, "wednesday" => Weekday::Wednesday,
        "thursday" => Weekday::Thursday, "friday" => Weekday::Friday, "saturday" => Weekday::Saturday,
        "sunday" => Weekday::Sunday,
    } later: []
    ActionWord = "action" {
        "reject" => ActionWord::Reject, "close" => ActionWord::Close,
        "delay" => ActionWord::Delay, "tag" => ActionWord::Tag,
    } later: []
    Preflights = "way to count preflights" { "apart" => Preflights::Apart, "count" => Preflights::Count, } later: []
    Sharing = "way to share" { "lease" => Sharing::Lease, "exact" => Sharing::Exact, "estimate" => Sharing::Estimate, } later: []
    OnStoreError = "answer to a silent store" {
        "local" => OnStoreError::Local, "open" => OnStoreError::Open, "closed" => OnStoreError::Closed,
    } later: []
    StoreModeWord = "mode of a store" {
        "single" => StoreModeWord::Single, "sentinel" => StoreModeWord::Sentinel, "cluster" => StoreModeWord::Cluster,
    } later: []
    OnClientAbort = "treatment of requests whose client left" {
        "await" => OnClientAbort::Await, "close" => OnClientAbort::Close, "release" => OnClientAbort::Release,
    } later: []
    BalanceWord = "balance" {
        "round_robin" => BalanceWord::RoundRobin, "least_inflight" => BalanceWord::LeastInflight,
    } later: []
    Criticality = "criticality" {
        "critical" => Criticality::Critical, "default" => Criticality::Default, "sheddable" => Criticality::Sheddable,
        "background" => Criticality::Background,
    } later: []
    OrderWord = "order" { "fair" => OrderWord::Fair, "arrival" => OrderWord::Arrival, } later: []
    RetryOn = "reason to retry" {
        "connect_error" => RetryOn::ConnectError, "reset_before_answer" => RetryOn::ResetBeforeAnswer,
        "timeout" => RetryOn::Timeout,
    } later: []
    ProbeWord = "type of check" { "http" => ProbeWord::Http, "tcp" => ProbeWord::Tcp, } later: []
    Algorithm = "algorithm" { "aimd" => Algorithm::Aimd, "gradient" => Algorithm::Gradient, } later: []
    FieldStyle = "style of rate-limit fields" {
        "draft" => FieldStyle::Draft, "triple" => FieldStyle::Triple,
        "legacy" => FieldStyle::Legacy, "off" => FieldStyle::Off,
    } later: []
    Report = "report" { "nearest" => Report::Nearest, "all" => Report::All, } later: []
    BodyFormat = "body format" {
        "auto" => BodyFormat::Auto, "json" => BodyFormat::Json, "html" => BodyFormat::Html,
    } later: []
    ProxyProtocol = "use of the PROXY protocol" {
        "off" => ProxyProtocol::Off, "optional" => ProxyProtocol::Optional, "required" => ProxyProtocol::Required,
    } later: []
    UnderscoreTwins = "treatment of underscore twins" {
        "refuse" => UnderscoreTwins::Refuse, "allow" => UnderscoreTwins::Allow,
    } later: []
    EscapedSlash = "treatment of escaped slashes" {
        "auto" => EscapedSlash::Auto, "refuse" => EscapedSlash::Refuse, "keep" => EscapedSlash::Keep,
        "decode" => EscapedSlash::Decode,
    } later: []
    RepeatedFields = "treatment of repeated fields" {
        "refuse" => RepeatedFields::Refuse, "first" => RepeatedFields::First, "last" => RepeatedFields::Last,
    } later: []
    Protocol = "protocol" { "h2" => Protocol::Http2, "http/1.1" => Protocol::Http1, } later: ["h3"]
    ClientInLog = "form of clients in the log" {
        "pseudonym" => ClientInLog::Pseudonym, "address" => ClientInLog::Address,
    } later: []
    LineFormat = "access log format" {
        "json" => LineFormat::Json, "combined" => LineFormat::Combined,
    } later: ["common"]
    ClientCertificateMode = "mode of client certificates" {
        "required" => ClientCertificateMode::Required, "optional" => ClientCertificateMode::Optional,
    } later: []
    LogLevel = "log level" {
        "error" => LogLevel::Error, "warn" => LogLevel::Warn, "info" => LogLevel::Info, "debug" => LogLevel::Debug,
    } later: []
    LogFormat = "log format" {
        "auto" => LogFormat::Auto, "text" => LogFormat::Text, "json" => LogFormat::Json,
    } later: []
}

/// The type of a limit.
#[derive(Debug, Clone, Copy)]
pub struct LimitType(pub &'static Form);

impl Scalar for LimitType {
    const NAME: &'static str = "type of limit";
    const EXAMPLE: &'static str = "`rate`";
    const CODE: Code = Code::BAD_WORD;

    fn parse(text: &str) -> Result<LimitType, Wrong> {
        if let Some(form) = FORMS.iter().find(|form| form.word == text) {
            return Ok(LimitType(form));
        }
        let meant = FORMS.iter().find(|form| form.synonyms.contains(&text));
        Err(no_word(text, &limit_words(|_| true), meant.map(|form| form.word)))
    }

    fn schema() -> Schema {
        let promise = |form: &&Form| {
            let default = if form.word == kinds::Rate::FORM.word { " (default)" } else { "" };
            format!("`{}`{default}: {}", form.word, form.promise)
        };
        let promises: Vec<String> = FORMS.iter().map(promise).collect();
        json_schema!({
            "enum": limit_words(|_| true),
            "description": format!("What is promised. {}", promises.join(" "))
        })
    }
}

/// The words of the types of limit for which this holds.
pub fn limit_words(holds: impl Fn(&Form) -> bool) -> Vec<&'static str> {
    FORMS.iter().filter(|form| holds(form)).map(|form| form.word).collect()
}

/// A window of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalendarWord {
    /// From the first of the month.
    Month,
    /// Seven days.
    Week,
    /// From midnight to midnight.
    Day,
}

/// What follows when a request does not fit, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionWord {
    /// It is refused.
    Reject,
    /// It is refused, and its connection closed.
    Close,
    /// It waits.
    Delay,
    /// It passes, marked.
    Tag,
}

/// How the servers of a store belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreModeWord {
    /// One server.
    Single,
    /// Sentinels that know the primary.
    Sentinel,
    /// A cluster.
    Cluster,
}

/// Not, where something else is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Off;

/// How an address is chosen, without those ways that need more than a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BalanceWord {
    /// In turn.
    RoundRobin,
    /// The least busy.
    LeastInflight,
}

/// Who of those that wait for a place goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderWord {
    /// The lightest.
    Fair,
    /// The first.
    Arrival,
}

/// When a request is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryOn {
    /// No connection to the origin came to stand.
    ConnectError,
    /// The connection ended before the answer began.
    ResetBeforeAnswer,
    /// The answer did not begin in time.
    Timeout,
}

/// What a check does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeWord {
    /// Asks for a path.
    Http,
    /// Only connects.
    Tcp,
}

/// The fault of a text that is none of these words; hints at the one that was `meant`, or at the nearest.
fn no_word(text: &str, words: &[&str], meant: Option<&str>) -> Wrong {
    let known = meant.filter(|word| words.contains(word));
    let near = known.or_else(|| nearest(text, words.iter().copied()));
    Wrong::new(format!("must be {}", one_of(words))).nearest(near)
}

/// "`a`, `b` and `c`".
pub fn all_of(words: &[&str]) -> String {
    one_of(words).replace(" or ", " and ")
}

/// "`a`, `b` or `c`".
pub fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// A size, or `none` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimit(pub Option<Bytes>);

impl Scalar for BodyLimit {
    const NAME: &'static str = "body limit";
    const EXAMPLE: &'static str = "`10MiB` or `none`";
    const CODE: Code = Code::BAD_SIZE;

    fn parse(text: &str) -> Result<BodyLimit, Wrong> {
        if text == "none" {
            return Ok(BodyLimit(None));
        }
        Bytes::parse(text).map(|bytes| BodyLimit(Some(bytes))).map_err(|mut wrong| {
            wrong.label.push_str(", or `none`");
            wrong
        })
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "const": "none" }, <Bytes as Scalar>::schema()] })
    }
}

/// A number of threads; `None` is `auto`, one per core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads(pub Option<usize>);

impl Scalar for Threads {
    const NAME: &'static str = "number of threads";
    const EXAMPLE: &'static str = "`auto` or `4`";
    const CODE: Code = Code::BAD_NUMBER;

    fn parse(text: &str) -> Result<Threads, Wrong> {
        match (text, digits(text)) {
            ("auto", _) => Ok(Threads(None)),
            (_, Some(number @ 1..=1_024)) => Ok(Threads(usize::try_from(number).ok())),
            _ => Err(Wrong::new("must be `auto` or 1 to 1024")),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "const": "auto" }, <Count as Scalar>::schema()] })
    }
}

impl Setting for Threads {
    type Value = Option<usize>;

    fn used(&self) -> Option<usize> {
        self.0
    }

    fn tree(value: &Option<usize>) -> Tree {
        value.map_or_else(|| Tree::text("auto"), Tree::text)
    }
}

impl Setting for BodyLimit {
    type Value = Option<Bytes>;

    fn used(&self) -> Option<Bytes> {
        self.0
    }

    fn tree(value: &Option<Bytes>) -> Tree {
        value.map_or_else(|| Tree::text("none"), Tree::text)
    }
}

/// A directory's path from `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory(pub PathBuf);

impl Scalar for Directory {
    const NAME: &'static str = "directory";
    const EXAMPLE: &'static str = "`/var/lib/tidegate`";
    const CODE: Code = Code::BAD_WORD;

    fn parse(text: &str) -> Result<Directory, Wrong> {
        match text {
            path if path.starts_with('/') && path.len() > 1 && !path.contains('\0') => {
                Ok(Directory(PathBuf::from(path)))
            }
            _ => Err(Wrong::new("must be a directory's path from `/`")),
        }
    }

    fn schema() -> Schema {
        super::scalar::pattern("^/.+$")
    }
}

impl Setting for LogTarget {
    type Value = LogTarget;

    fn used(&self) -> LogTarget {
        self.clone()
    }

    fn tree(value: &LogTarget) -> Tree {
        match value {
            LogTarget::Stdout => Tree::text("stdout"),
            LogTarget::Stderr => Tree::text("stderr"),
            LogTarget::File(path) => Tree::text(path.display()),
        }
    }
}

impl Scalar for LogTarget {
    const NAME: &'static str = "place for the log";
    const EXAMPLE: &'static str = "`stdout`, `stderr` or `/var/log/tidegate/access.json`";
    const CODE: Code = Code::BAD_WORD;

    fn parse(text: &str) -> Result<LogTarget, Wrong> {
        match text {
            "stdout" => Ok(LogTarget::Stdout),
            "stderr" => Ok(LogTarget::Stderr),
            path if path.starts_with('/') && path.len() > 1 && !path.ends_with('/') && !path.contains('\0') => {
                Ok(LogTarget::File(PathBuf::from(path)))
            }
            _ => Err(Wrong::new("must be `stdout`, `stderr`, or a file's path from `/`")
                .nearest(nearest(text, ["stdout", "stderr"]))),
        }
    }

    fn schema() -> Schema {
        super::scalar::pattern("^(stdout|stderr|/.+)$")
    }
}
