//! Laws that every kind of limit keeps, tested through the engine as a face would drive it.

mod allocation;
mod answer_costs;
mod book;
mod bytes;
mod calendar;
mod clock;
mod corners;
mod estimate;
mod fading;
mod kept_out;
mod kinds;
mod later;
mod limits;
mod order;
mod own_limit;
mod reload;
mod renewed;
mod rerated;
mod saved;
mod several;
mod shared;
mod tiers;
mod together;
mod waiting;
mod waits;
