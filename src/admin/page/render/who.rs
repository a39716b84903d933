//! Who is refused: clients, their networks, and the levels of each fair share.

use super::super::view::{ShareView, View};
use super::chart;
use super::markup::{NEEDS_A_TOKEN, NOW, bar, cell, deed, lately, name, nothing, row, short, table, text, ticked};
use crate::human::{count, grouped, percent, rate, span};
use crate::observe::state::{BanState, Network, Offender};
use crate::picture::svg::{At, Svg};

/// Clients that are shown before the fold.
const FIRST: usize = 5;

/// Clients that are shown on a phone before the fold.
const FIRST_ON_A_PHONE: usize = 3;

/// Networks that are named.
const NETWORKS: usize = 3;

/// Clients, networks, shares and bans.
pub fn who(html: &mut Svg, view: &View) {
    if view.unnamed {
        return nothing(html, NEEDS_A_TOKEN);
    }
    html.element("div", &[("class", &"two")], |two| {
        two.element("div", &[], |part| clients(part, view));
        two.element("div", &[], |part| {
            for (place, share) in view.shares.iter().enumerate() {
                levels(part, place, share, view);
            }
            bans(part, view);
        });
    });
}

fn clients(html: &mut Svg, view: &View) {
    let offenders = &view.offenders;
    if offenders.clients.is_empty() {
        return nothing(html, "No client was refused in the last minutes.");
    }
    let (first, more) = offenders.clients.split_at(offenders.clients.len().min(FIRST));
    list(html, view, first, "Most refused clients: recent refusals, halved every minute");
    if !more.is_empty() {
        html.element("details", &[("class", &"more"), ("data-name", &"more")], |fold| {
            fold.labelled("summary", &[], &format!("{} more", more.len()));
            list(fold, view, more, "The next ones: recent refusals, halved every minute");
        });
    }
    if !offenders.networks.is_empty() {
        html.element("p", &[], |line| {
            line.text("Networks: ");
            for (place, Network { network, clients, share, .. }) in offenders.networks.iter().take(NETWORKS).enumerate()
            {
                line.text(if place > 0 { "; " } else { "" });
                short(line, network);
                line.text(&format!(" {clients} clients, "));
                line.labelled("b", &[], &percent(*share));
            }
            line.text(" of the refusals.");
        });
    }
    if offenders.error_bound > 0 {
        let words = format!("A count is at most {} too high.", grouped(offenders.error_bound));
        html.labelled("p", &[("class", &"soft")], &words);
    }
}

fn list(html: &mut Svg, view: &View, clients: &[Offender], caption: &str) {
    let total = view.offenders.total;
    let columns = [
        ("Client", ""),
        ("Network", "l wide"),
        ("Limit", "l"),
        ("Refusals", "wide"),
        ("Share", "share"),
        ("Last", "wide"),
        (deeds(view), ""),
    ];
    table(html, caption, &columns, |rows| {
        for (place, offender) in clients.iter().enumerate() {
            let Offender { client, network, limit, count, last_seen_seconds_ago: ago, .. } = offender;
            let class = if place >= FIRST_ON_A_PHONE { "later" } else { "" };
            row(rows, &format!("{client} {limit}"), class, |row| {
                name(row, |cell| short(cell, client));
                cell(row, "l wide", |cell| short(cell, network));
                cell(row, "l", |cell| cell.labelled("code", &[], limit));
                text(row, "wide", &grouped(*count));
                cell(row, "share", |cell| {
                    let share = *count as f64 / total.max(1) as f64;
                    cell.element("span", &[], |span| {
                        bar(span, "limited", share);
                        span.text(&percent(share));
                    });
                });
                text(row, "wide nw", &format!("{} ago", span(*ago)));
                cell(row, "nw", |cell| {
                    deed(cell, view, "explain", "");
                    deed(cell, view, "ban", "wide");
                    if view.orders {
                        deed(cell, view, "pardon", "wide");
                    }
                });
            });
        }
    });
}

/// A cell of the picture of levels: its name, its refusals, and how many clients it stands for.
type Part = (String, u64, usize);

/// Parts narrower than this are one.
const NARROWEST: f64 = 0.04;

/// The rows of the picture: on each level the parts in the order of the level above, small ones as one.
fn rows(share: &ShareView) -> Vec<Vec<Part>> {
    let mut clients = share.clients.clone();
    let sum = |clients: &[(Vec<String>, u64)], level: usize, name: &[String]| -> u64 {
        clients.iter().filter(|(path, _)| path.get(..=level) == name.get(..=level)).map(|(_, count)| count).sum()
    };
    // by the heaviest on the outermost level, then on the next one
    let key = |path: &[String]| -> Vec<(u64, String)> {
        path.iter()
            .enumerate()
            .map(|(level, name)| (u64::MAX - sum(&share.clients, level, path), name.clone()))
            .collect()
    };
    clients.sort_by_cached_key(|(path, _)| key(path));
    let least = (NARROWEST * share.total as f64) as u64;
    (0..share.levels.len())
        .map(|level| {
            let mut parts: Vec<Part> = Vec::new();
            let mut before: Option<&[String]> = None;
            for (path, count) in &clients {
                let own = path.get(..=level).unwrap_or(path);
                let small = sum(&clients, level, path) < least;
                match parts.last_mut() {
                    Some((name, sum, members)) if before == Some(own) || (small && name.is_empty()) => {
                        *sum += count;
                        *members += 1;
                    }
                    _ => {
                        let name = if small { String::new() } else { path.get(level).cloned().unwrap_or_default() };
                        parts.push((name, *count, 1));
                    }
                }
                before = Some(own);
            }
            let rest = share.total.saturating_sub(clients.iter().map(|(_, count)| count).sum());
            if rest > 0 {
                parts.push((String::new(), rest, 0));
            }
            parts
        })
        .collect()
}

/// Height of a level, in pixels.
const LEVEL: usize = 34;

/// Who is refused by a fair share: a row for each level, the outermost on top; as wide as its part of the refusals.
fn levels(html: &mut Svg, place: usize, share: &ShareView, view: &View) {
    let past = view.past.limits.get(&share.limit);
    let now = |points: fn(&crate::observe::history::LimitPast) -> &Vec<f32>| {
        past.map_or(0.0, |past| lately(points(past), NOW))
    };
    let (passed, refused) = (now(|past| &past.allowed) + now(|past| &past.elsewhere), now(|past| &past.limited));
    let capacity =
        view.state.limits.iter().find(|limit| limit.name == share.limit).and_then(|limit| limit.gauges.capacity);
    html.element("h3", &[], |heading| {
        heading.text("Fair share ");
        heading.labelled("code", &[], &share.limit);
        if let Some(capacity) = capacity {
            heading.text(&format!(": {}/s to share", rate(capacity)));
        }
    });
    let lines = format!(
        "Asked for {}/s, refused {}/s (mean of {NOW} s). Width: recent refusals.",
        rate(passed + refused),
        rate(refused)
    );
    html.labelled("p", &[("class", &"soft")], &lines);
    let rows = rows(share);
    let worst: Vec<String> = rows
        .iter()
        .zip(&share.levels)
        .filter_map(|(parts, level)| {
            let (name, sum, _) = parts.iter().filter(|part| !part.0.is_empty()).max_by_key(|part| part.1)?;
            Some(format!("{level} {name} {}", percent(*sum as f64 / share.total.max(1) as f64)))
        })
        .collect();
    let words = format!("Refusals of {} by network and client; the heaviest: {}", share.limit, worst.join(", "));
    html.element("div", &[("class", &"tree")], |tree| {
        tree.element("ol", &[("aria-hidden", &"true")], |list| {
            for level in &share.levels {
                list.labelled("li", &[], level);
            }
        });
        let class = format!("icicle rows{}", share.levels.len());
        tree.element("svg", &[("class", &class), ("role", &"img"), ("aria-label", &words)], |svg| {
            for (line, parts) in rows.iter().enumerate() {
                let mut x = 0.0;
                for (name, sum, members) in parts {
                    let width = *sum as f64 / share.total.max(1) as f64;
                    block(svg, (x, width, line), name, *members);
                    x += width;
                }
            }
        });
    });
    html.element("details", &[("class", &"more"), ("data-name", &format_args!("share{place}"))], |fold| {
        fold.labelled("summary", &[], "The same as a table");
        let columns = [("Level", ""), ("Who", "l"), ("Clients", ""), ("Share", "")];
        table(fold, "Who is refused: recent refusals, halved every minute", &columns, |table| {
            for (parts, level) in rows.iter().zip(&share.levels) {
                for (part, (name, sum, members)) in parts.iter().enumerate() {
                    row(table, &format!("{level} {part}"), "", |row| {
                        self::name(row, |cell| cell.text(level));
                        cell(row, "l", |cell| {
                            if name.is_empty() { cell.text("others") } else { cell.labelled("code", &[], name) }
                        });
                        text(row, "", &if *members == 0 { "–".to_owned() } else { members.to_string() });
                        text(row, "", &percent(*sum as f64 / share.total.max(1) as f64));
                    });
                }
            }
        });
    });
}

fn block(svg: &mut Svg, (x, width, line): (f64, f64, usize), name: &str, members: usize) {
    let percent = |share: f64| format!("{}%", At(100.0 * share));
    let place: [(&str, &dyn std::fmt::Display); 4] =
        [("x", &percent(x)), ("y", &(line * LEVEL)), ("width", &percent(width)), ("height", &LEVEL)];
    svg.element("svg", &place, |cell| {
        chart::fill(cell, "shed", 1.0);
        cell.empty("rect", &[("class", &"edge"), ("width", &"100%"), ("height", &"100%")]);
        let words = match (name.is_empty(), members) {
            (true, 0) => "others".to_owned(),
            (true, members) => format!("{members} others"),
            _ if name.contains(['.', ':']) => name.to_owned(),
            _ => name.chars().take(8).chain(['…']).collect(),
        };
        if width >= 0.09 {
            let wide = 7 * words.chars().count() + 8;
            cell.empty(
                "rect",
                &[("class", &"plate"), ("x", &4), ("y", &7), ("rx", &3), ("width", &wide), ("height", &20)],
            );
            cell.labelled("text", &[("x", &8), ("y", &21)], &words);
        }
    });
}

/// What buttons do in a table.
fn deeds(view: &View) -> &'static str {
    if view.orders { "Do" } else { "Copy" }
}

/// The bans that refused most.
fn bans(html: &mut Svg, view: &View) {
    if view.bans.is_empty() {
        return;
    }
    html.labelled("h3", &[], "Banned");
    let columns = [
        ("Banned", ""),
        ("Refused", ""),
        ("Ends in", ""),
        ("By", "l wide"),
        ("Reason", "l wide"),
        (deeds(view), "wide"),
    ];
    table(html, "Bans in force at this moment, and what each has refused", &columns, |rows| {
        for BanState { number, target, by, why, ends_in_seconds, refused, .. } in &view.bans {
            row(rows, &number.to_string(), "", |row| {
                name(row, |cell| short(cell, target));
                text(row, "", &grouped(*refused));
                text(row, "nw", &span(*ends_in_seconds));
                text(row, "l wide", by);
                text(row, "l wide", why);
                cell(row, "nw wide", |cell| deed(cell, view, "unban", ""));
            });
        }
    });
    let left_out = view.state.bans.saturating_sub(view.bans.len());
    if left_out > 0 {
        html.element("p", &[("class", &"soft")], |line| {
            ticked(line, &format!("{} left out: `tidegate bans` has all.", count(left_out as u64, "ban")));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_below_the_part_that_they_are_of_and_small_ones_are_one() {
        let path = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let mut clients = vec![
            (path(["B", "b1"]), 30),
            (path(["A", "a1"]), 25),
            (path(["A", "a2"]), 20),
            (path(["C", "c1"]), 2),
            (path(["D", "d1"]), 1),
        ];
        clients.extend((0..3).map(|n| (path(["A", &format!("small{n}")]), 1)));
        let share = ShareView { limit: "f".to_owned(), levels: path(["/24", "client"]), clients, total: 100 };
        let names = |parts: &Vec<Part>| {
            parts.iter().map(|(name, sum, members)| format!("{name}:{sum}:{members}")).collect::<Vec<_>>().join(" ")
        };
        let rows = rows(&share);
        assert_eq!(names(&rows[0]), "A:48:5 B:30:1 :3:2 :19:0");
        assert_eq!(names(&rows[1]), "a1:25:1 a2:20:1 :3:3 b1:30:1 :3:2 :19:0");
        for parts in &rows {
            assert_eq!(parts.iter().map(|part| part.1).sum::<u64>(), 100);
        }
    }
}
