//! Reloads that name each change, and the one name of a configuration.

use super::*;

#[test]
fn a_change_of_mode_is_told_and_restarts_neither_series_nor_totals() {
    let systemd = Systemd::new();
    let gate = start(&systemd, &limited("rate: 1/h, burst: 2, mode: shadow"));
    assert_eq!(admitted(&gate, 5), 5, "a shadow refuses nothing");
    write(&gate, &limited("rate: 1/h, burst: 2, mode: enforce"));
    let change = "changed    limits.login.mode shadow → enforce\n";
    let dry = order(&gate, &["--dry-run"]);
    assert!(dry.stdout.contains(change) && dry.stdout.starts_with("would reload "), "{}", dry.stdout);
    let json = order(&gate, &["--dry-run", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(
        json["changed"]
            .as_array()
            .unwrap()
            .contains(&serde_json::json!({ "path": "limits.login.mode", "from": "shadow", "to": "enforce" })),
        "{json}"
    );
    let told = order(&gate, &[]).stdout;
    assert!(told.contains(change) && told.contains("limits     kept 1\n"), "{told}");
    wait_for("the log to tell it", || {
        gate.talk().contains("reload: changed limits.login.mode shadow → enforce").then_some(())
    });
    assert_eq!(admitted(&gate, 2), 0, "what was spent in shadow is spent");
    let limited =
        |mode| gate.metrics().sum("tidegate_limit_decisions_total", &[("mode", mode), ("verdict", "limited")]);
    wait_for("both to be counted", || (limited("enforce") == 2.0).then_some(()));
    assert_eq!(limited("shadow"), 3.0);
    let status = end(binary().args(["status", "--format", "json", "--admin"]).arg(gate.admin_socket()));
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let limit = &status["limits"][0];
    assert_eq!((&limit["mode"], &limit["not_obeyed"]), (&"enforce".into(), &3.into()), "{limit}");
    assert_eq!((&limit["decisions"]["allowed"], &limit["decisions"]["limited"]), (&2.into(), &5.into()), "{limit}");
    let text = end(binary().args(["status", "--admin"]).arg(gate.admin_socket())).stdout;
    let row: Vec<&str> = text.lines().find(|line| line.starts_with("login ")).unwrap().split_whitespace().collect();
    assert_eq!(row[row.len() - 4..], ["2", "2", "0", "3"], "admitted, refused, refused elsewhere, shadow: {text}");
}

#[test]
fn counts_of_unnamed_limits_stay_where_routes_come_before_them() {
    let systemd = Systemd::new();
    const LOGIN: &str = "  - { match: { path: / }, respond: { status: 200 }, limit: 5/h burst 5 }\n";
    const TOKEN: &str = "  - { match: { path: /token }, respond: { status: 200 }, limit: 5/h burst 5 }\n";
    const NEW: &str = "  - { match: { path: /new }, respond: { status: 200 }, limit: 5/h burst 5 }\n";
    let gate = start(&systemd, &with(&format!("routes:\n{TOKEN}{LOGIN}")));
    let ask = |path: &str| (0..6).filter(|_| gate.fetch(path, "").status == 200).count();
    assert_eq!(ask("/token"), 5);
    let told = reloaded(&gate, &with(&format!("routes:\n{NEW}{TOKEN}{LOGIN}")));
    assert!(told.contains("kept 2"), "{told}");
    assert_eq!([ask("/token"), ask("/new"), ask("/")], [0, 5, 5]);
}

#[test]
fn a_reload_names_every_word_that_differs() {
    let systemd = Systemd::new();
    let policy = |enforce: &str, exempt: &str, action: &str, path: &str, proxies: &str, cap: u32, status: u32| {
        with(&format!(
            "trusted_proxies: {proxies}
origins: {{ shop: {{ addresses: [\"127.0.0.1:1\"], inflight: {{ max: {cap} }} }} }}
limits:
  login: {{ rate: 1/h, burst: 2, enforce: {enforce}, exempt: [{exempt}], action: {action} }}
routes:
  - {{ name: login, match: {{ path: {path} }}, origin: shop, limits: [login] }}
responses: {{ limited: {{ status: {status} }} }}
"
        ))
    };
    let before = policy("100%", "10.0.0.0/8", "reject", "/a", "[10.0.0.0/8]", 5, 429);
    let gate = start(&systemd, &before);
    let told = reloaded(&gate, &policy("10%", "192.0.2.0/24", "close", "/b", "[192.0.2.0/24]", 6, 430));
    for line in [
        "changed    limits.login.enforce 100% → 10%",
        "changed    limits.login.exempt.0.cidr [10.0.0.0/8] → [192.0.2.0/24]",
        "changed    limits.login.action reject → close",
        "changed    routes.login.match.0.path.prefix /a → /b",
        "changed    trusted_proxies.from [10.0.0.0/8] → [192.0.2.0/24]",
        "changed    origins.shop.inflight.max 5 → 6",
        "changed    responses.limited.status 429 → 430",
    ] {
        assert!(told.contains(&format!("  {line}\n")), "{line}: {told}");
    }
    assert!(reloaded(&gate, &before).contains("limits.login.action close → reject"));
    assert!(reloaded(&gate, &before).contains("nothing in it has changed"));
}

#[test]
fn a_reload_of_another_file_is_refused_and_of_its_own_is_done() {
    let systemd = Systemd::new();
    let gate = start(&systemd, &limited("rate: 1/h, burst: 2"));
    let [file, other, link] = ["tidegate.yaml", "other.yaml", "link.yaml"].map(|name| gate.folder().join(name));
    std::fs::write(&other, limited("rate: 1/h, burst: 9")).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let with = |file: &std::path::Path, more: &[&str]| {
        let file = file.to_str().unwrap();
        order(&gate, &[&["-c", file], more].concat())
    };
    for arguments in [&[][..], &["--dry-run"]] {
        let ended = with(&other, arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        let serves = format!("the running process serves {}, not {}\n", file.display(), other.display());
        assert!(ended.stderr.contains(&serves), "{}", ended.stderr);
        assert!(ended.stderr.contains("copy it over that one and `tidegate reload`"), "{}", ended.stderr);
    }
    let by_variable =
        end(binary().arg("reload").arg("--admin").arg(gate.admin_socket()).env("TIDEGATE_CONFIG", &other));
    assert_eq!(by_variable.code, Some(1), "{}", by_variable.stderr);
    let json: serde_json::Value = serde_json::from_str(&with(&other, &["--format", "json"]).stdout).unwrap();
    assert!(json["refused"].as_str().unwrap().contains("not"), "{json}");
    assert_eq!(gate.metrics().sum("tidegate_config_reloads_total", &[]), 0.0);
    assert_eq!(gate.metrics().sum("tidegate_config_last_reload_successful", &[]), 1.0, "no file was refused");
    for same in [&file, &link] {
        assert_eq!(with(same, &[]).code, Some(0));
    }
    assert_eq!(admitted(&gate, 4), 2);
}

#[test]
fn one_fingerprint_names_the_configuration_everywhere() {
    let systemd = Systemd::new();
    let gate = start(&systemd, &limited("rate: 1/h, burst: 2"));
    let at_gate = |arguments: &[&str]| end(binary().args(arguments).arg("--admin").arg(gate.admin_socket())).stdout;
    let file = gate.folder().join("tidegate.yaml").display().to_string();
    let checked = || {
        let ended = end(binary().args(["check", &file]));
        let told = ended.stdout + &ended.stderr;
        let (_, rest) = told.split_once("fingerprint ").unwrap_or_else(|| panic!("{told}"));
        rest.trim_end().to_owned()
    };
    let in_force = |fingerprint: &str| {
        assert!(fingerprint.len() == 12 && fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit()), "{fingerprint}");
        assert_eq!(gate.metrics().sum("tidegate_policy_info", &[("fingerprint", fingerprint)]), 1.0);
        assert_eq!(gate.metrics().sum("tidegate_policy_info", &[]), 1.0, "of the one in force alone");
        admitted(&gate, 2);
        let refused = gate.fetch("/", "");
        let id = refused.field("x-tidegate-decision").expect("a refusal has an id").to_owned();
        for arguments in [
            &["status"][..],
            &["status", "--format", "json"],
            &["top", "--once"],
            &["top", "--once", "--format", "json"],
            &["explain", "--decision", &id],
            &["explain", "--decision", &id, "--format", "json"],
        ] {
            let told = at_gate(arguments);
            assert!(told.contains(fingerprint), "{arguments:?}: {fingerprint}\n{told}");
        }
        for path in ["/", "/api/v1/config"] {
            let reply = tidegate::admin::client::get(&gate.admin_socket(), path).unwrap();
            assert!(reply.body.contains(fingerprint), "{path}: {}", reply.body);
        }
    };
    let first = checked();
    in_force(&first);
    wait_for("the log to tell it", || gate.talk().contains(&first).then_some(()));
    // a listener's word is part of it
    let listener = "main: { address: \"127.0.0.1:0\"";
    let changed = limited("rate: 1/h, burst: 2").replace(listener, &format!("{listener}, connections: {{ max: 77 }}"));
    let told = reloaded(&gate, &changed);
    let second = checked();
    assert_ne!(first, second);
    assert!(told.starts_with(&format!("reloaded {first} → {second} in ")), "{told}");
    in_force(&second);
    wait_for("the log to tell it", || gate.talk().contains(&second).then_some(()));
}
