//! From numbers to words. Whether a notice holds depends on the numbers, and on whether it held before: it begins above one bound
//! and ends below another, so that a number that wavers does not make it come and go.

use super::notice::{Kind, Notice};
use super::sample::RangeSeen;
use super::seen::{ClientsSeen, CrowdedSeen, ENOUGH_ANSWERS, ENOUGH_SAMPLED, LackingSeen, PeerSeen, Seen};
use crate::config::{MANY_SERIES, MANY_SERIES_HINT, OLD_SHADOW_DAYS, OLD_SHADOW_HINT, many_series, old_shadow};
use crate::human::percent;
use crate::observe::history::Endings;
use crate::observe::lines::LogState;
use crate::units::Bytes;

/// Where all requests are counted, from no fewer of them lately.
const ENOUGH: f64 = 100.0;

/// A bound at which a notice begins, and one at which it ends.
struct Bounds {
    begins: f64,
    ends: f64,
}

impl Bounds {
    /// Whether the notice holds at this value; `held` before.
    fn hold(&self, value: f64, held: bool) -> bool {
        value > if held { self.ends } else { self.begins }
    }
}

/// Of requests whose forwarding header is not believed, and of one client among all.
const COLLAPSED: Bounds = Bounds { begins: 0.8, ends: 0.7 };

/// Of requests that lack a key.
const LACKING: Bounds = Bounds { begins: 0.5, ends: 0.4 };

/// Of an origin's requests: answered 5xx, or not as a whole.
const FAILING: Bounds = Bounds { begins: 0.05, ends: 0.02 };

/// The probability that a newcomer is refused because of others.
const CROWDED: Bounds = Bounds { begins: 0.001, ends: 0.0005 };

/// Peers that are named.
const MOST_PEERS: usize = 3;

/// A peer with less than this is not named.
const NAMED: f64 = 0.05;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// Everything that holds, the most urgent first. `before` is the list of the last look.
pub fn notices(seen: &Seen, before: &[Notice]) -> Vec<Notice> {
    let held = |kind: Kind, subject: &str| {
        let same = |notice: &&Notice| notice.kind == kind && (notice.subject == subject || subject.is_empty());
        before.iter().find(same)
    };
    let mut notices = Vec::new();
    notices.extend(seen.refusal.as_deref().map(refused));
    notices.extend(seen.origins_down.iter().map(|origin| down(origin)));
    let fails = |answers: &Endings| fails(answers, seen, held(Kind::OriginFails, &answers.origin));
    notices.extend(seen.answers.iter().filter_map(fails));
    let full = |answers: &Endings| full(answers, held(Kind::OriginFull, &answers.origin));
    notices.extend(seen.answers.iter().filter_map(full));
    notices.extend(seen.log_failing.map(unwritten));
    notices.extend(collapsed(&seen.clients, held(Kind::ClientsCollapsed, "")));
    notices.extend(seen.lacking.iter().filter_map(|key| lacking(key, held(Kind::KeyMissing, &key.limit))));
    let crowd = |sketch: &CrowdedSeen| crowded(sketch, held(Kind::SketchCrowded, &sketch.limit).is_some());
    notices.extend(seen.crowded.iter().filter_map(crowd));
    let old = seen.shadows.iter().filter(|(_, days)| *days > OLD_SHADOW_DAYS);
    notices.extend(
        old.map(|(limit, days)| Notice::new(Kind::ShadowOld, limit, old_shadow(limit, *days), OLD_SHADOW_HINT)),
    );
    notices.extend(seen.ranges.iter().filter_map(|range| unseen(range, seen, held(Kind::TrustUnseen, &range.written))));
    if seen.series > MANY_SERIES {
        notices.push(Notice::new(Kind::ManySeries, "", many_series(seen.series), MANY_SERIES_HINT));
    }
    notices
}

fn refused(diagnostics: &str) -> Notice {
    let text = "the last policy file was refused; the policy before it stays in force".to_owned();
    let hint = "mend what `tidegate check` tells, then `tidegate reload`; a restart would fail";
    Notice { details: diagnostics.trim_end().to_owned(), ..Notice::new(Kind::ReloadRefused, "", text, hint) }
}

fn down(origin: &str) -> Notice {
    let text = format!("origin `{origin}` is down: no address of it is in use");
    let hint = "its requests get 502 or 503, or go to an address that failed: try one yourself with `curl -i`";
    Notice::new(Kind::OriginDown, origin, text, hint)
}

fn full(answers: &Endings, held: Option<&Notice>) -> Option<Notice> {
    let Endings { origin, seconds, ended, shed, p50_seconds, .. } = answers;
    let asked = ended + shed;
    if asked < ENOUGH_ANSWERS {
        return held.filter(|_| asked > 0.0).cloned();
    }
    FAILING.hold(shed / asked, held.is_some()).then(|| {
        let time = match *p50_seconds {
            p if p < 0.9995 => format!("{:.0} ms", p * 1e3),
            p => format!("{p:.1} s"),
        };
        let text = format!(
            "the origin `{origin}` has no place for {} of its requests; half of the others wait up to {time} for their answer \
             (last {seconds} s)",
            percent(shed / asked)
        );
        let hint = "is it slow? Then more places make it slower. Is it asked for too much? See the offenders";
        Notice::new(Kind::OriginFull, origin, text, hint)
    })
}

fn unwritten(log: LogState) -> Notice {
    let LogState { dropped, errors } = log;
    let text = format!(
        "the access log cannot be written: {} failed attempts and {dropped} lost lines since the start",
        errors.unwrap_or(0)
    );
    Notice::new(
        Kind::LogFails,
        "access",
        text,
        "is its disk full? The process's log has the system's words; requests are served all the same",
    )
}

/// An origin that is down is told as that. One that is asked too seldom to judge stays what it was.
fn fails(answers: &Endings, seen: &Seen, held: Option<&Notice>) -> Option<Notice> {
    let Endings { origin, seconds, ended, server_errors, unanswered, .. } = answers;
    if seen.origins_down.contains(origin) {
        return None;
    }
    if *ended < ENOUGH_ANSWERS {
        return held.filter(|_| *ended > 0.0).cloned();
    }
    let share = |part: f64| percent(part / ended);
    FAILING.hold((server_errors + unanswered) / ended, held.is_some()).then(|| {
        let cut = match *unanswered {
            n if n > 0.0 => format!(" and gives {} no whole answer", share(n)),
            _ => String::new(),
        };
        let text = format!(
            "the origin `{origin}` answers 5xx to {} of its requests{cut} (last {seconds} s)",
            share(*server_errors)
        );
        let hint = "look at the origin itself: `tidegate status` has its answers by class and by route";
        Notice::new(Kind::OriginFails, origin, text, hint)
    })
}

/// Many clients behind a proxy are one client, if the proxy is not trusted to say for whom it asks.
fn collapsed(clients: &ClientsSeen, held: Option<&Notice>) -> Option<Notice> {
    let ignored_share = clients.ignored / clients.asked.max(1.0);
    if clients.asked >= ENOUGH && COLLAPSED.hold(ignored_share, held.is_some()) {
        let named = clients.peers.iter().filter(|peer| peer.ignored_header && peer.share >= NAMED);
        let peers: Vec<&PeerSeen> = named.take(MOST_PEERS).collect();
        let who = entries(&peers);
        let behind = if who.is_empty() { "each such peer".to_owned() } else { who.join(" and ") };
        let text = format!(
            "{} of all requests come with a forwarding header from a peer that is not trusted: everybody behind {behind} \
             is one client",
            percent(ignored_share)
        );
        return Some(Notice::new(Kind::ClientsCollapsed, who.join(", "), text, name_it(&who)));
    }
    let top = clients.peers.first().filter(|top| top.preset.is_some() && clients.sampled >= ENOUGH_SAMPLED);
    if let Some(top) = top.filter(|top| !top.ignored_header && COLLAPSED.hold(top.share, held.is_some())) {
        let who = entries(&[top]);
        let text = format!(
            "{} of all requests come from one client, {}, an address of the preset `{}`, and none says for whom",
            percent(top.share),
            who.join(""),
            top.preset.unwrap_or_default(),
        );
        let hint =
            "if it is a proxy: let it send `X-Forwarded-For` or a PROXY header, and name it in `trusted_proxies`";
        return Some(Notice::new(Kind::ClientsCollapsed, who.join(", "), text, hint));
    }
    // at night nothing is known that was not known before
    held.filter(|_| clients.asked < ENOUGH).cloned()
}

/// As they would stand in `trusted_proxies`.
fn entries(peers: &[&PeerSeen]) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for peer in peers {
        let entry = match peer.preset {
            // somebody else's networks are named by their preset, one's own by what they are
            Some(preset) if !matches!(preset, "private" | "loopback") => preset.to_owned(),
            _ => peer.network.clone(),
        };
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries
}

fn name_it(who: &[String]) -> String {
    if who.is_empty() {
        return "if these are proxies of yours, name their networks in `trusted_proxies`, then `tidegate reload`"
            .to_owned();
    }
    format!("if that is a proxy of yours: `trusted_proxies: [{}]`, then `tidegate reload`", who.join(", "))
}

fn lacking(key: &LackingSeen, held: Option<&Notice>) -> Option<Notice> {
    if key.asked < ENOUGH_SAMPLED {
        return held.cloned();
    }
    let share = key.lacking / key.asked;
    LACKING.hold(share, held.is_some()).then(|| {
        let LackingSeen { limit, key, .. } = key;
        let text = format!("{} of the requests under the limit `{limit}` lack its key, {key}", percent(share));
        let hint = "does something in front remove or rename it? If it is rightly absent, count by something else";
        Notice::new(Kind::KeyMissing, limit, text, hint)
    })
}

fn crowded(sketch: &CrowdedSeen, held: bool) -> Option<Notice> {
    let CrowdedSeen { limit, error, memory } = sketch;
    CROWDED.hold(*error, held).then(|| {
        let text = format!(
            "the limit `{limit}` refuses {} of newcomers because of others: its sketch of {memory} is too small for its load",
            percent(*error)
        );
        let hint = format!("give it more, such as `memory: {}`; at the reload it begins empty", Bytes(memory.0.saturating_mul(4)));
        Notice::new(Kind::SketchCrowded, limit, text, hint)
    })
}

/// An entry of `trusted_proxies` is judged after an hour, and forgotten after a day; and only while somebody asks.
fn unseen(range: &RangeSeen, seen: &Seen, held: Option<&Notice>) -> Option<Notice> {
    let (for_long, since) = match range.seen {
        None => (seen.now.saturating_sub(range.since) >= HOUR, range.since),
        Some(last) => (seen.now.saturating_sub(last) >= DAY, last),
    };
    if !for_long || (seen.sampled < ENOUGH_SAMPLED && held.is_none()) {
        return None;
    }
    let hours = seen.now.saturating_sub(since) / HOUR;
    let text = match range.seen {
        None => format!("nobody has come from {} of `trusted_proxies` in {hours} h", range.written),
        Some(_) => format!("nobody has come from {} of `trusted_proxies` for {hours} h", range.written),
    };
    let hint = "whoever gets an address there is believed about clients: remove it, unless it stands by";
    Some(Notice::new(Kind::TrustUnseen, range.written.as_ref(), text, hint))
}
