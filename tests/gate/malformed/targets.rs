//! Request targets: forms, escapes, dot segments. `/admin` is refused by a route; no spelling of it may reach the origin.

use super::Want::{Forwarded, Refused, Turned, Unambiguous};
use super::{BAD, Case, case};

pub fn cases() -> Vec<Case> {
    let get =
        |name, want, target: &[u8]| case(name, want, &[b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    vec![
        get("a good target", Forwarded("/a/b?c=d%20e&f"), b"/a/b?c=d%20e&f"),
        get("the refused path itself", Refused(&[403]), b"/admin"),
        get("below the refused path", Refused(&[403]), b"/admin/x"),
        get("beside the refused path", Forwarded("/administrator"), b"/administrator"),
        // forms
        get("the absolute form", Unambiguous, b"http://a/x"),
        get("the absolute form of the refused path", Turned, b"http://a/admin"),
        get("the absolute form with user information", BAD, b"http://u:p@a/x"),
        get("the absolute form without a path", Unambiguous, b"http://a"),
        get("the absolute form of another scheme", Unambiguous, b"ftp://a/x"),
        get("no leading slash", BAD, b"admin"),
        get("a query only", BAD, b"?x=y"),
        get("an asterisk with GET", BAD, b"*"),
        case("an asterisk with OPTIONS", Unambiguous, b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
        get("an authority with GET", BAD, b"a:80"),
        get("a backslash first", BAD, b"\\admin"),
        // bytes
        get("a fragment", Unambiguous, b"/x#y"),
        get("a fragment that hides the path", Unambiguous, b"/x#/../admin"),
        get("a NUL", BAD, b"/x\0y"),
        get("a control byte", BAD, b"/x\x01y"),
        get("a DEL", BAD, b"/x\x7fy"),
        get("a blank", BAD, b"/x y"),
        get("a high byte", Unambiguous, b"/x\xffy"),
        get("a quote and brackets", Unambiguous, b"/x\"<>y"),
        get("backslashes", Unambiguous, b"/x\\..\\admin"),
        get("an escaped NUL", Unambiguous, b"/x%00y"),
        get("an escaped line break", Unambiguous, b"/x%0d%0aX-Forged:%20y"),
        get("half an escape", Unambiguous, b"/x%4"),
        get("an escape that is none", Unambiguous, b"/x%zzy"),
        get("an overlong escape", Unambiguous, b"/x/%c0%ae%c0%ae/admin"),
        // ways round
        get("a dot segment", Turned, b"/x/../admin"),
        get("a dot segment at the root", Turned, b"/../admin"),
        get("many dot segments", Turned, b"/x/../../../../admin"),
        get("a single dot", Turned, b"/./admin"),
        get("a trailing dot segment", Turned, b"/admin/x/.."),
        get("an escaped dot segment", Turned, b"/x/%2e%2e/admin"),
        get("a half-escaped dot segment", Turned, b"/x/.%2e/admin"),
        get("a dot segment before an escaped blank", BAD, b"/x/..%20/admin"),
        get("a dot segment between escaped blanks", BAD, b"/x/%20%2e.%20%20;a/admin"),
        get("an escaped letter", Turned, b"/%61dmin"),
        get("an escaped slash", Unambiguous, b"/x%2f..%2fadmin"),
        get("two slashes", Unambiguous, b"//admin"),
        get("a path parameter", Unambiguous, b"/admin;x=y"),
        get("another case", Unambiguous, b"/ADMIN"),
        get("twice escaped", Unambiguous, b"/%2561dmin"),
    ]
}
