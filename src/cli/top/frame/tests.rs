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
tidegate 0.1.0 edge-1   up 3 d 4 h   config 9f31c2e0aa4b (2 h)   4,076 req/s   429 0.59 %   shed 0.5
failed 7   window 10 s   * would be refused

LIMITS           keys~  fill  admit/s  refuse/s  other/s  5 min
per_client      48,100  31 %    3,900        24      0.5  ▁▁▁▁▁▁▁▁▁▁▂▃▄▄▅▆▇███
login (shadow)     912   2 %       11      3.1*        0  ████████████████████
crowd                –     –        0         0        0

ORIGINS   in flight         queue    p50     p99  failed  shed/s  healthy
shop      ██████   301/400      4  48 ms  600 ms   ✕ 7 %     0.5      1/2
static             2            0      –       –       –       0      1/1

ROUTES    req/s  refused  2xx  3xx  4xx  5xx  none  failed    p50     p99
shop      3,925   0.62 %  900    0   30   60    10   ✕ 7 %  48 ms  600 ms
site        151      0 %    0    0    0    0     0       –      –       –

OFFENDERS, recently     limit       refused  share            last
c7f1Kc1mZt0wJ2T9uXvHq3  per_client  209–212   61 %         0 s ago
09abWc1mZt0wJ2T9uXvHq3  login            88   25 %  1 min 15 s ago

NETWORKS, recently      clients  refused  share
Q2abWc1mZt0wJ2T9uXvHq3        2  297–300   86 %

! waits for `tidegate upgrade`: listeners.main.address changed
! 93 % of `shop` comes from one address: is a proxy missing from trusted_proxies?
"
    );
}

#[test]
fn where_there_is_room_lists_stand_side_by_side() {
    assert_eq!(whole(&model(), 160), "\
tidegate 0.1.0 edge-1   up 3 d 4 h   config 9f31c2e0aa4b (2 h)   4,076 req/s   429 0.59 %   shed 0.5   failed 7   window 10 s   * would be refused

LIMITS           keys~  fill  admit/s  refuse/s  other/s  5 min                  OFFENDERS, recently     limit       refused  share            last
per_client      48,100  31 %    3,900        24      0.5  ▁▁▁▁▁▁▁▁▁▁▂▃▄▄▅▆▇███   c7f1Kc1mZt0wJ2T9uXvHq3  per_client  209–212   61 %         0 s ago
login (shadow)     912   2 %       11      3.1*        0  ████████████████████   09abWc1mZt0wJ2T9uXvHq3  login            88   25 %  1 min 15 s ago
crowd                –     –        0         0        0
                                                                                 NETWORKS, recently      clients  refused  share
ORIGINS   in flight         queue    p50     p99  failed  shed/s  healthy        Q2abWc1mZt0wJ2T9uXvHq3        2  297–300   86 %
shop      ██████   301/400      4  48 ms  600 ms   ✕ 7 %     0.5      1/2
static             2            0      –       –       –       0      1/1        ROUTES    req/s  refused  2xx  3xx  4xx  5xx  none  failed    p50     p99
                                                                                 shop      3,925   0.62 %  900    0   30   60    10   ✕ 7 %  48 ms  600 ms
                                                                                 site        151      0 %    0    0    0    0     0       –      –       –

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
tidegate 0.1.0 edge-1   up 0 s   config  (0 s)   0 req/s
429 0 %   shed 0   failed 0   window 10 s

LIMITS    keys~  fill  admit/s  refuse/s  other/s  5 min
none

OFFENDERS, recently  limit  refused  share  last
no client was refused lately

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
tidegate 0.1.0 edge-1   up 3 d 4 h   config 9f31c2e0aa4b (2 h)   4,076 req/s
429 0.59 %   shed 0.5   failed 7   window 10 s   * would be refused

LIMITS           keys~  fill  admit/s  refuse/s  other/s  5 min
per_client      48,100  31 %    3,900        24      0.5  ▁▁▁▁▁▁▁▁▁▁▂▃▄▄▅▆▇███
login (shadow)     912   2 %       11      3.1*        0  ████████████████████
crowd                –     –        0         0        0

ORIGINS   in flight         queue    p50     p99  failed  shed/s  healthy
shop      ██████   301/400      4  48 ms  600 ms   ✕ 7 %     0.5      1/2
static             2            0      –       –       –       0      1/1

OFFENDERS, recently 38–40/40  limit       refused  share     last
client-37                     per_client  209–212   61 %  0 s ago
client-38                     per_client  209–212   61 %  0 s ago
client-39                     per_client  209–212   61 %  0 s ago

NETWORKS, recently      clients  refused  share
Q2abWc1mZt0wJ2T9uXvHq3        2  297–300   86 %

! waits for `tidegate upgrade`: listeners.main.address changed
! 93 % of `shop` comes from one address: is a proxy missing from
  trusted_proxies?
? help  q quit  l limits  o origins  c clients  enter explain  p pardon  b ban
"
    );
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
    assert!(text.contains("Forget the debt of c7f1Kc1mZt0wJ2T9uXvHq3 now"), "{text}");
    let state = with_keys("b");
    let text = shown(&model(), &Look { live: Some(&state), ..PLAIN }, 100, 30);
    assert!(text.contains("Refuse every request of c7f1Kc1mZt0wJ2T9uXvHq3 for an hour"), "{text}");
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
    assert!(text.contains("FROZEN") && text.contains("\n? help  q quit"), "{text}");
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
