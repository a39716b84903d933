//! The files of `conf/`.

use std::fs;

use tidegate::config::fault::{Diagnostic, Severity};
use tidegate::config::{load, preset};

use crate::{environment, path};

#[test]
fn every_example_loads_without_a_word() {
    let mut seen = 0;
    for entry in fs::read_dir(path("conf")).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let mut loaded = load(&file, &environment);
        loaded.warn_of_old_presets(preset::days("2026-11-21").unwrap());
        let told: Vec<&Diagnostic> = loaded.diagnostics.iter().collect();
        assert!(loaded.outcome.is_ok() && told.is_empty(), "{}: {told:#?}", file.display());
        seen += 1;
    }
    assert!(seen >= 3, "only {seen} examples");
}

#[test]
fn the_smallest_file_has_four_lines() {
    let text = fs::read_to_string(path("conf/minimal.yaml")).unwrap();
    assert_eq!(text.lines().count(), 4);
}

#[test]
fn an_old_preset_is_told_of_after_180_days_and_not_before() {
    let mut loaded = load(&path("conf/production.yaml"), &environment);
    let date = loaded.presets.iter().find(|used| used.name == "cloudflare").and_then(|used| used.date).unwrap();
    loaded.warn_of_old_presets(date + 180);
    assert_eq!(loaded.warnings(), 0);
    loaded.warn_of_old_presets(date + 181);
    assert_eq!(loaded.warnings(), 1);
    let fault = loaded.diagnostics.last().unwrap();
    assert_eq!((fault.code.text(), fault.severity()), ("W0409", Severity::Warning));
    assert!(fault.message.contains("181 days"), "{}", fault.message);
}

#[test]
fn a_limit_in_shadow_is_told_of_after_30_days_and_not_before() {
    let text = "listen: \":8080\"
limits:
  old: { rate: 5/s, mode: shadow, since: 2026-10-01 }
  enforced: { rate: 5/s, since: 2020-01-01 }
  undated: { rate: 5/s, mode: shadow }
routes: [{ origin: \"127.0.0.1:3000\", limits: [old, enforced, undated] }]
";
    let mut loaded = tidegate::config::load_text("t.yaml", text, &environment, &path("."));
    let date = preset::days("2026-10-01").unwrap();
    loaded.warn_of_old_shadows(date + 30);
    assert_eq!(loaded.diagnostics, []);
    loaded.warn_of_old_shadows(date + 31);
    let [fault] = loaded.diagnostics.as_slice() else { panic!("{:?}", loaded.diagnostics) };
    assert_eq!((fault.code.text(), fault.severity()), ("W0418", Severity::Warning));
    assert_eq!(fault.message, "the limit `old` has been in shadow for 31 days");
    assert!(loaded.outcome.unwrap().effective.to_yaml().contains("since: 2026-10-01"));
}

#[test]
fn a_preset_beside_the_file_goes_before_the_one_built_in() {
    let home = std::env::temp_dir().join(format!("tidegate-preset-{}", std::process::id()));
    fs::create_dir_all(home.join("presets.d")).unwrap();
    fs::write(home.join("presets.d/cloudflare.txt"), "# date: 2020-01-01\n192.0.2.0/24\n").unwrap();
    let policy = "listen: \":8080\"\ntrusted_proxies: [cloudflare]\nroutes: [{ origin: \"127.0.0.1:3000\" }]\n";
    let loaded = tidegate::config::load_text("test.yaml", policy, &environment, &home);
    fs::remove_dir_all(&home).unwrap();
    let config = loaded.outcome.unwrap();
    assert_eq!(config.effective.at("trusted_proxies.from").unwrap().to_yaml(), "- 192.0.2.0/24\n");
    assert_eq!(loaded.presets[0].date, preset::days("2020-01-01"));
}
