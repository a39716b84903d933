//! `"schema": "tidegate.replay/1"`.

use serde_json::{Value, json};

use super::instant;
use crate::replay::diff::Difference;
use crate::replay::outcome::{LimitOutcome, Outcome, Touched};

/// So many clients are named.
const CLIENTS: usize = 1_000;

/// The whole outcome.
pub fn json(outcome: &Outcome, against: Option<&(Outcome, Difference)>, log: &str, resolution: u64) -> Value {
    let tally = &outcome.tally;
    let mut value = json!({
        "schema": "tidegate.replay/1",
        "log": {
            "format": log,
            "resolution_ns": resolution,
            "lines": tally.lines,
            "requests": tally.requests,
            "other_lines": tally.other,
            "without_request": tally.no_request,
            "unreadable": tally.unreadable,
            "late": tally.late,
            "reorder_shortened": tally.shortened,
            "bytes": tally.bytes,
            "from": instant(tally.first / 1_000_000_000),
            "to": instant(tally.last / 1_000_000_000),
        },
        "judged": outcome.judged,
        "malformed": outcome.malformed,
        "unresolved": outcome.unresolved,
        "no_route": outcome.no_route,
        "refused": outcome.refused,
        "limited_before": outcome.limited_before,
        "clients": outcome.clients,
        "clients_capped": outcome.clients_capped,
        "limits": outcome.limits.iter().map(limit).collect::<Vec<_>>(),
        "touched": outcome.touched.iter().take(CLIENTS).map(|client| touched(client, outcome)).collect::<Vec<_>>(),
        "notes": outcome.notes,
    });
    if let (Some(then), Some(object)) = (&outcome.then, value.as_object_mut()) {
        let now = |[admitted, refused]: [u64; 2]| json!({ "admitted_now": admitted, "refused_now": refused });
        let then = json!({
            "admitted": now(then.admitted),
            "refused": now(then.refused),
            "refused_unfit": now(then.unfit),
            "refused_without_line": then.untold,
        });
        object.insert("then".to_owned(), then);
    }
    if let (Some((old, difference)), Some(object)) = (against, value.as_object_mut()) {
        let changed = difference.changed.iter().take(CLIENTS).map(|client| {
            json!({
                "client": client.name, "newly_limited": client.newly, "freed": client.freed,
                "refused_now": client.refused_now, "refused_before": client.refused_before,
            })
        });
        let against = json!({
            "newly_limited": difference.newly,
            "freed": difference.freed,
            "clients_newly_limited": difference.clients_newly,
            "clients_freed": difference.clients_freed,
            "refused": old.refused,
            "limits": old.limits.iter().map(limit).collect::<Vec<_>>(),
            "changed": changed.collect::<Vec<_>>(),
        });
        object.insert("against".to_owned(), against);
    }
    value
}

fn limit(limit: &LimitOutcome) -> Value {
    if let Some(why) = &limit.missing {
        return json!({ "name": limit.name, "mode": limit.mode(), "not_replayable": why });
    }
    json!({
        "name": limit.name,
        "mode": limit.mode(),
        "judged": limit.judged,
        "limited": limit.limited,
        "limited_share": limit.limited_share(),
        "delayed": limit.delayed,
        "clients": limit.clients,
        "clients_judged": limit.clients_judged,
        "clients_share": limit.clients_share(),
        "worst_minute": limit.worst_minute.map(|(minute, limited)| json!({ "at": instant(minute * 60), "limited": limited })),
        "error": limit.error.map(|error| json!({
            "asked": error.asked, "wrongly_limited": error.wrongly_limited, "most": error.most, "mean": error.mean,
        })),
    })
}

fn touched(client: &Touched, outcome: &Outcome) -> Value {
    let by =
        client.by.iter().filter_map(|(index, count)| Some((outcome.limits.get(*index)?.name.clone(), json!(count))));
    json!({
        "client": client.name,
        "requests": client.requests,
        "limited": client.limited,
        "by": by.collect::<serde_json::Map<_, _>>(),
        "path": client.path,
        "peak_per_second": client.peak,
        "from": instant(client.from / 1_000_000_000),
        "to": instant(client.to / 1_000_000_000),
    })
}
