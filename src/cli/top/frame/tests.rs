use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::*;
use crate::cli::top::data::tests::model;
use crate::cli::top::keys::press;

const PLAIN: Look<'static> = Look { colored: false, live: None, trouble: None };

/// What a terminal of this size shows, without what is blank at the ends of lines.
fn shown(model: &Model, look: &Look<'_>, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("cells in memory");
    terminal.draw(|frame| draw(model, look, frame.area(), frame.buffer_mut())).expect("cells in memory");
    let text = terminal.backend().to_string();
    let line = |line: &str| line.trim_matches('"').trim_end().to_owned() + "\n";
    text.lines().map(line).collect()
}

fn whole(model: &Model, width: u16) -> String {
    shown(model, &PLAIN, width, height(model, width, &PLAIN))
}

fn with_keys(keys: &str) -> State {
    let mut state = State::default();
    for key in keys.chars() {
        press(&mut state, &model(), KeyEvent::from(KeyCode::Char(key)));
    }
    state
}

#[test]
fn every_number_has_its_place() {
    assert_eq!(
        whole(&model(), 100),
        "\
tidegate 0.1.0  edge-1  up 3 d 4 h  policy 9f31c2e0aa4b, 2 h old
! A FLOOD IS BEING HELD OFF. One network causes 86 % of the refusals; 14 % hit other clients. 0.6 %
of all requests are refused.
pressure ███░░░░░░░ 0.34  passed 4,044/s  429 24/s  503 0.5/s  failed 7/s

WHO, recently           network    limit       refused  share   last
c7f1Kc1mZt0wJ2T9uXvHq3  Q2abWc1m…  per_client      212   61 %    0 s
09abWc1mZt0wJ2T9uXvHq3             login            88   25 %  1 min

NETWORKS, recently      clients  refused  share
Q2abWc1mZt0wJ2T9uXvHq3        2      300   86 %

LIMITS, 10 s    judged/s  refused/s   share  refused, 10 min
per_client         3,925         24  0.61 %  ▁▁▁▁▁▁▁▁▁▁▂▃▃▄▅▆▇▇██
login (shadow)        14       3.1*    22 %  ████████████████████
crowd                  0          0       –

ROUTES, 10 s  req/s  refused  failed    p50     p99  refused, 10 min
shop          3,925   0.62 %   ✕ 7 %  48 ms  600 ms  ▂▂▂▂▂▂▂▂▂▂▂▃▄▄▅▆▇▇██
site            151      0 %       –      –       –  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁

ORIGINS, 10 s  places            waiting     p95  failed  503/s  addresses
shop           ██████   301/400        4  212 ms   ✕ 7 %    0.5     1 of 2
static                  2              0       –       –      0     1 of 1

! waits for `tidegate upgrade`: listeners.main.address changed
! 93 % of `shop` comes from one address: is a proxy missing from trusted_proxies?
"
    );
}

#[test]
fn the_document_shows_this_screen() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/top.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("top --once\n{}```", whole(&model(), 100))), "docs/top.md shows another one");
}

#[test]
fn where_there_is_room_lists_stand_side_by_side() {
    assert_eq!(whole(&model(), 160), "\
tidegate 0.1.0  edge-1  up 3 d 4 h  policy 9f31c2e0aa4b, 2 h old
! A FLOOD IS BEING HELD OFF. One network causes 86 % of the refusals; 14 % hit other clients. 0.6 % of all requests are refused.
pressure ███░░░░░░░ 0.34  passed 4,044/s  429 24/s  503 0.5/s  failed 7/s

NOW  sudo tidegate ban c7f1Kc1mZt0wJ2T9uXvHq3 --for 1h --why flood   Block this client for an hour. Of its requests less than 5 % passed in the last minutes.
     sudo tidegate explain --client c7f1Kc1mZt0wJ2T9uXvHq3   See why the worst client is refused.
     if you do nothing: the gate goes on refusing them; its pressure is 0.34

WHO, recently           network    limit       refused  share   last             LIMITS, 10 s    judged/s  refused/s   share  refused, 10 min
c7f1Kc1mZt0wJ2T9uXvHq3  Q2abWc1m…  per_client      212   61 %    0 s             per_client         3,925         24  0.61 %  ▁▁▁▁▁▁▁▁▁▁▂▃▃▄▅▆▇▇██
09abWc1mZt0wJ2T9uXvHq3             login            88   25 %  1 min             login (shadow)        14       3.1*    22 %  ████████████████████
                                                                                 crowd                  0          0       –
NETWORKS, recently      clients  refused  share
Q2abWc1mZt0wJ2T9uXvHq3        2      300   86 %                                  ROUTES, 10 s  req/s  refused  failed    p50     p99  refused, 10 min
                                                                                 shop          3,925   0.62 %   ✕ 7 %  48 ms  600 ms  ▂▂▂▂▂▂▂▂▂▂▂▃▄▄▅▆▇▇██
ORIGINS, 10 s  places            waiting     p95  failed  503/s  addresses       site            151      0 %       –      –       –  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
shop           ██████   301/400        4  212 ms   ✕ 7 %    0.5     1 of 2
static                  2              0       –       –      0     1 of 1

! waits for `tidegate upgrade`: listeners.main.address changed
! 93 % of `shop` comes from one address: is a proxy missing from trusted_proxies?
");
}

#[test]
fn a_quiet_gate_says_so() {
    let quiet = Model { version: "0.1.0".into(), instance: "edge-1".into(), ..Model::default() };
    assert_eq!(
        whole(&quiet, 60),
        "\
tidegate 0.1.0  edge-1  up 0 s  policy , 0 s old
✓ NOTHING IS KNOWN YET.
passed 0/s  429 0/s  503 0/s  failed 0/s

WHO, recently  network  limit  refused  share  last
no client was refused lately

LIMITS, 10 s  judged/s  refused/s  share  refused, 10 min
none

"
    );
}

#[test]
fn too_little_room_cuts_lists_and_keeps_the_chosen_row() {
    let mut model = model();
    let one = model.offenders.clients[0].clone();
    model.offenders.clients = (0..40).map(|n| Offender { client: format!("client-{n}"), ..one.clone() }).collect();
    let mut state = State::default();
    press(&mut state, &model, KeyCode::End.into());
    let look = Look { live: Some(&state), ..PLAIN };
    let text = shown(&model, &look, 80, 24);
    assert_eq!(
        text,
        "\
tidegate 0.1.0  edge-1  up 3 d 4 h  policy 9f31c2e0aa4b, 2 h old  live
! A FLOOD IS BEING HELD OFF. One network causes 86 % of the refusals; 14 % hit
other clients. 0.6 % of all requests are refused.
pressure ███░░░░░░░ 0.34  passed 4,044/s  429 24/s  503 0.5/s  failed 7/s

WHO, recently 37–40/40  network    limit       refused  share  last
client-36               Q2abWc1m…  per_client      212   61 %   0 s
client-37               Q2abWc1m…  per_client      212   61 %   0 s
client-38               Q2abWc1m…  per_client      212   61 %   0 s
client-39               Q2abWc1m…  per_client      212   61 %   0 s

LIMITS, 10 s    judged/s  refused/s   share  refused, 10 min
per_client         3,925         24  0.61 %  ▁▁▁▁▁▁▁▁▁▁▂▃▃▄▅▆▇▇██
login (shadow)        14       3.1*    22 %  ████████████████████
crowd                  0          0       –

ORIGINS, 10 s  places            waiting     p95  failed  503/s  addresses
shop           ██████   301/400        4  212 ms   ✕ 7 %    0.5     1 of 2
static                  2              0       –       –      0     1 of 1

! waits for `tidegate upgrade`: listeners.main.address changed
! 93 % of `shop` comes from one address: is a proxy missing from
  trusted_proxies?
b ban  p pardon  e explain  / find  w l r o lists  space freeze  ? keys  q quit
"
    );
    // the footer is whole, and no line too long
    assert!(
        text.ends_with("\nb ban  p pardon  e explain  / find  w l r o lists  space freeze  ? keys  q quit\n"),
        "{text}"
    );
    assert!(text.lines().count() == 24 && text.lines().all(|line| crate::human::width(line) <= 80), "{text}");
    // of any size, without a panic
    for width in [0, 1, 7, 40, 149, 150, 300] {
        for height in [0, 1, 2, 5, 12, 100] {
            for keys in ["", "?", "p", "b", "/x"] {
                let state = with_keys(keys);
                let area = Rect::new(3, 2, width, height);
                draw(&model, &Look { live: Some(&state), ..PLAIN }, area, &mut Buffer::empty(area));
            }
        }
    }
}

#[test]
fn what_is_open_lies_over_the_lists() {
    let state = with_keys("p");
    let text = shown(&model(), &Look { live: Some(&state), ..PLAIN }, 100, 30);
    assert!(text.contains("sudo tidegate pardon c7f1Kc1mZt0wJ2T9uXvHq3"), "{text}");
    let state = with_keys("b");
    let text = shown(&model(), &Look { live: Some(&state), ..PLAIN }, 100, 30);
    assert!(text.contains("sudo tidegate ban c7f1Kc1mZt0wJ2T9uXvHq3 --for 1h --why flood"), "{text}");
    let state = with_keys("?");
    let text = shown(&model(), &Look { live: Some(&state), ..PLAIN }, 100, 30);
    assert!(text.contains("┌ Keys ─") && text.contains("q, ctrl-c      quit"), "{text}");
    let mut state = State::default();
    state.tell("Why", (0..100).map(|n| format!("line {n}\n")).collect());
    for _ in 0..3 {
        press(&mut state, &model(), KeyCode::Down.into());
    }
    let text = shown(&model(), &Look { live: Some(&state), ..PLAIN }, 60, 12);
    assert!(text.contains("│ line 3 ") && !text.contains("│ line 2 ") && text.contains("4–13 of 100"), "{text}");
}

#[test]
fn the_first_and_last_line_say_how_it_stands() {
    let state = with_keys("/login");
    let look = Look { live: Some(&state), trouble: Some("no server answers; these numbers are old"), ..PLAIN };
    let text = shown(&model(), &look, 100, 30);
    assert!(text.contains("only `login`\n! no server answers"), "{text}");
    assert!(text.ends_with("/login▏  enter keeps it, esc ends it\n"), "{text}");
    assert!(text.contains("09abWc1m") && !text.contains("c7f1Kc1m") && !text.contains("per_client"), "{text}");
    let state = with_keys(" l");
    let text = shown(&model(), &Look { live: Some(&state), ..PLAIN }, 100, 30);
    assert!(text.contains("FROZEN") && text.ends_with("? keys  q quit\n"), "{text}");
}

#[test]
fn without_colours_there_are_none() {
    let state = State::default();
    for colored in [false, true] {
        let area = Rect::new(0, 0, 100, 30);
        let mut buffer = Buffer::empty(area);
        draw(&model(), &Look { colored, live: Some(&state), trouble: None }, area, &mut buffer);
        let found = buffer.content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(found, colored);
    }
}
