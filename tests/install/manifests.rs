//! Kubernetes manifests, the chart that they are rendered from, and the compose file: they fit the policies in them.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::skips::skip;
use crate::{Folder, all_of, done, path, read, tidegate};

/// The documents of a file, by kind.
fn documents(file: &str) -> BTreeMap<String, Value> {
    let text = read(file);
    let documents = text.split("\n---\n").map(|document| serde_yaml::from_str::<Value>(document).unwrap());
    documents.map(|document| (document["kind"].as_str().unwrap().to_owned(), document)).collect()
}

const WORKLOADS: [(&str, &str); 2] = [("deployment.yaml", "Deployment"), ("daemonset.yaml", "DaemonSet")];

/// The workload's document and the policy in its ConfigMap.
fn workload(file: &str, kind: &str) -> (Value, String) {
    let mut documents = documents(&format!("packaging/kubernetes/{file}"));
    let policy = documents["ConfigMap"]["data"]["tidegate.yaml"].as_str().unwrap().to_owned();
    (documents.remove(kind).unwrap(), policy)
}

fn policies() -> Vec<(String, String)> {
    let files = ["packaging/container/tidegate.yaml", "packaging/compose/tidegate.yaml"];
    let files = files.map(|file| (file.to_owned(), read(file)));
    let manifests = WORKLOADS.map(|(file, kind)| (file.to_owned(), workload(file, kind).1));
    files.into_iter().chain(manifests).collect()
}

#[test]
fn every_policy_that_is_shipped_is_valid_and_passes_its_tests() {
    let home = Folder::new("policies");
    for (name, policy) in policies() {
        let file = home.0.join("tidegate.yaml");
        fs::write(&file, &policy).unwrap();
        let checked = tidegate().args(["check", "--deny-warnings"]).arg(&file).output().unwrap();
        assert!(checked.status.success(), "{name}\n{}", all_of(&checked));
        if policy.contains("\ntests:") {
            let tested = tidegate().arg("test").arg(&file).output().unwrap();
            assert!(tested.status.success(), "{name}\n{}", all_of(&tested));
        }
    }
}

/// The words of a policy with all defaults.
fn effective(policy: &str) -> Value {
    let home = Folder::new("effective");
    let file = home.0.join("tidegate.yaml");
    fs::write(&file, policy).unwrap();
    let shown = done(tidegate().arg("show").arg("-c").arg(&file));
    serde_yaml::from_str(&shown).unwrap_or_else(|fault| panic!("{fault}\n{shown}"))
}

fn seconds(duration: &Value) -> u64 {
    let text = duration.as_str().unwrap();
    text.strip_suffix('s').unwrap_or_else(|| panic!("{text} is not in seconds")).parse().unwrap()
}

fn port(address: &Value) -> u64 {
    address.as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap()
}

#[test]
fn pods_drain_as_long_as_their_policy_and_are_probed_where_it_answers() {
    for (file, kind) in WORKLOADS {
        let (workload, policy) = workload(file, kind);
        let effective = effective(&policy);
        let pod = &workload["spec"]["template"]["spec"];
        let container = &pod["containers"][0];

        let drain = &effective["server"]["drain"];
        let before = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap();
        let needed = before + seconds(&drain["delay"]) + seconds(&drain["timeout"]);
        assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > needed, "{file}: {needed} s are needed");

        let ports = container["ports"].as_array().unwrap().iter();
        let ports: BTreeMap<&str, u64> =
            ports.map(|port| (port["name"].as_str().unwrap(), port["containerPort"].as_u64().unwrap())).collect();
        assert_eq!(ports["metrics"], port(&effective["telemetry"]["metrics"]["address"]), "{file}");
        assert_eq!(ports["http"], port(&effective["listeners"]["main"]["address"]), "{file}");
        for (probe, path) in [("startupProbe", "/readyz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")]
        {
            let asked = &container[probe]["httpGet"];
            assert_eq!((&asked["path"], &asked["port"]), (&path.into(), &"metrics".into()), "{file}: {probe}");
        }
        // a restart forgets what clients have spent: who is slow for a moment is not restarted
        let probe = &container["livenessProbe"];
        assert!(probe["periodSeconds"].as_u64().unwrap() * probe["failureThreshold"].as_u64().unwrap() >= 60);
    }
}

#[test]
fn pods_may_do_nothing_but_serve_and_get_a_new_policy_without_a_restart() {
    for (file, kind) in WORKLOADS {
        let (workload, policy) = workload(file, kind);
        let template = &workload["spec"]["template"];
        let pod = &template["spec"];
        let container = &pod["containers"][0];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{file}");
        assert_eq!(pod["automountServiceAccountToken"], false, "{file}");
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{file}");
        assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false, "{file}");
        assert_eq!(container["securityContext"]["capabilities"]["drop"], serde_json::json!(["ALL"]), "{file}");

        let mounts = container["volumeMounts"].as_array().unwrap();
        let places: Vec<&str> = mounts.iter().map(|mount| mount["mountPath"].as_str().unwrap()).collect();
        assert_eq!(places, ["/etc/tidegate", "/run/tidegate"], "{file}: the program's own places");
        // the kubelet renews neither a single file nor what a running process has read
        assert!(mounts.iter().all(|mount| mount.get("subPath").is_none()), "{file}");
        assert!(policy.starts_with("watch: "), "{file}");
        assert!(template["metadata"].get("annotations").is_none(), "{file}: a checksum would restart all pods");
    }
}

#[test]
fn the_chart_has_the_programs_version() {
    let chart: Value = serde_yaml::from_str(&read("packaging/helm/tidegate/Chart.yaml")).unwrap();
    assert_eq!(
        (&chart["version"], &chart["appVersion"]),
        (&env!("CARGO_PKG_VERSION").into(), &env!("CARGO_PKG_VERSION").into())
    );
    let (workload, _) = workload("deployment.yaml", "Deployment");
    let image = workload["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap();
    assert_eq!(image, concat!("tidegate:", env!("CARGO_PKG_VERSION")));
}

/// What needs Helm, and the schemas that Kubernetes publishes.
#[test]
fn manifests_are_what_the_chart_renders_and_valid_by_the_published_schemas() {
    let rendered = Command::new("python3").arg(path("packaging/kubernetes/render")).arg("--check").output();
    match rendered {
        Ok(output) if output.status.success() => print!("{}", all_of(&output)),
        Ok(output) if output.status.code() == Some(69) => skip("chart and manifests", all_of(&output).trim()),
        Ok(output) => panic!("{}", all_of(&output)),
        Err(fault) => skip("chart and manifests", format!("python3: {fault}")),
    }
}

#[test]
fn the_compose_file_mounts_what_is_there_and_scrapes_what_answers() {
    let compose: Value = serde_yaml::from_str(&read("packaging/compose/compose.yaml")).unwrap();
    let effective = effective(&read("packaging/compose/tidegate.yaml"));
    let services = compose["services"].as_object().unwrap();
    for (name, service) in services {
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let source = volume.as_str().unwrap().split(':').next().unwrap();
            assert!(path("packaging/compose").join(source).is_file(), "{name}: {source}");
        }
        for needed in service["depends_on"].as_array().into_iter().flatten() {
            assert!(services.contains_key(needed.as_str().unwrap()), "{name}: {needed}");
        }
    }
    let prometheus: Value = serde_yaml::from_str(&read("packaging/compose/prometheus.yml")).unwrap();
    let target = prometheus["scrape_configs"][0]["static_configs"][0]["targets"][0].as_str().unwrap();
    let (host, scraped) = target.split_once(':').unwrap();
    let metrics = &effective["telemetry"]["metrics"];
    assert_eq!(scraped.parse::<u64>().unwrap(), port(&metrics["address"]));
    // a scraper that calls by name is answered only by a name that the policy knows
    assert!(services.contains_key(host) && metrics["hosts"].as_array().unwrap().contains(&host.into()), "{metrics}");
    for (list, word, address) in [("stores", "url", "//"), ("origins", "addresses", "")] {
        for (name, section) in effective[list].as_object().unwrap() {
            let text = section[word].to_string();
            assert!(services.keys().any(|service| text.contains(&format!("{address}{service}:"))), "{name}: {text}");
        }
    }
    let drain = &effective["server"]["drain"];
    assert!(
        seconds(&services["tidegate"]["stop_grace_period"]) > seconds(&drain["delay"]) + seconds(&drain["timeout"])
    );
}
