//! Places that are counted exactly.

use super::*;
use crate::sketch::KeyHasher;

fn place(route: usize, origin: Option<usize>) -> Place {
    Place { key: KeyHasher::new(&Seed::from_bytes([0; 16])).finish(), route, origin, ..Place::default() }
}

fn limit(max: u32, scope: Scope, routes: usize, origins: usize) -> ExactState {
    let kind = Kind::from(Inflight { max, upgraded: 1, scope });
    let spec = Spec { routes, origins, ..Spec::new("tested", std::slice::from_ref(&kind)) };
    ExactState::new(&spec).unwrap()
}

fn fits(limit: &ExactState, place: Place) -> bool {
    limit.probe(&place, Timestamp::ZERO, Cost::ONE, 0).judgement.admitted
}

fn take(limit: &ExactState, place: Place) -> Option<(Judgement, Taken)> {
    let (judgement, taken) = limit.commit(&Probe::unasked(&place, Cost::ONE), Timestamp::ZERO).ok()?;
    Some((judgement, taken?))
}

#[test]
fn the_cap_holds_and_a_dropped_permit_is_a_free_place() {
    let limit = limit(2, Scope::Global, 1, 1);
    let (first, a) = take(&limit, place(0, None)).unwrap();
    let (second, b) = take(&limit, place(0, None)).unwrap();
    assert_eq!((first.remaining, second.remaining), (1, 0));
    assert!(!fits(&limit, place(0, None)));
    assert!(take(&limit, place(0, None)).is_none());
    drop(a);
    assert!(take(&limit, place(0, None)).is_some());
    drop(b);
    assert_eq!(limit.held(), 0);
}

#[test]
fn scopes_keep_routes_and_origins_apart() {
    let by_route = limit(1, Scope::Route, 2, 0);
    let _held = take(&by_route, place(0, None)).unwrap();
    assert!(!fits(&by_route, place(0, None)));
    assert!(fits(&by_route, place(1, None)));
    let by_origin = limit(1, Scope::Origin, 1, 2);
    let _held = take(&by_origin, place(0, Some(1))).unwrap();
    assert!(!fits(&by_origin, place(0, Some(1))));
    assert!(fits(&by_origin, place(0, Some(0))));
    assert!(fits(&by_origin, place(0, None)));
    assert!(!fits(&by_origin, place(0, Some(7))), "an origin that does not exist has no places");
}

#[test]
fn a_switched_connection_leaves_its_place_to_others() {
    let limit = limit(1, Scope::Global, 1, 1);
    let (_, mut stream) = take(&limit, place(0, None)).unwrap();
    assert!(take(&limit, place(0, None)).is_none());
    assert!(stream.upgrade());
    assert_eq!((limit.held(), limit.upgraded()), (0, 1));
    let (_, mut second) = take(&limit, place(0, None)).unwrap();
    assert!(!second.upgrade(), "the class has its own bound");
    assert_eq!((limit.held(), limit.upgraded()), (1, 1));
    drop((stream, second));
    assert_eq!((limit.held(), limit.upgraded()), (0, 0));
}
