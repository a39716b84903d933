//! Every policy in `docs/listeners.md` loads without a word, with the files that it speaks of.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rcgen::{CertificateParams, KeyPair};
use tidegate::config::load_text;
use tidegate::config::render::{Format, render};

use crate::{environment, path};

#[test]
fn every_policy_of_the_page_is_valid() {
    let home = std::env::temp_dir().join(format!("tidegate-listeners-{}", std::process::id()));
    for (name, names) in [
        ("tls/site", &["example.com"][..]),
        ("tls/api", &["*.api.example.com"]),
        ("tls/staff-ca", &[]),
        ("live/example.com/fullchain", &["example.com"]),
    ] {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let file = home.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file.with_extension("pem"), certificate.pem()).unwrap();
        let key_file = match file.file_name().unwrap().to_str().unwrap() {
            "fullchain" => file.with_file_name("privkey.pem"),
            _ => file.with_extension("key"),
        };
        fs::write(&key_file, key.serialize_pem()).unwrap();
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o640)).unwrap();
    }
    let page = fs::read_to_string(path("docs/listeners.md")).unwrap();
    let blocks: Vec<&str> = page
        .split("```yaml")
        .skip(1)
        .map(|rest| rest.split_once('\n').unwrap().1.split_once("```").unwrap().0)
        .collect();
    assert!(blocks.len() >= 4, "{} blocks", blocks.len());
    for block in blocks {
        let loaded = load_text("page.yaml", block, &environment, &home);
        assert!(loaded.diagnostics.is_empty(), "{block}\n{}", render(&loaded, Format::Text, false));
        // and what is shown loads again to the same
        let config = loaded.outcome.unwrap();
        let shown = config.effective.to_yaml();
        let again = load_text("shown.yaml", &shown, &environment, &home).outcome.unwrap();
        assert_eq!(again.settings, config.settings, "{shown}");
        assert_eq!(again.effective.to_yaml(), shown);
    }
    fs::remove_dir_all(&home).unwrap();
}
