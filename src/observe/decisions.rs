//! The latest decisions, for explanations.
//!
//! Decisions that a limit refused, or would have refused, and a sample of the others; and the policies they were decided by.
//! Only those requests pay for it: a pseudonym (an HMAC), a second look at the routes, and a few stores. What is kept are
//! numbers and pseudonyms: no address, host, path or field of any client.
//!
//! They go into one of two [rings](ring). *Kept* takes what the [budget] of its client and of its limit allows, and holds
//! it for ten minutes at least, whatever others send. *Passing* takes everything else, and holds the latest.

pub mod budget;
pub mod ring;

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;

use self::budget::{Budget, Part};
use self::ring::Ring;
use super::pseudonym::{Pseudonym, Pseudonyms};
use crate::answer::headers::retry_after_seconds;
use crate::answer::{self, RouteFields};
use crate::bans::BanTable;
use crate::client::{Client, ClientNetwork, ClientRules, Mark, Trust, resolve};
use crate::engine::{DecisionId, Engine, Evaluation, Outcome, Refusal, Verdict};
use crate::explain::{BanPart, Beside, Book, Explanation, HeavyPart, Known, Record};
use crate::limiter::sharing::StoreError;
use crate::policy::Policy;
use crate::request::{Peer, Request};
use crate::saved::{Fault, Reader, Writer};
use crate::units::Timestamp;

/// Slots of the ring for what is kept. With those of the other and the counts of the budget: 3 MiB.
pub const KEPT: usize = 22_528;

/// Slots of the ring for everything else. A flood of 1,000 refusals a second fills it in nine seconds.
pub const PASSING: usize = 8_832;

/// The memory of all of it.
#[cfg(test)]
const MEMORY: usize =
    (KEPT + PASSING) * Ring::SLOT_BYTES + budget::CLIENTS_MEMORY.0 as usize + (budget::LIMITS + 2) * size_of::<u64>();

/// Of admitted requests that no limit objected to, one of so many is remembered.
pub const SAMPLE: u64 = 1_024;

/// So many policies are remembered; an older one's decisions are forgotten with it.
const BOOKS: usize = 64;

/// The last decisions, and what is known of the policies that made them.
#[derive(Debug)]
pub struct Decisions {
    kept: Ring,
    passing: Ring,
    budget: Budget,
    books: ArcSwap<Books>,
}

/// The policies, by the numbers that they have in records.
#[derive(Debug, Default)]
struct Books {
    /// The number of the first.
    first: u16,
    books: Vec<Arc<Book>>,
}

/// What the rest of the process adds to what is remembered.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The policy in force.
    pub policy: &'a Policy,
    /// The fields of the answers on its routes, by the position of the route.
    pub fields: &'a dyn Fn(usize) -> Option<&'a RouteFields>,
    /// The wall clock's time at the origin of all stamps, in nanoseconds since 1970.
    pub unix_nanos_at_origin: u64,
    /// The bans in force.
    pub bans: &'a BanTable,
    /// The name of a client, or of a network of this level.
    pub name: &'a dyn Fn(Mark, ClientNetwork, u8) -> String,
}

/// Whom decisions are asked about: every pseudonym that the client has, or had under an earlier key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whom(Vec<[u8; 16]>);

/// The beginning of several pseudonyms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Several;

/// Groups of equal decisions that are looked for at most.
const MOST_FOLDS: usize = 64;

/// What is equal in equal decisions: verdict, limit, policy, and the route where no limit decided.
type Key = (Verdict, Option<u16>, u16, Option<u16>);

/// Equal decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// How many of them are remembered.
    pub kept: u64,
    /// Whether they are by the policy in force.
    pub is_current: bool,
    /// The first limit that objected.
    pub limit: Option<usize>,
    /// Whether it only would have refused them.
    pub would: bool,
    /// Whether their origin had no place.
    pub no_place: bool,
    /// Their routes, by position.
    pub routes: Vec<usize>,
}

impl Default for Decisions {
    /// No decision and no policy yet.
    fn default() -> Decisions {
        Decisions {
            kept: Ring::new(KEPT),
            passing: Ring::new(PASSING),
            budget: Budget::new(KEPT),
            books: ArcSwap::default(),
        }
    }
}

impl Decisions {
    /// Takes note of a policy that is about to decide. Returns the number that its decisions are remembered under.
    pub fn open(&self, book: Book) -> u16 {
        let book = Arc::new(book);
        let old = self.books.load();
        let mut books = Books { first: old.first, books: old.books.clone() };
        books.books.push(book);
        if books.books.len() > BOOKS {
            books.books.remove(0);
            books.first = books.first.wrapping_add(1);
        }
        let number = books.first.wrapping_add(u16::try_from(books.books.len() - 1).unwrap_or(0));
        self.books.store(Arc::new(books));
        number
    }

    /// The number of the policy that was opened last.
    pub fn newest(&self) -> u16 {
        let books = self.books.load();
        books.first.wrapping_add(u16::try_from(books.books.len().saturating_sub(1)).unwrap_or(0))
    }

    /// Writes the decisions by the policy of this fingerprint, for the process that takes this one's place.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, fingerprint: &str, to: &mut Writer<'_>) -> io::Result<()> {
        let books = self.books.load();
        let of = |number: u16| books.books.get(usize::from(number.wrapping_sub(books.first)));
        for ring in [&self.kept, &self.passing] {
            for (id, record) in ring.oldest_first() {
                if of(record.book).is_none_or(|book| book.fingerprint != fingerprint) {
                    continue;
                }
                let words = record.pack();
                to.number(words.len() as u64)?;
                to.number(id.0)?;
                words.iter().try_for_each(|word| to.number(*word))?;
            }
            to.number(0)?;
        }
        self.budget.save(to)
    }

    /// Remembers what was [saved](Decisions::save) by the policy that was opened last. Returns how many decisions that are.
    ///
    /// # Errors
    /// A damaged stream.
    pub fn restore(&self, from: &mut Reader<'_>) -> Result<usize, Fault> {
        let (book, mut count) = (self.newest(), 0);
        for ring in [&self.kept, &self.passing] {
            loop {
                let length = from.number_up_to(Record::MAX_WORDS as u64)?;
                if length == 0 {
                    break;
                }
                let id = DecisionId(from.number()?);
                let words = (0..length).map(|_| from.number()).collect::<Result<Vec<u64>, Fault>>()?;
                let record = Record::unpack(&words).ok_or(Fault::Unfit("a decision cannot be read"))?;
                ring.write(id, &Record { book, ..record }.pack());
                count += 1;
            }
        }
        self.budget.restore(from)?;
        Ok(count)
    }

    /// Whether a decision is one of those that are remembered.
    pub fn wants(evaluation: &Evaluation) -> bool {
        let decision = &evaluation.decision;
        let objected = |outcome| matches!(outcome, Outcome::Refused | Outcome::Tagged);
        // a view of the dice that nothing else has
        decision.verdict != Verdict::Admitted
            || decision.readings.iter().any(|reading| objected(reading.outcome))
            || decision.dice.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & (SAMPLE - 1) == 0
    }

    /// Remembers a decision about `request` by the policy of this number, and what the store of a shared limit met it with, if it is
    /// one that is remembered; to be called before its answer is sent, as the client may ask at once.
    pub fn note(
        &self,
        engine: &Engine,
        evaluation: &Evaluation,
        request: &Request<'_>,
        (book, store_error): (u16, Option<StoreError>),
        pseudonyms: &Pseudonyms,
    ) {
        if !Decisions::wants(evaluation) {
            return;
        }
        let decision = &evaluation.decision;
        let policy = engine.policy();
        let retry_after = match decision.verdict {
            Verdict::Refused(refusal) => retry_after_seconds(refusal, decision, policy).unwrap_or(0),
            Verdict::Admitted => 0,
        };
        let client = decision.client.map_or([0; 16], |client| pseudonyms.of(&client).bytes());
        let taken = policy.routes.taken(request, decision.client.as_ref());
        let beside = Beside { client, method: request.method, taken, book, retry_after, store_error };
        self.remember(decision.id, &Record::of(engine, evaluation, &beside), policy.rules.len());
    }

    /// Writes a decision by a policy of so many limits.
    fn remember(&self, id: DecisionId, record: &Record, limits: usize) {
        let objected = record.limits.iter().find(|said| matches!(said.outcome, Outcome::Refused | Outcome::Tagged));
        let part = match (objected, record.verdict) {
            (Some(said), _) => Part::Limit(usize::from(said.rule), limits),
            (None, Verdict::Refused(_)) => Part::Unlimited,
            (None, Verdict::Admitted) => Part::Sample,
        };
        let words = record.pack();
        let ring = match self.budget.take(&record.client, part, Ring::cost(&words), record.at) {
            true => &self.kept,
            false => &self.passing,
        };
        ring.write(id, &words);
    }

    /// The record of this id. One that was decided about twice was admitted before it was refused: the last word counts.
    fn find(&self, id: DecisionId) -> Option<Record> {
        let of = |ring: &Ring| ring.find(id);
        match (of(&self.kept), of(&self.passing)) {
            (Some(kept), Some(passing)) if kept.verdict == Verdict::Admitted => Some(passing),
            (kept, passing) => kept.or(passing),
        }
    }

    /// Everything that is remembered, the latest first.
    fn latest_first(&self) -> impl Iterator<Item = (DecisionId, Record)> + '_ {
        let (mut kept, mut passing) = (self.kept.latest_first().peekable(), self.passing.latest_first().peekable());
        std::iter::from_fn(move || match (kept.peek(), passing.peek()) {
            (Some((_, one)), Some((_, other))) if one.at < other.at => passing.next(),
            (None, _) => passing.next(),
            _ => kept.next(),
        })
    }

    /// When the oldest decision in memory was.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.latest_first().map(|(_, record)| record.at).min()
    }

    /// Why the decision of this id came out as it did; `None` when it is not remembered.
    pub fn explain(&self, id: DecisionId, around: &Surroundings<'_>) -> Option<Explanation> {
        let record = self.find(id)?;
        self.told(id, &record, around, None)
    }

    /// The last decisions, the latest first: those about `whom`, if somebody is given, and not before `since`; at most `most`.
    pub fn latest(
        &self,
        whom: Option<(&Whom, Option<&str>)>,
        since: Timestamp,
        most: usize,
        around: &Surroundings<'_>,
    ) -> Vec<Explanation> {
        let about = |record: &Record| whom.is_none_or(|(whom, _)| whom.0.contains(&record.client));
        let found = self.latest_first().filter(|(_, record)| record.at >= since && about(record));
        let shown = whom.and_then(|(_, shown)| shown);
        found.filter_map(|(id, record)| self.told(id, &record, around, shown)).take(most).collect()
    }

    /// The decisions since `since` with equal ones as one, those with most equals first, each with its newest; at most `most`. Admitted
    /// requests that no limit objected to are left out.
    pub fn folded(&self, since: Timestamp, most: usize, around: &Surroundings<'_>) -> Vec<(Fold, Explanation)> {
        let newest_book = self.newest();
        let mut folds: Vec<(Key, Fold, DecisionId, Record)> = Vec::new();
        for (id, record) in self.latest_first().take_while(|(_, record)| record.at >= since) {
            let objected = record.limits.iter().find(|said| matches!(said.outcome, Outcome::Refused | Outcome::Tagged));
            let limit = objected.map(|said| said.rule);
            if limit.is_none() && record.verdict == Verdict::Admitted {
                continue;
            }
            // a refusal for lack of a place is the route's; the routes of a limit are told together
            let key = (record.verdict, limit, record.book, record.route.filter(|_| limit.is_none()));
            let place = folds.iter().position(|(known, ..)| *known == key);
            if place.is_none() && folds.len() < MOST_FOLDS {
                let fold = Fold {
                    kept: 0,
                    is_current: record.book == newest_book,
                    limit: limit.map(usize::from),
                    would: record.verdict == Verdict::Admitted,
                    no_place: record.verdict == Verdict::Refused(Refusal::OriginFull),
                    routes: Vec::new(),
                };
                folds.push((key, fold, id, record.clone()));
            }
            let place = place.unwrap_or(folds.len().saturating_sub(1));
            let Some((_, fold, ..)) = folds.get_mut(place).filter(|(known, ..)| *known == key) else { continue };
            fold.kept += 1;
            if let Some(route) = record.route.map(usize::from).filter(|route| !fold.routes.contains(route)) {
                fold.routes.push(route);
            }
        }
        folds.sort_by_key(|(_, fold, ..)| std::cmp::Reverse(fold.kept));
        let told = |(_, fold, id, record)| Some((fold, self.told(id, &record, around, None)?));
        folds.into_iter().filter_map(told).take(most).collect()
    }

    fn told(
        &self,
        id: DecisionId,
        record: &Record,
        around: &Surroundings<'_>,
        address: Option<&str>,
    ) -> Option<Explanation> {
        let books = self.books.load();
        let book = books.books.get(usize::from(record.book.wrapping_sub(books.first)))?;
        let replaced = record.book != self.newest();
        let mut sent = Vec::new();
        let mut status = None;
        if let Verdict::Refused(refusal) = record.verdict {
            // the words of answers are those of the policy in force: another's may have been others
            status = (!replaced).then(|| {
                let own = answer::own::Own::of(refusal, Some(&record.decision(id)), around.policy);
                answer::refusal::meaning(refusal, &own).status.as_u16()
            });
            if record.retry_after > 0 {
                sent.push(format!("Retry-After: {}", record.retry_after));
            }
            if let Some(fields) =
                record.route.and_then(|route| (around.fields)(usize::from(route))).filter(|_| !replaced)
            {
                let decision = record.decision(id);
                let at = around.unix_nanos_at_origin.saturating_add(record.at.nanos());
                let lines = fields.on_refusal(refusal, &decision, around.policy, at);
                sent.extend(lines.iter().map(|(name, value)| answer::headers::shown(name, value)));
            }
        }
        let wall = around.unix_nanos_at_origin.saturating_add(record.at.nanos());
        let known = Known {
            id: Some(id),
            time: Some(answer::entry::time_text(wall)),
            loaded: (book.loaded_unix_nanos > 0).then(|| answer::entry::time_text(book.loaded_unix_nanos)),
            address: address.map(str::to_owned),
            pseudonym: (record.client != [0; 16]).then(|| Pseudonym::of_bytes(record.client).to_string()),
            ban: record.ban.and_then(|number| {
                let ban = around.bans.bans().iter().find(|ban| ban.number == number)?;
                let until = around.unix_nanos_at_origin.saturating_add(ban.until.nanos());
                Some(BanPart::of(ban, answer::entry::time_text(ban.given), answer::entry::time_text(until)))
            }),
            heaviest: heaviest(record, around),
            status,
            sent,
            replaced,
            ..Known::default()
        };
        Some(Explanation::new(record, book, known))
    }
}

/// Who had most of what a request found too little of.
fn heaviest(record: &Record, around: &Surroundings<'_>) -> Vec<HeavyPart> {
    let heaviest = record.no_place.iter().flat_map(|place| place.heaviest.iter().flatten());
    let named = heaviest.filter_map(|heavy| {
        let (mark, network) = Client::of_label(&heavy.label, heavy.level)?;
        Some(HeavyPart::new(heavy, (around.name)(mark, network, heavy.level)))
    });
    named.collect()
}

impl Whom {
    /// A client by its address, under every mark that it may have been counted by; `None` if the text is none.
    pub fn of_address(text: &str, rules: &ClientRules, pseudonyms: &Pseudonyms) -> Option<Whom> {
        let peer = match text {
            "unix" => Peer::Unix,
            address => Peer::Ip(address.split('/').next()?.parse().ok()?),
        };
        // as if nobody stood in between: what is counted is the network, whoever named it
        let itself = ClientRules { trust: Trust::Off, ..rules.clone() };
        let client = resolve(&itself, peer, &http::HeaderMap::new()).ok()?;
        let marked = |mark| {
            let mut client = client;
            client.mark = mark;
            client
        };
        let names = |mark| pseudonyms.all_of(&marked(mark)).map(|name| name.bytes()).collect::<Vec<_>>();
        Some(Whom(MARKS.into_iter().flat_map(names).collect()))
    }

    /// The clients with a pseudonym that is `text` or begins so. A pseudonym cannot be led back to a client: under another key it
    /// is found if the client is one of `known`. With fewer characters than all it must be one client.
    ///
    /// # Errors
    /// `text` begins the pseudonyms of several clients.
    pub fn of_pseudonym(
        text: &str,
        pseudonyms: &Pseudonyms,
        known: impl IntoIterator<Item = Client>,
        decisions: &Decisions,
    ) -> Result<Whom, Several> {
        let mut found: Vec<Vec<[u8; 16]>> = Vec::new();
        for client in known {
            let names: Vec<Pseudonym> = pseudonyms.all_of(&client).collect();
            let bytes: Vec<[u8; 16]> = names.iter().map(|name| name.bytes()).collect();
            if names.iter().any(|name| name.is_meant(text)) && !found.contains(&bytes) {
                found.push(bytes);
            }
        }
        if let Some(pseudonym) = Pseudonym::parse(text).filter(|_| found.is_empty()) {
            return Ok(Whom(vec![pseudonym.bytes()]));
        }
        for (_, record) in decisions.latest_first().filter(|(_, record)| record.client != [0; 16]) {
            let known = found.iter().any(|names| names.contains(&record.client));
            if !known && Pseudonym::of_bytes(record.client).is_meant(text) {
                found.push(vec![record.client]);
            }
        }
        match found.len() {
            0 | 1 => Ok(Whom(found.pop().unwrap_or_default())),
            _ => Err(Several),
        }
    }
}

const MARKS: [Mark; 4] = [Mark::Verified, Mark::Degraded, Mark::Short, Mark::AllTrusted];

#[cfg(test)]
mod tests;
