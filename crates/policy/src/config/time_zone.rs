//! Names of time zones.

use schemars::Schema;

use super::fault::Code;
use super::nearest::nearest;
use super::read::{Scalar, Wrong};
use super::scalar::pattern;
use crate::units::Zone;

impl Scalar for Zone {
    const NAME: &'static str = "time zone";
    const EXAMPLE: &'static str = "`Europe/Berlin` or `UTC`";
    const CODE: Code = Code::BAD_TIME_ZONE;

    fn parse(text: &str) -> Result<Zone, Wrong> {
        let Ok(zone) = Zone::named(text) else {
            let names: Vec<String> = Zone::names().collect();
            let wrong = Wrong::new("must be a name of the IANA time zone database");
            return Err(wrong.nearest(nearest(text, names.iter().map(String::as_str))));
        };
        // one spelling, so that gates that share a limit mean the same
        match zone.name() == text {
            true => Ok(zone),
            false => Err(Wrong::new("must be spelled as in the IANA database").meant(zone.name().to_owned(), "")),
        }
    }

    fn schema() -> Schema {
        pattern("^[A-Za-z][A-Za-z0-9_+/-]*$")
    }
}
