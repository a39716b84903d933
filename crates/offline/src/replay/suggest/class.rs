//! What kind of request it is, by its path and method alone.
//!
//! A page view is a burst: the page, and at once its images, styles and scripts. A login form, an API and pages want
//! different numbers. The patterns are those of the proposed policy's routes, so that they can be read and changed there.

/// A class of requests that gets proposals of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// All that are counted.
    All,
    /// A POST to something named like a login.
    Login,
    /// Files that pages bring along.
    Static,
    /// Something that programs call.
    Api,
    /// Anything else.
    Pages,
    /// What the operator narrowed the question to.
    Chosen,
    /// What is not that.
    Rest,
}

impl Class {
    /// The name of its route, and the first part of its limits' names.
    pub fn name(self) -> &'static str {
        match self {
            Class::All => "site",
            Class::Login => "login",
            Class::Static => "static",
            Class::Api => "api",
            Class::Pages => "pages",
            Class::Chosen => "chosen",
            Class::Rest => "rest",
        }
    }

    /// What it is, for people.
    pub fn told(self) -> &'static str {
        match self {
            Class::All => "all requests that are counted",
            Class::Login => "logins (POST to a path named like one)",
            Class::Static => "static files",
            Class::Api => "API",
            Class::Pages => "pages",
            Class::Chosen => "the chosen requests",
            Class::Rest => "all others",
        }
    }

    /// The expression that meets its paths as a whole; none where any path fits.
    pub fn pattern(self) -> Option<&'static str> {
        match self {
            Class::Login => Some(LOGIN),
            Class::Static => Some(STATIC),
            Class::Api => Some(API),
            Class::All | Class::Pages | Class::Chosen | Class::Rest => None,
        }
    }
}

const LOGIN: &str = "(?i)/(.*/)?(log-?in|log-?on|sign-?in|sign-?up|register|auth|oauth|token|sessions?|password|wp-login)\
                     (\\.[a-z]+)?(/[^/]*)?";

const STATIC: &str = "(?i)/(static|assets|images?|img|css|js|fonts?|media|icons?|_next/static)/.*|\
                      .*\\.(css|js|mjs|map|png|jpe?g|gif|webp|avif|svg|ico|bmp|xbm|woff2?|ttf|otf|eot|mp[34]|webm|ogg|wasm)";

const API: &str = "(?i)/(.*/)?(api|graphql|rest|rpc|jsonrpc|wp-json|v[0-9]+)(/.*)?|/xmlrpc\\.php";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::route::whole;

    fn classes(path: &str) -> Vec<&'static str> {
        let fits = |class: &Class| whole(class.pattern().unwrap()).unwrap().is_match(path);
        [Class::Login, Class::Static, Class::Api].iter().filter(|class| fits(class)).map(|class| class.name()).collect()
    }

    #[test]
    fn paths_are_what_their_names_say() {
        for path in ["/login", "/user/Login.php", "/wp-login.php", "/oauth/token", "/accounts/sign-in/", "/session/new"]
        {
            assert_eq!(classes(path), ["login"], "{path}");
        }
        for path in ["/a/b.CSS", "/image/61474/productModel/200x200", "/favicon.ico", "/shuttle/nasa-logo.gif"] {
            assert_eq!(classes(path), ["static"], "{path}");
        }
        for path in ["/api/users", "/api", "/shop/v2/items", "/graphql", "/xmlrpc.php"] {
            assert_eq!(classes(path), ["api"], "{path}");
        }
        for path in
            ["/", "/loginhelp/about", "/blog/authors", "/apiary", "/product/12", "/history/apollo/apollo-13.html"]
        {
            assert!(classes(path).is_empty(), "{path}: {:?}", classes(path));
        }
    }
}
