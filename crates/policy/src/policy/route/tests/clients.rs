//! Matches that name clients.

use super::*;
use crate::client::{Client, ClientRules, Mark, resolve};
use crate::policy::client_list::Written;
use crate::units::Prefix;

/// Clients in 10.0.0.0/8 and those of UNIX sockets.
fn office() -> Option<Arc<ClientList>> {
    let written =
        Written { networks: vec![Prefix::around("10.0.0.0".parse().unwrap(), 8, 8)], unix: true, files: Vec::new() };
    Some(Arc::new(ClientList::new(written, Vec::new(), false)))
}

#[test]
fn a_named_client_is_more_than_the_files_order_and_less_than_a_parameter() {
    let with = |edit: fn(&mut Match)| {
        let mut found = alternative("* /");
        edit(&mut found);
        route(vec![found])
    };
    let table = RouteTable::new(vec![
        with(|_| ()),
        with(|found| found.client = office()),
        with(|found| found.query = vec![("v".into(), TextMatch::Exact("2".into()))]),
    ]);
    let client = |text: &str, mark| {
        let found = resolve(&ClientRules::default(), Peer::Ip(text.parse().unwrap()), &HeaderMap::new());
        let mut client = found.unwrap();
        client.mark = mark;
        client
    };
    let found = |client: Option<&Client>, query: Option<&str>| {
        let asked = Asked { query: query.map(str::to_owned), ..Asked::new("h", "/") };
        table.find(&asked.request(), client).unwrap().map(|(index, _)| index)
    };
    let inside = client("10.1.2.3", Mark::Verified);
    assert_eq!(found(Some(&inside), None), Some(1));
    assert_eq!(found(Some(&inside), Some("v=2")), Some(2));
    assert_eq!(found(Some(&client("11.1.2.3", Mark::Verified)), None), Some(0));
    // what anybody can bring about by an unreadable field opens no route
    assert_eq!(found(Some(&client("10.1.2.3", Mark::Degraded)), None), Some(0));
    assert_eq!(found(Some(&client("10.1.2.3", Mark::Short)), None), Some(0));
    assert_eq!(found(None, None), Some(0));
}
