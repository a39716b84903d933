//! The scripts, what they are given and what they answer, and the names of keys.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redis::{Cmd, Value, cmd};

use crate::limiter::sharing::places::{LIFE_MICROS, Lend};
use crate::limiter::sharing::promise::{RateTerms, Terms};
use crate::limiter::sharing::{Amendment, Answer, Change, Promise, Question};
use crate::units::OutOfRange;

/// A script that a store keeps by the hash of its text.
pub struct Script {
    text: &'static str,
    hash: String,
}

/// Judges one question of a rate.
pub static RATE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("rate.lua")));

/// Judges one question of a quota.
pub static QUOTA: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("quota.lua")));

/// Judges one question of a quota whose windows slide.
pub static SLIDING: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("sliding.lua")));

/// Judges one value of a limit of different values.
pub static VALUES: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("values.lua")));

/// Lends places.
pub static PLACES: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("places.lua")));

/// Writes that a gate is there, and says how many are.
pub static MEMBERS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("members.lua")));

/// Puts a gate's message among those of all gates, and says what others put there.
pub static DELTAS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("deltas.lua")));

/// Keeps what gates know of bans.
pub static BANS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("bans.lua")));

impl Script {
    fn new(text: &'static str) -> Script {
        Script { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }
}

/// One run of a script.
pub struct ScriptCall<'a> {
    /// Which script.
    pub script: &'a Script,
    /// The key that it is run on.
    pub key: &'a str,
    /// Its first arguments.
    pub numbers: &'a [i64],
    /// Its further arguments.
    pub rest: &'a [&'a [u8]],
}

impl ScriptCall<'_> {
    /// Returns the command that runs the script: by its hash, or by its whole text, which a store without it keeps from then on.
    pub fn command(&self, whole: bool) -> Cmd {
        let mut command = if whole { cmd("EVAL") } else { cmd("EVALSHA") };
        command.arg(if whole { self.script.text } else { &self.script.hash });
        command.arg(1).arg(self.key).arg(self.numbers);
        self.rest.iter().for_each(|rest| _ = command.arg(*rest));
        command
    }
}

/// Gives a store the scripts of questions before there are any: the first question need not bring its script along.
pub fn to_keep() -> [Cmd; 6] {
    [&RATE, &QUOTA, &SLIDING, &VALUES, &PLACES, &DELTAS].map(|script| {
        let mut command = cmd("EVAL");
        command.arg(script.text).arg(0);
        command
    })
}

/// The key of a question: `{prefix}{tag}:{limit}:{kind}`, where the tag in its braces is the client's key, so that a key
/// is in one slot of a cluster and the keys of a limit are in all of them. A prefix with a tag of its own decides instead: of two
/// tags the first counts. The kind is in it so that a limit that becomes another kind begins anew.
pub fn key(prefix: &str, question: &Question, limit: &str) -> String {
    let key = URL_SAFE_NO_PAD.encode(question.key.0);
    let kind = match question.promise() {
        Promise::Rate { .. } => "rate",
        Promise::Quota { .. } | Promise::Calendar { .. } => "quota",
        Promise::Sliding { .. } => "sliding",
        Promise::Places { .. } => "places",
        // other windows count anew, as in the gate itself
        Promise::Values { window, sliding, .. } => {
            let form = if sliding { "sliding" } else { "" };
            return format!("{prefix}{{{key}}}:{limit}:{form}values{}", window.as_millis());
        }
    };
    format!("{prefix}{{{key}}}:{limit}:{kind}")
}

/// The key of the set of gates.
pub fn members_key(prefix: &str) -> String {
    format!("{prefix}{{gates}}")
}

/// The key of the messages of all gates.
pub fn deltas_key(prefix: &str) -> String {
    format!("{prefix}{{deltas}}")
}

/// The key of what gates know of bans that have one secret, which has a place of this name.
pub fn bans_key(prefix: &str, place: &str) -> String {
    format!("{prefix}{{bans}}:{place}")
}

/// The script that judges a question, and what it is given.
///
/// # Errors
/// Numbers that no store can count.
pub fn asks(question: &Question) -> Result<(&'static Script, Vec<i64>), OutOfRange> {
    // places are lent one by one
    run_of(question, (i64::from(question.wanted), i64::from(question.least)), (Lend::IfFree, 0))
}

/// The script that does what is told, and what it is given.
///
/// # Errors
/// Numbers that no store can count.
pub fn tells(Amendment { question, change }: &Amendment) -> Result<(&'static Script, Vec<i64>), OutOfRange> {
    match *change {
        Change::More(units) => run_of(question, (units.into(), 0), (Lend::Nothing, 0)),
        Change::Less(units, ends) => run_of(question, (-i64::from(units), 0), (Lend::Nothing, ends)),
        Change::Place(lend, ends) => run_of(question, (0, 0), (lend, ends)),
    }
}

fn run_of(
    question: &Question,
    (wanted, least): (i64, i64),
    (lend, ends): (Lend, u64),
) -> Result<(&'static Script, Vec<i64>), OutOfRange> {
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Ok(match question.promise().terms()? {
        Terms::Rate(_) => {
            let bursts = if question.told { RateTerms::TOLD } else { 1 };
            let mut numbers = vec![wanted, least, i64::from(question.tier) + 1, i64::from(bursts)];
            for tier in &*question.tiers {
                if let Terms::Rate(rate) = tier.promise.terms()? {
                    let terms = [rate.cost, rate.drain, rate.tick_micros, u64::from(rate.burst)];
                    numbers.push(i64::from(tier.id));
                    numbers.extend(terms.map(whole));
                }
            }
            (&*RATE, numbers)
        }
        Terms::Quota(quota) => {
            (&*QUOTA, vec![whole(quota.window_micros), i64::from(quota.max), wanted, least, whole(ends)])
        }
        Terms::Sliding(quota) => {
            (&*SLIDING, vec![whole(quota.window_micros), i64::from(quota.max), wanted, least, whole(ends)])
        }
        Terms::Calendar(quota) => {
            let numbers = [0, i64::from(quota.max), wanted, least, whole(ends)].into_iter();
            (&*QUOTA, numbers.chain(quota.begins.map(whole)).collect())
        }
        Terms::Values(values) => {
            (&*VALUES, vec![whole(values.window_micros), i64::from(values.max), i64::from(values.sliding), wanted])
        }
        Terms::Places(max) => (&*PLACES, vec![whole(LIFE_MICROS), i64::from(max), whole(lend.number()), whole(ends)]),
    })
}

/// The answer in what a script said, and the store's time in microseconds since 1970; `None` if it is none to this question.
pub fn answer(value: Value, question: &Question) -> Option<(Answer, u64)> {
    let [granted, left, retry, rest, now] = numbers(value)?;
    let granted = u32::try_from(granted).ok()?;
    if granted != 0 && !(question.least..=question.wanted).contains(&granted) {
        return None;
    }
    let answer = Answer {
        granted,
        left: u32::try_from(left).ok()?,
        retry_nanos: u64::try_from(retry).ok().map(nanos),
        ends_nanos: u64::try_from(rest).map_or(u64::MAX, nanos),
    };
    Some((answer, u64::try_from(now).ok()?))
}

/// How many gates there are, in what `members.lua` said.
pub fn count(value: Value) -> Option<u32> {
    let [count] = numbers(value)?;
    u32::try_from(count).ok()
}

/// The messages that other gates published.
#[derive(Debug, PartialEq, Eq)]
pub struct Published {
    /// The store's time in milliseconds since 1970.
    pub now: i64,
    /// The last message that was read.
    pub read: (i64, i64),
    /// Whether there are more.
    pub more: bool,
    /// When each came, in milliseconds since 1970, and its bytes.
    pub messages: Vec<(i64, Vec<u8>)>,
}

/// Reads the answer of `deltas.lua`; `None` if it is something else.
pub fn published(value: Value) -> Option<Published> {
    let Value::Array(values) = value else { return None };
    let mut values = values.into_iter();
    let mut number = || redis::from_redis_value::<i64>(values.next()?).ok();
    let (now, read, more) = (number()?, (number()?, number()?), number()? != 0);
    let mut messages = Vec::with_capacity(values.len() / 2);
    while let Some(came) = values.next() {
        let Value::BulkString(bytes) = values.next()? else { return None };
        messages.push((redis::from_redis_value(came).ok()?, bytes));
    }
    Some(Published { now, read, more, messages })
}

/// What a store keeps of bans.
#[derive(Debug, PartialEq, Eq)]
pub enum KeptBans {
    /// The text that the gate knew, or now the one that it gave.
    AsKnown,
    /// Another text.
    Other(Vec<u8>),
}

/// Reads the answer of `bans.lua`; `None` if it is something else.
pub fn kept_bans(value: Value) -> Option<KeptBans> {
    let Value::Array(values) = value else { return None };
    match <[Value; 2]>::try_from(values) {
        Ok([Value::Int(0), Value::BulkString(text)]) => Some(KeptBans::Other(text)),
        Ok(_) => None,
        Err(values) => (values == [Value::Int(1)]).then_some(KeptBans::AsKnown),
    }
}

fn numbers<const N: usize>(value: Value) -> Option<[i64; N]> {
    let Value::Array(values) = value else { return None };
    let numbers: Option<Vec<i64>> = values.into_iter().map(|value| redis::from_redis_value(value).ok()).collect();
    numbers?.try_into().ok()
}

fn nanos(micros: u64) -> u64 {
    micros.saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limiter::sharing::{StoreKey, StoreTier};

    fn question() -> Question {
        Question {
            rule: 0,
            key: StoreKey([255; 16]),
            tiers: [StoreTier { id: 0, promise: Promise::Quota { max: 5, window: Duration::from_secs(60) } }].into(),
            tier: 0,
            begins: None,
            value: None,
            wanted: 3,
            least: 2,
            told: false,
        }
    }

    fn said(numbers: [i64; 5]) -> Option<(Answer, u64)> {
        answer(Value::Array(numbers.into_iter().map(Value::Int).collect()), &question())
    }

    #[test]
    fn a_key_is_in_one_slot_by_the_client_and_says_what_it_counts() {
        assert_eq!(key("tg:", &question(), "login"), "tg:{_____________________w}:login:quota");
    }

    #[test]
    fn an_answer_is_read_in_nanoseconds() {
        let (answer, now) = said([2, 1, 0, 7, 9]).unwrap();
        assert_eq!(answer, Answer { granted: 2, left: 1, retry_nanos: Some(0), ends_nanos: 7_000 });
        assert_eq!(now, 9);
        let (never, _) = said([0, 0, -1, -1, 9]).unwrap();
        assert_eq!((never.retry_nanos, never.ends_nanos), (None, u64::MAX));
    }

    #[test]
    fn messages_are_read_with_the_time_of_their_coming() {
        let said = [Value::Int(9), Value::Int(7), Value::Int(1), Value::Int(1), Value::Int(6)];
        let with = |last: Value| published(Value::Array(said.iter().cloned().chain([last]).collect()));
        let expected = Published { now: 9, read: (7, 1), more: true, messages: vec![(6, vec![0, 255])] };
        assert_eq!(with(Value::BulkString(vec![0, 255])), Some(expected));
        assert_eq!(with(Value::Int(1)), None);
        assert_eq!(published(Value::Array(said.to_vec())), None, "a time without a message");
        assert_eq!(published(Value::Okay), None);
    }

    #[test]
    fn what_is_kept_of_bans_is_read() {
        let text = || Value::BulkString(vec![0, 255]);
        assert_eq!(kept_bans(Value::Array(vec![Value::Int(1)])), Some(KeptBans::AsKnown));
        assert_eq!(kept_bans(Value::Array(vec![Value::Int(0), text()])), Some(KeptBans::Other(vec![0, 255])));
        for other in [vec![Value::Int(0)], vec![Value::Int(1), text()], vec![], vec![Value::Int(0), Value::Int(0)]] {
            assert_eq!(kept_bans(Value::Array(other)), None);
        }
        assert_eq!(kept_bans(Value::Okay), None);
    }

    #[test]
    fn what_was_not_asked_for_is_no_answer() {
        assert_eq!(said([1, 0, 0, 0, 0]), None, "less than the least");
        assert_eq!(said([4, 0, 0, 0, 0]), None, "more than was wanted");
        assert_eq!(said([-1, 0, 0, 0, 0]), None);
        assert_eq!(answer(Value::Okay, &question()), None);
        assert_eq!(answer(Value::Array(vec![Value::Int(2)]), &question()), None);
    }
}
