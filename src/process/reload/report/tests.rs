use super::*;
use crate::engine::Reset;

#[test]
fn it_says_what_the_operator_wants_to_know() {
    let change = |path: &str, from: Option<&str>, to: Option<&str>| Change {
        path: path.into(),
        from: from.map(Value::from),
        to: to.map(Value::from),
    };
    let mut changed = vec![
        change("limits.login.rate", Some("10/m"), Some("5/m")),
        change("limits.login.mode", Some("shadow"), Some("enforce")),
        change("routes.graphql", None, Some("all of it")),
        change("responses.expose", None, Some("true")),
    ];
    let carried = |name: &str, fate| Carried { name: name.into(), fate };
    let succession = Succession {
        limits: vec![
            carried("all", Fate::Kept { from: None }),
            carried("two", Fate::Kept { from: Some("one".into()) }),
            carried("login", Fate::Rerated { from: None }),
            carried("api_tier", Fate::Reset(Reset::Key)),
            carried("fresh", Fate::New),
        ],
        removed: vec!["old".into()],
    };
    let report = Report {
        schema: JSON_SCHEMA,
        dry_run: false,
        from: "9f31c2e0aa4b".into(),
        to: "41ab770c0ffe".into(),
        milliseconds: 38,
        routes: Changes { added: vec!["graphql".into()], changed: vec!["a".into(), "b".into()], removed: vec![] },
        origins: Changes::default(),
        limits: Limits::of(succession, &changed),
        changed: changed.clone(),
        stores: ["far", "near"]
            .map(|name| StoreAnswer { name: name.into(), answered: name == "near", ready_within: "2s".into() })
            .to_vec(),
        tls: Tls {
            certificates: 2,
            renewed: vec![Renewed { certificate: "api.example.com".into(), expires: 1_802_908_800 }],
            unusable: vec![],
        },
        waiting: vec!["listeners.from_lb.address".into()],
        warnings: 0,
    };
    assert_eq!(
        report.text(),
        "reloaded 9f31c2e0aa4b → 41ab770c0ffe in 38 ms\n\
         \x20 routes     +1 (graphql)  ~2 (a, b)  -0\n\
         \x20 limits     kept 2 (two (was one))   re-rated 1 (login 10/m → 5/m, counts kept)   reset 1 (api_tier: key changed)   new 1 (fresh)   gone 1 (old)\n\
         \x20 warning    api_tier begins empty: every client has its whole budget again\n\
         \x20 note       fresh begins empty, also if renamed: counts follow `renamed_from`, those of shared limits only their name\n\
         \x20 changed    limits.login.mode shadow → enforce\n\
         \x20 changed    responses.expose none → true\n\
         \x20 store      far has not answered within 2s: its limits go by their on_store_error\n\
         \x20 store      near answered\n\
         \x20 tls        2 certificates, 1 renewed (api.example.com, expires 2027-02-18)\n\
         \x20 waiting    listeners.from_lb.address changed: needs `tidegate upgrade`\n"
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["schema"], "tidegate.reload/2");
    assert_eq!(json["limits"]["rerated"][0]["numbers"][0]["to"], "5/m");
    assert_eq!(json["limits"]["reset"][0]["because"], "key");
    let nothing = Report {
        to: report.from.clone(),
        routes: Changes::default(),
        limits: Limits::default(),
        changed: Vec::new(),
        ..report
    };
    assert!(nothing.headline().contains("nothing in it has changed"));
    // which the fingerprint does not show
    changed = vec![change("stores.s.password", None, None)];
    let password = Report { changed, ..nothing };
    let text = password.text();
    assert!(text.contains("  changed    stores.s.password\n"), "{text}");
    assert!(!text.contains("nothing") && text.contains("in 38 ms, what it says is the same, not what"), "{text}");
}

#[test]
fn days_are_those_of_the_calendar() {
    assert_eq!([0, 951_782_400, 1_802_908_800, -1].map(date), ["1970-01-01", "2000-02-29", "2027-02-18", "1969-12-31"]);
}
