//! The baselines of `cargo bench --bench proxy` on the system's own allocator, which is what pingora's users get by default.
//!
//! An allocator belongs to a whole executable, so this is one of its own. `proxy` has it built and starts it.

mod bare;
mod parent;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if bare::serve(&arguments).is_none() {
        println!("a part of another benchmark: run `cargo bench --bench proxy`");
    }
}
