//! Values that are too long for an expression.

use super::*;

#[test]
fn what_an_expression_cannot_read_in_bounded_time_is_told() {
    let expression = |text: &str| TextMatch::Regex(whole(text).unwrap());
    let blocked = |headers, query| Match { headers, query, ..alternative("* /") };
    let by_field = blocked(vec![("x-a".parse().unwrap(), expression(".*bot.*"))], Vec::new());
    let by_parameter = blocked(Vec::new(), vec![("q".into(), expression(".*union.*"))]);
    let table = RouteTable::new(vec![
        route(vec![alternative("a.example /")]),
        route(vec![by_field]),
        route(vec![by_parameter]),
        route(vec![alternative("* /")]),
    ]);
    let found = |host: &str, field: &str, query: &str| {
        let mut asked = Asked::new(host, "/");
        asked.headers.append("x-a", field.parse().unwrap());
        asked.query = Some(format!("p=1&q={query}"));
        table.find(&asked.request(), None).map(|found| found.map(|(index, _)| index))
    };
    let (fits, long) = ("x".repeat(LONGEST_VALUE), "x".repeat(LONGEST_VALUE + 1));
    assert_eq!(found("b.example", &fits, &fits), Ok(Some(3)));
    assert_eq!(found("b.example", &format!("bot{}", &fits[3..]), ""), Ok(Some(1)));
    // one byte more would have walked round the route
    assert_eq!(found("b.example", &long, ""), Err(Undecided::ValueTooLong));
    assert_eq!(found("b.example", "", &long), Err(Undecided::ValueTooLong));
    // where nothing has to read it, it may be as long as a head has room for
    assert_eq!(found("a.example", &long, &long), Ok(Some(0)));
}
