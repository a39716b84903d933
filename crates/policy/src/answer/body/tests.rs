//! Claims about the choice of a body.

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

fn form(fields: &[(&'static str, &str)]) -> Form {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    Form::of(&Method::GET, &headers)
}

fn accepting(accept: &str) -> Media {
    form(&[("accept", accept)]).media(BodyFormat::Auto, None)
}

#[test]
fn programs_get_a_problem_and_people_get_a_page() {
    let table = [
        // curl, most libraries
        ("*/*", Media::Problem),
        ("", Media::Problem),
        ("application/json", Media::Problem),
        ("application/problem+json", Media::Problem),
        ("application/json, text/plain, */*", Media::Problem),
        ("application/*", Media::Problem),
        // Firefox, Chrome, Safari, lynx
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Media::Html),
        (
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,\
             application/signed-exchange;v=b3;q=0.7",
            Media::Html,
        ),
        ("text/html, text/plain, */*", Media::Html),
        ("TEXT/HTML", Media::Html),
        ("text/*", Media::Html),
        // weights
        ("text/html;q=0.5, application/json", Media::Problem),
        ("text/html, application/json;q=0.999", Media::Html),
        ("text/html;q=0.8, application/json;q=0.80", Media::Problem),
        ("text/html;level=1;q=0.3, application/problem+json;q=0.4", Media::Problem),
        ("text/html;q=0, */*", Media::Problem),
        ("application/json;q=0, */*", Media::Html),
        ("application/*;q=0.2, text/*;q=0.1, */*;q=1", Media::Problem),
        ("*/*;q=0.1, text/html;Q=0.2", Media::Html),
        ("application/json ; q=0.2 , text/html ; q=0.1", Media::Problem),
        // a comma and a semicolon within quotes separate nothing
        ("text/html;x=\"a,application/json;q=1\";q=0.9, application/json;q=0.5", Media::Html),
        ("text/html;x=\"\\\",\";q=0.4, application/json;q=0.5", Media::Problem),
        // neither is wanted
        ("image/webp,image/*", Media::Html),
        ("application/json;q=0", Media::Html),
        // weights that are none count as not sent
        ("text/html;q=2, application/json;q=0.1", Media::Problem),
        ("text/html;q=0.1234, application/json;q=0.1", Media::Problem),
        ("text/html;q=, application/json;q=0.1", Media::Problem),
        ("text/html;q=1.001, application/json;q=0.1", Media::Problem),
        ("text/html;q=-1, application/json;q=0.1", Media::Problem),
    ];
    for (accept, media) in table {
        assert_eq!(accepting(accept), media, "{accept}");
    }
    assert_eq!(form(&[]).media(BodyFormat::Auto, None), Media::Problem);
    let both = form(&[("accept", "text/html;q=0.2"), ("accept", "application/json;q=0.1")]);
    assert_eq!(both.media(BodyFormat::Auto, None), Media::Html);
}

#[test]
fn grpc_is_known_by_its_content_type() {
    for (content_type, grpc) in [
        ("application/grpc", true),
        ("application/grpc+proto", true),
        ("Application/gRPC; charset=utf-8", true),
        ("application/grpc-web", false),
        ("application/grpc-web+proto", false),
        ("application/grpcx", false),
        ("application/gr", false),
        ("text/plain", false),
    ] {
        let form = form(&[("content-type", content_type), ("accept", "text/html")]);
        assert_eq!((form.media(BodyFormat::Auto, None) == Media::Grpc), grpc, "{content_type}");
    }
}

#[test]
fn the_operators_word_goes_before_the_clients_but_not_before_grpc() {
    let html = form(&[("accept", "text/html")]);
    let grpc = form(&[("content-type", "application/grpc")]);
    assert_eq!(html.media(BodyFormat::Json, None), Media::Problem);
    assert_eq!(html.media(BodyFormat::Auto, None), Media::Html);
    assert_eq!(Form::UNKNOWN.media(BodyFormat::Html, None), Media::Html);
    assert_eq!(grpc.media(BodyFormat::Html, None), Media::Grpc);
}

#[test]
fn head_is_recognised() {
    assert!(Form::of(&Method::HEAD, &HeaderMap::new()).is_head());
    assert!(!Form::of(&Method::GET, &HeaderMap::new()).is_head());
}

proptest! {
    #[test]
    fn any_accept_is_harmless(
        accept in prop::collection::vec(prop_oneof![
            "[ -~]{0,20}".prop_map(String::into_bytes),
            prop::collection::vec(32_u8..=255, 0..20),
            prop::sample::select(&["text/html", "*/*", ";q=", "0.", "1", ",", "\"", "\\"][..]).prop_map(|text| text.into()),
        ], 0..40)
    ) {
        if let Ok(value) = HeaderValue::from_bytes(&accept.concat()) {
            let media = Form::of(&Method::GET, &[(ACCEPT, value)].into_iter().collect()).media(BodyFormat::Auto, None);
            prop_assert!(media != Media::Grpc);
        }
    }

    #[test]
    fn the_heavier_type_wins(html in 0_u16..=1_000, problem in 0_u16..=1_000) {
        let weight = |thousandths: u16| format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
        let accept = format!("text/html;q={}, application/json;q={}", weight(html), weight(problem));
        prop_assert_eq!(accepting(&accept) == Media::Html, html > problem || problem == 0);
    }
}
