//! The lock-free tables of the product under a model checker: loom runs the interleavings that C11 allows, up to a bound on
//! preemptions, of the files that serve, with the orderings that they state.

mod deltas;
mod door;
mod leases;
mod levels;
mod monotone;
mod orderings;
mod pardons;
mod quantile;
mod seen;
#[path = "../../tests/sketch/shorthand.rs"]
mod shorthand;
mod sliding;
mod summing;
mod tokens;

use std::cell::Cell as Flag;
use std::sync::{Arc, Mutex, Once};

use shorthand::{at, broken_interval, bucket, cost, key};

/// Runs `body` in the interleavings with so many preemptions at most: in all of them, or in the first so many.
fn explore(preemptions: usize, runs: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    if let Some(runs) = runs {
        model.max_permutations = Some(runs);
        // loom looks at the bound at its checkpoints only, which are 20,000 runs apart unless told otherwise
        model.checkpoint_interval = runs;
    }
    model.max_branches = 100_000;
    model.check(body);
}

/// What `find` finds on words of the model checker, which exist in a model only.
fn once<T: Send + 'static>(find: impl Fn() -> T + Send + Sync + 'static) -> T {
    let found = Arc::new(Mutex::new(None));
    let put = found.clone();
    loom::model(move || *put.lock().unwrap() = Some(find()));
    found.lock().unwrap().take().unwrap()
}

thread_local! {
    static QUIET: Flag<bool> = const { Flag::new(false) };
}

/// Runs `search` without the panic message of a refuted model, which would read like a failure of the test.
pub fn quietly<T>(search: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                print(panic);
            }
        }));
    });
    QUIET.set(true);
    let found = search();
    QUIET.set(false);
    found
}
