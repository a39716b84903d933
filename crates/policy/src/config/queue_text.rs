//! Values that only an origin's queue has: lengths of networks, and the reserve.

use schemars::{Schema, json_schema};

use super::fault::Code;
use super::read::{Scalar, Wrong};
use super::scalar::digits;
use crate::door::Reserve;
use crate::units::Share;

/// The length of a network's IPv4 prefix; IPv6's is twice that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NetworkLength(pub u8);

impl Scalar for NetworkLength {
    const NAME: &'static str = "length of a network";
    const EXAMPLE: &'static str = "`24`";
    const CODE: Code = Code::OUT_OF_RANGE;

    fn parse(text: &str) -> Result<NetworkLength, Wrong> {
        let text = text.strip_prefix('/').unwrap_or(text);
        match digits(text).map(u8::try_from) {
            Some(Ok(length @ 8..=31)) => Ok(NetworkLength(length)),
            _ => Err(Wrong::new("must be 8 to 31, the bits of an IPv4 prefix")),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "^/?[0-9]{1,2}$" })
    }
}

/// `learned`, `none` or a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReserveText(pub Reserve);

impl Scalar for ReserveText {
    const NAME: &'static str = "reserve";
    const EXAMPLE: &'static str = "`learned`, `none` or `25%`";
    const CODE: Code = Code::BAD_WORD;

    fn parse(text: &str) -> Result<ReserveText, Wrong> {
        Ok(ReserveText(match text {
            "learned" => Reserve::Learned,
            "none" => Reserve::None,
            share => match Share::parse(share) {
                Ok(share) if (0.0..=0.5).contains(&share.get()) => Reserve::Share(share.get() as f32),
                _ => return Err(Wrong::new("must be `learned`, `none`, or a share of at most `50%`")),
            },
        }))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "^(learned|none|[0-9]+(\\.[0-9]+)?%)$" })
    }
}
