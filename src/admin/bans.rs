//! Bans: `POST /api/v1/ban`, `POST /api/v1/unban`, `GET /api/v1/bans`, `POST /api/v1/bans/networks`.
//!
//! A target is named as [`whom`] reads it, or as `LIMIT=VALUE`: a key of a limit. Bans that would reach the gate's own surroundings
//! need `force`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;
use serde::Deserialize;

use super::asked::Asked;
use super::context::Context;
use super::endpoint::Later;
use super::whom;
use crate::bans::{Ban, Full, MOST_BANS, Order, Target, key_request};
use crate::client::address::Translation;
use crate::client::{ClientNetwork, Mark};
use crate::engine::Engine;
use crate::observe::state::{BanState, Banned, Bans, NamedNetworks, Unbanned};
use crate::running::bans;
use crate::running::kept_bans::Kept;
use crate::small_server::{Answer, Origin};
use crate::system::clock::wall_nanos;
use crate::units::Prefix;

/// How long an order waits for stores. It is in force meanwhile, and shared later all the same.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest ban: a year. Who is to stay out for good belongs in `deny:` of the policy.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// Networks of fewer bits hold too much of the Internet to be banned by mistake.
const WIDEST: (u8, u8) = (8, 19);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// An address, a network, `unix`, a name from log or lists, or `LIMIT=VALUE`.
    target: String,
    /// How long the ban lasts.
    for_seconds: u64,
    /// The reason.
    #[serde(default)]
    why: String,
    /// Who asks, by the name that the machine knows.
    #[serde(default)]
    by: String,
    /// Ban even what the gate's own surroundings are in.
    #[serde(default)]
    force: bool,
    /// The address that whoever asks is connected from, if there is one.
    #[serde(default)]
    from: Option<IpAddr>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lifted {
    /// A ban's number, or a target as in [`Wanted`].
    target: String,
}

/// `POST /api/v1/ban`. The ban is in force at once, and the answer comes when it is on disk too, if it is to be.
pub fn ban(context: Arc<Context>, asked: Asked) -> Later {
    Box::pin(async move {
        match given(&context, &asked) {
            Ok(ban) => {
                let (kept, waiting_for) = keep(&context).await;
                let (on_disk, has_directory) = (kept == Kept::OnDisk, kept != Kept::NoDirectory);
                let schema = "tidegate.ban/1".into();
                Answer::json(StatusCode::OK, &Banned { ban, on_disk, has_directory, waiting_for, schema })
            }
            Err(refusal) => refusal,
        }
    })
}

/// `POST /api/v1/unban`. As above.
pub fn unban(context: Arc<Context>, asked: Asked) -> Later {
    Box::pin(async move {
        match lifted(&context, &asked) {
            Ok(lifted) => {
                let (kept, waiting_for) = keep(&context).await;
                let (on_disk, has_directory) = (kept == Kept::OnDisk, kept != Kept::NoDirectory);
                let schema = "tidegate.unban/1".into();
                let told = Unbanned { lifted, on_disk, has_directory, waiting_for, schema };
                Answer::json(StatusCode::OK, &told)
            }
            Err(refusal) => refusal,
        }
    })
}

/// Waits for an order to be on disk, and in the stores that share bans. Returns the names of those that do not have it in time.
async fn keep(context: &Context) -> (Kept, Vec<String>) {
    let kept = &context.process.kept_bans;
    let generation = context.process.generation();
    let stores = join_all(generation.stores().iter().map(|store| async {
        let has = store.has_bans_within(PATIENCE).await;
        (!has).then(|| store.spec().name.clone())
    }));
    let (kept, stores) = tokio::join!(kept.kept(kept.changed()), stores);
    (kept, stores.into_iter().flatten().collect())
}

/// Gives a ban, and tells it.
fn given(context: &Context, asked: &Asked) -> Result<BanState, Answer> {
    let wanted: Wanted = asked.json()?;
    if context.process.handing_over() {
        let why = "an upgrade is under way, and would not take this ban along: try again in a moment";
        return Err(Answer::error(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let length = Duration::from_secs(wanted.for_seconds);
    if length.is_zero() || length > LONGEST {
        let why = "a ban lasts from 1 second to 365 days; `deny:` in the policy keeps a network out for good";
        return Err(Answer::error(StatusCode::BAD_REQUEST, why));
    }
    let target = target(context, &wanted.target)?;
    let generation = context.process.generation();
    let engine = generation.engine();
    if !wanted.force
        && let Some(why) = objection(engine, &target, wanted.from)
    {
        return Err(Answer::error(StatusCode::CONFLICT, format!("{why}; ban it all the same with --force")));
    }
    let user = match asked.request().origin {
        Origin::Unix { user } => format!("user {user}"),
        Origin::Tcp => "the web address's token".to_owned(),
    };
    let by = if wanted.by.is_empty() { user } else { format!("{} ({user})", wanted.by) };
    let now = context.process.clock.now();
    let (until, why) = (now.after(length), wanted.why);
    let order = Order { target, given: wall_nanos(), until, by, why, automatic: false, in_row: None, elsewhere: false };
    match engine.bans().give(order, now) {
        Ok(ban) => {
            let told = bans::state_of(&context.process, &ban, context.process.clients_in_log());
            let BanState { number, target, by, why, .. } = &told;
            tracing::info!(ban = number, client = target, by, why, seconds = wanted.for_seconds, "banned");
            Ok(told)
        }
        Err(Full) => {
            let why =
                format!("{MOST_BANS} bans are in force already; lift one, or keep long lists in a file of `deny:`");
            Err(Answer::error(StatusCode::CONFLICT, why))
        }
    }
}

/// Lifts bans, and tells them.
fn lifted(context: &Context, asked: &Asked) -> Result<Vec<BanState>, Answer> {
    let Lifted { target: text } = asked.json()?;
    if context.process.handing_over() {
        let why = "an upgrade is under way: try again in a moment";
        return Err(Answer::error(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let now = context.process.clock.now();
    let number: Option<u32> = text.parse().ok();
    let meant = if number.is_some() { None } else { target(context, &text).ok() };
    let is_it = |ban: &Ban| {
        number == Some(ban.number)
            || meant.as_ref() == Some(&ban.target)
            || (number.is_none() && is_called(context, &ban.target, &text))
    };
    let generation = context.process.generation();
    let all = generation.engine().bans();
    if number.is_none() && meant.is_none() && all.list(now).iter().filter(|ban| is_it(ban)).count() > 1 {
        return Err(whom::several(&text));
    }
    let state_of = |ban: &Arc<Ban>| bans::state_of(&context.process, ban, context.process.clients_in_log());
    let lifted: Vec<BanState> = all.lift(is_it, now, wall_nanos()).iter().map(state_of).collect();
    if lifted.is_empty() {
        return Err(Answer::error(StatusCode::NOT_FOUND, "there is no such ban: `tidegate bans` has the list"));
    }
    for BanState { number, target, .. } in &lifted {
        tracing::info!(ban = number, client = target, "ban lifted");
    }
    Ok(lifted)
}

/// `GET /api/v1/bans`. `?clients=address`: on the socket only.
pub fn list(context: &Arc<Context>, asked: &Asked) -> Answer {
    let form = match context.form_of_clients(asked) {
        Ok(form) => form,
        Err(refusal) => return refusal,
    };
    let told = Bans { bans: bans::all(&context.process, form), most: MOST_BANS, schema: "tidegate.bans/1".into() };
    Answer::json(StatusCode::OK, &told)
}

/// `POST /api/v1/bans/networks`: by their addresses, so on the socket only. A network inside of another is left to that one.
pub fn networks(context: &Arc<Context>, _: &Asked) -> Answer {
    let now = context.process.clock.now();
    let generation = context.process.generation();
    let engine = generation.engine();
    let in_force = engine.bans().list(now);
    let translation = &engine.policy().clients.translation;
    let network = |ban: &Arc<Ban>| match &ban.target {
        // the ban is of a client there, a firewall's would be of all
        Target::Network(network) if ban.automatic && Translation::any_in(*network, translation) => None,
        Target::Network(network) => Some((*network, ban.until.since(now).as_secs())),
        Target::Client { .. } | Target::Key { .. } => None,
    };
    let mut networks: Vec<(Prefix, u64)> = in_force.iter().filter_map(network).collect();
    let left_out = in_force.len() - networks.len();
    // a firewall's set takes each address once; networks sort behind those that they lie in
    networks.sort_unstable();
    let mut around: Option<Prefix> = None;
    networks.retain(|(network, _)| {
        let inside = around.is_some_and(|around| around.contains(network.address()));
        if !inside {
            around = Some(*network);
        }
        !inside
    });
    let networks = networks.into_iter().map(|(network, seconds)| (network.to_string(), seconds)).collect();
    Answer::json(StatusCode::OK, &NamedNetworks { networks, left_out, schema: "tidegate.bans.networks/1".into() })
}

/// Returns whether lists call a target so, now or under an earlier key, or a pseudonym of it begins so.
fn is_called(context: &Context, target: &Target, text: &str) -> bool {
    let (mark, network) = match target {
        Target::Network(network) => (Mark::Verified, ClientNetwork::Prefix(*network)),
        Target::Client { network, mark } => (*mark, *network),
        Target::Key { .. } => {
            return bans::name_of(&context.process, target, context.process.clients_in_log()) == text;
        }
    };
    context.process.pseudonyms.all_named(mark, network).any(|name| name.is_meant(text))
}

/// The target that an operator wrote.
fn target(context: &Context, text: &str) -> Result<Target, Answer> {
    let bad = |why: String| Answer::error(StatusCode::BAD_REQUEST, why);
    let generation = context.process.generation();
    if let Some((limit, value)) = text.split_once('=') {
        let policy = generation.engine().policy();
        let Some(rule) = policy.rules.iter().find(|rule| rule.name == limit) else {
            return Err(Answer::error(StatusCode::NOT_FOUND, format!("there is no limit `{limit}`")));
        };
        let made = key_request(&rule.key, &policy.clients, value).map_err(|fault| bad(fault.to_string()))?;
        let table = generation.engine().bans().table();
        let hashes = table.hashes((&rule.name, &rule.key), &made.request(), &made.client, &made.route);
        return match hashes.as_ref().map(|(secret, hashes)| (*secret, hashes.as_slice())) {
            Some((secret, [hash])) => Ok(Target::Key { limit: rule.name.clone(), secret, hash: *hash }),
            _ => Err(bad(format!("a request has no one key of `{limit}` with this value"))),
        };
    }
    if let Some(network) = whom::network_called(context, text)? {
        return Ok(Target::Network(network));
    }
    let found = whom::find(context, text)?;
    Ok(match (found.network, found.clients.first()) {
        (Some(network), _) => Target::Network(network),
        (None, Some(client)) => match (client.network, client.mark) {
            (ClientNetwork::Prefix(network), Mark::Verified) => Target::Network(network),
            (network, mark) => Target::Client { network, mark },
        },
        // `find` gives one
        (None, None) => return Err(bad("nobody".to_owned())),
    })
}

/// Why a ban of this target may be a mistake.
fn objection(engine: &Engine, target: &Target, from: Option<IpAddr>) -> Option<String> {
    let network = match target {
        Target::Network(network) => *network,
        Target::Client { network: ClientNetwork::Unix, .. } => {
            return Some("all clients of UNIX sockets are one client: this bans all of them".to_owned());
        }
        Target::Client { .. } | Target::Key { .. } => return None,
    };
    let (ipv4, ipv6) = WIDEST;
    let widest = if network.address().is_ipv4() { ipv4 } else { ipv6 };
    if network.length() < widest {
        return Some(format!("{network} is wider than a /{widest}: it holds a large part of the Internet"));
    }
    if from.is_some_and(|from| network.contains(from)) {
        return Some("you are connected from this network yourself".to_owned());
    }
    if Translation::any_in(network, &engine.policy().clients.translation) {
        return Some("all clients behind a translator (NAT64) are in this network".to_owned());
    }
    if engine.policy().clients.trust.names(network) {
        let why = "a trusted proxy is in this network: its health checks and each request with an unreadable forwarding header \
                   would be refused";
        return Some(why.to_owned());
    }
    let own = ["127.0.0.0", "::1"].iter().filter_map(|text| text.parse().ok()).map(|at| Prefix::around(at, 8, 128));
    let meets = |own: Prefix| network.contains(own.address()) || own.contains(network.address());
    own.into_iter().any(meets).then(|| "this machine's own addresses are in this network".to_owned())
}
