//! What an origin does about sick servers, as it is in force.

use crate::config::scalar::duration;
use crate::config::setting::Setting;
use crate::config::tree::Tree;
use crate::config::word::{RetryOn, Word};
use crate::limiter::adaptive::AdaptiveSpec;
use crate::policy::{HealthCheck, Probe, Retries};
use crate::units::Share;

/// `retries`.
pub fn retries(retries: &Retries) -> Tree {
    let reasons = [
        (retries.on_connect_error, RetryOn::ConnectError),
        (retries.on_reset_before_answer, RetryOn::ResetBeforeAnswer),
        (retries.on_timeout, RetryOn::Timeout),
    ];
    let on = reasons.iter().filter(|(is_one, _)| *is_one).map(|(_, word)| word.word());
    let mut tree = vec![("max", Tree::text(retries.max)), ("on", Tree::texts(on))];
    tree.extend(retries.budget.map(|budget| ("budget", Share::tree(&budget))));
    Tree::map(tree)
}

/// `health`.
pub fn health(check: &HealthCheck) -> Tree {
    let mut tree = match &check.probe {
        Probe::Tcp => vec![("type", Tree::text("tcp"))],
        Probe::Http { path, host, statuses } => {
            let mut tree = vec![("type", Tree::text("http")), ("path", Tree::text(path))];
            tree.extend(host.as_ref().map(|host| ("host", Tree::text(host))));
            tree.push(("status", Tree::text(statuses)));
            tree
        }
    };
    tree.extend([
        ("every", Tree::text(duration(check.every))),
        ("timeout", Tree::text(duration(check.timeout))),
        ("healthy_after", Tree::text(check.healthy_after)),
        ("unhealthy_after", Tree::text(check.unhealthy_after)),
    ]);
    Tree::map(tree)
}

/// `adaptive`.
pub fn adaptive(adaptive: &AdaptiveSpec) -> Tree {
    let mut tree = vec![("algorithm", Tree::text(adaptive.algorithm.word())), ("min", Tree::text(adaptive.min))];
    tree.extend(
        adaptive
            .target
            .map(|target| ("target", Tree::text(format!("p{}<{}", target.percentile, duration(target.bound))))),
    );
    Tree::map(tree)
}
