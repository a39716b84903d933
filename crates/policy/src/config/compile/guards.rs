//! Warnings about guarded paths that another spelling or method walks round.

use super::WrittenRoute;
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::settings::Settings;
use crate::policy::Policy;
use crate::policy::guard::{Difference, WayRound};
use crate::policy::route::{Ignore, PathMatch, Route};
use tidegate_http::path::EscapedSlash;

/// Warns of each route that has a way round. The policy must be without faults: what a faulty route takes is not known.
pub fn warn(policy: &Policy, settings: &Settings, written: &[WrittenRoute], faults: &mut Faults) {
    let mut words = settings.listeners.iter().map(|listener| listener.request_head.escaped_slash);
    let keeps = words.any(|word| word == EscapedSlash::Keep);
    for way in policy.ways_round(keeps) {
        let routes = [way.guard.0, way.taken_by];
        let ([Some(guard), Some(taken)], [Some(at), Some(other)]) =
            (routes.map(|index| policy.routes.route(index)), routes.map(|index| written.get(index)))
        else {
            continue;
        };
        let place = at.alternatives.get(way.guard.1).copied().unwrap_or(at.at);
        let request = match &way.method {
            Some(method) => format!("{method} {}", way.path),
            None => way.path.clone(),
        };
        let escapes = match &way.escapes {
            Some(limit) => format!("`{}` takes it, without the limit `{limit}`", taken.name),
            None => format!("`{}` takes it and sends it to an origin", taken.name),
        };
        faults.push(
            Diagnostic::new(Code::WALKED_ROUND, place, format!("`{request}` walks round the route `{}`", guard.name))
                .label(match way.difference {
                    Difference::Spelling(_) => "many origins read that spelling as this path",
                    Difference::Method => "many origins do the same for another method",
                })
                .related(other.at, escapes)
                .help(way_out(&way, guard)),
        );
    }
}

/// What to write instead.
fn way_out(way: &WayRound, guard: &Route) -> String {
    match way.difference {
        Difference::Method => "leave `method` out, so that each method counts; or, if the others may pass, give them a route of \
                               their own with the same `path`"
            .to_owned(),
        Difference::Spelling(Ignore::ESCAPED_SLASH) => {
            "remove `escaped_slash: keep`, or write `ignore: all` beside the path; `ignore: none` if the origin never decodes \
             `%2F` before it routes"
                .to_owned()
        }
        Difference::Spelling(_) => match guard.matches.get(way.guard.1).map(|asked| &asked.path) {
            Some(PathMatch::Exact(path)) => ignoring(&format!("={path}")),
            Some(PathMatch::Prefix(path)) => ignoring(path),
            Some(PathMatch::Regex(_)) | None => {
                "let the expression take it too, as `(?i)` does for capitals, or write `prefix` or `exact` with `ignore: all`".to_owned()
            }
        },
    }
}

fn ignoring(path: &str) -> String {
    format!(
        "write `path: {path} ignore all`, or name what the origin ignores; `ignore none` if it reads each spelling as a path of \
         its own"
    )
}
