//! The release: a tarball that is complete, a list of what it is made of that agrees with the licences, and checksums that hold. Packed from
//! the program of this tree, which is not optimised as a release is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{Folder, all_of, done, path, read};

/// Packs into this folder, and says the tarball's name without its end.
fn packed(home: &Path) -> String {
    let host = done(Command::new("rustc").arg("-vV"));
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned();
    done(Command::new(path("packaging/release")).arg(env!("CARGO_BIN_EXE_tidegate")).arg(&host).arg(home));
    format!("tidegate-{}-{host}", env!("CARGO_PKG_VERSION"))
}

#[test]
fn a_tarball_is_complete_and_the_same_each_time() {
    let (home, again) = (Folder::new("release"), Folder::new("again"));
    let name = packed(&home.0);
    assert_eq!(packed(&again.0), name);
    let tarball = |home: &Folder| fs::read(home.0.join(format!("{name}.tar.gz"))).unwrap();
    assert!(tarball(&home) == tarball(&again), "the same input made other bytes");

    done(Command::new("sha256sum").args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(&home.0));
    assert_eq!(fs::read_to_string(home.0.join("SHA256SUMS")).unwrap().lines().count(), 2, "tarball and SBOM");
    let listed = done(Command::new("tar").args(["-tvzf", &format!("{name}.tar.gz")]).current_dir(&home.0));
    for line in listed.lines() {
        let (rights, owner) = line.split_once(' ').unwrap();
        assert!(owner.starts_with("0/0 "), "{line}");
        assert_eq!([rights.as_bytes()[5], rights.as_bytes()[8]], *b"--", "only the owner may write: {line}");
    }

    done(Command::new("tar").args(["-xzf", &format!("{name}.tar.gz")]).current_dir(&home.0));
    let folder = home.0.join(&name);
    let program = folder.join("tidegate");
    assert!(done(Command::new(&program).arg("-V")).contains(env!("CARGO_PKG_VERSION")));
    for example in ["minimal", "production", "complete"] {
        let file = folder.join(format!("share/examples/{example}.yaml"));
        let checked = Command::new(&program).arg("check").arg(&file).output().unwrap();
        assert!(checked.status.success(), "{}", all_of(&checked));
    }
    let page = fs::read_to_string(folder.join("share/man/man1/tidegate.1")).unwrap();
    assert!(page.starts_with(".TH") && page.contains("\\-\\-config"), "no manual page");

    // what its page names is there, and what is there is named
    let page = fs::read_to_string(folder.join("README.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let named: BTreeSet<&str> = rows.flat_map(|row| row.split("`, `")).map(|name| name.trim_end_matches('`')).collect();
    for name in &named {
        assert!(folder.join(name).exists(), "{name}");
    }
    for entry in fs::read_dir(folder.join("share")).unwrap() {
        let name = format!("share/{}", entry.unwrap().file_name().to_str().unwrap());
        assert!(named.contains(name.as_str()), "{name} is not in README.md");
    }

    the_bill_of_materials_agrees(&home.0.join(format!("{name}.cdx.json")), &folder.join("THIRD_PARTY_LICENSES"));
}

/// Name and version of each crate whose licence stands in the notices.
fn licensed(notices: &Path) -> BTreeSet<(String, String)> {
    let text = fs::read_to_string(notices).unwrap();
    let list = text.split("\n----").next().unwrap();
    let lines: Vec<&str> = list.lines().collect();
    let heads = lines.windows(2).filter(|pair| pair[1].starts_with("    ") && !pair[0].starts_with("    "));
    heads
        .map(|pair| pair[0].split_once(' ').unwrap())
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect()
}

fn the_bill_of_materials_agrees(bill: &Path, notices: &Path) {
    let bill: Value = serde_json::from_str(&fs::read_to_string(bill).unwrap()).unwrap();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let components = bill["components"].as_array().unwrap();
    let foreign = components.iter().filter(|one| !one["name"].as_str().unwrap().starts_with("tidegate-"));
    let named: BTreeSet<(String, String)> =
        foreign.clone().map(|one| (text(&one["name"]), text(&one["version"]))).collect();
    assert!(named.len() > 100, "{}", named.len());
    assert_eq!(named, licensed(notices), "the crates of the SBOM, and those of the notices");

    let lock = read("Cargo.lock");
    let sums: BTreeMap<(&str, &str), &str> = lock
        .split("[[package]]\n")
        .filter_map(|block| {
            let word = |name: &str| {
                block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
            };
            Some(((word("name")?, word("version")?), word("checksum")?))
        })
        .collect();
    for one in foreign {
        let (name, version) = (text(&one["name"]), text(&one["version"]));
        assert_eq!(one["hashes"][0]["content"], sums[&(name.as_str(), version.as_str())], "{name}");
        assert!(one["licenses"][0]["expression"].is_string(), "{name} has no licence");
    }
    let own = &bill["metadata"]["component"];
    let mut references: BTreeSet<String> = components.iter().map(|one| text(&one["bom-ref"])).collect();
    references.insert(text(&own["bom-ref"]));
    assert_eq!(references.len(), components.len() + 1, "a crate stands twice");
    let mut needed = BTreeSet::from([text(&own["bom-ref"])]);
    for node in bill["dependencies"].as_array().unwrap() {
        needed.extend(node["dependsOn"].as_array().unwrap().iter().map(text));
    }
    assert_eq!(needed, references, "every crate is needed by another, and none is missing");
}

/// Another library would make it no program for "any Linux".
#[test]
fn a_program_with_another_library_is_no_release() {
    let home = Folder::new("foreign");
    let source = home.0.join("a.c");
    let program = home.0.join("a");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    done(Command::new("cc").arg(&source).args(["-Wl,--no-as-needed", "-lstdc++", "-o"]).arg(&program));
    let refused = Command::new(path("packaging/release"))
        .arg(&program)
        .args(["none", "."])
        .current_dir(&home.0)
        .output()
        .unwrap();
    assert!(!refused.status.success());
    assert!(all_of(&refused).contains("needs libstdc++.so.6; a release needs libc"), "{}", all_of(&refused));
}
