//! The defaults of the program: the effective configuration of a policy that names every section and sets hardly a value.

use tidegate::config::Tree;

use crate::good;

const EVERYTHING: &str = r#"
listeners:
  main: { address: ":8080", protocols: [h2, http/1.1], request_head: {}, request_body: {}, response: {}, connections: {}, h2: {} }
origins:
  shop: { addresses: ["127.0.0.1:3000"], inflight: { max: 400, queue: 10 }, health: { path: / }, ejection: {}, retries: {}, timeouts: {} }
  wary: { addresses: ["127.0.0.1:3002"], inflight: { max: 100 }, adaptive: { target: "p95<300ms" } }
trusted_proxies: { from: [10.0.0.0/8], hops: 2 }
secrets: { client_hmac: "a secret of all gates" }
stores:
  cluster: { url: "redis://127.0.0.1:1", breaker: {} }
limits:
  rate: { key: client_ip, rate: 5/s }
  quota: { type: quota, key: client_ip, max: 5, window: 1h }
  calendar: { type: quota, key: client_ip, max: 5, per: week }
  distinct: { type: distinct, key: client_ip, of: path, max: 20, window: 10m }
  recent_average: { type: recent_average, key: client_ip, rate: 5/s, half_life: 1m }
  inflight: { type: inflight, key: client_ip, max: 50 }
  of_all: { type: inflight, max: 50 }
  fair_share: { type: fair_share, capacity: 1000/s }
  slowed: { key: client_ip, rate: 5/s, action: { delay: {} } }
  marked: { key: client_ip, rate: 5/s, action: { tag: {} } }
  shared: { key: client_ip, rate: 50/s, store: cluster }
routes:
  - { name: a, match: { path: /a }, limits: [rate, quota, distinct, recent_average, inflight, fair_share, of_all], origin: shop }
  - { name: b, limits: [shared, calendar, slowed, marked], origin: wary }
  - { name: c, match: { path: /c }, respond: { body: ok } }
responses: { retry_after: {}, limited: {}, overloaded: {} }
telemetry: { metrics: {}, access_log: {}, log: {} }
admin: 127.0.0.1:9901
server: { drain: {}, state: { directory: /var/lib/tidegate } }
"#;

/// What is in force where nothing is said.
pub struct Defaults {
    /// Every value with the words that lead to it.
    values: Vec<(Vec<String>, String)>,
}

impl Defaults {
    pub fn read() -> Defaults {
        let mut values = Vec::new();
        gather(&good(EVERYTHING).effective, &mut Vec::new(), &mut values);
        Defaults { values }
    }

    /// Whether this is the default of a word; `None` for one whose default is no value. `page`: on a page about one type of limit
    /// its own limit counts.
    pub fn agrees(&self, word: &str, value: &str, page: Option<&str>) -> Option<bool> {
        let of_page = |steps: &[String]| page.is_none_or(|page| steps[0] != "limits" || steps[1] == page);
        let mut of_word = self.values.iter().filter(|(steps, _)| {
            steps.iter().rev().find(|step| step.parse::<usize>().is_err()).is_some_and(|last| last == word)
                && of_page(steps)
        });
        let value = plain(value);
        let known = of_word.clone().next().is_some();
        known.then(|| of_word.any(|(_, default)| plain(default) == value))
    }

    /// Whether this is the default of anything.
    pub fn has(&self, value: &str) -> bool {
        self.values.iter().any(|(_, default)| plain(default) == plain(value))
    }
}

fn gather(tree: &Tree, steps: &mut Vec<String>, values: &mut Vec<(Vec<String>, String)>) {
    match tree {
        Tree::Text(text) | Tree::Written(text) => values.push((steps.clone(), text.clone())),
        Tree::List(items) => {
            for (place, item) in items.iter().enumerate() {
                steps.push(place.to_string());
                gather(item, steps, values);
                steps.pop();
            }
        }
        Tree::Map(fields) => {
            for (name, inner) in fields {
                steps.push(name.clone());
                gather(inner, steps, values);
                steps.pop();
            }
        }
    }
}

/// A value without the ways to write it: durations in milliseconds, numbers without marks for thousands.
fn plain(value: &str) -> String {
    let value = value.trim().trim_matches(['`', '"']).replace(',', "");
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let factor = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return value.replace(' ', ""),
    };
    number.parse::<u64>().map_or(value.clone(), |number| format!("{}ms", number * factor))
}
