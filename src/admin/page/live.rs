//! The numbers as they come: server-sent events, and the last ten minutes as JSON.
//!
//! Source: HTML Living Standard §9.2 (server-sent events).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::gather;
use super::render;
use super::view::Reader;
use crate::admin::events::Events;
use crate::admin::{Asked, Context};
use crate::observe::history::SECONDS;
use crate::small_server::Answer;

/// From one event to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a browser waits before it comes back, in milliseconds.
const RETRY: &str = "retry: 2000\n\n";

/// `GET /api/v1/history`: the last ten minutes of every route, limit and origin, or only the last `?seconds=N` of them.
pub fn history(context: &Arc<Context>, asked: &Asked) -> Answer {
    match asked.query("seconds").map(|text| text.parse()).transpose() {
        Ok(seconds) => Answer::json(StatusCode::OK, &context.process.history.lately(seconds.unwrap_or(SECONDS))),
        Err(_) => Answer::error(StatusCode::BAD_REQUEST, "`seconds` must be a whole number"),
    }
}

/// `GET /api/v1/stream`: an event every second, until the client leaves. `second` has the numbers of the last second; with
/// `?view=page`, `page` has the HTML of those sections of the page that have changed, the first time all of them.
pub fn stream(context: &Arc<Context>, asked: &Asked) -> Answer {
    let (events, answer) = match context.streams.begin() {
        Ok(begun) => begun,
        Err(refused) => return refused,
    };
    let (context, reader) = (Arc::clone(context), Reader::of(asked));
    match asked.query("view").as_deref() {
        Some("page") => drop(tokio::spawn(send_sections(context, events, reader))),
        _ => drop(tokio::spawn(send_seconds(context, events))),
    }
    answer
}

async fn send_seconds(context: Arc<Context>, events: Events) {
    let mut turns = turns();
    let mut sent = None;
    while !gone(&events, &mut turns).await {
        let second = context.process.history.lately(1);
        if second.second == sent {
            continue;
        }
        sent = second.second;
        if events.send(event("second", &second)).await.is_err() {
            return;
        }
    }
}

async fn send_sections(context: Arc<Context>, events: Events, reader: Reader) {
    let mut turns = turns();
    let mut sent: HashMap<&'static str, String> = HashMap::new();
    if events.send(RETRY).await.is_err() {
        return;
    }
    while !gone(&events, &mut turns).await {
        let told = Arc::clone(&context);
        // with very many limits it takes milliseconds, which no request should wait for
        let drawn = tokio::task::spawn_blocking(move || {
            render::sections(&gather::view(&told.process, &told.listeners, reader))
                .collect::<HashMap<&'static str, String>>()
        });
        // one that panicked has been reported, and the next may be better
        let Ok(drawn) = drawn.await else { continue };
        let changed: HashMap<&str, &String> = drawn
            .iter()
            .filter(|(name, html)| sent.get(*name) != Some(*html))
            .map(|(name, html)| (*name, html))
            .collect();
        if !changed.is_empty() && events.send(event("page", &changed)).await.is_err() {
            return;
        }
        sent = drawn;
    }
}

fn turns() -> tokio::time::Interval {
    let mut turns = interval(INTERVAL);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    turns
}

/// Waits for the next turn; says whether there is nobody to send to any more.
async fn gone(events: &Events, turns: &mut tokio::time::Interval) -> bool {
    tokio::select! {
        () = events.gone() => true,
        _ = turns.tick() => false,
    }
}

/// JSON has no line breaks of its own, which would end the data.
fn event(name: &str, data: &impl Serialize) -> String {
    // names and numbers only: nothing in it can fail
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}
