//! The examples, run: each does what its comments and the README say.

#[allow(dead_code, reason = "its `main` prints for people")]
#[path = "../examples/bare_loop.rs"]
mod bare_loop;
#[allow(dead_code, reason = "its `main` prints for people")]
#[path = "../examples/tower_layer.rs"]
mod tower_layer;

#[test]
fn the_bare_loop_admits_three_at_once_and_then_five_a_second() {
    let decisions = bare_loop::decisions().unwrap();
    let admitted: Vec<usize> = (0..decisions.len()).filter(|step| decisions[*step]).map(|step| 50 * step).collect();
    assert_eq!(admitted, [0, 50, 100, 200, 400, 600, 800], "milliseconds");
}

#[test]
fn the_tower_layer_refuses_the_fourth_and_says_when_to_come_again() {
    let outcomes = tower_layer::outcomes().unwrap();
    assert_eq!(outcomes[..3], [Ok("hello"); 3]);
    for refused in &outcomes[3..] {
        let wait = refused.unwrap_err().expect("a rate knows when its next unit comes");
        assert!((59_000_000_000..=60_000_000_000).contains(&wait), "{wait}");
    }
}
