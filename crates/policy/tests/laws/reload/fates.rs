//! What a reload says became of each limit.

use tidegate_policy::engine::Reset;

use super::*;

#[test]
fn what_is_told_of_each_limit_is_what_happened_to_it() {
    let told = |before: &str, after: &str| {
        let gate = first(before);
        let succession = reload(&gate, of(after), START).1;
        succession.limits[0].fate.clone()
    };
    let kept = Fate::Kept { from: None };
    let rate = "rate: 5/s, burst: 5";
    assert_eq!(told(rate, rate), kept);
    assert_eq!(told(rate, "rate: 5/s, burst: 5, mode: shadow"), kept);
    assert_eq!(told(rate, "rate: 5/s, burst: 5, action: close"), kept);
    assert_eq!(told(rate, "rate: 5/s, burst: 5, tiers: [{ when: { cidr: 10.0.0.0/8 }, rate: 9/s }]"), kept);
    assert_eq!(told(rate, "rate: 5/s, burst: 5, key: [client_ip]"), kept);
    assert_eq!(told(rate, "rate: 5/s, burst: 5, key: [client_ip, path]"), Fate::Reset(Reset::Key));
    assert_eq!(told(rate, "type: quota, max: 5, window: 60s"), Fate::Reset(Reset::Type));
    let quota = |window: &str| format!("type: quota, max: 5, {window}");
    for window in ["window: 30s", "per: day", "per: month, time_zone: Asia/Tokyo"] {
        let fate = told(&quota("window: 60s"), &quota(window));
        assert!(matches!(fate, Fate::Rerated { .. }), "{window}: {fate:?}");
    }
    let sliding = |window: &str| quota(&format!("{window}, sliding: true"));
    assert_eq!(told(&quota("window: 60s"), &sliding("window: 60s")), Fate::Reset(Reset::Window));
    assert_eq!(told(&sliding("window: 60s"), &sliding("window: 30s")), Fate::Reset(Reset::Window));
    let smaller = policy("  one: { memory: 2MiB, rate: 5/s, burst: 5 }", "one");
    assert_eq!(first(rate).followed_by(smaller, at(START)).unwrap().1.limits[0].fate, Fate::Reset(Reset::Memory));
    assert!(matches!(told(rate, "rate: 6/s, burst: 5"), Fate::Rerated { .. }));
    let limit = format!("  one: {{ memory: 1MiB, {rate} }}");
    for (words, fate) in
        [("client_ip: { ipv6_prefix: 56 }", Fate::Reset(Reset::Key)), ("client_ip: { ipv6_prefix: 64 }", kept)]
    {
        let policy = policy_beside(words, &limit, "one");
        assert_eq!(first(rate).followed_by(policy, at(START)).unwrap().1.limits[0].fate, fate, "{words}");
    }
}

#[test]
fn a_limit_shared_through_another_store_begins_anew() {
    let told = |before: [&str; 2], after: [&str; 2]| {
        let policy = |[store, limit]: [&str; 2]| {
            let words = format!("secrets: {{ client_hmac: 0123456789abcdef }}\nstores: {{ {store} }}");
            policy_beside(&words, &format!("  one: {{ memory: 1MiB, rate: 5/s, burst: 5, {limit} }}"), "one")
        };
        let gate = Engine::new(policy(before), &Seed::from_bytes([5; 16]), 0).unwrap();
        gate.followed_by(policy(after), at(START)).unwrap().1.limits[0].fate.clone()
    };
    let (kept, reset) = (Fate::Kept { from: None }, Fate::Reset(Reset::Store));
    let s = r#"s: { url: "redis://127.0.0.1:6379" }"#;
    let shared = [s, "store: s"];
    assert_eq!(told(shared, shared), kept);
    assert_eq!(told(shared, [s, "store: s, sharing: lease, on_store_error: open"]), kept);
    assert_eq!(told(shared, [r#"s: { url: "redis://127.0.0.1:6380", timeout: 9ms }"#, "store: s"]), kept);
    assert_eq!(told(shared, [s, "store: s, sharing: exact"]), reset);
    assert_eq!(told(shared, [s, "action: reject"]), reset);
    assert_eq!(told([s, "action: reject"], shared), reset);
    assert_eq!(told(shared, [r#"t: { url: "redis://127.0.0.1:6379" }"#, "store: t"]), reset);
    assert_eq!(told(shared, [r#"s: { url: "redis://127.0.0.1:6379", prefix: "x:" }"#, "store: s"]), reset);
    assert_eq!(told(shared, [r#"s: { url: "redis://127.0.0.1:6379/1" }"#, "store: s"]), reset);
    assert_eq!(Reset::Store.to_string(), "store changed");
}

#[test]
fn a_renamed_limit_goes_on_and_a_new_one_of_the_old_name_does_not() {
    let gate = first("rate: 1/h, burst: 1");
    assert!(admits(&gate, "192.0.2.1", START));
    let renamed = "  two: { memory: 1MiB, rate: 1/h, burst: 1, renamed_from: one }";
    let (next, told) = reload(&gate, policy(renamed, "two"), START);
    assert_eq!(fate(&told), &Fate::Kept { from: Some("one".into()) });
    assert_eq!(told.removed, [""; 0]);
    assert!(!admits(&next, "192.0.2.1", START));
    // the word may stay in the file
    let (next, told) = reload(&next, policy(renamed, "two"), START);
    assert_eq!(fate(&told), &Fate::Kept { from: None });
    assert!(!admits(&next, "192.0.2.1", START));
    let (fresh, told) = reload(&gate, policy("  two: { memory: 1MiB, rate: 1/h, burst: 1 }", "two"), START);
    assert_eq!((fate(&told), told.removed.as_slice()), (&Fate::New, ["one".to_owned()].as_slice()));
    assert!(admits(&fresh, "192.0.2.1", START));
}

#[test]
fn an_unchanged_limit_is_the_very_same_object() {
    let gate = first("rate: 5/s, burst: 5");
    let (next, _) = reload(&gate, of("rate: 5/s, burst: 5"), START);
    assert!(std::sync::Arc::ptr_eq(&gate.limiters()[0], &next.limiters()[0]));
    assert_eq!((gate.generation(), next.generation()), (1, 2));
}
