//! Where a configuration comes from: variables, included files, directories, secrets.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tidegate::config::settings::Secret;
use tidegate::config::{Loaded, load};

use crate::{codes, environment, good, text};

/// A directory of its own for one test, gone at its end.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Home {
        let home = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).unwrap();
        Home(home)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn found(path: &Path) -> (Loaded, Vec<&'static str>) {
    let loaded = load(path, &environment);
    let codes = loaded.diagnostics.iter().map(|fault| fault.code.text()).collect();
    (loaded, codes)
}

fn route_names(loaded: &Loaded) -> Vec<String> {
    loaded.outcome.as_ref().unwrap().policy.routes.iter().map(|route| route.name.clone()).collect()
}

const MAIN: &str = "listen: \":8080\"\nroutes:\n  - { name: main, origin: \"127.0.0.1:3000\" }\n";

fn route(name: &str) -> String {
    format!("routes:\n  - {{ name: {name}, match: {{ path: /{name} }}, origin: \"127.0.0.1:3000\" }}\n")
}

#[test]
fn variables_are_replaced_in_plain_scalars_only() {
    let config = good(
        "listen: :${PORT}\nroutes:\n  - match:\n      path: =/${NOTHING:-x}\n    respond:\n      body: ${EMPTY:-default} and ${KEY:?needed}\n",
    );
    assert_eq!(config.settings.listeners[0].address.ip().map(|address| address.port()), Some(8080));
    assert_eq!(config.effective.at("routes.0.respond.body").unwrap().to_yaml(), "default and 0123456789abcdef\n");
    let quoted = "listen: \":8080\"\nroutes:\n  - respond: { body: \"${PORT}\" }\n";
    assert_eq!(codes(quoted), ["W0406"]);
    assert_eq!(good(quoted).effective.at("routes.0.respond.body").unwrap().to_yaml(), "\"${PORT}\"\n");
}

#[test]
fn a_variables_value_cannot_add_fields() {
    let environment = |_: &str| Some("x\nserver: { threads: 1 }".to_owned());
    let policy = "listen: \":8080\"\nroutes:\n  - respond:\n      body: ${ANY}\n";
    let loaded = tidegate::config::load_text("test.yaml", policy, &environment, Path::new("."));
    assert_eq!(loaded.outcome.unwrap().settings.threads, None);
}

#[test]
fn included_files_follow_in_the_order_of_their_names() {
    let home = Home::new("include");
    home.write("routes.d/b.yaml", &route("b"));
    home.write("routes.d/a.yaml", &route("a"));
    home.write("routes.d/c.yml", &route("c"));
    home.write("more.yaml", "limits: { spare: { rate: 1/s } }\n");
    let main = home.write("main.yaml", &format!("include: [more.yaml, routes.d/*.yaml]\n{MAIN}"));
    let (loaded, codes) = found(&main);
    assert_eq!(codes, ["W0401"]);
    assert_eq!(route_names(&loaded), ["main", "a", "b"]);
}

#[test]
fn a_pattern_without_files_is_told_and_no_fault() {
    let home = Home::new("pattern");
    let main = home.write("main.yaml", &format!("include: [routes.d/*.yaml]\n{MAIN}"));
    let (loaded, codes) = found(&main);
    assert_eq!(codes, ["W0412"]);
    assert!(loaded.outcome.is_ok());
}

#[test]
fn no_link_leads_out_of_the_directory() {
    let home = Home::new("links");
    let outside = home.write("outside.yaml", &route("outside"));
    let inside = home.write("conf/inside.yaml", &route("inside"));
    symlink(&outside, home.0.join("conf/out.yaml")).unwrap();
    symlink(&inside, home.0.join("conf/in.yaml")).unwrap();
    let main = home.write("conf/main.yaml", &format!("include: [out.yaml]\n{MAIN}"));
    assert_eq!(found(&main).1, ["E0010"]);
    let main = home.write("conf/main.yaml", &format!("include: [in.yaml]\n{MAIN}"));
    assert_eq!(route_names(&found(&main).0), ["main", "inside"]);
}

#[test]
fn a_directory_is_one_configuration() {
    let home = Home::new("directory");
    home.write("10-main.yaml", &format!("version: 1\nlimits: {{ login: {{ rate: 5/m }} }}\n{MAIN}"));
    home.write("20-a.yaml", &format!("version: 1\nlimits: {{ api: {{ rate: 5/s }} }}\n{}", route("a")));
    home.write("notes.txt", "no configuration\n");
    let (loaded, codes) = found(&home.0);
    assert_eq!(codes, ["W0401", "W0401"]);
    assert_eq!(route_names(&loaded), ["main", "a"]);
    // the same name in two files, and a section that may stand in one only
    home.write("30-b.yaml", "limits: { login: { rate: 9/m } }\nlisten: \":9090\"\n");
    let (loaded, codes) = found(&home.0);
    assert!(codes.contains(&"E0304") && codes.contains(&"E0103"), "{codes:?}");
    assert!(loaded.outcome.is_err());
}

#[test]
fn what_cannot_be_read_is_told() {
    let home = Home::new("unreadable");
    assert_eq!(found(&home.0).1, ["E0001"]);
    assert_eq!(found(&home.0.join("no-such.yaml")).1, ["E0001"]);
}

fn secret(loaded: &Loaded) -> Option<Secret> {
    loaded.outcome.as_ref().ok()?.settings.client_hmac.clone()
}

#[test]
fn a_secret_file_is_the_secret_without_its_line_break() {
    let home = Home::new("secret");
    let main = home.write("main.yaml", &format!("secrets: {{ client_hmac: {{ file: key }} }}\n{MAIN}"));
    let key = home.write("key", "0123456789abcdef\n");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let (loaded, codes) = found(&main);
    assert!(codes.is_empty(), "{codes:?}");
    assert_eq!(secret(&loaded), Some(Secret(b"0123456789abcdef".to_vec())));
    // one line break, no more
    fs::write(&key, "0123456789abcdef\n\n").unwrap();
    assert_eq!(secret(&found(&main).0), Some(Secret(b"0123456789abcdef\n".to_vec())));
}

#[test]
fn a_secret_that_others_can_read_is_refused() {
    let home = Home::new("open-secret");
    let main = home.write("main.yaml", &format!("secrets: {{ client_hmac: {{ file: key }} }}\n{MAIN}"));
    let key = home.write("key", "0123456789abcdef\n");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let (loaded, codes) = found(&main);
    assert_eq!(codes, ["E0313"]);
    assert!(loaded.diagnostics[0].help[0].contains("chmod"), "{:?}", loaded.diagnostics[0]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, "\n").unwrap();
    assert_eq!(found(&main).1, ["E0313"]);
}

#[test]
fn secrets_in_the_environment_and_in_the_file() {
    let with = |secret: &str| format!("secrets: {{ client_hmac: {secret} }}\n{MAIN}");
    assert_eq!(secret(&text(&with("{ env: KEY }"))), Some(Secret(b"0123456789abcdef".to_vec())));
    assert_eq!(codes(&with("{ env: KEY }")), [""; 0]);
    assert_eq!(codes(&with("a-literal-secret-of-some-length")), ["W0404"]);
    assert_eq!(codes(&with("short")), ["W0404", "W0405"]);
    assert_eq!(codes(&with("{ env: EMPTY }")), ["E0313"]);
}

#[test]
fn extension_fields_are_ignored_wherever_names_are_not_the_operators() {
    let config = good(
        "x-a: 1\nlisten: \":8080\"\nlimits: { x-b: { nonsense: 1 }, a: { x-c: 2, rate: 1/s } }\n\
         routes:\n  - { x-d: 3, match: { x-e: 4, headers: { x-f: five } }, origin: \"127.0.0.1:3000\", limits: [a] }\n",
    );
    assert_eq!(config.policy.rules.len(), 1);
    assert_eq!(config.effective.at("routes.0.match.0.headers.x-f.exact").unwrap().to_yaml(), "five\n");
}
