//! Every ordering that the tables state is needed: taken away, one at a time, a model fails.
//!
//! A model that passes with an ordering taken away does not see what needs it. The few that none can fail for are listed with
//! the reason.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;

use tidegate_limits::sync::{Site, Without, orderings, weakened};

use crate::{deltas, leases, levels, quietly, seen, sliding, summing, tokens};

type Model = (&'static str, fn());

macro_rules! models {
    ($($module:ident::$name:ident),* $(,)?) => { &[$((stringify!($name), $module::$name)),*] };
}

/// An ordering that no model fails without: a part of its line, and why it stands.
type Spared = (&'static str, &'static str, Without, &'static str);

const SPARED: &[Spared] = &[
    ("levels", "self.compare_exchange(from, to, Ordering::AcqRel", Without::Acquire, LOADED),
    ("summing", "sum.saturating_sub(cost)", Without::Acquire, "whoever takes out reads nothing after it"),
    ("deltas", "self.word.compare_exchange(", Without::Acquire, LATER),
    ("deltas", "self.word.compare_exchange(", Without::Release, LATER),
];

/// Whoever exchanges a word has loaded it with acquire, and it never comes back.
const LOADED: &str = "the load before it acquires the same";

/// What would fail is a later write that another thread reads before an earlier read of the writer's. Loom runs the steps of a
/// thread in their order, and so never shows it; the processors that do would need this ordering.
const LATER: &str = "keeps a later write from an earlier read, which loom never exchanges";

fn source(site: Site) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src").join(site.file);
    let text = fs::read_to_string(file).unwrap();
    text.lines().nth(site.line as usize - 1).unwrap().trim().to_owned()
}

/// On a thread of its own, as what is taken away is the thread's.
fn fails(model: fn(), site: Site, without: Without) -> bool {
    let search = move || quietly(|| catch_unwind(AssertUnwindSafe(|| weakened(site, without, model))));
    let Err(panic) = thread::spawn(search).join().unwrap() else { return false };
    let message = panic.downcast_ref::<String>().cloned().or(panic.downcast_ref::<&str>().map(|text| text.to_string()));
    let message = message.unwrap_or_default();
    // what loom says when it can not go on is no refutation
    assert!(!message.contains("Model exceeded"), "{site}: {message}");
    true
}

/// Takes away, one at a time, what the models of a table order in these files.
fn every_ordering_is_needed(table: &str, files: &[&str], models: &[Model]) {
    let mut sites: BTreeMap<(Site, usize), (Without, Vec<Model>)> = BTreeMap::new();
    for model in models {
        for (site, halves) in orderings(model.1).into_iter().filter(|(site, _)| files.contains(&site.file)) {
            for half in halves {
                sites.entry((site, half as usize)).or_insert((half, Vec::new())).1.push(*model);
            }
        }
    }
    assert!(!sites.is_empty(), "{table} orders nothing");
    let mut faults = Vec::new();
    for ((site, _), (without, models)) in sites {
        let line = source(site);
        let needs = models.iter().find(|(_, model)| fails(*model, site, without)).map(|(name, _)| *name);
        let spared = SPARED.iter().find(|(of, part, half, _)| *of == table && line.contains(part) && *half == without);
        println!(
            "{table} | {site} `{line}` | {without:?} | {}",
            needs.or(spared.map(|spared| spared.3)).unwrap_or("-")
        );
        match (needs, spared) {
            (None, None) => faults.push(format!("{site}: no model of {table} needs {without:?}: {line}")),
            (Some(model), Some(_)) => {
                faults.push(format!("{site}: {model} needs {without:?}, which is listed: {line}"))
            }
            _ => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn of_the_levels() {
    every_ordering_is_needed(
        "levels",
        &["sketch/monotone.rs", "sketch/rekeyed.rs", "sketch/exact.rs"],
        models![
            levels::requests_by_cells_that_race_with_either_step_are_charged_on_top_of_each_other,
            levels::a_thread_that_sleeps_until_its_table_is_cleared_admits_nothing_by_what_it_sees,
            levels::maintenances_one_after_the_other_never_shorten_an_overlap,
            levels::a_key_that_is_evicted_while_it_asks_gets_no_fresh_budget,
            levels::requests_that_race_with_the_opening_of_an_overlap_share_the_last_unit,
            levels::two_threads_that_promote_one_key_share_its_units_exactly,
        ],
    );
}

#[test]
fn of_the_sliding_windows() {
    every_ordering_is_needed(
        "sliding",
        &["sketch/sliding.rs"],
        models![
            sliding::two_requests_that_cross_at_a_boundary_keep_the_promise,
            sliding::two_requests_that_cross_at_a_boundary_while_the_tables_change_keep_the_promise,
        ],
    );
}

#[test]
fn of_the_set_of_seen_pairs() {
    every_ordering_is_needed(
        "seen",
        &["sketch/seen.rs"],
        models![
            seen::an_insertion_that_comes_late_is_swept_or_taken_back,
            seen::a_mark_is_believed_only_with_what_it_promises,
            seen::an_insertion_a_sweep_and_a_look_up_meet_in_one_bucket,
        ],
    );
}

#[test]
fn of_the_summing_table() {
    every_ordering_is_needed(
        "summing",
        &["sketch/summing.rs"],
        models![
            summing::two_threads_share_the_last_place_exactly,
            summing::two_guesses_at_once_never_get_through_beyond_the_limit,
            summing::racers_that_refuse_each_other_look_again_and_one_is_admitted,
        ],
    );
}

#[test]
fn of_the_deltas() {
    every_ordering_is_needed(
        "deltas",
        &["limiter/sharing/deltas.rs"],
        models![
            deltas::every_unit_is_told_once_and_under_its_own_name,
            deltas::a_slot_that_changes_hands_mixes_no_units,
        ],
    );
}

#[test]
fn of_the_rates_bucket() {
    every_ordering_is_needed("bucket", &["door/bucket.rs"], models![tokens::other_numbers_lose_and_find_no_unit]);
}

#[test]
fn of_the_refusals_that_leases_remember() {
    every_ordering_is_needed(
        "refusals",
        &["limiter/sharing/leases/refusals.rs"],
        models![leases::a_refusal_that_races_with_a_grant_of_its_key_is_not_remembered],
    );
}
